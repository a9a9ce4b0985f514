//! Copying trees between a volume, the host and tar streams.
//!
//! A [`Source`] walks its tree, parents before children, and hands each entry to a [`Sink`]. Host directories, volumes
//! and tar streams each are a source, a sink or both; a command picks one of each. Paths are bytes relative to the top
//! of the copy, parts joined by `/`; the empty path is the top itself.
//!
//! Kept true: owners, modes, times, xattrs, hard links, holes and special files survive the way where both ends can
//! hold them; what one cannot hold is noted for the user ([`Notes`]), never dropped in silence.

pub(crate) mod host;
pub(crate) mod host_dir;
pub(crate) mod host_sink;
mod lists;
mod pax;
mod progress;
mod tar_extra;
pub(crate) mod tar_sink;
pub(crate) mod tar_source;
pub(crate) mod volume_sink;
pub(crate) mod volume_source;

use std::ops::Range;

use crate::failure::{Failure, reason};
pub(crate) use progress::Progress;
// Under names that do not clash with those of the system calls.
pub(crate) use steadyfs::path::split;
pub(crate) use steadyfs_format::dir::FileType as Kind;
pub(crate) use steadyfs_format::inode::{DeviceNumber, Time};
use steadyfs_format::quote::quote;

/// Contents move in pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// Holes are looked for in units of a block.
const BLOCK: usize = 4096;

/// Names and values.
pub(crate) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// What a copy carries of an inode besides its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) kind: Kind,
    /// Permission bits with setuid, setgid and sticky: the low 12 bits of the mode.
    pub(crate) perm: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The device of a device file, else 0, 0.
    pub(crate) rdev: DeviceNumber,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    /// Full names (`user.x`) and values as the Linux system calls give them.
    pub(crate) xattrs: Xattrs,
}

impl Meta {
    /// Root's, with no times and no xattrs.
    pub(crate) fn plain(kind: Kind, perm: u32) -> Self {
        let (atime, mtime) = (Time::default(), Time::default());
        Meta { kind, perm, uid: 0, gid: 0, rdev: DeviceNumber::default(), atime, mtime, xattrs: Vec::new() }
    }
}

/// The part of an entry that depends on its kind.
pub(crate) enum Body<'a> {
    Directory,
    /// A directory that the source implies but does not describe: made if missing, else left as it is.
    Parent,
    File(&'a mut dyn Content),
    Symlink(Vec<u8>),
    /// A device, fifo or socket: there is nothing but the metadata.
    Special,
    /// Another name of the entry that was copied to this path.
    HardLink(Vec<u8>),
}

/// One name of the tree.
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) meta: &'a Meta,
    pub(crate) body: Body<'a>,
}

/// The contents of a regular file; read once, from the front.
pub(crate) trait Content {
    /// Length in bytes, holes included.
    fn size(&self) -> u64;

    /// Where data is, ascending; everything else reads as zeros. `None` if the source does not know its holes.
    fn extents(&mut self) -> Result<Option<Vec<Range<u64>>>, Failure>;

    /// Reads into all of `buf` unless the end comes first; the offsets of successive calls ascend. Gives the bytes
    /// read.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, Failure>;
}

/// Where a tree goes.
pub(crate) trait Sink {
    /// Makes one entry; its parent has been made before.
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure>;

    /// Does what has to wait until all entries are there.
    fn finish(&mut self, job: &mut Job) -> Result<(), Failure>;
}

