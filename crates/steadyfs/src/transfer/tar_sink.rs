//! A tar stream as a destination: ustar headers, with pax records for everything that does not fit in them.
//!
//! Sparse files are written in GNU's pax format 1.0. Sockets cannot be stored in a tar file and are noted.

use std::io::Write;
use std::ops::Range;

use steadyfs_format::xattr::Acl;
use tar::{EntryType, Header};

use super::lists;
use super::pax::{self, RECORD};
use super::tar_extra::{LISTS, SELINUX, SELINUX_XATTR};
use super::{Body, Content, Entry, Job, Kind, Meta, Sink};
use crate::failure::Failure;

/// The name field of a header.
const NAME: usize = 100;
/// Largest values of the numeric fields: 7 and 11 octal digits.
const MAX_ID: u32 = 0o777_7777;
const MAX_LONG: u64 = 0o777_7777_7777;

/// Writes a tar stream.
pub(crate) struct TarSink<W> {
    out: W,
}

impl<W: Write> TarSink<W> {
    pub(crate) fn new(out: W) -> Self {
        TarSink { out }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|e| Failure::output(&e))
    }

    fn pad(&mut self, written: u64) -> Result<(), Failure> {
        let rest = written.next_multiple_of(RECORD as u64) - written;
        self.write(&[0; RECORD][..rest as usize])
    }

    /// Writes the header of an entry, after a pax header if one is needed.
    fn header(&mut self, fields: &Fields<'_>) -> Result<(), Failure> {
        let records = fields.records();
        if !records.is_empty() {
            let size = records.len() as u64;
            self.write(raw_header(b"PaxHeaders/entry", &[], EntryType::XHeader, size, None).as_bytes())?;
            self.write(&records)?;
            self.pad(size)?;
        }
        self.write(raw_header(&fields.name, &fields.link, fields.kind, fields.size, Some(fields.meta)).as_bytes())
    }

    fn file(&mut self, mut fields: Fields<'_>, content: &mut dyn Content, job: &Job) -> Result<(), Failure> {
        let real = content.size();
        let extents = content.extents()?.unwrap_or_else(|| std::iter::once(0..real).collect());
        let data: u64 = extents.iter().map(|e| e.end - e.start).sum();
        let map = if data < real { pax::sparse_map(&extents, real) } else { Vec::new() };
        if !map.is_empty() {
            fields.real_size = Some(real);
        }
        fields.size = map.len() as u64 + data;
        self.header(&fields)?;
        self.write(&map)?;
        self.data(&extents, content, job)?;
        self.pad(data)
    }

    /// The bytes of all extents; what a file that was cut short meanwhile lacks is written as zeros, since the header
    /// has promised it.
    fn data(&mut self, extents: &[Range<u64>], content: &mut dyn Content, job: &Job) -> Result<(), Failure> {
        let mut buf = vec![0; super::PIECE];
        for extent in extents {
            let mut at = extent.start;
            while at < extent.end {
                let want = buf.len().min((extent.end - at).try_into().unwrap_or(usize::MAX));
                let got = content.read_at(at, &mut buf[..want])?;
                buf[got..want].fill(0);
                self.write(&buf[..want])?;
                job.progress.advance(want as u64);
                at += want as u64;
            }
        }
        Ok(())
    }
}

impl<W: Write> Sink for TarSink<W> {
    fn entry(&mut self, entry: Entry<'_>, job: &mut Job) -> Result<(), Failure> {
        let fields = Fields::new(entry.path, entry.meta);
        match entry.body {
            Body::File(content) => self.file(fields, content, job),
            Body::Symlink(target) => self.header(&Fields { link: target, ..fields }),
            Body::HardLink(first) => self.header(&Fields { link: first, kind: EntryType::Link, ..fields }),
            Body::Special if entry.meta.kind == Kind::Socket => {
                job.notes.add(&job.progress, entry.path, "left out", "a tar file cannot hold sockets");
                Ok(())
            }
            Body::Directory | Body::Parent | Body::Special => self.header(&fields),
        }
    }

    fn finish(&mut self, _job: &mut Job) -> Result<(), Failure> {
        self.write(&[0; 2 * RECORD])?;
        self.out.flush().map_err(|e| Failure::output(&e))
    }
}

