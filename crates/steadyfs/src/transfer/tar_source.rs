//! A tar stream as a source: ustar, pax and GNU headers, long names, xattrs, lists, and sparse files in all formats of
//! GNU tar.
//!
//! What headers say of a member is read in `tar_extra`. A member that says what no volume can hold is left out with a
//! word; a stream that is not made as it should be is an error. The stream is read strictly forward, so it may be a
//! pipe. Nothing in it is trusted: sizes are bounded before memory is taken, and paths with `..` are refused.

use std::collections::HashSet;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

use steadyfs_format::dir::is_valid_name;

use super::lists::Names;
use super::pax::{self, RECORD, damaged};
use super::tar_extra::{Dropped, Extra, Reader, header_number};
use super::{Body, Content, Entry, Job, Kind, Meta, Sink, Source, show, split};
use crate::failure::Failure;

/// No pax header or long name is larger; the kernel's limits (path, all xattrs of an inode) are far below.
const MAX_EXTENSION: u64 = 1 << 24;

/// Sun's type of an extended header.
const SUN_HEADER: u8 = b'X';
/// GNU's type of an archive's name.
const GNU_LABEL: u8 = b'V';
/// GNU's type of a directory whose data is the list of its names.
const GNU_DIRECTORY: u8 = b'D';

/// Reads a tar stream.
pub(crate) struct TarSource<R> {
    input: R,
    /// Bytes of the current member that are still in the stream, padding included.
    left: u64,
    /// Directories that the sink has.
    made: HashSet<Vec<u8>>,
    reader: Reader,
}

impl<R: Read> Source for TarSource<R> {
    fn send(&mut self, sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure> {
        // Of all members from now on, and of the next.
        let (mut global, mut extra) = (Extra::default(), Extra::default());
        while let Some(header) = self.next_header()? {
            let size = header_number(&header.as_old().size)
                .and_then(|n| u64::try_from(n).ok())
                .ok_or_else(|| damaged("a size"))?;
            match header.entry_type() {
                kind if kind.is_pax_local_extensions() || kind.as_byte() == SUN_HEADER => {
                    let data = self.extension(size)?;
                    extra.take_pax(&data, &mut self.reader)?;
                }
                EntryType::XGlobalHeader => {
                    let data = self.extension(size)?;
                    global.take_pax(&data, &mut self.reader)?;
                    extra = global.clone();
                }
                EntryType::GNULongName => extra.path = Some(without_nul(self.extension(size)?)),
                EntryType::GNULongLink => extra.link = Some(without_nul(self.extension(size)?)),
                // The name of the archive.
                kind if kind.as_byte() == GNU_LABEL => self.begin(size)?,
                _ => {
                    let extra = std::mem::replace(&mut extra, global.clone());
                    self.member(&header, size, extra, sink, job)?;
                }
            }
        }
        self.reader.dropped.tell(job);
        Ok(())
    }
}

impl<R: Read> TarSource<R> {
    pub(crate) fn new(input: R) -> Self {
        let reader = Reader { names: Names::of(Path::new("/etc")), dropped: Dropped::default() };
        TarSource { input, left: 0, made: HashSet::from([Vec::new()]), reader }
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<(), Failure> {
        self.input.read_exact(buf).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Failure::new(
                "cannot read the tar stream",
                "it ends in the middle of a member",
                "make the archive again",
            ),
            _ => Failure::new("cannot read the tar stream", e, "check where it comes from"),
        })
    }

    /// Notes that `size` bytes of the member follow.
    fn begin(&mut self, size: u64) -> Result<(), Failure> {
        self.left = size.checked_next_multiple_of(RECORD as u64).ok_or_else(|| damaged("a size"))?;
        Ok(())
    }

    fn skip_rest(&mut self) -> Result<(), Failure> {
        let mut buf = [0; RECORD * 8];
        while self.left > 0 {
            let step = self.left.min(buf.len() as u64);
            self.read(&mut buf[..step as usize])?;
            self.left -= step;
        }
        Ok(())
    }

