//! How one inode divides its 923 words: extra attributes, address slots or inline contents, inline xattrs.

use super::{ADDR_END, ADDR_OFFSET, ADDR_WORDS, FULL_EXTRA_ISIZE, Inode, inline};
use crate::error::{FormatError, require};
use crate::node::Addressing;
use crate::{Features, Slot};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Words of the inline xattr area where the inode does not say.
pub const DEFAULT_XATTR_WORDS: u16 = 50;
/// The largest inline xattr area in words.
pub const MAX_XATTR_WORDS: u16 = 923 - 9 - 1 - 10;

/// The division of an inode's address area. Comes from [`Inode::shape`] or [`Inode::validate`], so its bounds are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeShape {
    extra_words: u16,
    xattr_words: u16,
}

impl InodeShape {
    /// A shape with these sizes in 4-byte words.
    ///
    /// # Panics
    /// If the extra attributes exceed 9 words or the xattrs [`MAX_XATTR_WORDS`].
    pub const fn new(extra_words: u16, xattr_words: u16) -> Self {
        assert!(
            extra_words * 4 <= FULL_EXTRA_ISIZE && xattr_words <= MAX_XATTR_WORDS,
            "sizes beyond the format's limits"
        );
        Self { extra_words, xattr_words }
    }

    /// Words of extra attributes.
    pub const fn extra_words(self) -> u16 {
        self.extra_words
    }

    /// Words of inline xattrs (reserved, or in use with the flag XATTR).
    pub const fn xattr_words(self) -> u16 {
        self.xattr_words
    }

    /// File-address slots in the inode.
    pub const fn addr_slots(self) -> u16 {
        ADDR_WORDS as u16 - self.extra_words - self.xattr_words
    }

    /// The addressing of a file with this inode, unless it is compressed.
    pub const fn addressing(self) -> Addressing {
        Addressing::new(self.addr_slots())
    }

    /// Bytes that inline data or an inline directory may have.
    pub const fn inline_len(self) -> usize {
        4 * (self.addr_slots() as usize - 1)
    }

    /// Where in the block inline data or an inline directory lies: slot 0 stays free.
    pub const fn inline_range(self) -> Range<usize> {
        let start = ADDR_OFFSET + 4 * (self.extra_words as usize + 1);
        start..start + self.inline_len()
    }

    /// Where in the block the inline xattrs lie.
    pub const fn xattr_range(self) -> Range<usize> {
        ADDR_END - 4 * self.xattr_words as usize..ADDR_END
    }
}

impl Inode {
    /// How this inode divides its address area.
    ///
    /// # Errors
    /// If a size is beyond the format's limits, or extra attributes and the volume's features contradict each other.
    pub fn shape(&self, features: Features) -> Result<InodeShape, FormatError> {
        let has_extra = self.has_inline(inline::EXTRA_ATTR);
        let isize = self.extra_isize();
        if has_extra {
            let allowed = features.contains(Features::EXTRA_ATTR);
            require(allowed, "inode", "i_inline", self.inline_flags(), "has EXTRA_ATTR only with that feature")?;
            let sane = (4..=FULL_EXTRA_ISIZE).contains(&isize) && isize.is_multiple_of(4);
            require(sane, "inode", "i_extra_isize", isize, "is 4 to 36 in steps of 4")?;
        }
        let xattr_words = if features.contains(Features::FLEXIBLE_INLINE_XATTR) {
            require(has_extra, "inode", "i_inline", self.inline_flags(), "has EXTRA_ATTR with flexible_inline_xattr")?;
            let words = self.stored_xattr_words();
            require(words <= MAX_XATTR_WORDS, "inode", "i_inline_xattr_size", words, "is at most 903 words")?;
            let used = self.has_inline(inline::XATTR);
            require(!used || words > 0, "inode", "i_inline_xattr_size", words, "is not 0 with INLINE_XATTR")?;
            words
        } else if self.has_inline(inline::XATTR) || self.has_inline(inline::DENTRY) {
            DEFAULT_XATTR_WORDS
        } else {
            0
        };
        Ok(InodeShape { extra_words: isize / 4, xattr_words })
    }

    /// File-address slot `index`.
    ///
    /// # Panics
    /// If the shape has no such slot.
    pub fn slot(&self, shape: InodeShape, index: u16) -> Slot {
        Slot::from_disk(self.addr[slot_word(shape, index)].get())
    }

    /// Changes file-address slot `index`.
    ///
    /// # Panics
    /// If the shape has no such slot; as [`Slot::to_disk`].
    pub fn set_slot(&mut self, shape: InodeShape, index: u16, slot: Slot) {
        self.addr[slot_word(shape, index)] = slot.to_disk().into();
    }

    /// All file-address slots, in order.
    pub fn slots(&self, shape: InodeShape) -> impl ExactSizeIterator<Item = Slot> + DoubleEndedIterator + '_ {
        let first = usize::from(shape.extra_words);
        let words = &self.addr[first..first + usize::from(shape.addr_slots())];
        words.iter().map(|raw| Slot::from_disk(raw.get()))
    }

    /// The area of inline data or of an inline directory.
    pub fn inline_area(&self, shape: InodeShape) -> &[u8] {
        &self.as_bytes()[shape.inline_range()]
    }

    /// The same, for changing it.
    pub fn inline_area_mut(&mut self, shape: InodeShape) -> &mut [u8] {
        &mut self.as_mut_bytes()[shape.inline_range()]
    }

    /// The inline part of the xattr area: empty unless the inode has INLINE_XATTR.
    pub fn xattr_area(&self, shape: InodeShape) -> &[u8] {
        if self.has_inline(inline::XATTR) { &self.as_bytes()[shape.xattr_range()] } else { &[] }
    }

    /// The same, for changing it.
    pub fn xattr_area_mut(&mut self, shape: InodeShape) -> &mut [u8] {
        if self.has_inline(inline::XATTR) { &mut self.as_mut_bytes()[shape.xattr_range()] } else { &mut [] }
    }

    pub(super) fn raw_slot(&self, shape: InodeShape, index: u16) -> u32 {
        self.addr[slot_word(shape, index)].get()
    }

    pub(super) fn set_raw_slot(&mut self, shape: InodeShape, index: u16, raw: u32) {
        self.addr[slot_word(shape, index)] = raw.into();
    }
}

fn slot_word(shape: InodeShape, index: u16) -> usize {
    assert!(index < shape.addr_slots(), "slot {index} of {}", shape.addr_slots());
    usize::from(shape.extra_words + index)
}
