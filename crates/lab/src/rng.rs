//! Random numbers that are the same in every run: SplitMix64.

/// A generator. Two with the same seed give the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for a purpose: `stream` keeps those of one seed apart.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95));
        rng.next();
        rng
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`, all equally likely (to 2^-32 for any n that matters here).
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0);
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the gamma distribution with this shape and mean, by the method of Marsaglia and Tsang (2000).
    pub(crate) fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        assert!(shape > 0.0);
        if shape < 1.0 {
            let boost = (1.0 - self.unit()).powf(1.0 / shape);
            return self.gamma(shape + 1.0, mean * (shape + 1.0) / shape) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * mean / shape;
            }
        }
    }

    /// A number of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts a list into random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// The finisher of SplitMix64: spreads every bit over all.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean_and_its_spread() {
        for (shape, mean) in [(0.5, 10.0), (1.5, 131_072.0), (4.0, 3.0)] {
            let (mut rng, draws) = (Rng::new(3, 7), 200_000);
            let drawn: Vec<f64> = (0..draws).map(|_| rng.gamma(shape, mean)).collect();
            let average = drawn.iter().sum::<f64>() / f64::from(draws);
            let variance = drawn.iter().map(|x| (x - average).powi(2)).sum::<f64>() / f64::from(draws);
            assert!((average / mean - 1.0).abs() < 0.01, "shape {shape}: mean {average}");
            assert!((variance / (mean * mean / shape) - 1.0).abs() < 0.03, "shape {shape}: variance {variance}");
            assert!(drawn.iter().all(|x| *x >= 0.0));
        }
    }

    #[test]
    fn a_shuffled_list_has_the_same_items() {
        let mut items: Vec<u32> = (0..1000).collect();
        Rng::new(1, 1).shuffle(&mut items);
        let stayed = items.iter().zip(0..).filter(|(item, at)| **item == *at).count();
        assert!(stayed < 10, "{stayed} of 1000 are where they were");
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1000));
    }
}
