//! How to mount: what the options of `mount -o` mean here.
//!
//! [`FuseOptions::take`] understands one option at a time and leaves what is not its own to the caller, which gives it
//! to the file system and reports what nobody wants.

mod foreign;
mod table;

pub use foreign::Foreign;
pub use table::OPTIONS;

use std::path::PathBuf;
use std::time::Duration;
use steadyfs_core::option_rows::{Refusal, apply};

/// Who may use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allow {
    /// The user who mounted it.
    Owner,
    /// The user who mounted it, and root.
    OwnerAndRoot,
    /// Everyone; permissions are checked as on any file system.
    Everyone,
}

/// What the kernel keeps of file contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cache {
    /// Pages, also dirty ones, which it writes back later and when a file is closed. Best for buffered writing.
    #[default]
    Writeback,
    /// Pages that have been written through. Files opened with `O_DIRECT` bypass the cache and take parallel writes.
    Through,
    /// Nothing: every read and write is a request. Files can still be mapped.
    Direct,
}

/// Which changes are durable when they return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durable {
    /// Those that ask for it: fsync, O_SYNC, the flags of chattr(1).
    #[default]
    Asked,
    /// Those of names, too (`dirsync`).
    Names,
    /// All (`sync`). The kernel keeps no dirty pages then.
    All,
}

/// Whether requests come through io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Uring {
    /// Where the kernel lets them.
    #[default]
    Auto,
    /// Never: through `/dev/fuse`.
    Off,
}

/// Options with a label of SELinux, which the kernel takes for each file system.
pub(crate) const LABELS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];

/// How to mount a file system.
#[derive(Clone, Debug)]
pub struct FuseOptions {
    /// The image or device.
    pub source: PathBuf,
    /// What stands first in the mount table, if it is not to be the source.
    pub name: Option<String>,
    /// Type behind the dot: the mount table says `fuse.SUBTYPE`, or `fuseblk.SUBTYPE`.
    pub subtype: String,
    /// Where the volume starts in the source, in bytes.
    pub offset: u64,
    /// Mount as a block device's file system (`fuseblk`) where that is possible: the caller is root, and the source a
    /// block device, or an image file and there are loop devices. `umount` and `sync` then wait until the file system
    /// has written everything.
    pub block_device: bool,
    /// Take no changes.
    pub read_only: bool,
    /// Who may use the mount; by default everyone if root mounts, else the owner.
    pub allow: Option<Allow>,
    /// What the kernel keeps of file contents.
    pub cache: Cache,
    /// Show all files as owned by this user.
    pub uid: Option<u32>,
    /// Show all files as of this group.
    pub gid: Option<u32>,
    /// Show all files with permissions 0777 less these bits.
    pub umask: Option<u32>,
    /// Most files that each user has open at a time, but root and who mounted.
    pub open_files: u32,
    /// Blocks that only root may take, and `reserve_user` and `reserve_group`; an eighth of all at most.
    pub reserve_root: u64,
    /// Who else may take them.
    pub reserve_user: Option<u32>,
    /// A group whose members may take them.
    pub reserve_group: Option<u32>,
    /// Honour set-id bits (only root can mount so).
    pub suid: bool,
    /// Honour device nodes (only root can mount so).
    pub dev: bool,
    /// Allow programs to be run.
    pub exec: bool,
    /// Never update access times.
    pub noatime: bool,
    /// Never update access times of directories.
    pub nodiratime: bool,
    /// Follow no symbolic link.
    pub nosymfollow: bool,
    /// Labels of SELinux, in the order of `LABELS`; for the kernel.
    pub labels: [Option<String>; LABELS.len()],
    /// Which changes are durable when they return.
    pub durable: Durable,
    /// How long the kernel may trust names and attributes without asking. All changes go through the kernel, so this
    /// can be long.
    pub ttl: Duration,
    /// Most threads that serve requests.
    pub threads: usize,
    /// Whether requests come through io_uring.
    pub uring: Uring,
    /// How far the kernel reads ahead, in bytes; more than its own limit only if root mounts.
    pub readahead: u32,
    /// Write a trace of all requests into this file, which is made new.
    pub trace: Option<PathBuf>,
    /// Lift the kernel's limits on dirty pages of FUSE mounts (only root can).
    pub tune: bool,
}

/// Most threads that serve requests, as a rule and with `memory=low`. Each has buffers of 2 MiB.
const THREADS: [usize; 2] = [64, 4];
/// Most open files of a user, likewise. One takes half a KiB.
const OPEN_FILES: [u32; 2] = [65_536, 8_192];
/// Most threads that can be asked for.
const MOST_THREADS: u64 = 1024;

impl FuseOptions {
    /// The defaults for a volume at `source`.
    pub fn new(source: impl Into<PathBuf>) -> Self {
        FuseOptions {
            source: source.into(),
            name: None,
            subtype: "steadyfs".to_owned(),
            offset: 0,
            block_device: true,
            read_only: false,
            allow: None,
            cache: Cache::default(),
            uid: None,
            gid: None,
            umask: None,
            open_files: OPEN_FILES[0],
            reserve_root: 0,
            reserve_user: None,
            reserve_group: None,
            suid: true,
            dev: true,
            exec: true,
            noatime: false,
            nodiratime: false,
            nosymfollow: false,
            labels: [const { None }; LABELS.len()],
            durable: Durable::Asked,
            ttl: Duration::from_secs(3600),
            threads: THREADS[0],
            uring: Uring::default(),
            readahead: 1 << 20,
            trace: None,
            tune: true,
        }
    }

