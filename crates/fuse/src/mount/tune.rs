//! What the kernel does with dirty pages and reading ahead, which a mount cannot say but root can, in `/sys/class/bdi`.
//!
//! A FUSE mount may by default have 1 % of memory dirty, strictly, since the kernel does not trust its server to write
//! it back. That throttles buffered writes to a fraction; a mount by root is trusted.

use super::table;
use crate::options::FuseOptions;
use std::path::{Path, PathBuf};

/// The knobs of one mount.
pub(super) struct Knobs {
    dir: PathBuf,
}

/// Applies the options to the file system mounted at `dir`; what cannot be set stays as it is. `None` if nothing is to
/// be set.
pub(super) fn tune(dir: &Path, options: &FuseOptions) -> Option<Knobs> {
    let entry = table::at(dir).filter(|_| options.tune)?;
    let knobs = Knobs { dir: directory(&entry.device)? };
    knobs.set("read_ahead_kb", u64::from(options.readahead / 1024));
    knobs.trust();
    Some(knobs)
}

impl Knobs {
    fn set(&self, knob: &str, value: u64) -> bool {
        let set = std::fs::write(self.dir.join(knob), value.to_string());
        if let Err(error) = &set {
            tracing::debug!("cannot set {knob}: {error}");
        }
        set.is_ok()
    }

    /// As much may be dirty as of any file system.
    fn trust(&self) {
        self.set("strict_limit", 0);
        self.set("max_ratio", 100);
    }

    /// Lets `bytes` bytes be dirty, strictly; more than may be dirty in all is no limit. Before Linux 6.2 there is
    /// none.
    pub(super) fn limit_dirty(&self, bytes: u64) {
        if self.set("max_bytes", bytes) {
            self.set("strict_limit", 1);
        } else {
            self.trust();
        }
    }
}

/// The directory of a file system's knobs, by its device number.
fn directory(device: &str) -> Option<PathBuf> {
    let names = [device.to_owned(), format!("{device}-fuseblk")];
    names.into_iter().map(|name| Path::new("/sys/class/bdi").join(name)).rfind(|path| path.exists())
}