/// Where a tree comes from.
pub(crate) trait Source {
    /// Hands every entry to `sink`, parents first.
    fn send(&mut self, sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure>;
}

/// Copies the whole of `source`.
pub(crate) fn copy(source: &mut dyn Source, sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure> {
    source.send(&mut Counting(&mut *sink), job)?;
    sink.finish(job)?;
    job.progress.finish();
    Ok(())
}

/// What one copy reports: progress while it runs, what was copied, and what could not be kept.
pub(crate) struct Job {
    pub(crate) progress: Progress,
    pub(crate) notes: Notes,
    pub(crate) copied: Copied,
    /// Whether each name is told.
    names: bool,
}

impl Job {
    pub(crate) fn new(progress: Progress) -> Self {
        Job { progress, notes: Notes::default(), copied: Copied::default(), names: false }
    }

    /// Tells each name that is copied, if `names`.
    pub(crate) fn telling(self, names: bool) -> Self {
        Job { names, ..self }
    }
}

/// Counts of copied files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Names of the tree, without those that were left out before a sink saw them.
    pub(crate) entries: u64,
    /// Lengths of their files, holes included.
    pub(crate) bytes: u64,
}

/// A sink that counts what the one behind it takes.
struct Counting<'a>(&'a mut dyn Sink);

impl Sink for Counting<'_> {
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        let bytes = match &entry.body {
            Body::Parent => return self.0.entry(entry, job),
            Body::File(content) => content.size(),
            _ => 0,
        };
        let path = entry.path.to_vec();
        self.0.entry(entry, job)?;
        job.copied.entries += 1;
        job.copied.bytes += bytes;
        if job.names {
            job.progress.line(&show(&path));
        }
        Ok(())
    }

    fn finish(&mut self, job: &mut Job) -> Result<(), Failure> {
        self.0.finish(job)
    }
}

/// What could not be kept, one line each on stderr.
#[derive(Default)]
pub(crate) struct Notes {
    count: u64,
}

impl Notes {
    /// Tells the user that something of `path` was left out, and why.
    pub(crate) fn add(&mut self, progress: &Progress, path: &[u8], what: &str, why: impl std::fmt::Display) {
        self.count += 1;
        progress.line(&format!("steadyfs: {}: {what}: {}", show(path), reason(why)));
    }

    /// How many things were left out.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// Takes bytes at an offset.
type WriteAt<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Failure> + 'a;

/// Feeds the data of `content` to `write` as (offset, bytes), without its holes. Where the source does not know its
/// holes, blocks of zeros become holes.
pub(crate) fn for_each_piece(
    content: &mut dyn Content,
    progress: &Progress,
    write: &mut WriteAt<'_>,
) -> Result<(), Failure> {
    let known = content.extents()?;
    let seek_holes = known.is_none();
    let whole = || std::iter::once(0..content.size()).collect();
    let mut buf = vec![0; PIECE.min(content.size().try_into().unwrap_or(PIECE))];
    for extent in known.unwrap_or_else(whole) {
        let mut at = extent.start;
        while at < extent.end {
            progress.check()?;
            let want = buf.len().min((extent.end - at).try_into().unwrap_or(PIECE));
            let got = content.read_at(at, &mut buf[..want])?;
            if got == 0 {
                break; // the file has become shorter; the rest reads as zeros
            }
            if seek_holes {
                write_without_zeros(at, &buf[..got], write)?
            } else {
                write(at, &buf[..got])?
            }
            progress.advance(got as u64);
            at += got as u64;
        }
    }
    Ok(())
}

/// Writes runs of blocks that hold anything but zeros.
fn write_without_zeros(offset: u64, data: &[u8], write: &mut WriteAt<'_>) -> Result<(), Failure> {
    let mut start = 0;
    for (i, block) in data.chunks(BLOCK).enumerate() {
        if block.iter().all(|b| *b == 0) {
            let here = i * BLOCK;
            if start < here {
                write(offset + start as u64, &data[start..here])?;
            }
            start = here + block.len();
        }
    }
    if start < data.len() { write(offset + start as u64, &data[start..]) } else { Ok(()) }
}

/// Joins a directory's path and a name.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match (dir, name) {
        ([], _) => name.to_vec(),
        (_, []) => dir.to_vec(),
        _ => [dir, b"/", name].concat(),
    }
}

/// A path for a message.
pub(crate) fn show(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { quote(path).to_string() }
}

#[cfg(test)]
mod tests;
