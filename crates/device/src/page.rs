//! [`PageBuf`]: one 4 KiB page on its way between the file system and a device.
//!
//! A page is bytes (shared, copied when written), zero, or synthetic: a 16-byte seed from which the bytes follow, so
//! that large simulated volumes need 24 bytes per page and can still verify everything they read back. Which of the
//! three it is never shows in its contents, its equality, or any operation but [`PageBuf::is_zero_repr`],
//! [`PageBuf::synthetic_seed`] and [`PageBuf::bytes`].
//!
//! Relies on `pool` for memory that direct I/O accepts.

use crate::BLOCK_SIZE;
use crate::pool::PageRef;

/// The contents of one block, cheap to clone.
#[derive(Clone)]
pub struct PageBuf(Repr);

#[derive(Clone)]
enum Repr {
    Zero,
    Synthetic([u8; 16]),
    Bytes(PageRef),
}

/// What a zero page lends to readers; aligned like every page.
#[repr(align(4096))]
struct Aligned([u8; BLOCK_SIZE]);
static ZERO: Aligned = Aligned([0; BLOCK_SIZE]);

/// Whether all bytes are zero; in pieces that the compiler turns into wide instructions.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|piece| piece.iter().fold(0, |all, byte| all | byte) == 0)
}

impl PageBuf {
    /// A page of zeros; takes no memory.
    pub const fn zeroed() -> Self {
        PageBuf(Repr::Zero)
    }

    /// A page that starts with `bytes`; the rest is zero.
    ///
    /// # Panics
    /// If `bytes` is longer than a page.
    pub fn from_slice(bytes: &[u8]) -> Self {
        assert!(bytes.len() <= BLOCK_SIZE, "{} bytes do not fit in a page", bytes.len());
        let mut page = Self::stale();
        let target = page.make_mut();
        target[..bytes.len()].copy_from_slice(bytes);
        target[bytes.len()..].fill(0);
        page
    }

    /// The page that `seed` expands to: the seed itself, then a stream of pseudo-random words. Different seeds give
    /// different pages.
    pub const fn synthetic(seed: [u8; 16]) -> Self {
        PageBuf(Repr::Synthetic(seed))
    }

    /// A page in memory with unspecified contents, for callers that overwrite all of it (device reads).
    pub(crate) fn stale() -> Self {
        PageBuf(Repr::Bytes(PageRef::new_stale()))
    }

    /// Lends the bytes to `f`. A synthetic page is expanded for the call.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&[u8; BLOCK_SIZE]) -> R) -> R {
        match &self.0 {
            Repr::Zero => f(&ZERO.0),
            Repr::Bytes(page) => f(page.get()),
            Repr::Synthetic(seed) => {
                let mut bytes = [0; BLOCK_SIZE];
                expand(seed, &mut bytes);
                f(&bytes)
            }
        }
    }

    /// The bytes, unless the page is synthetic and has none in memory.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8; BLOCK_SIZE]> {
        match &self.0 {
            Repr::Zero => Some(&ZERO.0),
            Repr::Bytes(page) => Some(page.get()),
            Repr::Synthetic(_) => None,
        }
    }

    /// Copies bytes from `offset` on into `target`.
    ///
    /// # Panics
    /// If the range does not lie within the page.
    pub fn copy_out(&self, offset: usize, target: &mut [u8]) {
        assert!(offset <= BLOCK_SIZE && target.len() <= BLOCK_SIZE - offset, "range leaves the page");
        match &self.0 {
            Repr::Zero => target.fill(0),
            _ => self.with(|bytes| target.copy_from_slice(&bytes[offset..offset + target.len()])),
        }
    }

    /// The bytes for writing. Bytes shared with clones are copied first, zero and synthetic pages get memory of their
    /// own.
    pub fn make_mut(&mut self) -> &mut [u8; BLOCK_SIZE] {
        let owned = matches!(&self.0, Repr::Bytes(page) if page.is_sole());
        if !owned {
            let mut own = PageRef::new_stale();
            let target = own.get_mut().unwrap_or_else(|| unreachable!("a new page has one reference"));
            match &self.0 {
                Repr::Zero => target.fill(0),
                Repr::Synthetic(seed) => expand(seed, target),
                Repr::Bytes(shared) => target.copy_from_slice(shared.get()),
            }
            self.0 = Repr::Bytes(own);
        }
        match &mut self.0 {
            Repr::Bytes(page) => {
                page.get_mut().unwrap_or_else(|| unreachable!("an exclusive borrow of the sole reference"))
            }
            _ => unreachable!("the page has just been given bytes"),
        }
    }

    /// The same page with its bytes in memory, as a device needs them.
    pub(crate) fn expanded(self) -> Self {
        match &self.0 {
            Repr::Synthetic(seed) => {
                let mut page = Self::stale();
                expand(seed, page.make_mut());
                page
            }
            _ => self,
        }
    }

    /// The same page, without bytes in memory if they are those of a synthetic page, as where one was written part by
    /// part. For stores that keep many pages.
    pub fn compacted(self) -> Self {
        let Repr::Bytes(page) = &self.0 else { return self };
        let bytes = page.get();
        let mut seed = [0; 16];
        seed.copy_from_slice(&bytes[..16]);
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[16..24]);
        // One word tells nearly all other pages apart, so that they cost no more than this.
        if stream(&seed).next() != Some(u64::from_le_bytes(first)) {
            return self;
        }
        let synthetic = Self::synthetic(seed);
        if synthetic == self { synthetic } else { self }
    }

    /// A copy of the bytes.
    pub fn to_array(&self) -> Box<[u8; BLOCK_SIZE]> {
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        self.copy_out(0, &mut bytes[..]);
        bytes
    }

    /// True if the page is known to be zero without looking at bytes. A page of bytes that happen to be zero says
    /// false.
    pub fn is_zero_repr(&self) -> bool {
        matches!(self.0, Repr::Zero)
    }

    /// Whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        self.is_zero_repr() || self.with(|bytes| is_zero(bytes))
    }

    /// The seed, if the page is synthetic and not expanded.
    pub fn synthetic_seed(&self) -> Option<[u8; 16]> {
        match self.0 {
            Repr::Synthetic(seed) => Some(seed),
            _ => None,
        }
    }
}

