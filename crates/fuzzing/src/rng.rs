//! Our own source of reproducible randomness (SplitMix64): the same seed gives the same inputs on every machine, for
//! ever.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of input number `number` of the target `name`.
    pub fn of(name: &str, number: u64) -> Self {
        // FNV-1a keeps the streams of different targets apart.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Rng(hash ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`; 0 if `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number() as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_fixed_by_name_and_number() {
        // The first value of SplitMix64 from the state 0.
        assert_eq!(Rng(0).number(), 0xe220_a839_7b1d_cdaf);
        let first = |name, number| Rng::of(name, number).bytes(8);
        assert_eq!(first("a", 1), first("a", 1));
        assert!(first("a", 1) != first("a", 2) && first("a", 1) != first("b", 1));
    }
}
