//! The options of the mount itself, one row each: name, values, tier, help, setter.
//!
//! A row without help has the name of an option of the file system, which acts on it as well.

use crate::options::{Allow, Cache, Durable, FuseOptions, MOST_THREADS, THREADS, Uring};
use std::time::Duration;
use steadyfs_core::option_rows::Tier::{Everyday, F2fs};
use steadyfs_core::option_rows::{Row, Values};
use steadyfs_core::option_words;

/// A row of a user or a group, by number, that is none unless given.
macro_rules! id {
    ($name:literal, $field:ident, $tier:expr, $help:literal) => {
        Row {
            name: $name,
            aliases: &[],
            values: Values::Number {
                unit: "N",
                least: 0,
                most: u32::MAX as u64,
                set: |options, id| options.$field = Some(id as u32),
                get: |options| options.$field.map(u64::from),
            },
            tier: $tier,
            help: $help,
        }
    };
}

/// The options that the mount itself understands.
pub static OPTIONS: &[Row<FuseOptions>] = &[
    // Also the file system's.
    Row {
        name: "ro",
        aliases: &[],
        values: option_words!(Flags, read_only, { "ro" => true, "rw" => false }),
        tier: Everyday,
        help: "",
    },
    Row {
        name: "relatime",
        aliases: &[],
        values: option_words!(Flags, noatime, {
            "relatime" => false,
            "noatime" => true,
            "strictatime" => false,
            "atime" => false,
        }),
        tier: Everyday,
        help: "",
    },
    Row {
        name: "nodiratime",
        aliases: &[],
        values: option_words!(Flags, nodiratime, { "nodiratime" => true }),
        tier: Everyday,
        help: "",
    },
    Row {
        name: "memory",
        aliases: &[],
        values: Values::Words {
            words: &["normal", "low"],
            set: FuseOptions::use_memory,
            get: |options| THREADS.iter().position(|threads| *threads == options.threads),
        },
        tier: Everyday,
        help: "",
    },
    // For every user.
    Row {
        name: "allow_other",
        aliases: &[],
        values: option_words!(Flags, allow, {
            "allow_other" => Some(Allow::Everyone),
            "allow_root" => Some(Allow::OwnerAndRoot),
            "noallow_other" => Some(Allow::Owner),
        }),
        tier: Everyday,
        help: "who may use the mount besides its owner: all, root, or nobody (default: all if root mounts, else nobody)",
    },
    id!("uid", uid, Everyday, "show all files as owned by this user"),
    id!("gid", gid, Everyday, "show all files as of this group"),
    Row {
        name: "umask",
        aliases: &[],
        values: Values::Text {
            form: "OCTAL",
            allowed: "three octal digits",
            set: |options, text| {
                options.umask = Some(u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777)?);
                Some(())
            },
            get: |options| options.umask.map(|bits| format!("{bits:03o}")),
        },
        tier: Everyday,
        help: "show all files with permissions 0777 less these bits",
    },
    Row {
        name: "writeback_cache",
        aliases: &[],
        values: option_words!(Flags, cache, {
            "writeback_cache" => Cache::Writeback,
            "writethrough" => Cache::Through,
            "no_writeback_cache" => Cache::Through,
            "direct_io" => Cache::Direct,
        }),
        tier: Everyday,
        help: "the kernel caches contents and writes them later; caches no dirty pages, and files opened with O_DIRECT \
               bypass its cache; or caches no contents",
    },
    Row {
        name: "trace",
        aliases: &[],
        values: Values::Text {
            form: "FILE",
            allowed: TEXT,
            set: |options, file| {
                options.trace = Some(text(file)?.into());
                Some(())
            },
            get: |options| options.trace.as_ref().map(|file| file.display().to_string()),
        },
        tier: Everyday,
        help: "write a trace of all operations into FILE, without names and contents (see `steadyfs trace`)",
    },
    Row {
        name: "blkdev",
        aliases: &[],
        values: option_words!(Flags, block_device, { "blkdev" => true, "noblkdev" => false }),
        tier: Everyday,
        help: "mount as fuseblk where that is possible, an image file by a loop device's name; if not, `sync` does not \
               reach the volume and umount does not wait",
    },
    // What mount(8) and FUSE have.
    Row {
        name: "suid",
        aliases: &[],
        values: option_words!(Flags, suid, { "suid" => true, "nosuid" => false }),
        tier: F2fs,
        help: "honour set-id bits, or not; only root can mount so that they count",
    },
    Row {
        name: "dev",
        aliases: &[],
        values: option_words!(Flags, dev, { "dev" => true, "nodev" => false }),
        tier: F2fs,
        help: "honour device nodes, or not; only root can mount so that they count",
    },
    Row {
        name: "exec",
        aliases: &[],
        values: option_words!(Flags, exec, { "exec" => true, "noexec" => false }),
        tier: F2fs,
        help: "allow programs to be run, or not",
    },
    Row {
        name: "nosymfollow",
        aliases: &[],
        values: option_words!(Flags, nosymfollow, { "nosymfollow" => true }),
        tier: F2fs,
        help: "follow no symbolic link",
    },
    Row {
        name: "context",
        aliases: &[],
        values: Values::Text {
            form: "LABEL",
            allowed: TEXT,
            set: |options, label| {
                options.labels[0] = Some(text(label)?);
                Some(())
            },
            get: |options| options.labels[0].clone(),
        },
        tier: F2fs,
        help: "label of SELinux that all files show; where the kernel has SELinux, and root mounts",
    },
    Row {
        name: "fscontext",
        aliases: &[],
        values: Values::Text {
            form: "LABEL",
            allowed: TEXT,
            set: |options, label| {
                options.labels[1] = Some(text(label)?);
                Some(())
            },
            get: |options| options.labels[1].clone(),
        },
        tier: F2fs,
        help: "label of SELinux of the file system itself, likewise",
    },
    Row {
        name: "defcontext",
        aliases: &[],
        values: Values::Text {
            form: "LABEL",
            allowed: TEXT,
            set: |options, label| {
                options.labels[2] = Some(text(label)?);
                Some(())
            },
            get: |options| options.labels[2].clone(),
        },
        tier: F2fs,
        help: "label of SELinux of files without one, likewise",
    },
    Row {
        name: "rootcontext",
        aliases: &[],
        values: Values::Text {
            form: "LABEL",
            allowed: TEXT,
            set: |options, label| {
                options.labels[3] = Some(text(label)?);
                Some(())
            },
            get: |options| options.labels[3].clone(),
        },
        tier: F2fs,
        help: "label of SELinux of the root directory, likewise",
    },
    Row {
        name: "async",
        aliases: &[],
        values: Values::Flags {
            words: &["async", "dirsync", "sync"],
            set: |options, at| {
                options.durable = match (at, options.durable) {
                    (1, Durable::All) => Durable::All,
                    (at, _) => DURABLE[at],
                }
            },
            get: |options| DURABLE.iter().position(|durable| *durable == options.durable),
        },
        tier: F2fs,
        help: "which changes are durable when they return: what asks for it, those of names, too, or all (sync; implies \
               writethrough)",
    },
    Row {
        name: "open_files",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 1,
            most: u32::MAX as u64,
            set: |options, files| options.open_files = files as u32,
            get: |options| Some(options.open_files.into()),
        },
        tier: Everyday,
        help: "most files that each user has open at a time, but root and who mounted; with memory=low 8192",
    },
    Row {
        name: "reserve_root",
        aliases: &[],
        values: Values::Number {
            unit: "BLOCKS",
            least: 0,
            most: u32::MAX as u64,
            set: |options, blocks| options.reserve_root = blocks,
            get: |options| Some(options.reserve_root),
        },
        tier: F2fs,
        help: "blocks of 4 KiB that only root may fill; an eighth of the volume at most",
    },
    id!("resuid", reserve_user, F2fs, "a user who may fill the blocks of reserve_root, too"),
    id!("resgid", reserve_group, F2fs, "a group whose members may fill the blocks of reserve_root, too"),
    Row {
        name: "ttl",
        aliases: &[],
        values: Values::Text {
            form: "SECONDS",
            allowed: "seconds, 0 or more",
            set: |options, text| {
                options.ttl = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
                Some(())
            },
            get: |options| Some(options.ttl.as_secs_f64().to_string()),
        },
        tier: F2fs,
        help: "how long the kernel trusts names and attributes without asking",
    },
    Row {
        name: "threads",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 1,
            most: MOST_THREADS,
            set: |options, threads| options.threads = threads as usize,
            get: |options| Some(options.threads as u64),
        },
        tier: F2fs,
        help: "most threads that serve requests",
    },
    Row {
        name: "uring",
        aliases: &[],
        values: option_words!(Words, uring, { "auto" => Uring::Auto, "off" => Uring::Off }),
        tier: Everyday,
        help: "take requests through io_uring where the kernel lets it (Linux 6.14, and root has switched it on), or \
               through /dev/fuse",
    },
    Row {
        name: "readahead",
        aliases: &[],
        values: Values::Number {
            unit: "KIB",
            least: 0,
            most: (u32::MAX >> 10) as u64,
            set: |options, kib| options.readahead = (kib << 10) as u32,
            get: |options| Some(u64::from(options.readahead >> 10)),
        },
        tier: F2fs,
        help: "how far the kernel reads ahead",
    },
    Row {
        name: "fsname",
        aliases: &[],
        values: Values::Text {
            form: "NAME",
            allowed: TEXT,
            set: |options, name| {
                options.name = Some(text(name)?);
                Some(())
            },
            get: |options| options.name.clone(),
        },
        tier: F2fs,
        help: "the source in the mount table, of a mount that is not fuseblk; of an image file it implies noblkdev",
    },
    Row {
        name: "subtype",
        aliases: &[],
        values: Values::Text {
            form: "NAME",
            allowed: TEXT,
            set: |options, name| {
                options.subtype = text(name)?;
                Some(())
            },
            get: |options| Some(options.subtype.clone()),
        },
        tier: F2fs,
        help: "the type in the mount table is fuse.NAME, or fuseblk.NAME",
    },
    Row {
        name: "notune",
        aliases: &[],
        values: option_words!(Flags, tune, { "notune" => false }),
        tier: F2fs,
        help: "leave the kernel's limits on dirty pages as they are",
    },
];

