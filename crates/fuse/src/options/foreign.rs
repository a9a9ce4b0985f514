//! Options of other file systems, as lines of `/etc/fstab` for F2FS and mount(8) bring them: each is accepted, because
//! leaving it out changes nothing that is promised, or refused with the reason.
//!
//! Kept true: what would promise something that this mount does not keep is refused.

/// What becomes of an option that is neither the file system's nor the mount's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It is for the caller of the mount, or says what is so anyway: nothing to tell.
    Passed,
    /// It means nothing here; why.
    Ignored(&'static str),
    /// It would promise what is not kept; why, and what to do.
    Refused(&'static str),
}

use steadyfs_core::option_rows::split;

use Foreign::{Ignored, Passed, Refused};

/// An option: its name (`x-*`: every name that begins so), the values that the line is about (none: every value, or no
/// value), and what becomes of it.
type Row = (&'static str, &'static [&'static str], Foreign);

const ALWAYS: Foreign = Ignored("it is always so");
const KERNEL_CACHE: Foreign = Ignored("the kernel driver's own caches and threads are not used");
const QUOTA: Foreign = Refused("quotas are not kept");

/// The first row with the name and the value counts.
const TABLE: &[Row] = &[
    // What mount(8) and systemd act on, and pass on.
    ("defaults", &[], Passed),
    ("auto", &[], Passed),
    ("noauto", &[], Passed),
    ("user", &[], Passed),
    ("nouser", &[], Passed),
    ("users", &[], Passed),
    ("owner", &[], Passed),
    ("group", &[], Passed),
    ("_netdev", &[], Passed),
    ("nofail", &[], Passed),
    ("comment", &[], Passed),
    ("loop", &[], Passed),
    ("x-*", &[], Passed),
    ("X-*", &[], Passed),
    // Of SELinux, which the mount table shows where it is on.
    ("seclabel", &[], Passed),
    // Of FUSE.
    ("default_permissions", &[], Passed),
    // Of mount(8), for all file systems.
    ("silent", &[], Ignored("there is nothing to be silent about")),
    ("loud", &[], ALWAYS),
    ("mand", &[], Ignored("Linux has no mandatory locks any more")),
    ("nomand", &[], ALWAYS),
    ("iversion", &[], Ignored("the kernel counts no versions for FUSE")),
    ("noiversion", &[], ALWAYS),
    ("lazytime", &[], Ignored("times are written with the next checkpoint anyway")),
    ("nolazytime", &[], ALWAYS),
    ("diratime", &[], ALWAYS),
    ("symfollow", &[], ALWAYS),
    ("norelatime", &[], Refused("say noatime, relatime or strictatime")),
    // Of F2FS.
    ("user_xattr", &[], ALWAYS),
    ("nouser_xattr", &[], Refused("extended attributes of users are always on")),
    ("acl", &[], ALWAYS),
    ("noacl", &[], Refused("access control lists always count")),
    ("barrier", &[], ALWAYS),
    ("nobarrier", &[], Refused("say fsync_mode=nobarrier, for devices that lose nothing")),
    ("flush_merge", &[], ALWAYS),
    ("noflush_merge", &[], Ignored("flushes are always merged")),
    ("checkpoint_merge", &[], ALWAYS),
    ("nocheckpoint_merge", &[], Ignored("checkpoints are always merged")),
    ("gc_merge", &[], Ignored("say as=, which decides who collects")),
    ("nogc_merge", &[], Ignored("say as=, which decides who collects")),
    ("atgc", &[], Ignored("say gc.generations=N for collection by age")),
    ("heap", &[], Ignored("say alloc_mode=")),
    ("no_heap", &[], Ignored("say alloc_mode=")),
    ("active_logs", &["6"], ALWAYS),
    ("active_logs", &[], Refused("there are six logs; say data_logs=N for more")),
    ("whint_mode", &["off"], ALWAYS),
    ("whint_mode", &[], Ignored("Linux has no write hints for files any more")),
    ("extent_cache", &[], KERNEL_CACHE),
    ("noextent_cache", &[], KERNEL_CACHE),
    ("age_extent_cache", &[], KERNEL_CACHE),
    ("data_flush", &[], Ignored("a size that is committed covers contents that were written before it")),
    ("io_bits", &[], Ignored("the size of a request follows from what is written")),
    ("fastboot", &[], Ignored("a mount reads what it needs")),
    ("discard_unit", &["segment", "section"], Ignored("say discard=segments")),
    ("discard_unit", &["block"], Ignored("say discard, or discard=runs:N")),
    ("checkpoint", &["enable"], ALWAYS),
    ("checkpoint", &[], Refused("checkpoints cannot be held back, whose point is that a crash undoes everything")),
    ("inline_xattr_size", &[], Refused("the size follows from the volume's features")),
    ("compress_algorithm", &[], Ignored("new files are not compressed")),
    ("compress_log_size", &[], Ignored("new files are not compressed")),
    ("compress_extension", &[], Ignored("new files are not compressed")),
    ("nocompress_extension", &[], Ignored("new files are not compressed")),
    ("compress_chksum", &[], Ignored("new files are not compressed")),
    ("compress_mode", &[], Ignored("new files are not compressed")),
    ("compress_cache", &[], KERNEL_CACHE),
    ("inlinecrypt", &[], Ignored("encrypted files are not read")),
    ("test_dummy_encryption", &[], Refused("files cannot be encrypted")),
    ("noquota", &[], ALWAYS),
    ("quota", &[], QUOTA),
    ("usrquota", &[], QUOTA),
    ("grpquota", &[], QUOTA),
    ("prjquota", &[], QUOTA),
    ("usrjquota", &[], QUOTA),
    ("grpjquota", &[], QUOTA),
    ("prjjquota", &[], QUOTA),
    ("jqfmt", &[], QUOTA),
    ("reserve_node", &[], Refused("no nodes are set aside for root")),
    ("fault_injection", &[], Refused("faults are for the tests: see `steadyfs crash-test`")),
    ("fault_type", &[], Refused("faults are for the tests: see `steadyfs crash-test`")),
];

impl Foreign {
    /// What becomes of an option; none if no file system is known to have it.
    pub fn of(option: &str) -> Option<Self> {
        let (name, value) = split(option);
        let named = |known: &str| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => known == name,
        };
        let fits = |values: &[&str]| values.is_empty() || value.is_some_and(|value| values.contains(&value));
        TABLE.iter().find(|(known, values, _)| named(known) && fits(values)).map(|(_, _, foreign)| *foreign)
    }

    /// Every option that is known to have no meaning here, as pages list it, with what becomes of it.
    pub fn all() -> impl Iterator<Item = (String, Foreign)> {
        TABLE.iter().map(|(name, values, foreign)| match values {
            [] => ((*name).to_owned(), *foreign),
            values => (format!("{name}={}", values.join("|")), *foreign),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FuseOptions;

    #[test]
    fn every_row_can_be_reached_and_is_nobody_elses() {
        for (name, values, foreign) in TABLE {
            let spelled: Vec<String> = match values {
                [] => vec![(*name).to_owned(), format!("{name}=other")],
                values => values.iter().map(|value| format!("{name}={value}")).collect(),
            };
            for option in &spelled[spelled.len() - 1..] {
                assert_eq!(Foreign::of(option), Some(*foreign), "{option}");
                assert!(!FuseOptions::new("image").take(option).unwrap(), "{option} is the mount's");
                let core = steadyfs_core::MountOptions::default().set(option);
                assert!(matches!(core, Ok(false)), "{option} is the file system's: {core:?}");
            }
            let (Ignored(why) | Refused(why)) = foreign else { continue };
            assert!(!why.is_empty() && !why.ends_with('.'), "{name}: {why}");
        }
        assert_eq!(Foreign::of("active_logs=4"), Some(Refused("there are six logs; say data_logs=N for more")));
        for passed in ["x-systemd.automount", "x-systemd.requires=net", "X-mount.mkdir", "nofail", "comment=mine"] {
            assert_eq!(Foreign::of(passed), Some(Passed));
        }
        assert_eq!((Foreign::of("frobnicate"), Foreign::of("x")), (None, None));
    }
}
