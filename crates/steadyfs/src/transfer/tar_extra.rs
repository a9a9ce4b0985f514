//! What extended headers and the header itself say about a member of a tar stream.
//!
//! Kept true: what gives rights (owners, modes, lists, device numbers, attributes) is taken as it is, or the member or
//! the list is refused with a word; nothing of it becomes a default. Keys that mean nothing to a volume are counted by
//! name ([`Dropped`]), but for those that say something about the place where the file was.

use std::collections::BTreeMap;
use std::ops::Range;

use tar::Header;

use super::lists::{self, Names};
use super::pax::{self, damaged};
use super::{DeviceNumber, Job, Kind, Meta, Time, Xattrs, show};
use crate::failure::Failure;

/// What SELinux calls a file, as GNU tar writes it.
pub(super) const SELINUX: &[u8] = b"RHT.security.selinux";
/// The attribute that holds it. Its value ends with a NUL, that of the key does not.
pub(super) const SELINUX_XATTR: &[u8] = b"security.selinux";
/// Keys of lists as text, and the attributes that hold them.
pub(super) const LISTS: [(&[u8], &[u8]); 2] =
    [(b"SCHILY.acl.access", lists::ACCESS), (b"SCHILY.acl.default", lists::DEFAULT)];
/// The list of NFS version 4.
const NFS4_LIST: &[u8] = b"SCHILY.acl.ace";
/// Keys about the file that was archived, its names and the archive: they say nothing that a copy could keep.
const OF_THE_ORIGINAL: [&[u8]; 15] = [
    b"ctime",
    b"comment",
    b"charset",
    b"hdrcharset",
    b"uname",
    b"gname",
    b"SCHILY.dev",
    b"SCHILY.ino",
    b"SCHILY.nlink",
    b"SCHILY.filetype",
    b"SCHILY.archtype",
    b"SCHILY.release",
    b"LIBARCHIVE.symlinktype",
    b"GNU.dumpdir",
    b"GNU.volume.label",
];
/// Keys after which the contents are not what they seem.
const ENCODED: [&[u8]; 2] = [b"SUN.holesdata", b"SCHILY.realsize"];
/// The largest device number of Linux.
const MAX_DEVICE: (u64, u64) = ((1 << 12) - 1, (1 << 20) - 1);

/// Keys that were dropped, and of how many members.
#[derive(Default)]
pub(super) struct Dropped(BTreeMap<Vec<u8>, u64>);

impl Dropped {
    fn add(&mut self, key: &[u8]) {
        *self.0.entry(key.to_vec()).or_default() += 1;
    }

    /// One line for each key.
    pub(super) fn tell(&self, job: &Job) {
        for (key, count) in &self.0 {
            let key = show(key);
            job.progress.line(&format!("steadyfs: left out {key} of {count} members; a volume has no place for it"));
        }
    }
}

/// What the reader of headers knows besides them.
pub(super) struct Reader {
    pub(super) names: Names,
    pub(super) dropped: Dropped,
}

/// What extended headers say about the next member.
#[derive(Clone, Default)]
pub(super) struct Extra {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// As they stand there: they may not fit.
    uid: Option<i128>,
    gid: Option<i128>,
    device_major: Option<i128>,
    device_minor: Option<i128>,
    atime: Option<Time>,
    mtime: Option<Time>,
    xattrs: Xattrs,
    /// Lists as text, by the attribute.
    lists: Xattrs,
    /// What could not be taken of all this, and why.
    pub(super) complaints: Vec<(String, String)>,
    /// A key after which the contents are not what they seem.
    pub(super) encoded: Option<String>,
    sparse_major: Option<u64>,
    sparse_minor: Option<u64>,
    sparse_name: Option<Vec<u8>>,
    pub(super) real_size: Option<u64>,
    /// The map of GNU's formats 0.0 and 0.1, as offset, length, offset, ...
    sparse_numbers: Option<Vec<u64>>,
}

