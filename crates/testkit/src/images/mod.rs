//! Volumes that Linux wrote, and what Linux sees on them.
//!
//! A [`Recipe`] says how a volume is made: by mkfs.f2fs with some options, mounted by the real kernel with some
//! options, put through a workload and a script, and left in some way: unmounted, or by a power failure.
//! [`Recipe::image`] makes it, once: images are kept below the target directory and found again by the digest of
//! everything that went into them. [`matrix`] lists the recipes that reach every layout and mount option that
//! changes the format.
//!
//! The files in the cache are shared by all tests: use [`LinuxImage::copy`] to write to one.

mod cache;
mod each;
mod matrix;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::corpus::{Spec, Workload};
use crate::error::Result;
use crate::linux::{corpus_command, manifest_command, mkfs_command, mount_command};
use crate::machine::{Output, Uml};
use crate::manifest::{Manifest, Options};
use crate::sparse::{TempImage, create_sparse};

pub use each::{side_by_side, try_each};
pub use matrix::{crashed, matrix, recipe};

/// The manifests of images have everything but access times.
pub const MANIFEST_OPTIONS: Options = Options {
    atime: false,
    ctime: true,
    crtime: true,
    blocks: true,
    data: true,
    flags: true,
    no_contents: false,
    read_holes: false,
};

const LIMIT: Duration = Duration::from_secs(300);

/// How a volume is made.
#[derive(Debug, Clone, Serialize)]
pub struct Recipe {
    /// A name for people, unique in [`matrix`].
    pub name: &'static str,
    /// The size of the volume.
    pub mib: u64,
    /// Options of mkfs.f2fs, separated by blanks.
    pub mkfs: &'static str,
    /// Mount options, separated by commas.
    pub mount: &'static str,
    /// The work done to the root directory of the mounted volume.
    pub workload: Workload,
    /// Work before the workload.
    pub before: &'static str,
    /// Work after it.
    pub after: &'static str,
    /// How the volume is left.
    pub ending: Ending,
    /// Kernel messages that this recipe causes.
    pub expected: Vec<&'static str>,
}

/// How a volume is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Ending {
    /// Unmounted.
    Unmounted,
    /// Unmounted, in a state that Linux does not mount read-only.
    Unfinished,
    /// By a power failure after everything was done. Open files were open.
    PowerOff,
    /// By a power failure in the midst of the workload, about at this operation.
    PowerOffAt(usize),
}

/// A volume that Linux wrote.
#[derive(Debug, Clone)]
pub struct LinuxImage {
    /// The recipe's name.
    pub name: String,
    /// The image, to be read only.
    pub path: PathBuf,
    /// What Linux sees on it. After a power failure: once it has recovered what it can, on a copy.
    pub manifest: Manifest,
    /// After a power failure: what the last checkpoint says, without roll-forward.
    pub at_checkpoint: Option<Manifest>,
}

impl LinuxImage {
    /// A copy of the image that may be changed.
    pub fn copy(&self) -> Result<TempImage> {
        TempImage::copy_of(&self.path)
    }
}

impl Recipe {
    /// A volume of 128 MiB with default options, that holds the small tree of corner cases with compressible contents,
    /// unmounted.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            mib: 128,
            mkfs: "",
            mount: "",
            workload: Workload::Corners(Spec::tiny()),
            before: "",
            after: "",
            ending: Ending::Unmounted,
            expected: Vec::new(),
        }
    }

    /// The image, from the cache or newly made.
    pub fn image(&self) -> Result<LinuxImage> {
        cache::get(self)
    }

    /// Makes the volume at `path` and takes its manifests: of what Linux sees, and after a power failure also of the
    /// checkpoint.
    pub fn make(&self, path: &Path) -> Result<(Manifest, Option<Manifest>)> {
        create_sparse(path, self.mib << 20)?;
        let flags = match self.ending {
            Ending::Unmounted | Ending::Unfinished => "",
            // In the background with its files open; what follows waits for its word.
            Ending::PowerOff => " --hold >/run/held & until grep -qs holding /run/held; do kill -0 $!; sleep 0.1; done",
            Ending::PowerOffAt(_) => " --progress",
        };
        let machine = self
            .machine(path)
            .script(mkfs_command("/dev/ubda", self.mkfs))
            .script(mount_command("/dev/ubda", self.mount))
            .script(self.before)
            .script(corpus_command("$MNT", &self.workload)? + flags)
            .script(self.after);
        match self.ending {
            Ending::Unmounted => {
                let out = machine
                    .script("umount $MNT")
                    .script(mount_command("/dev/ubda", "ro"))
                    .script(manifest_command("$MNT", "manifest.json", &MANIFEST_OPTIONS)?)
                    .run()?;
                return Ok((load(&out, "manifest.json")?, None));
            }
            Ending::Unfinished => {
                machine.run()?;
                let copy = TempImage::copy_of(path)?;
                let out = self
                    .machine(&copy.path())
                    .script(mount_command("/dev/ubda", self.mount))
                    .script(manifest_command("$MNT", "manifest.json", &MANIFEST_OPTIONS)?)
                    .run()?;
                return Ok((load(&out, "manifest.json")?, None));
            }
            Ending::PowerOff => machine.crash().run()?,
            Ending::PowerOffAt(operation) => machine.crash_at(&format!("operation {}", operation / 100 * 100)).run()?,
        };
        self.recovered(path)
    }

    /// What Linux makes of a crashed volume. On two copies: a mount without recovery drops what there is to recover.
    fn recovered(&self, path: &Path) -> Result<(Manifest, Option<Manifest>)> {
        let (recovered, at_checkpoint) = (TempImage::copy_of(path)?, TempImage::copy_of(path)?);
        let out = self
            .machine(&recovered.path())
            .disk(at_checkpoint.path())
            .script(mount_command("/dev/ubda", self.mount))
            .script(manifest_command("$MNT", "recovered.json", &MANIFEST_OPTIONS)?)
            .script("umount $MNT")
            .script(mount_command("/dev/ubdb", "ro,norecovery"))
            .script(manifest_command("$MNT", "checkpoint.json", &MANIFEST_OPTIONS)?)
            .run()?;
        Ok((load(&out, "recovered.json")?, Some(load(&out, "checkpoint.json")?)))
    }

    fn machine(&self, path: &Path) -> Uml {
        let machine = Uml::new().disk(path).timeout(LIMIT);
        self.expected.iter().fold(machine, |m, part| m.expect(part))
    }
}

fn load(out: &Output, name: &str) -> Result<Manifest> {
    Manifest::load(out.file(name))
}
