//! The mount table, `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use steadyfs_device::Backing;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Major and minor number of the file system, as `MAJOR:MINOR`.
    pub(super) device: String,
    /// Where it is.
    pub(super) point: PathBuf,
    /// Its type, such as `fuse.steadyfs`.
    pub(super) kind: String,
    /// The source of the mount.
    pub(super) source: PathBuf,
    /// Who mounted it, if the file system says so: those of FUSE do.
    pub(super) owner: Option<u32>,
}

impl Entry {
    /// Whether this user mounted it.
    pub(super) fn is_own(&self) -> bool {
        self.owner == Some(rustix::process::geteuid().as_raw())
    }

    /// Whether its source may be looked at: that of another user may be anything, also what never answers.
    fn has_known_source(&self) -> bool {
        self.is_own() || self.owner.is_none_or(|owner| owner == 0)
    }
}

/// Reads a line; `None` if it has not the known form.
fn parse(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    // Options and optional fields, which a dash ends.
    fields.find(|field| *field == b"-")?;
    let (kind, source) = (fields.next()?, fields.next()?);
    let mut options = fields.next().unwrap_or_default().split(|byte| *byte == b',');
    let owner = options.find_map(|option| std::str::from_utf8(option.strip_prefix(b"user_id=")?).ok()?.parse().ok());
    Some(Entry {
        device: String::from_utf8(device.to_vec()).ok()?,
        point: unescape(point),
        kind: String::from_utf8_lossy(kind).into_owned(),
        source: unescape(source),
        owner,
    })
}

/// Spaces, tabs, line ends and backslashes are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out).into()
}

fn read() -> Vec<Entry> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// The mounts at a place and below it.
pub(super) fn below(point: &Path) -> Vec<Entry> {
    read().into_iter().filter(|entry| entry.point.starts_with(point)).collect()
}

/// The mounts at a place, the visible one last.
pub(super) fn stack(point: &Path) -> Vec<Entry> {
    read().into_iter().filter(|entry| entry.point == point).collect()
}

/// Where this image or device, or a part of it, is mounted through FUSE, if the mount table says so: a mount with
/// another name (`fsname`) is not found.
pub fn mounted_at(source: &Path) -> Option<PathBuf> {
    let source = Bytes::of(&source.canonicalize().ok()?);
    let of = |Entry { source, .. }: &Entry, known| if known { Bytes::of(source) } else { Bytes::whole(source) };
    let is_it = |entry: &Entry| entry.kind.starts_with("fuse") && of(entry, entry.has_known_source()).overlap(&source);
    read().into_iter().find(is_it).map(|entry| entry.point)
}

/// Bytes of a file or device, whatever the name by which they are reached.
#[derive(Debug, PartialEq, Eq)]
struct Bytes {
    path: PathBuf,
    range: Range<u64>,
}

impl Bytes {
    /// Those that a source in the table stands for: of a loop device, or its partition, those of the file behind it.
    fn of(source: &Path) -> Self {
        let device = std::fs::metadata(source).ok().filter(|meta| meta.file_type().is_block_device());
        match device.and_then(|meta| Backing::of(meta.rdev())) {
            Some(Backing { path, start, len }) => Bytes { path, range: start..start.saturating_add(len) },
            None => Self::whole(source),
        }
    }

    /// All of what has this name, without a look at it.
    fn whole(source: &Path) -> Self {
        Bytes { path: source.to_owned(), range: 0..u64::MAX }
    }

    fn overlap(&self, other: &Self) -> bool {
        let start = self.range.start.max(other.range.start);
        self.path == other.path && start < self.range.end.min(other.range.end)
    }
}

/// The visible mount at a place.
pub(super) fn at(point: &Path) -> Option<Entry> {
    stack(point).pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - fuse.steadyfs /dev/a\134b rw,errors=continue";
        let entry = parse(line).unwrap();
        assert_eq!((entry.device.as_str(), entry.kind.as_str()), ("98:0", "fuse.steadyfs"));
        assert_eq!((entry.point, entry.source), (PathBuf::from("/mnt 2"), PathBuf::from(r"/dev/a\b")));
        assert_eq!(entry.owner, None);
        let line = br"9 3 0:8 / /mnt rw - fuse.steadyfs user_id=7 rw,xuser_id=8,user_id=65534,group_id=1";
        assert_eq!(parse(line).unwrap().owner, Some(65534));
        let line = b"22 1 0:5 / /proc rw shared:5 master:2 - proc proc rw";
        assert_eq!(parse(line).unwrap().point, PathBuf::from("/proc"));
        for bad in [&b""[..], b"1 2 3", b"36 35 98:0 / /x rw master:1", b"1 2 0:1 / /x rw -"] {
            assert_eq!(parse(bad), None);
        }
        assert_eq!(unescape(br"\9\0"), PathBuf::from(r"\9\0"));
    }

    #[test]
    fn the_same_bytes_are_found_under_two_names() {
        let part = |path: &str, range: Range<u64>| Bytes { path: path.into(), range };
        assert!(part("/a", 0..u64::MAX).overlap(&part("/a", 10..20)));
        assert!(part("/a", 10..20).overlap(&part("/a", 19..30)));
        assert!(!part("/a", 10..20).overlap(&part("/a", 20..30)));
        assert!(!part("/a", 10..20).overlap(&part("/b", 10..20)));
    }

    #[test]
    fn the_system_has_a_table() {
        assert!(at(Path::new("/proc")).is_some_and(|entry| entry.kind == "proc"));
        assert_eq!(at(Path::new("/proc/self")), None);
    }
}
