//! One record: a header of 8 bytes, and what its kind says (J 3).

use crate::dir::{FileType, is_valid_name};
use crate::error::{FormatError, require};
use crate::inode::{DeviceNumber, Inode, MAX_NAME, Time};
use crate::{Features, Ino, ROOT_INO, xattr};

const RECORD: &str = "journal record";
/// Bytes before what the kind says.
pub(super) const HEAD: usize = 8;
/// Bytes of an inode's attributes, and of what a new one needs besides.
const ATTRIBUTES: usize = 76;
const BIRTH: usize = 20;
/// The longest target of a symlink.
pub const MAX_TARGET: usize = 4095;
/// The longest contents: no inode has room for more.
pub const MAX_CONTENTS: usize = 3688;

const INODE: u8 = 1;
const NAME: u8 = 2;
const XATTR: u8 = 3;
const TARGET: u8 = 4;
const CONTENTS: u8 = 5;
/// Flag of an INODE record: the inode was made after the checkpoint.
const IS_BIRTH: u8 = 1;

/// A fact that holds after a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The inode has these attributes. It is made if the checkpoint does not have it.
    Inode(Ino, Box<InodeRecord>),
    /// The name in the directory leads to this inode; to nothing if there is none.
    Name {
        /// The directory.
        dir: Ino,
        /// The name: no dot entry.
        name: Vec<u8>,
        /// Where it leads.
        target: Option<(Ino, FileType)>,
    },
    /// The inode has these extended attributes: a list as in an xattr area, nothing behind it; empty for none.
    Xattrs(Ino, Vec<u8>),
    /// The symlink has this target.
    Target(Ino, Vec<u8>),
    /// The regular file has these contents, which fit its inode, and no others.
    Contents(Ino, Vec<u8>),
}

/// An inode but for its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeRecord {
    /// Attributes that every record has.
    pub attributes: Attributes,
    /// Its directory and name: what the inode says of itself.
    pub pino: Ino,
    /// See `pino`; at most 255 bytes, empty for a file that never had a name.
    pub name: Vec<u8>,
    /// What an inode needs that the checkpoint does not have.
    pub birth: Option<Birth>,
}

/// Attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Type and permissions.
    pub mode: u16,
    /// Advice bits.
    pub advise: u8,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Attribute flags.
    pub flags: u32,
    /// Project id; 0 where the inode has none.
    pub project: u32,
    /// Names; 0 makes an orphan of the inode.
    pub links: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Creation; 0 where the inode has no such time.
    pub crtime: Time,
}

/// What a new inode is made of, besides its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Distinguishes uses of the inode number.
    pub generation: u32,
    /// Bits of [`crate::inode::inline`].
    pub inline: u8,
    /// Levels that a directory's hash table starts with.
    pub dir_level: u8,
    /// Bytes of extra attributes.
    pub extra_isize: u16,
    /// Words of the inline xattr area, as stored.
    pub xattr_words: u16,
    /// Of a device.
    pub device: DeviceNumber,
}

impl InodeRecord {
    /// The record of an inode; with its birth if the checkpoint does not have it.
    ///
    /// # Errors
    /// As [`Inode::shape`].
    pub fn of(raw: &Inode, features: Features, born: bool) -> Result<Self, FormatError> {
        let birth = || -> Result<Birth, FormatError> {
            let device = match raw.file_type() {
                Some(FileType::CharDevice | FileType::BlockDevice) => raw.device_number(raw.shape(features)?),
                _ => DeviceNumber::default(),
            };
            Ok(Birth {
                generation: raw.generation(),
                inline: raw.inline_flags(),
                dir_level: raw.dir_level(),
                extra_isize: raw.extra_isize(),
                xattr_words: raw.stored_xattr_words(),
                device,
            })
        };
        let attributes = Attributes {
            mode: raw.mode(),
            advise: raw.advise(),
            uid: raw.uid(),
            gid: raw.gid(),
            flags: raw.flags(),
            project: raw.project_id(features).unwrap_or(0),
            links: raw.links(),
            atime: raw.atime(),
            ctime: raw.ctime(),
            mtime: raw.mtime(),
            crtime: raw.crtime(features).unwrap_or_default(),
        };
        let birth = born.then(birth).transpose()?;
        Ok(Self { attributes, pino: raw.pino(), name: raw.name().to_vec(), birth })
    }
}