    /// The next header; `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<Header>, Failure> {
        self.skip_rest()?;
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        // An archive may end without its two blocks of zeros, but not within a block.
        let mut first = [0];
        let got = self
            .input
            .read(&mut first)
            .map_err(|e| Failure::new("cannot read the tar stream", e, "check where it comes from"))?;
        if got == 0 {
            return Ok(None);
        }
        block[0] = first[0];
        self.read(&mut block[1..])?;
        if header.as_bytes().iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let bytes = header.as_bytes();
        let sum = bytes[..148].iter().chain(&bytes[156..]).map(|b| i64::from(*b)).sum::<i64>() + 8 * i64::from(b' ');
        if header_number(&header.as_old().cksum) != Some(sum) {
            return Err(damaged("the checksum of a header"));
        }
        Ok(Some(header))
    }

    /// The data of a pax header or a long name.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        if size > MAX_EXTENSION {
            return Err(damaged("the size of an extended header"));
        }
        self.begin(size)?;
        let mut data = vec![0; size as usize];
        self.read(&mut data)?;
        self.left -= size;
        Ok(data)
    }

    fn member(
        &mut self,
        header: &Header,
        size: u64,
        mut extra: Extra,
        sink: &mut dyn Sink,
        job: &mut Job,
    ) -> Result<(), Failure> {
        let raw_path = extra.path(header);
        let path = clean(&raw_path)?;
        job.progress.at(&path);
        let found = kind(header, &raw_path).ok_or_else(|| "a kind of member that is not known here".to_owned());
        let found = found.and_then(|kind| Ok((kind, extra.meta(header, kind)?)));
        let encoded = |key: &String| format!("its contents are in a form ({key}) that is not known here");
        let (kind, mut meta) = match (found, &extra.encoded) {
            (Ok(found), None) => found,
            (Ok(_), Some(key)) => return self.leave_out(&path, extra.size.unwrap_or(size), &encoded(key), job),
            (Err(why), _) => return self.leave_out(&path, extra.size.unwrap_or(size), &why, job),
        };
        for (what, why) in &extra.complaints {
            job.notes.add(&job.progress, &path, what, why);
        }
        self.parents(&path, sink, job)?;
        let link = || extra.link.clone().unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned());
        if header.entry_type().is_hard_link() {
            let first = clean(&link())?;
            return sink.entry(Entry { path: &path, meta: &meta, body: Body::HardLink(first) }, job);
        }
        match kind {
            Kind::Regular => self.file(&path, header, extra.size.unwrap_or(size), &extra, &meta, sink, job),
            Kind::Dir => {
                if header.entry_type().as_byte() == GNU_DIRECTORY {
                    self.begin(extra.size.unwrap_or(size))?;
                }
                self.made.insert(path.clone());
                sink.entry(Entry { path: &path, meta: &meta, body: Body::Directory }, job)
            }
            Kind::Symlink => {
                let target = link();
                meta.perm = 0o777;
                sink.entry(Entry { path: &path, meta: &meta, body: Body::Symlink(target) }, job)
            }
            _ => sink.entry(Entry { path: &path, meta: &meta, body: Body::Special }, job),
        }
    }

    /// Tells that a member is left out, and passes over its data.
    fn leave_out(&mut self, path: &[u8], size: u64, why: &str, job: &mut Job) -> Result<(), Failure> {
        job.notes.add(&job.progress, path, "left out", why);
        self.begin(size)
    }

    /// Makes the directories above `path` that the archive does not describe.
    fn parents(&mut self, path: &[u8], sink: &mut dyn Sink, job: &mut Job) -> Result<(), Failure> {
        let (parent, _) = split(path);
        if self.made.contains(parent) {
            return Ok(());
        }
        let ends = parent.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| i).chain([parent.len()]);
        for end in ends {
            if self.made.insert(parent[..end].to_vec()) {
                let meta = Meta::plain(Kind::Dir, 0o755);
                sink.entry(Entry { path: &parent[..end], meta: &meta, body: Body::Parent }, job)?;
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one call, all of it the member's")]
    fn file(
        &mut self,
        path: &[u8],
        header: &Header,
        stored: u64,
        extra: &Extra,
        meta: &Meta,
        sink: &mut dyn Sink,
        job: &mut Job,
    ) -> Result<(), Failure> {
        let old = if header.entry_type().is_gnu_sparse() { Some(self.old_sparse(header)?) } else { None };
        self.begin(stored)?;
        let sparse = match (old, extra.sparse_version()) {
            (Some(sparse), _) => Some(sparse),
            (None, Some((0, _))) => {
                let size = extra.real_size.unwrap_or(0);
                Some((size, extra.sparse_pieces(size).ok_or_else(|| damaged("the map of a sparse file"))?))
            }
            (None, Some((1, 0))) => Some(self.pax_sparse(extra.real_size.unwrap_or(0))?),
            (None, None) => None,
            (None, Some((major, minor))) => {
                let why = format!("its sparse format ({major}.{minor}) is not known here");
                return Err(Failure::new(
                    format!("cannot read {} from the tar stream", show(path)),
                    why,
                    "use tar --sparse-version=1.0",
                ));
            }
        };
        let mut content = match sparse {
            Some((size, extents)) => TarContent { size, extents: Some(extents), source: self },
            None => TarContent { size: stored, extents: None, source: self },
        };
        sink.entry(Entry { path, meta, body: Body::File(&mut content) }, job)
    }

    /// The map of a sparse file in GNU's old format: in the header and in the blocks that follow it.
    fn old_sparse(&mut self, header: &Header) -> Result<(u64, Vec<Range<u64>>), Failure> {
        let gnu = header.as_gnu().ok_or_else(|| damaged("a sparse file"))?;
        let size = gnu.real_size().map_err(|_| damaged("a sparse file"))?;
        let mut extents = Vec::new();
        add_pieces(&mut extents, &gnu.sparse, size)?;
        let mut more = gnu.isextended[0] == 1;
        while more {
            let mut block = GnuExtSparseHeader::new();
            self.read(block.as_mut_bytes())?;
            add_pieces(&mut extents, &block.sparse, size)?;
            more = block.isextended[0] == 1;
        }
        Ok((size, extents))
    }

    /// The map of a sparse file in pax format 1.0: at the head of its data.
    fn pax_sparse(&mut self, size: u64) -> Result<(u64, Vec<Range<u64>>), Failure> {
        let mut failure = None;
        let map = pax::read_sparse_map(size, || {
            let mut record = [0; RECORD];
            if self.left < RECORD as u64 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(e) = self.read(&mut record) {
                failure = Some(e);
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.left -= RECORD as u64;
            Ok(record)
        });
        match (failure, map) {
            (Some(failure), _) => Err(failure),
            (None, Ok(Some(extents))) => Ok((size, extents)),
            (None, _) => Err(damaged("the map of a sparse file")),
        }
    }
}

/// The contents of the current member.
struct TarContent<'a, R> {
    size: u64,
    extents: Option<Vec<Range<u64>>>,
    source: &'a mut TarSource<R>,
}

impl<R: Read> Content for TarContent<'_, R> {
    fn size(&self) -> u64 {
        self.size
    }

    fn extents(&mut self) -> Result<Option<Vec<Range<u64>>>, Failure> {
        Ok(self.extents.clone())
    }

    /// The stream holds the data without its holes, so ascending offsets are consecutive in it.
    fn read_at(&mut self, _offset: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        if buf.len() as u64 > self.source.left {
            return Err(damaged("the size of a sparse file"));
        }
        self.source.read(buf)?;
        self.source.left -= buf.len() as u64;
        Ok(buf.len())
    }
}

