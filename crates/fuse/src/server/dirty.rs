//! Pages of the host that wait to be written, of whatever file system.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_rt::{Instant, now};

/// Lines of /proc/meminfo whose sum it is: changed, on their way, and on their way in a copy as FUSE made one until
/// Linux 6.15.
const LINES: [&str; 3] = ["Dirty:", "Writeback:", "WritebackTmp:"];

/// How long a count is told again: asking the kernel takes some microseconds.
const YOUNG: Duration = Duration::from_millis(10);

/// More bytes than programs write into the cache within [`YOUNG`], at 6 GiB a second.
pub(super) const SINCE: u64 = 64 << 20;

/// The kernel's count of them. Opened before the server gives up its rights.
pub(super) struct DirtyPages {
    meminfo: Option<File>,
    /// The last count, and when it was made, in nanoseconds.
    last: AtomicU64,
    at: AtomicU64,
}

impl DirtyPages {
    pub(super) fn new() -> Self {
        DirtyPages { meminfo: File::open("/proc/meminfo").ok(), last: AtomicU64::new(0), at: AtomicU64::new(0) }
    }

    /// The last count, if it is young: since then they were [`SINCE`] more at most.
    pub(super) fn lately(&self) -> Option<u64> {
        let (bytes, at) = (self.last.load(SeqCst), self.at.load(SeqCst));
        (at > 0 && now().saturating_since(Instant::from_nanos(at)) < YOUNG).then_some(bytes)
    }

    /// Bytes in them. The kernel counts some hundred KiB late per processor. `None` where it says nothing.
    pub(super) fn bytes(&self) -> Option<u64> {
        let mut text = [0; 4096];
        let at = now();
        let len = self.meminfo.as_ref()?.read_at(&mut text, 0).ok()?;
        let bytes = sum(std::str::from_utf8(&text[..len]).ok()?)?;
        // Of two at a time the pair may be mixed: both are young.
        self.last.store(bytes, SeqCst);
        self.at.store(at.as_nanos(), SeqCst);
        Some(bytes)
    }
}

fn sum(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter(|line| LINES.iter().any(|wanted| line.starts_with(wanted))).peekable();
    lines.peek()?;
    lines.map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_what_is_changed_and_on_its_way() {
        let text = "MemTotal: 24 kB\nDirty:   1032 kB\nWriteback:  8 kB\nDirtyish: x\nWritebackTmp: 4 kB\nSlab: 3 kB\n";
        assert_eq!(sum(text), Some(1044 << 10));
        assert_eq!(sum("MemTotal: 24 kB\n"), None, "nobody says so");
        assert_eq!(sum("Dirty: much\n"), None);
        assert!(DirtyPages::new().bytes().is_some(), "Linux says so");
    }

    #[test]
    fn a_count_is_told_again_while_it_is_young() {
        let pages = DirtyPages::new();
        assert_eq!(pages.lately(), None, "nothing was counted");
        let (before, counted) = (now(), pages.bytes());
        let told = pages.lately();
        assert!(told == counted || before.elapsed() >= YOUNG, "{told:?}");
        std::thread::sleep(YOUNG);
        assert_eq!(pages.lately(), None, "it is too old");
    }
}
