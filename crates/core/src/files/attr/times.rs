//! Time stamps: the clock that all of them come from, and when reading changes the access time.

use crate::error::Error;
use crate::files::Files;
use crate::files::inode::{Inode, InodeRef};
use crate::gate::Want;
use crate::options::AccessTimes;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode as RawInode, Time, flags};

/// Seconds after which an access time is renewed in any case.
const DAY: i64 = 24 * 3600;

/// The time of day, as inodes store it.
pub(crate) fn clock() -> Time {
    let now = steadyfs_rt::wall_clock();
    Time { secs: now.sec, nanos: now.nsec }
}

/// Notes that the contents of a file or the names of a directory changed.
pub(crate) fn touch_contents(raw: &mut RawInode, now: Time) {
    raw.set_mtime(now);
    raw.set_ctime(now);
}

/// Whether a read at `now` changes the access time.
fn is_due(raw: &RawInode, policy: AccessTimes, now: Time) -> bool {
    if raw.flags() & flags::NOATIME != 0 {
        return false;
    }
    match policy {
        AccessTimes::Never => false,
        AccessTimes::Strict => raw.atime() != now,
        AccessTimes::Relative => {
            let atime = raw.atime();
            atime <= raw.mtime() || atime <= raw.ctime() || now.secs.saturating_sub(atime.secs) >= DAY
        }
    }
}

impl Files {
    /// See `Fs::note_open`.
    pub(crate) fn note_open(&self, inode: &InodeRef) -> bool {
        self.note_access(&inode.inode)
    }

    /// Notes that the inode was read, as the mount's policy has it; true if the access time has changed. Hold no node
    /// lock and no change when calling.
    ///
    /// The reader has its bytes: if the time cannot be stored, because the volume is full or has just stopped, it does
    /// not hear of that.
    pub(crate) fn note_access(&self, inode: &Inode) -> bool {
        let (policy, now) = (self.options.access_times, clock());
        let passed_over = inode.kind == FileType::Dir && !self.options.directory_access_times;
        if policy == AccessTimes::Never || passed_over || self.vol.check_writable().is_err() {
            return false;
        }
        let store = || match inode.read(|raw| is_due(raw, policy, now))? {
            true => {
                self.vol.edit_times(&*self.gate.begin(Want::default())?, inode, |raw| raw.set_atime(now)).map(|()| true)
            }
            false => Ok(false),
        };
        store().unwrap_or_else(|error: Error| {
            tracing::debug!(ino = %inode.ino, %error, "an access time was not stored");
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_times_follow_the_policy() {
        let at = |secs| Time { secs, nanos: 0 };
        let inode = |atime, changed, bits| {
            let mut raw = RawInode::zeroed();
            raw.set_atime(at(atime));
            raw.set_mtime(at(changed));
            raw.set_ctime(at(changed));
            raw.set_flags(bits);
            raw
        };
        let now = at(1_000_000);
        let (fresh, stale, old) = (inode(999_000, 998_000, 0), inode(999_000, 999_000, 0), inode(100, 50, 0));
        for (raw, relative) in [(&fresh, false), (&stale, true), (&old, true)] {
            assert_eq!(is_due(raw, AccessTimes::Relative, now), relative);
            assert!(is_due(raw, AccessTimes::Strict, now) && !is_due(raw, AccessTimes::Never, now));
        }
        assert!(!is_due(&inode(100, 200, flags::NOATIME), AccessTimes::Strict, now));
    }
}
