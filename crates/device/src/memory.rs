//! Aligned memory straight from the kernel, its pages there from the beginning.
//!
//! Pages that are touched one by one cost a fault each, which takes longer than copying a page, above all on virtual
//! machines; and the allocator clears aligned memory that the kernel has just cleared. Huge pages were no help: there
//! they took five times as long.
//!
//! Kept true: what is handed out is zero, aligned to its size, and nobody else's until it is given back.
#![allow(unsafe_code)] // mappings

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Has the allocator share few arenas among the threads of this process, instead of eight for each core. Each reserves
/// 64 MiB of addresses, and keeps what its threads no longer use. For processes with little memory, before they have
/// threads. False if the allocator does not know it.
pub fn share_arenas() -> bool {
    const ARENAS: libc::c_int = 2;
    // SAFETY: it only sets a parameter of the allocator.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) == 1 }
}

/// Maps `len` bytes, a power of two and at least a page, at a multiple of it. `None`: there is no memory.
pub(crate) fn map(len: usize) -> Option<NonNull<u8>> {
    assert!(len.is_power_of_two() && len >= crate::BLOCK_SIZE, "cannot align to {len} bytes");
    // The kernel puts mappings side by side: below an aligned one the next is aligned as well.
    let memory = map_anywhere(len, MapFlags::POPULATE)?;
    if memory.addr().get().is_multiple_of(len) {
        return Some(memory);
    }
    // SAFETY: mapped above, and nobody has seen it.
    unsafe { unmap(memory, len) };
    let twice = map_anywhere(2 * len, MapFlags::empty())?;
    let before = twice.addr().get().next_multiple_of(len) - twice.addr().get();
    // SAFETY: `before` is less than `len`, so the aligned part and what is cut off lie inside the mapping.
    unsafe {
        let (aligned, end) = (twice.add(before), twice.add(before + len));
        for (cut, bytes) in [(twice, before), (end, len - before)] {
            if bytes > 0 {
                unmap(cut, bytes);
            }
        }
        Some(aligned)
    }
}

/// Gives memory back.
///
/// # Safety
/// All of it is mapped, and no pointer into it is used any more.
pub(crate) unsafe fn unmap(memory: NonNull<u8>, len: usize) {
    let start = memory.as_ptr().cast::<c_void>();
    // SAFETY: as the caller promises.
    if unsafe { munmap(start, len) }.is_err() {
        // It would cut a mapping in two, and the process has as many as it may: then only the address stays taken.
        // SAFETY: as the caller promises.
        let _ = unsafe { madvise(start, len, Advice::LinuxDontNeed) };
    }
}

/// Gives memory back for the time being: it stays mapped, takes nothing until it is touched, and holds zeros then.
/// False if the system does not do that; then it holds what it held.
///
/// # Safety
/// All of it is mapped, whole pages, and nobody relies on what it holds.
pub(crate) unsafe fn release(memory: NonNull<u8>, len: usize) -> bool {
    // SAFETY: as the caller promises.
    unsafe { madvise(memory.as_ptr().cast::<c_void>(), len, Advice::LinuxDontNeed) }.is_ok()
}

fn map_anywhere(len: usize, how: MapFlags) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
    let memory =
        unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | how) };
    memory.ok().and_then(|memory| NonNull::new(memory.cast()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zero_and_ones_own() {
        const LEN: usize = 256 << 10;
        let mapped: Vec<NonNull<u8>> = (0..64).map(|_| map(LEN).unwrap()).collect();
        // So that the next ones do not lie where these end.
        let odd = map_anywhere(4096, MapFlags::empty()).unwrap();
        let more: Vec<NonNull<u8>> = (0..8).map(|_| map(LEN).unwrap()).collect();
        for memory in mapped.iter().chain(&more) {
            // SAFETY: mapped above with this length, and used by nobody else.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), LEN) };
            assert!(memory.addr().get().is_multiple_of(LEN) && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
        }
        for (memory, len) in mapped.into_iter().chain(more).map(|memory| (memory, LEN)).chain([(odd, 4096)]) {
            // SAFETY: as above; the slices are gone.
            unsafe { unmap(memory, len) };
        }
    }
}