impl Attributes {
    /// The kind of file, which a decoded record has.
    pub fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }
}

impl Record {
    /// The inode or directory that the record is about.
    pub fn ino(&self) -> Ino {
        match self {
            Self::Inode(ino, _) | Self::Xattrs(ino, _) | Self::Target(ino, _) | Self::Contents(ino, _) => *ino,
            Self::Name { dir, .. } => *dir,
        }
    }

    /// Appends the record.
    ///
    /// # Panics
    /// For a name of more than 255 bytes, or a record of more than 65,535: no inode has such.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let head = out.len();
        out.extend([0; HEAD]);
        let (kind, flags) = match self {
            Self::Inode(_, inode) => (INODE, inode.encode(out)),
            Self::Name { name, target, .. } => {
                assert!(name.len() <= MAX_NAME, "a name of {} bytes", name.len());
                let (ino, kind) = target.map_or((0, 0), |(ino, kind)| (ino.get(), kind.to_disk()));
                out.extend(ino.to_le_bytes());
                out.push(kind);
                out.extend(name);
                (NAME, 0)
            }
            Self::Xattrs(_, area) => {
                out.extend(area);
                (XATTR, 0)
            }
            Self::Target(_, target) => {
                out.extend(target);
                (TARGET, 0)
            }
            Self::Contents(_, contents) => {
                out.extend(contents);
                (CONTENTS, 0)
            }
        };
        let length = out.len() - head - HEAD;
        let Ok(length) = u16::try_from(length) else { panic!("a record of {length} bytes") };
        out[head..head + 2].copy_from_slice(&[kind, flags]);
        out[head + 2..head + 4].copy_from_slice(&length.to_le_bytes());
        out[head + 4..head + HEAD].copy_from_slice(&self.ino().get().to_le_bytes());
    }

    /// The record at the front of `bytes`, and what follows it.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), FormatError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Err(FormatError::field(RECORD, "length", bytes.len() as u64, "is 8 or more"));
        };
        let (kind, flags) = (head[0], head[1]);
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let ino = Ino(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        require(ino >= ROOT_INO, RECORD, "ino", ino.get(), "is 3 or more")?;
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return Err(FormatError::field(RECORD, "length", length as u64, "ends within the batch"));
        };
        require(flags == 0 || kind == INODE && flags == IS_BIRTH, RECORD, "flags", flags, "is 0, or 1 with INODE")?;
        let record = match kind {
            INODE => Self::Inode(ino, Box::new(InodeRecord::decode(body, flags)?)),
            NAME => decode_name(ino, body)?,
            XATTR => {
                let whole = xattr::is_whole(body) && xattr::used(body) == Ok(body.len());
                require(whole, RECORD, "length", length as u64, "is that of a sound list of attributes")?;
                Self::Xattrs(ino, body.to_vec())
            }
            TARGET => {
                let sound = (1..=MAX_TARGET).contains(&length) && !body.contains(&0);
                require(sound, RECORD, "length", length as u64, "is that of a target: 1 to 4095 bytes other than 0")?;
                Self::Target(ino, body.to_vec())
            }
            CONTENTS => {
                let sound = (1..=MAX_CONTENTS).contains(&length);
                require(sound, RECORD, "length", length as u64, "is that of contents in an inode: 1 to 3688 bytes")?;
                Self::Contents(ino, body.to_vec())
            }
            other => return Err(FormatError::field(RECORD, "kind", other, "is 1 to 4")),
        };
        Ok((record, rest))
    }
}

