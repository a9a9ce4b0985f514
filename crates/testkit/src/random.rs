//! Random numbers for tests: they follow from a seed alone, so that a test does the same each time.

/// Knuth's linear congruential generator (MMIX). The higher a bit, the more random it is.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    /// A number below `bound`, from the higher bits.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.bits() >> 33) % bound
    }
}

/// Marsaglia's xorshift: all bits are as random. The seed is not 0.
#[derive(Clone, Debug)]
pub struct XorShift(pub u64);

impl XorShift {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests have chosen their seeds by what they draw.
    #[test]
    fn the_sequences_of_a_seed_stay_what_they_are() {
        let mut rng = Rng(1);
        assert_eq!([rng.bits(), rng.bits()], [7_806_831_264_735_756_412, 9_396_908_728_118_811_419]);
        assert_eq!(Rng(1).below(1000), 774);
        assert_eq!(XorShift(1).bits(), 1_082_269_761);
    }
}