    /// Takes one option of a `-o` list by its row in [`OPTIONS`]. False: it is none of the mount's own.
    ///
    /// # Errors
    /// A value that the row does not allow.
    pub fn take(&mut self, option: &str) -> Result<bool, Refusal> {
        apply(OPTIONS, self, option)
    }

    /// What the kernel keeps of contents: no dirty pages where all changes are to be durable when they return.
    pub(crate) fn cache(&self) -> Cache {
        match (self.durable, self.cache) {
            (Durable::All, Cache::Writeback) => Cache::Through,
            (_, cache) => cache,
        }
    }
}

impl FuseOptions {
    /// Takes the usual memory, or little of it.
    fn use_memory(&mut self, which: usize) {
        (self.threads, self.open_files) = (THREADS[which], OPEN_FILES[which]);
    }

    /// The labels as options for the kernel. One without SELinux takes none, and needs none: mount(8) leaves them out
    /// there, too.
    pub(crate) fn label_options(&self, kernel_has_labels: bool) -> Vec<String> {
        let given = LABELS.iter().zip(&self.labels).filter(|_| kernel_has_labels);
        given.filter_map(|(name, label)| Some(format!("{name}={}", label.as_ref()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(list: &str) -> FuseOptions {
        let mut options = FuseOptions::new("image");
        for option in list.split(',') {
            assert!(options.take(option).unwrap(), "{option} was not taken");
        }
        options
    }

    #[test]
    fn lists_of_fstab_are_understood() {
        let options = taken("rw,nosuid,nodev,noexec,noatime,allow_other,uid=1000,gid=100,umask=022");
        assert_eq!((options.suid, options.dev, options.exec, options.noatime), (false, false, false, true));
        assert_eq!((options.uid, options.gid, options.umask), (Some(1000), Some(100), Some(0o22)));
        assert_eq!(options.allow, Some(Allow::Everyone));
        let options =
            taken("ro,writethrough,fsname=other,subtype=f2fs,ttl=0.5,threads=3,readahead=256,noblkdev,notune");
        assert_eq!((options.read_only, options.cache, options.name.as_deref()), (true, Cache::Through, Some("other")));
        assert_eq!((options.subtype.as_str(), options.ttl, options.threads), ("f2fs", Duration::from_millis(500), 3));
        assert_eq!((options.readahead, options.block_device, options.tune), (256 << 10, false, false));
    }

    #[test]
    fn labels_go_to_a_kernel_that_has_them() {
        let options = taken("context=system_u:object_r:tmp_t:s0,rootcontext=u:r:t:s0");
        let both = ["context=system_u:object_r:tmp_t:s0", "rootcontext=u:r:t:s0"];
        assert_eq!(options.label_options(true), both);
        assert_eq!(options.label_options(false), [""; 0]);
    }

    #[test]
    fn the_last_of_two_counts() {
        assert!(!taken("ro,rw").read_only);
        assert_eq!(taken("direct_io,writeback_cache").cache, Cache::Writeback);
        assert_eq!(taken("allow_other,allow_root").allow, Some(Allow::OwnerAndRoot));
    }

    #[test]
    fn what_is_durable_when_it_returns() {
        assert_eq!((taken("dirsync").durable, taken("dirsync").cache()), (Durable::Names, Cache::Writeback));
        for all in ["sync", "sync,dirsync", "dirsync,sync", "writeback_cache,sync"] {
            assert_eq!((taken(all).durable, taken(all).cache()), (Durable::All, Cache::Through), "{all}");
        }
        assert_eq!((taken("sync,async").durable, taken("sync,direct_io").cache()), (Durable::Asked, Cache::Direct));
    }

    #[test]
    fn what_belongs_to_the_file_system_is_left() {
        let mut options = FuseOptions::new("image");
        for other in ["discard", "cache=64M", "background_gc=on", "nofail", "nonsense", "uids=3", ""] {
            assert!(!options.take(other).unwrap(), "{other} was taken");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        let digits = "want three octal digits";
        let text = "want text without comma or backslash";
        for (option, allowed) in [
            ("uid=root", "want a number from 0 to 4294967295"),
            ("umask=9", digits),
            ("umask=7777", digits),
            ("ttl=-1", "want seconds, 0 or more"),
            ("ttl=inf", "want seconds, 0 or more"),
            ("threads=0", "want a number from 1 to 1024"),
            ("subtype=a,b", text),
            ("fsname=", text),
            ("readahead=99999999", "want a number from 0 to 4194303"),
        ] {
            let error = FuseOptions::new("image").take(option).unwrap_err();
            assert_eq!(error.to_string(), format!("mount option {option}: {allowed}"));
        }
    }
}