fn decode_name(dir: Ino, body: &[u8]) -> Result<Record, FormatError> {
    let Some((&[a, b, c, d, kind], name)) = body.split_first_chunk::<5>() else {
        return Err(FormatError::field(RECORD, "length", body.len() as u64, "of a name is 6 or more"));
    };
    let ino = Ino(u32::from_le_bytes([a, b, c, d]));
    let sound = is_valid_name(name) && name != b"." && name != b"..";
    require(sound, RECORD, "name", name.len() as u64, "is a name of 1 to 255 bytes and no dot entry")?;
    let target = if ino.is_null() {
        require(kind == 0, RECORD, "type", kind, "is 0 for a name that leads to nothing")?;
        None
    } else {
        require(ino > ROOT_INO, RECORD, "target", ino.get(), "is 0, or 4 or more")?;
        let kind = FileType::from_disk(kind);
        Some((ino, kind.ok_or_else(|| FormatError::field(RECORD, "type", body[4], "is a kind of file"))?))
    };
    Ok(Record::Name { dir, name: name.to_vec(), target })
}

impl InodeRecord {
    /// Appends the record; returns its flags.
    fn encode(&self, out: &mut Vec<u8>) -> u8 {
        let Attributes { mode, advise, uid, gid, flags, project, links, atime, ctime, mtime, crtime } = self.attributes;
        let Ok(name_len) = u8::try_from(self.name.len()) else { panic!("a name of {} bytes", self.name.len()) };
        out.extend(mode.to_le_bytes());
        out.extend([advise, name_len]);
        for word in [uid, gid, flags, project, links, self.pino.get()] {
            out.extend(word.to_le_bytes());
        }
        for time in [atime, ctime, mtime, crtime] {
            out.extend(time.secs.to_le_bytes());
            out.extend(time.nanos.to_le_bytes());
        }
        if let Some(Birth { generation, inline, dir_level, extra_isize, xattr_words, device }) = self.birth {
            out.extend(generation.to_le_bytes());
            out.extend([inline, dir_level]);
            out.extend(extra_isize.to_le_bytes());
            out.extend(xattr_words.to_le_bytes());
            out.extend([0; 2]);
            out.extend(device.major.to_le_bytes());
            out.extend(device.minor.to_le_bytes());
        }
        out.extend(&self.name);
        if self.birth.is_some() { IS_BIRTH } else { 0 }
    }

    fn decode(body: &[u8], flags: u8) -> Result<Self, FormatError> {
        let short = || FormatError::field(RECORD, "length", body.len() as u64, "is that of an inode and its name");
        let (fixed, rest) = body.split_first_chunk::<ATTRIBUTES>().ok_or_else(short)?;
        let (birth, name) = if flags & IS_BIRTH == 0 {
            (None, rest)
        } else {
            let (birth, name) = rest.split_first_chunk::<BIRTH>().ok_or_else(short)?;
            (Some(decode_birth(birth)?), name)
        };
        let word = |at: usize| u32_at(fixed, at);
        let time = |at: usize| Time {
            secs: (u64::from(word(at)) | u64::from(word(at + 4)) << 32) as i64,
            nanos: word(at + 8),
        };
        let attributes = Attributes {
            mode: u16::from_le_bytes([fixed[0], fixed[1]]),
            advise: fixed[2],
            uid: word(4),
            gid: word(8),
            flags: word(12),
            project: word(16),
            links: word(20),
            atime: time(28),
            ctime: time(40),
            mtime: time(52),
            crtime: time(64),
        };
        require(attributes.kind().is_some(), RECORD, "mode", attributes.mode, "has a known file type")?;
        require(name.len() == usize::from(fixed[3]), RECORD, "name_len", fixed[3], "is the rest of the record")?;
        Ok(Self { attributes, pino: Ino(word(24)), name: name.to_vec(), birth })
    }
}

fn decode_birth(bytes: &[u8; BIRTH]) -> Result<Birth, FormatError> {
    let zero = u16::from_le_bytes([bytes[10], bytes[11]]);
    require(zero == 0, RECORD, "reserved", zero, "is 0")?;
    let device = DeviceNumber { major: u32_at(bytes, 12), minor: u32_at(bytes, 16) };
    require(device.major < 1 << 12, RECORD, "major", device.major, "is below 2^12")?;
    require(device.minor < 1 << 20, RECORD, "minor", device.minor, "is below 2^20")?;
    Ok(Birth {
        generation: u32_at(bytes, 0),
        inline: bytes[4],
        dir_level: bytes[5],
        extra_isize: u16::from_le_bytes([bytes[6], bytes[7]]),
        xattr_words: u16::from_le_bytes([bytes[8], bytes[9]]),
        device,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
