//! How one inode divides its 923 words: extra attributes, address slots or inline contents, inline xattrs.

use super::{ADDR_END, ADDR_OFFSET, ADDR_WORDS, FULL_EXTRA_ISIZE, Inode, inline};
use crate::error::{FormatError, require};
use crate::node::Addressing;
use crate::{Features, Slot, Width};
use std::ops::Range;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Words of the inline xattr area where the inode does not say.
pub const DEFAULT_XATTR_WORDS: u16 = 50;
/// The largest inline xattr area in words.
pub const MAX_XATTR_WORDS: u16 = 923 - 9 - 1 - 10;

/// The division of an inode's address area. Comes from [`Inode::shape`] or [`Inode::validate`], so its bounds are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeShape {
    extra_words: u16,
    xattr_words: u16,
    width: Width,
}

impl InodeShape {
    /// A shape with these sizes in 4-byte words, on an F2FS volume.
    ///
    /// # Panics
    /// If the extra attributes exceed 9 words or the xattrs [`MAX_XATTR_WORDS`].
    pub const fn new(extra_words: u16, xattr_words: u16) -> Self {
        assert!(
            extra_words * 4 <= FULL_EXTRA_ISIZE && xattr_words <= MAX_XATTR_WORDS,
            "sizes beyond the format's limits"
        );
        Self { extra_words, xattr_words, width: Width::Four }
    }

    /// The same sizes with addresses of another width.
    pub const fn with_width(self, width: Width) -> Self {
        Self { width, ..self }
    }

    /// Width of the file-address slots.
    pub const fn width(self) -> Width {
        self.width
    }

    /// Words of extra attributes.
    pub const fn extra_words(self) -> u16 {
        self.extra_words
    }

    /// Words of inline xattrs (reserved, or in use with the flag XATTR).
    pub const fn xattr_words(self) -> u16 {
        self.xattr_words
    }

    /// File-address slots in the inode. With slots of 8 bytes one word before the xattrs may be left over.
    pub const fn addr_slots(self) -> u16 {
        self.addr_words() / self.width.words() as u16
    }

    /// Words between extra attributes and xattrs.
    const fn addr_words(self) -> u16 {
        ADDR_WORDS as u16 - self.extra_words - self.xattr_words
    }

    /// Where in the block the file-address slots lie.
    pub const fn slot_range(self) -> Range<usize> {
        let start = ADDR_OFFSET + 4 * self.extra_words as usize;
        start..start + self.width.bytes() * self.addr_slots() as usize
    }

    /// The addressing of a file with this inode, unless it is compressed.
    pub const fn addressing(self) -> Addressing {
        Addressing::with_width(self.addr_slots(), self.width)
    }

    /// Bytes that inline data or an inline directory may have.
    pub const fn inline_len(self) -> usize {
        4 * self.addr_words() as usize - self.width.bytes()
    }

    /// Where in the block inline data or an inline directory lies: slot 0 stays free.
    pub const fn inline_range(self) -> Range<usize> {
        let start = self.slot_range().start + self.width.bytes();
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
        Ok(InodeShape { extra_words: isize / 4, xattr_words, width: Width::of(features) })
    }

    /// File-address slot `index`.
    ///
    /// # Panics
    /// If the shape has no such slot.
    pub fn slot(&self, shape: InodeShape, index: u16) -> Slot {
        let word = slot_word(shape, index);
        match shape.width {
            Width::Four => Slot::from_disk(self.addr[word].get()),
            Width::Eight => Slot::from_wide(wide(self.addr[word], self.addr[word + 1])),
        }
    }

    /// Changes file-address slot `index`.
    ///
    /// # Panics
    /// If the shape has no such slot; as [`Slot::to_disk`], [`Slot::to_wide`].
    pub fn set_slot(&mut self, shape: InodeShape, index: u16, slot: Slot) {
        let raw = match shape.width {
            Width::Four => slot.to_disk().into(),
            Width::Eight => slot.to_wide(),
        };
        self.set_raw_slot(shape, index, raw);
    }

    /// All file-address slots, in order.
    pub fn slots(&self, shape: InodeShape) -> impl ExactSizeIterator<Item = Slot> + DoubleEndedIterator + '_ {
        Slot::read_all(&self.as_bytes()[shape.slot_range()], shape.width)
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

    pub(super) fn raw_slot(&self, shape: InodeShape, index: u16) -> u64 {
        let word = slot_word(shape, index);
        match shape.width {
            Width::Four => self.addr[word].get().into(),
            Width::Eight => wide(self.addr[word], self.addr[word + 1]),
        }
    }

    /// Stores the number, of which a slot of 4 bytes takes the lower half.
    pub(super) fn set_raw_slot(&mut self, shape: InodeShape, index: u16, raw: u64) {
        let word = slot_word(shape, index);
        self.addr[word] = (raw as u32).into();
        if shape.width == Width::Eight {
            self.addr[word + 1] = ((raw >> 32) as u32).into();
        }
    }
}

const fn wide(low: U32, high: U32) -> u64 {
    low.get() as u64 | (high.get() as u64) << 32
}

fn slot_word(shape: InodeShape, index: u16) -> usize {
    assert!(index < shape.addr_slots(), "slot {index} of {}", shape.addr_slots());
    usize::from(shape.extra_words) + usize::from(index) * shape.width.words()
}
