//! Making a new inode: everything that the format wants set from the start.

use super::{Inode, InodeShape, Time, inline};
use crate::dir::FileType;
use crate::error::FormatError;
use crate::node::{NodeFooter, NodeOfs};
use crate::{Features, Ino};
use zerocopy::FromZeros;

/// What a new inode is made of. Fields that depend on the kind of file (inline flags, size, blocks beyond the inode,
/// device number) are set by the caller afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInode<'a> {
    /// Its number.
    pub ino: Ino,
    /// Directory that it is created in.
    pub pino: Ino,
    /// Its name there.
    pub name: &'a [u8],
    /// Type and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Links: 1, or 2 for a directory, or 0 for a file without a name.
    pub links: u32,
    /// All four times.
    pub time: Time,
    /// Distinguishes uses of the inode number.
    pub generation: u32,
    /// Attribute flags, see [`super::flags`].
    pub flags: u32,
    /// Bits of [`super::inline`]; EXTRA_ATTR is added where the volume has extra attributes.
    pub inline: u8,
    /// Bytes of extra attributes where the volume has them: [`super::FULL_EXTRA_ISIZE`], or what mkfs chooses.
    pub extra_isize: u16,
    /// Words of the inline xattr area where the volume lets an inode choose.
    pub xattr_words: u16,
    /// Project id where the volume has them.
    pub project_id: u32,
}

impl NewInode<'_> {
    /// Lays the inode out. One block, no contents; the footer lacks only the chain fields, the checksum is not yet
    /// computed.
    ///
    /// # Errors
    /// For a name longer than 255 bytes, a mode without a type, or sizes that contradict the features.
    pub fn build(&self, features: Features) -> Result<(Inode, InodeShape), FormatError> {
        let mut inode = Inode::zeroed();
        let shape = self.build_in(&mut inode, features)?;
        Ok((inode, shape))
    }

    /// As [`NewInode::build`], in the place of another inode. After an error it holds anything.
    ///
    /// # Errors
    /// As [`NewInode::build`].
    pub fn build_in(&self, inode: &mut Inode, features: Features) -> Result<InodeShape, FormatError> {
        let Some(file_type) = FileType::from_mode(self.mode) else {
            return Err(FormatError::field("inode", "i_mode", self.mode, "has a known file type"));
        };
        inode.zero();
        inode.footer = NodeFooter::new(self.ino.nid(), self.ino, NodeOfs::INODE, file_type != FileType::Dir);
        inode.set_mode(self.mode);
        inode.set_uid(self.uid);
        inode.set_gid(self.gid);
        inode.set_links(self.links);
        inode.set_blocks(1);
        inode.set_atime(self.time);
        inode.set_ctime(self.time);
        inode.set_mtime(self.time);
        inode.set_generation(self.generation);
        inode.set_flags(self.flags);
        inode.set_pino(self.pino);
        inode.set_name(self.name)?;
        inode.set_inline_flags(self.inline);
        if features.contains(Features::EXTRA_ATTR) {
            inode.set_inline_flags(self.inline | inline::EXTRA_ATTR);
            inode.extra_mut().isize = self.extra_isize.into();
            if features.contains(Features::FLEXIBLE_INLINE_XATTR) {
                inode.extra_mut().inline_xattr_size = self.xattr_words.into();
            }
            inode.set_project_id(features, self.project_id);
            inode.set_crtime(features, self.time);
        }
        inode.shape(features)
    }
}
