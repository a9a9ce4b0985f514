//! The file that is run as user-mode Linux: Debian's, with one number changed so that it runs on every processor.
//!
//! The kernel switches the extended processor state (XSAVE) of its processes by `ptrace(PTRACE_SETREGSET, ..,
//! NT_X86_XSTATE, ..)` from a buffer of 2696 bytes, enough up to AVX-512 and protection keys. A processor with AMX has
//! 11,008, and its host refuses to set less than all of it (EFAULT): the guest's init dies, "ptrace set fp regs failed,
//! errno = 14". Hosts take a length above their own for their own, so a greater one is written into that call. The host
//! then reads on behind the buffer, in the guest kernel's memory, but uses nothing of that. The buffer's header says
//! which parts of the state it has. AMX's are not among them, as no guest program uses AMX. On smaller processors
//! nothing is different.
//!
//! To make the kernel fall back to FXSAVE, by refusing it the state with seccomp, is no way out: each page fault then
//! zeroes the upper halves of the AVX registers, and guest programs hang or compute nonsense.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::error::{Result, io};

/// The end of `movq $2696, iov_len(%rbp)`, then `mov $PTRACE_SETREGSET, %edi`.
const SHORT: [u8; 9] = [0x88, 0x0a, 0, 0, 0xbf, 0x05, 0x42, 0, 0];
/// The same with 64 KiB, several times what any processor has.
const LONG: [u8; 9] = [0, 0, 1, 0, 0xbf, 0x05, 0x42, 0, 0];

/// The changed kernel, made at the first start and kept open as long as this process lives. It is in memory, not in a
/// file, because a file that was open for writing while another thread forked cannot be run for a moment (ETXTBSY).
static KERNEL: Mutex<Option<File>> = Mutex::new(None);

/// The path by which children of this process run the kernel that is installed as `installed`. A kernel without the
/// place to change, such as a later one that asks the host for the size, is run as it is.
pub(super) fn path(installed: &Path) -> Result<PathBuf> {
    let mut kept = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.is_none() {
        let mut kernel = std::fs::read(installed).map_err(io(format!("read {}", installed.display())))?;
        if !lengthen(&mut kernel) {
            return Ok(installed.to_owned());
        }
        let memory =
            memfd_create("linux.uml", MemfdFlags::CLOEXEC).map_err(|e| io("create a file in memory")(e.into()))?;
        let mut file = File::from(memory);
        file.write_all(&kernel).map_err(io("copy user-mode Linux into memory"))?;
        *kept = Some(file);
    }
    let fd = kept.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    Ok(PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id())))
}

/// Changes the length if there is exactly one place that sets it.
fn lengthen(kernel: &mut [u8]) -> bool {
    let places: Vec<usize> =
        kernel.windows(SHORT.len()).enumerate().filter(|(_, bytes)| *bytes == SHORT).map(|(at, _)| at).collect();
    match places[..] {
        [at] => {
            kernel[at..at + LONG.len()].copy_from_slice(&LONG);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_place_is_changed_and_nothing_else() {
        let kernel = |middle: &[u8]| [&[0x48, 0xc7, 0x45, 0xf8], middle, &[0x31, 0xc0]].concat();
        let mut one = kernel(&SHORT);
        assert!(lengthen(&mut one));
        assert_eq!(one, kernel(&LONG));
        for other in [kernel(&LONG), kernel(&[SHORT, SHORT].concat()), Vec::new()] {
            let mut same = other.clone();
            assert!(!lengthen(&mut same));
            assert_eq!(same, other);
        }
    }
}
