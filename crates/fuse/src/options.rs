//! How to mount: what the options of `mount -o` mean here.
//!
//! [`FuseOptions::take`] understands one option at a time and leaves what is not its own to the caller, which gives it
//! to the file system and reports what nobody wants.

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Who may use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allow {
    /// Whoever mounted it.
    Owner,
    /// Whoever mounted it, and root.
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

/// How to mount a file system.
#[derive(Clone, Debug)]
pub struct FuseOptions {
    /// The image or device.
    pub source: PathBuf,
    /// What stands first in the mount table, if it is not to be the source.
    pub name: Option<String>,
    /// Type behind the dot: the mount table says `fuse.SUBTYPE`.
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
    /// Which changes are durable when they return.
    pub durable: Durable,
    /// How long the kernel may trust names and attributes without asking. All changes go through the kernel, so this
    /// can be long.
    pub ttl: Duration,
    /// Most threads that serve requests.
    pub threads: usize,
    /// How far the kernel reads ahead, in bytes; more than its own limit only if root mounts.
    pub readahead: u32,
    /// Write a trace of all requests into this file, which is made anew.
    pub trace: Option<PathBuf>,
    /// Lift the kernel's limits on dirty pages of FUSE mounts (only root can).
    pub tune: bool,
}

/// Names and meanings of the options that [`FuseOptions::take`] knows, for help texts.
pub const OPTION_HELP: &[(&str, &str)] = &[
    ("allow_other, allow_root", "who may use the mount besides its owner (default: all if root mounts)"),
    ("uid=N, gid=N, umask=OCTAL", "show all files as owned so, and with permissions 0777 less these bits"),
    ("nosuid, nodev, noexec", "honour no set-id bits, no devices, run no programs"),
    ("nodiratime, nosymfollow", "update no access times of directories; follow no symbolic link"),
    ("sync, dirsync", "all changes are durable when they return (implies writethrough), or those of names"),
    ("writethrough", "the kernel keeps no dirty pages; files opened with O_DIRECT bypass its cache"),
    ("direct_io", "the kernel caches no file contents"),
    ("ttl=SECONDS", "how long the kernel trusts names and attributes without asking (default 3600)"),
    ("threads=N", "most threads that serve requests (default 64)"),
    ("readahead=KIB", "how far the kernel reads ahead (default 1024)"),
    (
        "fsname=NAME, subtype=NAME",
        "what the mount table says (fsname: of a mount that is not fuseblk; of an image file it implies noblkdev)",
    ),
    ("trace=FILE", "write a trace of all operations into FILE, without names and contents (see `steadyfs trace`)"),
    (
        "noblkdev",
        "do not mount as fuseblk, an image file by a loop device's name: then `sync` does not reach the volume and umount does not wait",
    ),
    ("notune", "leave the kernel's limits on dirty pages as they are"),
];

/// Most threads that serve requests, as a rule and with `memory=low`. Each has buffers of 2 MiB.
const THREADS: usize = 64;
const LOW_THREADS: usize = 4;

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
            suid: true,
            dev: true,
            exec: true,
            noatime: false,
            nodiratime: false,
            nosymfollow: false,
            durable: Durable::Asked,
            ttl: Duration::from_secs(3600),
            threads: THREADS,
            readahead: 1 << 20,
            trace: None,
            tune: true,
        }
    }

    /// Takes one option of a `-o` list, without commas. False: it is none of the mount's own.
    ///
    /// # Errors
    /// [`Error::Option`] if its value makes no sense.
    pub fn take(&mut self, option: &str) -> Result<bool> {
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option, None),
        };
        match value {
            None => Ok(self.take_flag(key) || is_for_mount_program(key)),
            Some(value) => Ok(self.take_value(option, key, value)? || is_for_mount_program(key)),
        }
    }

    /// What the kernel keeps of contents: no dirty pages where all changes are to be durable when they return.
    pub(crate) fn cache(&self) -> Cache {
        match (self.durable, self.cache) {
            (Durable::All, Cache::Writeback) => Cache::Through,
            (_, cache) => cache,
        }
    }

    fn take_flag(&mut self, key: &str) -> bool {
        match key {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" => self.dev = true,
            "nodev" => self.dev = false,
            "exec" => self.exec = true,
            "noexec" => self.exec = false,
            "noatime" => self.noatime = true,
            "atime" | "relatime" | "strictatime" => self.noatime = false,
            "nodiratime" => self.nodiratime = true,
            "nosymfollow" => self.nosymfollow = true,
            "async" => self.durable = Durable::Asked,
            "dirsync" if self.durable != Durable::All => self.durable = Durable::Names,
            "dirsync" => {}
            "sync" => self.durable = Durable::All,
            "allow_other" => self.allow = Some(Allow::Everyone),
            "allow_root" => self.allow = Some(Allow::OwnerAndRoot),
            "noallow_other" => self.allow = Some(Allow::Owner),
            "writeback_cache" => self.cache = Cache::Writeback,
            "writethrough" | "no_writeback_cache" => self.cache = Cache::Through,
            "direct_io" => self.cache = Cache::Direct,
            "blkdev" => self.block_device = true,
            "noblkdev" => self.block_device = false,
            "notune" => self.tune = false,
            // Always so.
            "default_permissions" | "defaults" => {}
            _ => return false,
        }
        true
    }

    fn take_value(&mut self, option: &str, key: &str, value: &str) -> Result<bool> {
        match key {
            // The file system's own memory is the core's to set.
            "memory" => match value {
                "low" => self.threads = LOW_THREADS,
                "normal" => self.threads = THREADS,
                _ => return Err(Error::option(option, "want low or normal")),
            },
            "uid" => self.uid = Some(number(option, value)?),
            "gid" => self.gid = Some(number(option, value)?),
            "umask" => {
                let bits = u32::from_str_radix(value, 8).ok().filter(|bits| *bits <= 0o777);
                self.umask = Some(bits.ok_or_else(|| Error::option(option, "want three octal digits"))?);
            }
            "fsname" => self.name = Some(text(option, value)?),
            "subtype" => self.subtype = text(option, value)?,
            "trace" => self.trace = Some(text(option, value)?.into()),
            "ttl" => self.ttl = seconds(option, value)?,
            "threads" => {
                self.threads = number::<usize>(option, value)?;
                if !(1..=1024).contains(&self.threads) {
                    return Err(Error::option(option, "want 1 to 1024"));
                }
            }
            "readahead" => {
                let kib: u32 = number(option, value)?;
                let bytes = kib.checked_mul(1024).ok_or_else(|| Error::option(option, "too large (unit: KiB)"))?;
                self.readahead = bytes;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Options that `mount(8)` and `systemd` act on, and pass on.
fn is_for_mount_program(key: &str) -> bool {
    let known = ["auto", "noauto", "user", "nouser", "users", "owner", "group", "_netdev", "nofail", "comment", "loop"];
    known.contains(&key) || key.starts_with("x-") || key.starts_with("X-")
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::option(option, "want a number"))
}

/// A value that goes to the kernel in a list separated by commas.
fn text(option: &str, value: &str) -> Result<String> {
    if value.is_empty() || value.contains([',', '\0', '\\']) {
        return Err(Error::option(option, "want text without comma or backslash"));
    }
    Ok(value.to_owned())
}

fn seconds(option: &str, value: &str) -> Result<Duration> {
    let seconds: f64 = number(option, value)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::option(option, "want seconds, 0 or more"))
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
        let options =
            taken("rw,nosuid,nodev,noexec,noatime,allow_other,uid=1000,gid=100,umask=022,x-systemd.automount,nofail");
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
    fn every_option_of_the_help_is_known() {
        for option in OPTION_HELP.iter().flat_map(|(names, _)| names.split(", ")) {
            let option = option.split_once('=').map_or(option.to_owned(), |(name, _)| format!("{name}=1"));
            assert!(FuseOptions::new("image").take(&option).unwrap(), "{option}");
        }
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
        for other in ["discard", "cache=64M", "background_gc=on", "nonsense", "uids=3", ""] {
            assert!(!options.take(other).unwrap(), "{other} was taken");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        let bad = [
            "uid=root",
            "umask=9",
            "umask=7777",
            "ttl=-1",
            "ttl=inf",
            "threads=0",
            "subtype=a,b",
            "fsname=",
            "readahead=99999999",
        ];
        for option in bad {
            let error = FuseOptions::new("image").take(option).unwrap_err();
            assert!(error.to_string().starts_with(&format!("mount option {option}: ")), "{error}");
        }
    }
}
