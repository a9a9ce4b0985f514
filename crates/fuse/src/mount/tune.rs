//! What the kernel does with dirty pages and reading ahead, which a mount cannot say but root can, in `/sys/class/bdi`.
//!
//! A FUSE mount may by default have 1 % of memory dirty, strictly, since the kernel does not trust its server to write it back. That throttles
//! buffered writes to a fraction; a mount by root is trusted.

use super::table;
use crate::options::FuseOptions;
use std::path::{Path, PathBuf};

/// Applies the options to the file system mounted at `dir`; what cannot be set stays as it is.
pub(super) fn tune(dir: &Path, options: &FuseOptions) {
    let Some(knobs) = table::at(dir).and_then(|entry| directory(&entry.device)) else {
        return;
    };
    let kib = (options.readahead / 1024).to_string();
    for (knob, value) in [("strict_limit", "0"), ("max_ratio", "100"), ("read_ahead_kb", &kib)] {
        if let Err(error) = std::fs::write(knobs.join(knob), value) {
            tracing::debug!("cannot set {knob}: {error}");
        }
    }
}

/// The directory of a file system's knobs, by its device number.
fn directory(device: &str) -> Option<PathBuf> {
    let names = [device.to_owned(), format!("{device}-fuseblk")];
    names.into_iter().map(|name| Path::new("/sys/class/bdi").join(name)).rfind(|path| path.exists())
}