const TEXT: &str = "text without comma or backslash";

/// In the order of their words.
const DURABLE: [Durable; 3] = [Durable::Asked, Durable::Names, Durable::All];

/// A value that goes to the kernel in a list separated by commas.
fn text(value: &str) -> Option<String> {
    (!value.is_empty() && !value.contains([',', '\0', '\\'])).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_core::option_rows::faults;

    #[test]
    fn each_row_parses_and_prints_each_of_its_values_and_refuses_others() {
        let samples: &[(&str, &[&str])] = &[
            ("umask", &["000", "022", "777"]),
            ("trace", &["trace", "a/b c"]),
            ("ttl", &["0", "0.5", "3600"]),
            ("context", &["system_u:object_r:tmp_t:s0"]),
            ("fscontext", &["u:r:t:s0"]),
            ("defcontext", &["u:r:t:s0"]),
            ("rootcontext", &["u:r:t:s0"]),
            ("fsname", &["other"]),
            ("subtype", &["f2fs"]),
        ];
        assert_eq!(faults(OPTIONS, || FuseOptions::new("image"), samples), [""; 0]);
    }

    #[test]
    fn rows_without_help_are_explained_by_the_file_systems_table() {
        for row in OPTIONS.iter().filter(|row| row.help.is_empty()) {
            let theirs = steadyfs_core::OPTIONS.iter().find(|theirs| theirs.name == row.name);
            assert_eq!(theirs.map(|theirs| theirs.allowed()), Some(row.allowed()), "{}", row.name);
        }
    }
}