impl Extra {
    /// Takes the records of a header; later ones overrule.
    pub(super) fn take_pax(&mut self, data: &[u8], reader: &mut Reader) -> Result<(), Failure> {
        for (key, value) in pax::records(data).ok_or_else(|| damaged("a pax header"))? {
            let empty = value.is_empty();
            let bad = || damaged(&format!("the value of {} in a pax header", show(key)));
            let decimal = || pax::number(value).ok_or_else(bad);
            let unsigned = || pax::number(value).and_then(|n| u64::try_from(n).ok()).ok_or_else(bad);
            match key {
                // Without a value, what the header says counts again.
                b"path" => self.path = (!empty).then(|| value.to_vec()),
                b"linkpath" => self.link = (!empty).then(|| value.to_vec()),
                b"size" => self.size = if empty { None } else { Some(unsigned()?) },
                b"uid" => self.uid = if empty { None } else { Some(decimal()?) },
                b"gid" => self.gid = if empty { None } else { Some(decimal()?) },
                b"SCHILY.devmajor" => self.device_major = if empty { None } else { Some(decimal()?) },
                b"SCHILY.devminor" => self.device_minor = if empty { None } else { Some(decimal()?) },
                b"atime" => self.atime = if empty { None } else { Some(pax::time(value).ok_or_else(bad)?) },
                b"mtime" => self.mtime = if empty { None } else { Some(pax::time(value).ok_or_else(bad)?) },
                b"GNU.sparse.major" => self.sparse_major = Some(unsigned()?),
                b"GNU.sparse.minor" => self.sparse_minor = Some(unsigned()?),
                b"GNU.sparse.name" => self.sparse_name = Some(value.to_vec()),
                b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.real_size = Some(unsigned()?),
                b"GNU.sparse.numblocks" => {}
                b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                    self.sparse_numbers.get_or_insert_default().push(unsigned()?);
                }
                b"GNU.sparse.map" => self.sparse_numbers = Some(pax::numbers(value).ok_or_else(bad)?),
                SELINUX => {
                    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
                    self.attribute(SELINUX_XATTR.to_vec(), [&value[..end], b"\0"].concat());
                }
                NFS4_LIST => {
                    self.complain(
                        "access control list left out",
                        "it is one of NFS version 4, and a volume has no place for it",
                    );
                }
                _ => self.take_other(key, value, reader),
            }
        }
        Ok(())
    }

    fn take_other(&mut self, key: &[u8], value: &[u8], reader: &mut Reader) {
        if let Some((_, attribute)) = LISTS.iter().find(|(list, _)| *list == key) {
            self.take_list(attribute, value, reader);
        } else if let Some(name) = key.strip_prefix(pax::XATTR) {
            self.attribute(pax::xattr_name(name), value.to_vec());
        } else if let Some(name) = key.strip_prefix(pax::LIBARCHIVE_XATTR) {
            // bsdtar writes both.
            match (pax::from_url(name), pax::from_base64(value)) {
                (Some(name), Some(value)) => self.attribute(name, value),
                _ => self.complain(&format!("attribute {} left out", show(name)), "its name or value is damaged"),
            }
        } else if ENCODED.contains(&key) {
            self.encoded = Some(show(key));
        } else if !OF_THE_ORIGINAL.contains(&key) {
            reader.dropped.add(key);
        }
    }

    fn take_list(&mut self, attribute: &[u8], text: &[u8], reader: &mut Reader) {
        self.lists.retain(|(name, _)| name != attribute);
        // bsdtar says so of files that have none.
        if text.trim_ascii().is_empty() {
            return;
        }
        match lists::read(text, &mut reader.names) {
            Ok(read) => {
                for name in read.unknown {
                    let what = format!("the entry of `{name}` in an access control list left out");
                    self.complain(&what, "nobody here is called that");
                }
                self.lists.push((attribute.to_vec(), read.acl.to_call()));
            }
            Err(why) => {
                let what = match attribute {
                    lists::ACCESS => "access control list left out, and its group gets no rights",
                    _ => "default access control list left out",
                };
                self.complain(what, &why);
                // An attribute that is no list gives its group nothing.
                self.lists.push((attribute.to_vec(), Vec::new()));
            }
        }
    }

    fn complain(&mut self, what: &str, why: &str) {
        self.complaints.push((what.to_owned(), why.to_owned()));
    }

    fn attribute(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.xattrs.retain(|(known, _)| *known != name);
        self.xattrs.push((name, value));
    }

    /// The path in the archive. That of a sparse file has a key of its own, and `path` is made up.
    pub(super) fn path(&self, header: &Header) -> Vec<u8> {
        let said = self.sparse_name.as_ref().or(self.path.as_ref());
        said.cloned().unwrap_or_else(|| header.path_bytes().into_owned())
    }

    /// The version of the pax sparse format, if the member is in one.
    pub(super) fn sparse_version(&self) -> Option<(u64, u64)> {
        if self.sparse_numbers.is_some() {
            return Some((0, 1));
        }
        self.sparse_major.map(|major| (major, self.sparse_minor.unwrap_or(0)))
    }

    /// The map of a sparse file of the formats 0.0 and 0.1: the pieces ascend and end within the size.
    pub(super) fn sparse_pieces(&self, size: u64) -> Option<Vec<Range<u64>>> {
        let numbers = self.sparse_numbers.as_deref()?;
        let mut extents: Vec<Range<u64>> = Vec::new();
        for pair in numbers.chunks(2) {
            let [offset, length] = *pair else { return None };
            let (after, end) = (extents.last().map_or(0, |last| last.end), offset.checked_add(length)?);
            if offset < after || end > size {
                return None;
            }
            if length > 0 {
                extents.push(offset..end);
            }
        }
        Some(extents)
    }

    /// What the copy is to have; the error says what of it no volume can hold.
    pub(super) fn meta(&mut self, header: &Header, kind: Kind) -> Result<Meta, String> {
        let old = header.as_old();
        let field = |what: &str, bytes: &[u8]| {
            header_number(bytes).map(i128::from).ok_or_else(|| format!("its {what} is damaged"))
        };
        let id = |what: &str, said: Option<i128>, bytes: &[u8]| {
            let id = said.map_or_else(|| field(what, bytes), Ok)?;
            // The last one means "none" in every call.
            u32::try_from(id).ok().filter(|id| *id != u32::MAX).ok_or_else(|| format!("no volume has its {what}, {id}"))
        };
        let (uid, gid) = (id("owner", self.uid, &old.uid)?, id("group", self.gid, &old.gid)?);
        let mtime = match self.mtime {
            Some(mtime) => mtime,
            None => Time { secs: header_number(&old.mtime).ok_or("its time is damaged")?, nanos: 0 },
        };
        let special = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let mut perm = (field("mode", &old.mode)? & 0o7777) as u32;
        let mut xattrs = self.xattrs.clone();
        for (name, value) in std::mem::take(&mut self.lists) {
            // A list with numbers is the exact one.
            if xattrs.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if value.is_empty() {
                if name == lists::ACCESS {
                    perm = lists::permissions_without(perm, &value);
                }
                continue;
            }
            xattrs.push((name, value));
        }
        if let Some(list) = lists::access(&xattrs) {
            // bsdtar's modes have the bits of the group, all others' those of the mask.
            perm = lists::permissions_with(perm, list);
        }
        Ok(Meta {
            kind,
            perm,
            uid,
            gid,
            rdev: if special { self.device(header)? } else { DeviceNumber::default() },
            atime: self.atime.unwrap_or(mtime),
            mtime,
            xattrs,
        })
    }

    fn device(&self, header: &Header) -> Result<DeviceNumber, String> {
        let fields = header.as_ustar().map(|h| (&h.dev_major, &h.dev_minor));
        let fields = fields.or(header.as_gnu().map(|h| (&h.dev_major, &h.dev_minor)));
        let number = |said: Option<i128>, bytes: Option<&[u8; 8]>| {
            said.or_else(|| header_number(bytes?).map(i128::from)).and_then(|n| u64::try_from(n).ok())
        };
        let numbers = (
            number(self.device_major, fields.map(|(major, _)| major)),
            number(self.device_minor, fields.map(|(_, minor)| minor)),
        );
        match numbers {
            (Some(major), Some(minor)) if major <= MAX_DEVICE.0 && minor <= MAX_DEVICE.1 => {
                Ok(DeviceNumber { major: major as u32, minor: minor as u32 })
            }
            _ => Err("Linux has no device of its number".to_owned()),
        }
    }
}

/// A number of a header: octal digits, or GNU's base 256 (big-endian, two's complement, first bit set).
pub(super) fn header_number(field: &[u8]) -> Option<i64> {
    match *field.first()? {
        // At most 12 bytes, so 128 bits hold it.
        first @ (0x80..=0xFF) => {
            let (sign, top) = if first & 0x40 == 0 { (0, first & 0x3F) } else { (-1, first) };
            let start = (i128::from(sign) << 8) | i128::from(top);
            i64::try_from(field[1..].iter().fold(start, |value, byte| (value << 8) | i128::from(*byte))).ok()
        }
        _ => {
            let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
            let digits = text.split(['\0', ' ']).next().unwrap_or("");
            if digits.is_empty() { Some(0) } else { i64::from_str_radix(digits, 8).ok() }
        }
    }
}
