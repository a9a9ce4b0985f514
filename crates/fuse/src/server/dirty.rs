//! Pages of the host that wait to be written, of whatever file system.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Lines of /proc/meminfo whose sum it is: changed, on their way, and on their way in a copy as FUSE made one until
/// Linux 6.15.
const LINES: [&str; 3] = ["Dirty:", "Writeback:", "WritebackTmp:"];

/// The kernel's count of them. Opened before the server gives up its rights.
pub(super) struct DirtyPages(Option<File>);

impl DirtyPages {
    pub(super) fn new() -> Self {
        DirtyPages(File::open("/proc/meminfo").ok())
    }

    /// Bytes in them. The kernel counts some hundred KiB late per processor. `None` where it says nothing.
    pub(super) fn bytes(&self) -> Option<u64> {
        let mut text = [0; 4096];
        let len = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        sum(std::str::from_utf8(&text[..len]).ok()?)
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
}