fn kind(header: &Header, path: &[u8]) -> Option<Kind> {
    Some(match header.entry_type() {
        // Before ustar a directory was a file whose name ends with a slash.
        EntryType::Regular if path.ends_with(b"/") => Kind::Dir,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse | EntryType::Link => Kind::Regular,
        EntryType::Directory => Kind::Dir,
        other if other.as_byte() == GNU_DIRECTORY => Kind::Dir,
        EntryType::Symlink => Kind::Symlink,
        EntryType::Char => Kind::CharDevice,
        EntryType::Block => Kind::BlockDevice,
        EntryType::Fifo => Kind::Fifo,
        _ => return None,
    })
}

fn add_pieces(extents: &mut Vec<Range<u64>>, pieces: &[GnuSparseHeader], size: u64) -> Result<(), Failure> {
    for piece in pieces.iter().filter(|p| !p.is_empty()) {
        let (Ok(offset), Ok(length)) = (piece.offset(), piece.length()) else {
            return Err(damaged("the map of a sparse file"));
        };
        let after = extents.last().map_or(0, |last| last.end);
        match offset.checked_add(length) {
            Some(end) if offset >= after && end <= size => {
                if length > 0 {
                    extents.push(offset..end);
                }
            }
            _ => return Err(damaged("the map of a sparse file")),
        }
    }
    Ok(())
}

/// A path below the top: without leading `/` and `./`, and never with `..`.
fn clean(path: &[u8]) -> Result<Vec<u8>, Failure> {
    let parts: Vec<&[u8]> = path.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.iter().all(|part| is_valid_name(part)) {
        return Ok(parts.join(&b'/'));
    }
    let what = format!("refused {} from the tar stream", show(path));
    Err(Failure::new(what, "its path leads outside", "make the archive again without `..` in paths"))
}

fn without_nul(mut name: Vec<u8>) -> Vec<u8> {
    while name.last() == Some(&0) {
        name.pop();
    }
    name
}
