//! What must hold before an inode read from a disk is used.

use super::{Inode, InodeShape, flags, inline};
use crate::block::BLOCK_SIZE;
use crate::dir::{FileType, MAX_DEPTH};
use crate::error::{FormatError, require};
use crate::{Features, Nid};

impl Inode {
    /// Checks everything that accessors and the readers of the file rely on, and returns the inode's shape.
    ///
    /// Not the checksum ([`Inode::verify_checksum`]), not the addresses, which only a layout can judge, and not what
    /// Linux reads past without harm (the stored name, nanoseconds).
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn validate(&self, features: Features) -> Result<InodeShape, FormatError> {
        let shape = self.shape(features)?;
        let Some(file_type) = self.file_type() else {
            return Err(FormatError::field("inode", "i_mode", self.mode(), "has a known file type"));
        };
        require(self.blocks() >= 1, "inode", "i_blocks", self.blocks(), "counts the inode itself")?;
        let max_size = shape.addressing().max_pages() * BLOCK_SIZE as u64;
        require(self.size() <= max_size, "inode", "i_size", self.size(), "is within the file's node tree")?;
        self.validate_inline(file_type, shape)?;
        if file_type == FileType::Dir {
            let depth = self.current_depth();
            require(depth <= u32::from(MAX_DEPTH), "inode", "i_current_depth", depth, "is at most 63")?;
        }
        if self.flags() & flags::COMPR != 0 && file_type == FileType::Regular {
            self.validate_compression(features)?;
        }
        Ok(shape)
    }

    fn validate_inline(&self, file_type: FileType, shape: InodeShape) -> Result<(), FormatError> {
        let bits = self.inline_flags();
        if bits & inline::DATA != 0 {
            let fits_type = matches!(file_type, FileType::Regular | FileType::Symlink);
            require(fits_type, "inode", "i_inline", bits, "has DATA on files and symlinks only")?;
            require(self.size() <= shape.inline_len() as u64, "inode", "i_size", self.size(), "fits the inline area")?;
        }
        if bits & inline::DENTRY != 0 {
            require(file_type == FileType::Dir, "inode", "i_inline", bits, "has DENTRY on directories only")?;
        }
        if bits & (inline::DATA | inline::DENTRY) != 0 {
            let first = self.raw_slot(shape, 0);
            require(first == 0, "inode", "i_addr[0]", first, "is 0 in an inode with inline contents")?;
            for nid in self.children() {
                require(nid.is_null(), "inode", "i_nid", nid.get(), "is 0 in an inode with inline contents")?;
            }
        }
        let own = self.xattr_nid();
        require(own == Nid(0) || own != self.footer.nid(), "inode", "i_xattr_nid", own.get(), "is not the inode itself")
    }

    /// Checks what must hold of a file with the flag `COMPR`: a part of [`Inode::validate`].
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn validate_compression(&self, features: Features) -> Result<(), FormatError> {
        let Some(info) = self.compress_info(features)? else {
            return Err(FormatError::field(
                "inode",
                "i_flags",
                self.flags(),
                "has COMPR only with room for its fields",
            ));
        };
        require(
            info.saved_blocks <= self.blocks(),
            "inode",
            "i_compr_blocks",
            info.saved_blocks,
            "is at most i_blocks",
        )?;
        let inline_data = self.has_inline(inline::DATA);
        require(!inline_data, "inode", "i_inline", self.inline_flags(), "has no DATA in a compressed file")
    }
}
