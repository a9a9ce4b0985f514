//! What the kernel is asked about zones, and what it says. Errors are `errno` values.
#![allow(unsafe_code)] // ioctls that nobody has wrapped

use crate::ZoneState;
use crate::file::raw::RawFile;
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

/// The operations on zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) enum Manage {
    /// BLKRESETZONE.
    Reset,
    /// BLKFINISHZONE.
    Finish,
}

/// The kernel's calls for zones. Places and lengths are in sectors of 512 bytes.
pub(in crate::file) trait ZoneCalls: Send + Sync + 'static {
    /// Sectors from zone to zone (BLKGETZONESZ).
    fn zone_sectors(&self) -> Result<u32, i32>;

    /// How many zones there are, with a smaller last one (BLKGETNRZONES).
    fn zone_count(&self) -> Result<u32, i32>;

    /// Zones from the one that `sector` lies in on, at most `most`, and maybe fewer (BLKREPORTZONE).
    fn report(&self, sector: u64, most: u32) -> Result<Vec<Reported>, i32>;

    /// Resets or finishes the zones of a range: its first sector, and how many.
    fn manage(&self, what: Manage, range: [u64; 2]) -> Result<(), i32>;
}

/// A zone, as the kernel tells it (`struct blk_zone`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) struct Reported {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) wp: u64,
    pub(super) kind: u8,
    pub(super) condition: u8,
    pub(super) capacity: u64,
}

impl Reported {
    /// BLK_ZONE_TYPE_CONVENTIONAL.
    pub(super) const CONVENTIONAL: u8 = 1;

    pub(super) fn is_conventional(&self) -> bool {
        self.kind == Self::CONVENTIONAL
    }

    /// The BLK_ZONE_COND values; `None` for others.
    pub(super) fn state(&self) -> Option<ZoneState> {
        Some(match self.condition {
            0x0 => ZoneState::Conventional,
            0x1 => ZoneState::Empty,
            // Opened by a write, or by a command.
            0x2 | 0x3 => ZoneState::Open,
            0x4 => ZoneState::Closed,
            0xD => ZoneState::ReadOnly,
            0xE => ZoneState::Full,
            0xF => ZoneState::Offline,
            _ => return None,
        })
    }

    /// From the eight words of a `struct blk_zone`.
    fn of(words: &[u64], has_capacity: bool) -> Option<Self> {
        let &[start, len, wp, kinds, capacity, ..] = words else { return None };
        let [kind, condition, ..] = kinds.to_ne_bytes();
        Some(Reported { start, len, wp, kind, condition, capacity: if has_capacity { capacity } else { len } })
    }
}

/// Words of a `struct blk_zone_report` before its zones, and of a `struct blk_zone`.
const HEAD: usize = 2;
const ZONE: usize = 8;
/// BLK_ZONE_REP_CAPACITY: zones say their capacity.
const HAS_CAPACITY: u32 = 1;

/// The ioctls of `linux/blkzoned.h`: group 0x12, with the size of what is passed.
mod opcode {
    use rustix::ioctl::{Opcode, opcode};
    pub(super) const REPORT: Opcode = opcode::read_write::<[u64; super::HEAD]>(0x12, 130);
    pub(super) const RESET: Opcode = opcode::write::<[u64; 2]>(0x12, 131);
    pub(super) const SIZE: Opcode = opcode::read::<u32>(0x12, 132);
    pub(super) const COUNT: Opcode = opcode::read::<u32>(0x12, 133);
    pub(super) const FINISH: Opcode = opcode::write::<[u64; 2]>(0x12, 136);
}

impl RawFile {
    /// An ioctl with a pointer to `words`, of which the kernel reads and writes no more than the call has.
    ///
    /// # Safety
    /// `words` has all that the kernel reads or writes for this call.
    unsafe fn zone_call<T>(&self, call: rustix::ioctl::Opcode, words: &mut [T]) -> Result<(), i32> {
        loop {
            // SAFETY: the descriptor is open, and the caller answers for what the pointer leads to.
            let done = unsafe {
                libc::ioctl(self.file().as_raw_fd(), call as libc::Ioctl, words.as_mut_ptr().cast::<c_void>())
            };
            if done != -1 as c_int {
                return Ok(());
            }
            match std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => {}
                errno => return Err(errno),
            }
        }
    }
}

impl ZoneCalls for RawFile {
    fn zone_sectors(&self) -> Result<u32, i32> {
        let mut found = [0_u32];
        // SAFETY: the kernel writes one u32.
        unsafe { self.zone_call(opcode::SIZE, &mut found) }.map(|()| found[0])
    }

    fn zone_count(&self) -> Result<u32, i32> {
        let mut found = [0_u32];
        // SAFETY: the kernel writes one u32.
        unsafe { self.zone_call(opcode::COUNT, &mut found) }.map(|()| found[0])
    }

    fn report(&self, sector: u64, most: u32) -> Result<Vec<Reported>, i32> {
        let mut words = vec![0_u64; HEAD + ZONE * most as usize];
        words[0] = sector;
        let [a, b, c, d] = most.to_ne_bytes();
        words[1] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        // SAFETY: the kernel reads the two words of the head, and writes them and no more than `most` zones.
        unsafe { self.zone_call(opcode::REPORT, &mut words) }?;
        let [a, b, c, d, flags @ ..] = words[1].to_ne_bytes();
        let (count, flags) = (u32::from_ne_bytes([a, b, c, d]).min(most), u32::from_ne_bytes(flags));
        let zones = words[HEAD..].chunks_exact(ZONE).take(count as usize);
        Ok(zones.filter_map(|zone| Reported::of(zone, flags & HAS_CAPACITY != 0)).collect())
    }

    fn manage(&self, what: Manage, mut range: [u64; 2]) -> Result<(), i32> {
        let call = match what {
            Manage::Reset => opcode::RESET,
            Manage::Finish => opcode::FINISH,
        };
        // SAFETY: the kernel reads two u64.
        unsafe { self.zone_call(call, &mut range) }
    }
}
