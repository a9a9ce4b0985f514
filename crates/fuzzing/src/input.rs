//! Reading choices off a string of bytes: how a fuzzer's bytes become a structured input.
//!
//! Reading past the end gives zeros, so every string of bytes is an input and a change of one byte stays a change of
//! one choice.

use steadyfs_format::{BLOCK_SIZE, Block, zeroed_block};

/// Bytes not yet used.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `count` bytes, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(self.bytes.len())
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The lowest bit of the next byte.
    pub fn bool(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number below `end` (0 if `end` is): from one byte where that is enough, else from four.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            1..=256 => usize::from(self.u8()) % end,
            _ => self.u32() as usize % end,
        }
    }

    /// One of these; `None` if there are none.
    pub fn pick<'b, T>(&mut self, of: &'b [T]) -> Option<&'b T> {
        of.get(self.below(of.len()))
    }

    /// The next block; zeros where bytes are missing.
    pub fn block(&mut self) -> Block {
        let mut block = zeroed_block();
        let bytes = self.take(BLOCK_SIZE);
        block[..bytes.len()].copy_from_slice(bytes);
        block
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.take(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_used_up_in_order_and_zeros_follow() {
        let mut input = Input::new(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((input.u8(), input.u16(), input.below(300)), (1, 0x0302, 0x0706_0504 % 300));
        assert!(input.is_empty());
        assert_eq!((input.u64(), input.bool(), input.pick::<u8>(&[])), (0, false, None));
        assert_eq!(Input::new(&[9]).block()[..2], [9, 0]);
    }
}
