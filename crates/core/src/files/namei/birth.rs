//! What a new inode looks like: inheritance from its directory, and its first block.
//!
//! Format sections 7.1 and 7.2. The directory passes on its group if it has the set-group-id bit, its inheritable
//! flags, its project if it says so, and its default ACL (see `acl`); the volume's features decide the layout.

use crate::error::{Error, Result};
use crate::files::attr::times::clock;
use crate::types::NewInode;
use steadyfs_format::dir::{DentriesMut, FileType};
use steadyfs_format::inode::{self, DEFAULT_XATTR_WORDS, FULL_EXTRA_ISIZE, Inode as RawInode, advise, flags, inline};
use steadyfs_format::{Features, Ino, SuperBlock};

/// What a directory passes on to what is made in it.
pub(super) struct Parent {
    ino: Ino,
    set_gid: bool,
    gid: u32,
    flags: u32,
    project: u32,
}

/// Which small things live in the inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlineChoice {
    pub(super) xattr: bool,
    pub(super) data: bool,
    pub(super) dentry: bool,
}

/// Everything about a new inode.
pub(super) struct Birth<'a> {
    pub(super) ino: Ino,
    pub(super) kind: FileType,
    pub(super) name: &'a [u8],
    pub(super) parent: &'a Parent,
    /// Permission bits, after umask or default ACL.
    pub(super) permissions: u16,
    pub(super) new: &'a NewInode,
    pub(super) links: u32,
    pub(super) generation: u32,
    pub(super) choice: InlineChoice,
}

impl Parent {
    /// What this directory passes on.
    pub(super) fn of(raw: &RawInode, ino: Ino, features: Features) -> Self {
        let inherit = raw.flags() & flags::PROJINHERIT != 0;
        Parent {
            ino,
            set_gid: raw.mode() & 0o2000 != 0,
            gid: raw.gid(),
            flags: raw.flags() & flags::INHERITED,
            project: if inherit { raw.project_id(features).unwrap_or(0) } else { 0 },
        }
    }
}

impl Birth<'_> {
    /// Makes the inode's first block in a new one. A directory that is not kept inline lacks its entries.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a device number that the format cannot hold.
    pub(super) fn build_in(&self, raw: &mut RawInode, sb: &SuperBlock) -> Result<()> {
        let is_dir = self.kind == FileType::Dir;
        let set_gid = if self.parent.set_gid && is_dir { 0o2000 } else { 0 };
        let features = sb.features();
        let plain = inode::NewInode {
            ino: self.ino,
            pino: self.parent.ino,
            name: self.name,
            mode: self.kind.mode_bits() | self.permissions | set_gid,
            uid: self.new.uid,
            gid: if self.parent.set_gid { self.parent.gid } else { self.new.gid },
            links: self.links,
            time: clock(),
            generation: self.generation,
            flags: self.flags(),
            inline: self.inline_flags(),
            extra_isize: FULL_EXTRA_ISIZE,
            xattr_words: if self.choice.xattr { DEFAULT_XATTR_WORDS } else { 0 },
            project_id: self.parent.project,
        };
        let shape = plain.build_in(raw, features)?;
        match self.kind {
            FileType::Dir => {
                raw.set_current_depth(1);
                if self.choice.dentry {
                    raw.set_size(shape.inline_len() as u64);
                    DentriesMut::inline(raw.inline_area_mut(shape)).insert_dots(self.ino, self.parent.ino)?;
                }
            }
            FileType::CharDevice | FileType::BlockDevice => {
                raw.set_device_number(shape, self.new.rdev).map_err(|_| Error::Invalid)?;
            }
            FileType::Regular => raw.set_advise(temperature(self.name, sb)),
            FileType::Fifo | FileType::Socket | FileType::Symlink => {}
        }
        Ok(())
    }

    fn flags(&self) -> u32 {
        match self.kind {
            FileType::Dir => self.parent.flags | flags::INDEX,
            FileType::Regular => self.parent.flags & flags::FILE_MASK,
            _ => self.parent.flags & flags::OTHER_MASK,
        }
    }

    fn inline_flags(&self) -> u8 {
        let contents = match self.kind {
            FileType::Dir if self.choice.dentry => inline::DENTRY,
            FileType::Regular | FileType::Symlink if self.choice.data => inline::DATA,
            _ => 0,
        };
        contents | if self.choice.xattr { inline::XATTR } else { 0 }
    }
}

/// The advice that a file's name gives about its data: cold for media, hot for data bases, by the lists in the
/// superblock.
fn temperature(name: &[u8], sb: &SuperBlock) -> u8 {
    let raw = sb.raw();
    // Most names have no extension, and the lists are long.
    let may_have = visible(name).contains(&b'.');
    let cold = (raw.extension_count.get() as usize).min(raw.extension_list.len());
    let hot = usize::from(raw.hot_ext_count);
    let at = raw.extension_list.iter().take(cold + hot).position(|extension| {
        if !may_have && extension[0] != b'*' {
            return false;
        }
        let end = extension.iter().position(|&byte| byte == 0).unwrap_or(extension.len());
        has_extension(name, &extension[..end])
    });
    match at {
        Some(at) if at < cold => advise::COLD,
        Some(_) => advise::HOT,
        None => 0,
    }
}

/// Whether a part of the name after its first dot begins with this, case aside (`mp` stands for mp3, mp4, mpeg;
/// `film.mp4.part` is still a film). `*` stands for any name. What Linux does.
fn has_extension(name: &[u8], extension: &[u8]) -> bool {
    if extension == b"*" {
        return true;
    }
    let begins = |part: &[u8]| part.get(..extension.len()).is_some_and(|start| start.eq_ignore_ascii_case(extension));
    !extension.is_empty() && visible(name).split(|&byte| byte == b'.').skip(1).any(begins)
}

/// A name without a dot at its very beginning, which makes a hidden file, not an extension.
fn visible(name: &[u8]) -> &[u8] {
    name.strip_prefix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_what_linux_takes_them_for() {
        let names: [(&[u8], bool); 9] = [
            (b"a.mp4", true),
            (b"a.MP", true),
            (b"a.mpx", true),
            (b"a.mp4.part", true),
            (b"mp4", false),
            (b".mp4", false),
            (b".x.mp4", true),
            (b"a.m", false),
            (b"a.xmp", false),
        ];
        for (name, yes) in names {
            assert_eq!(has_extension(name, b"mp"), yes, "{}", String::from_utf8_lossy(name));
        }
        assert!(has_extension(b"anything", b"*") && !has_extension(b"a.b", b""));
    }
}