/// What a header and its pax records say.
struct Fields<'a> {
    /// Path in the archive; a directory's ends with `/`.
    name: Vec<u8>,
    link: Vec<u8>,
    kind: EntryType,
    meta: &'a Meta,
    /// Bytes that follow the header.
    size: u64,
    /// Length of a sparse file.
    real_size: Option<u64>,
}

impl<'a> Fields<'a> {
    fn new(path: &[u8], meta: &'a Meta) -> Self {
        let (kind, suffix): (_, &[u8]) = match meta.kind {
            Kind::Dir if path.is_empty() => (EntryType::Directory, b"./"),
            Kind::Dir => (EntryType::Directory, b"/"),
            Kind::Symlink => (EntryType::Symlink, b""),
            Kind::CharDevice => (EntryType::Char, b""),
            Kind::BlockDevice => (EntryType::Block, b""),
            Kind::Fifo => (EntryType::Fifo, b""),
            Kind::Regular | Kind::Socket => (EntryType::Regular, b""),
        };
        Fields { name: [path, suffix].concat(), link: Vec::new(), kind, meta, size: 0, real_size: None }
    }

    /// The pax records for what the header cannot say.
    fn records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |key: &str, value: &[u8]| pax::push(&mut out, key.as_bytes(), value);
        if let Some(real) = self.real_size {
            put("GNU.sparse.major", b"1");
            put("GNU.sparse.minor", b"0");
            put("GNU.sparse.name", &self.name);
            put("GNU.sparse.realsize", real.to_string().as_bytes());
        } else if self.name.len() > NAME {
            put("path", &self.name);
        }
        if self.link.len() > NAME {
            put("linkpath", &self.link);
        }
        if self.size > MAX_LONG {
            put("size", self.size.to_string().as_bytes());
        }
        for (key, id) in [("uid", self.meta.uid), ("gid", self.meta.gid)] {
            if id > MAX_ID {
                put(key, id.to_string().as_bytes());
            }
        }
        let mtime = self.meta.mtime;
        if mtime.nanos != 0 || !(0..=MAX_LONG as i64).contains(&mtime.secs) {
            put("mtime", pax::decimal(mtime).as_bytes());
        }
        put("atime", pax::decimal(self.meta.atime).as_bytes());
        for (name, value) in &self.meta.xattrs {
            // Readers take a list as text only.
            let text = LISTS.iter().find(|(_, list)| list == name).zip(Acl::from_call(value).ok());
            match text {
                Some(((key, _), acl)) => pax::push(&mut out, key, lists::write(&acl).as_bytes()),
                None => pax::push(&mut out, &pax::xattr_key(name), value),
            }
            if name == SELINUX_XATTR {
                // GNU tar reads it here, and bsdtar above.
                pax::push(&mut out, SELINUX, value.strip_suffix(b"\0").unwrap_or(value));
            }
        }
        out
    }
}

/// A ustar header; values that do not fit are cut, their pax records overrule them.
fn raw_header(name: &[u8], link: &[u8], kind: EntryType, size: u64, meta: Option<&Meta>) -> Header {
    let mut header = Header::new_ustar();
    let old = header.as_old_mut();
    old.name[..name.len().min(NAME)].copy_from_slice(&name[..name.len().min(NAME)]);
    old.linkname[..link.len().min(NAME)].copy_from_slice(&link[..link.len().min(NAME)]);
    header.set_entry_type(kind);
    header.set_size(size.min(MAX_LONG));
    header.set_mode(meta.map_or(0o644, |m| m.perm));
    header.set_uid(meta.map_or(0, |m| m.uid.min(MAX_ID)).into());
    header.set_gid(meta.map_or(0, |m| m.gid.min(MAX_ID)).into());
    header.set_mtime(meta.map_or(0, |m| m.mtime.secs.clamp(0, MAX_LONG as i64) as u64));
    if let Some(ustar) = header.as_ustar_mut() {
        let rdev = meta.map(|m| m.rdev).unwrap_or_default();
        // Seven octal digits are more than Linux' device numbers have.
        ustar.set_device_major(rdev.major);
        ustar.set_device_minor(rdev.minor);
    }
    header.set_cksum();
    header
}
