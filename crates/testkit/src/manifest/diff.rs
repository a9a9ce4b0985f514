//! What differs between two manifests, in words that a person can act on.

use std::fmt;

use super::{Entry, Kind, Manifest};

/// Differences that are printed; of the others only the number.
const SHOWN: usize = 40;

/// Which properties count. Names, types, modes, owners, targets, devices, contents and link groups always do, as do
/// sizes of everything that is no directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// Modification times.
    pub mtime: bool,
    /// Access times (where both manifests have them; so also below).
    pub atime: bool,
    /// Change times.
    pub ctime: bool,
    /// Creation times.
    pub crtime: bool,
    /// Times of modification and change of directories, which recovery after a crash sets when it makes a name again.
    pub dir_times: bool,
    /// Link counts of directories, which some file systems do not count.
    pub dir_nlink: bool,
    /// Sizes of directories, which every file system defines as it likes.
    pub dir_size: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Allocated space.
    pub blocks: bool,
    /// The map of data and holes.
    pub data: bool,
    /// Inode flags.
    pub flags: bool,
    /// Attributes that do not count, by the beginning of their name.
    pub ignored_xattrs: Vec<String>,
}

impl Fields {
    /// Everything: two views of one volume, both F2FS.
    pub fn all() -> Self {
        Self {
            mtime: true,
            atime: true,
            ctime: true,
            crtime: true,
            dir_times: true,
            dir_nlink: true,
            dir_size: true,
            xattrs: true,
            blocks: true,
            data: true,
            flags: true,
            ignored_xattrs: Vec::new(),
        }
    }

    /// What a faithful copy of a tree on another file system has in common with it.
    pub fn portable() -> Self {
        Self {
            mtime: true,
            atime: false,
            ctime: false,
            crtime: false,
            dir_times: true,
            dir_nlink: false,
            dir_size: false,
            xattrs: true,
            blocks: false,
            data: false,
            flags: false,
            ignored_xattrs: Vec::new(),
        }
    }
}

/// The differences between two manifests, one line each. Empty if they agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// `path: property: left != right`.
    pub lines: Vec<String>,
}

impl Diff {
    /// Whether the manifests agree.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(f, "no differences");
        }
        writeln!(f, "{} differences (left != right):", self.lines.len())?;
        for line in self.lines.iter().take(SHOWN) {
            writeln!(f, "  {line}")?;
        }
        match self.lines.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

impl Manifest {
    /// What differs between this manifest (left) and another (right).
    pub fn diff(&self, right: &Manifest, fields: &Fields) -> Diff {
        let mut lines = Vec::new();
        for (path, entry) in &self.entries {
            match right.entries.get(path) {
                Some(other) => compare(path, entry, other, fields, &mut lines),
                None => lines.push(format!("{path}: only on the left ({:?})", entry.kind)),
            }
        }
        for (path, entry) in &right.entries {
            if !self.entries.contains_key(path) {
                lines.push(format!("{path}: only on the right ({:?})", entry.kind));
            }
        }
        Diff { lines }
    }

    /// Panics with the differences if there are any.
    #[track_caller]
    pub fn assert_same(&self, right: &Manifest, fields: &Fields) {
        let diff = self.diff(right, fields);
        assert!(diff.is_empty(), "{diff}");
    }
}

fn compare(path: &str, a: &Entry, b: &Entry, fields: &Fields, lines: &mut Vec<String>) {
    let mut differ = |name: &str, a: &dyn fmt::Debug, b: &dyn fmt::Debug| {
        lines.push(format!("{path}: {name}: {a:?} != {b:?}"));
    };
    macro_rules! check {
        ($name:literal, $a:expr, $b:expr) => {
            if $a != $b {
                differ($name, &$a, &$b);
            }
        };
    }
    check!("kind", a.kind, b.kind);
    if a.mode != b.mode {
        differ("mode", &format_args!("{:04o}", a.mode), &format_args!("{:04o}", b.mode));
    }
    check!("uid", a.uid, b.uid);
    check!("gid", a.gid, b.gid);
    check!("rdev", a.rdev, b.rdev);
    check!("target", a.target, b.target);
    check!("digest", a.digest, b.digest);
    check!("same_as", a.same_as, b.same_as);
    let dirs = a.kind == Kind::Dir && b.kind == Kind::Dir;
    if !dirs || fields.dir_nlink {
        check!("nlink", a.nlink, b.nlink);
    }
    if !dirs || fields.dir_size {
        check!("size", a.size, b.size);
    }
    let times = !dirs || fields.dir_times;
    if fields.mtime && times && a.mtime != b.mtime {
        differ("mtime", &format_args!("{}", a.mtime), &format_args!("{}", b.mtime));
    }
    optional("atime", fields.atime, &a.atime, &b.atime, &mut differ);
    optional("ctime", fields.ctime && times, &a.ctime, &b.ctime, &mut differ);
    optional("crtime", fields.crtime, &a.crtime, &b.crtime, &mut differ);
    optional("blocks", fields.blocks, &a.blocks, &b.blocks, &mut differ);
    optional("data", fields.data, &a.data, &b.data, &mut differ);
    optional("flags", fields.flags, &a.flags, &b.flags, &mut differ);
    if fields.xattrs {
        let ignored = |name: &str| fields.ignored_xattrs.iter().any(|prefix| name.starts_with(prefix.as_str()));
        for name in a.xattrs.keys().chain(b.xattrs.keys().filter(|n| !a.xattrs.contains_key(*n))) {
            if a.xattrs.get(name) != b.xattrs.get(name) && !ignored(name) {
                differ(&format!("xattr {name}"), &a.xattrs.get(name), &b.xattrs.get(name));
            }
        }
    }
}

/// Compares what only one of the manifests may have recorded.
fn optional<T: PartialEq + fmt::Debug>(
    name: &str,
    wanted: bool,
    a: &Option<T>,
    b: &Option<T>,
    differ: &mut impl FnMut(&str, &dyn fmt::Debug, &dyn fmt::Debug),
) {
    if let (true, Some(a), Some(b)) = (wanted, a, b)
        && a != b
    {
        differ(name, a, b);
    }
}