impl Default for PageBuf {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl PartialEq for PageBuf {
    /// Equal contents, whatever the representation.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Zero, Repr::Zero) => true,
            (Repr::Synthetic(a), Repr::Synthetic(b)) => a == b, // a page begins with its seed
            (Repr::Bytes(a), Repr::Bytes(b)) => a.same(b) || a.get() == b.get(),
            _ => self.with(|a| other.with(|b| a == b)),
        }
    }
}

impl Eq for PageBuf {}

impl std::fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Repr::Zero => f.write_str("PageBuf(zero)"),
            Repr::Synthetic(seed) => write!(f, "PageBuf(synthetic {:032x})", u128::from_be_bytes(*seed)),
            Repr::Bytes(page) => write!(f, "PageBuf({:02x?}...)", &page.get()[..16]),
        }
    }
}

/// Fills `target` with what `seed` stands for: the seed, then its stream of words.
fn expand(seed: &[u8; 16], target: &mut [u8; BLOCK_SIZE]) {
    let (head, tail) = target.split_at_mut(16);
    head.copy_from_slice(seed);
    for (chunk, word) in tail.chunks_exact_mut(8).zip(stream(seed)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// The words behind the seed: SplitMix64 from a state made of both halves.
#[inline]
fn stream(seed: &[u8; 16]) -> impl Iterator<Item = u64> {
    let word = |at: usize| seed[at..at + 8].iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let (low, high) = (word(0), word(8));
    let mut state = low ^ high.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: [u8; 16] = *b"0123456789abcdef";

    #[test]
    fn size_stays_small() {
        assert_eq!(size_of::<PageBuf>(), 24);
    }

    #[test]
    fn representation_does_not_show_in_contents() {
        let synthetic = PageBuf::synthetic(SEED);
        let bytes = PageBuf::from_slice(&synthetic.to_array()[..]);
        assert_eq!(synthetic, bytes);
        assert_eq!(synthetic.clone().expanded(), bytes);
        assert!(synthetic.bytes().is_none() && synthetic.clone().expanded().bytes().is_some());
        assert_eq!(synthetic.to_array()[..16], SEED);
        assert_ne!(synthetic, PageBuf::synthetic([1; 16]));
        let zero = PageBuf::from_slice(&[]);
        assert!(!zero.is_zero_repr() && zero == PageBuf::zeroed() && zero != synthetic);
        let mut almost = zero.clone();
        almost.make_mut()[BLOCK_SIZE - 1] = 1;
        assert_ne!(almost, PageBuf::zeroed());
    }

    #[test]
    fn pages_that_were_written_in_parts_are_recognised_and_no_others() {
        let whole = PageBuf::synthetic(SEED);
        let mut parts = PageBuf::zeroed();
        for part in [0..10, 10..4000, 4000..BLOCK_SIZE] {
            whole.copy_out(part.start, &mut parts.make_mut()[part]);
        }
        assert_eq!(parts.clone().compacted().synthetic_seed(), Some(SEED));
        parts.make_mut()[BLOCK_SIZE - 1] ^= 1;
        for other in [parts, PageBuf::from_slice(b"text"), PageBuf::from_slice(&[])] {
            let before = other.to_array();
            let after = other.compacted();
            assert!(after.synthetic_seed().is_none() && after.to_array() == before);
        }
        assert!(PageBuf::zeroed().compacted().is_zero_repr());
    }

    #[test]
    fn writing_leaves_clones_alone() {
        for original in [PageBuf::zeroed(), PageBuf::synthetic(SEED), PageBuf::from_slice(b"text")] {
            let before = original.to_array();
            let mut copy = original.clone();
            copy.make_mut()[100] ^= 0xff;
            assert_eq!(original.to_array(), before);
            assert_eq!(copy.to_array()[100], before[100] ^ 0xff);
            assert_eq!(copy.to_array()[101..], before[101..]);
        }
    }

    #[test]
    fn parts_are_copied_out() {
        let page = PageBuf::from_slice(b"0123456789");
        let mut part = [0xee; 4];
        page.copy_out(8, &mut part);
        assert_eq!(part, [b'8', b'9', 0, 0]);
        PageBuf::zeroed().copy_out(BLOCK_SIZE - 4, &mut part);
        assert_eq!(part, [0; 4]);
        page.copy_out(BLOCK_SIZE, &mut []);
    }

    #[test]
    fn memory_is_aligned_for_direct_io() {
        for page in [PageBuf::zeroed(), PageBuf::from_slice(b"x"), PageBuf::synthetic(SEED).expanded()] {
            assert_eq!(page.bytes().map(|bytes| bytes.as_ptr().addr() % BLOCK_SIZE), Some(0));
        }
    }
}
