//! A directory tree written down: everything that a program can learn about it through system calls, in a fixed order.
//!
//! Two manifests of one tree, taken through two file systems (the kernel's F2FS and ours) or before and after a
//! remount, are compared by [`Manifest::diff`]. The binary `steadyfs-manifest` takes one of any directory; it also runs
//! inside user-mode Linux ([`crate::linux_manifest`]).
//!
//! Bytes (names, targets, attribute values) are kept as text in which everything outside printable ASCII is `\xNN` and
//! a backslash is `\\`, so that a manifest is readable, sortable JSON. One entry is one line.

mod diff;
mod digest;
mod file;
mod walk;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use diff::{Diff, Fields};
pub use digest::ContentDigest;
pub use walk::Options;

/// A directory tree: entries by escaped path relative to its root, which is `.`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Sorted by path, bytewise.
    pub entries: BTreeMap<String, Entry>,
}

/// The type of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    Char,
    /// Block device.
    Block,
}

/// Everything known about one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The type of inode.
    pub kind: Kind,
    /// Permission, setuid, setgid and sticky bits.
    #[serde(with = "octal")]
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of links.
    pub nlink: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last modification.
    pub mtime: Time,
    /// Last access, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atime: Option<Time>,
    /// Last change, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctime: Option<Time>,
    /// Creation, if asked for and the file system knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crtime: Option<Time>,
    /// Major and minor number of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdev: Option<(u32, u32)>,
    /// Where a symbolic link points, escaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Contents of a regular file that is not empty: see [`ContentDigest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Extended attributes by full name: the escaped value, or for long values their length and digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub xattrs: BTreeMap<String, String>,
    /// Of an inode with several names that is no directory: the first of its names in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
    /// Allocated space in 512-byte units, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Ranges (offset, length) that SEEK_DATA and SEEK_HOLE call data, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<(u64, u64)>>,
    /// Inode flags (`lsattr`) of files and directories, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<u32>,
}

/// A point in time: seconds since 1970, which may be negative, and nanoseconds after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub sec: i64,
    /// 0 to 999,999,999.
    pub nsec: u32,
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.sec, self.nsec)
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let parsed = text.split_once('.').and_then(|(sec, nsec)| Some((sec.parse().ok()?, nsec.parse().ok()?)));
        match parsed {
            Some((sec, nsec)) => Ok(Self { sec, nsec }),
            None => Err(serde::de::Error::custom(format!("not a time: {text}"))),
        }
    }
}

/// Bytes as text: printable ASCII as itself, a backslash as `\\`, everything else as `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// What [`escape`] made its text of; nothing if it cannot have made it.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [b'x', hi, lo, tail @ ..]) => {
                let digits = [*hi, *lo];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'\\', _) => return None,
            (b' '..=b'~', tail) => {
                bytes.push(first);
                tail
            }
            _ => return None,
        };
    }
    Some(bytes)
}

/// Modes are read by people: `"0644"`.
mod octal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mode: &u32, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{mode:04o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
        let text = String::deserialize(d)?;
        u32::from_str_radix(&text, 8).map_err(|_| serde::de::Error::custom(format!("not a mode: {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, escape, unescape};

    #[test]
    fn escaping_is_reversible() {
        let all: Vec<u8> = (0..=255).collect();
        let text = escape(&all);
        assert!(text.is_ascii());
        assert_eq!(unescape(&text), Some(all));
        assert_eq!(escape(b"a b\\\xff\n"), "a b\\\\\\xff\\x0a");
        for wrong in ["\\", "\\x1", "\\q", "\u{e9}", "\\xzz"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_keep_sign_and_nanoseconds() {
        for time in [Time { sec: -1, nsec: 5 }, Time { sec: 1 << 33, nsec: 999_999_999 }] {
            let json = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time, "{json}");
        }
    }
}
