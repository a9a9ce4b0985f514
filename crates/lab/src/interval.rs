//! What a few seeds can say: intervals of confidence for means and for differences of means (Student's and Welch's t).
//!
//! Relied on: the runs of different seeds are independent of each other, and their figures are roughly normal. An
//! interval covers the mean that very many seeds would have in [`CONFIDENCE`] of all cases.

use std::f64::consts::FRAC_PI_2;

/// In how many of all cases an interval covers what it is about.
pub const CONFIDENCE: f64 = 0.95;
/// Steps of the integral below; even.
const STEPS: u32 = 1000;
/// From here on Student's distribution is the normal one to four digits.
const MOST_FREEDOM: f64 = 10_000.0;

/// The interval of the mean of a sample; `None` with fewer than two values.
pub(crate) fn of_mean(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, error) = mean_and_error(values)?;
    let half = if error == 0.0 { 0.0 } else { t(values.len() as f64 - 1.0) * error.sqrt() };
    Some((mean - half, mean + half))
}

/// The interval of the mean of `b` less that of `a`, whose variances may differ; `None` if one has fewer than two
/// values.
pub(crate) fn of_difference(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let ((mean_a, error_a), (mean_b, error_b)) = (mean_and_error(a)?, mean_and_error(b)?);
    let (error, part) = (error_a + error_b, |error: f64, values: &[f64]| error * error / (values.len() as f64 - 1.0));
    let half = if error == 0.0 { 0.0 } else { t(error * error / (part(error_a, a) + part(error_b, b))) * error.sqrt() };
    Some((mean_b - mean_a - half, mean_b - mean_a + half))
}

/// The mean, and the square of its standard error.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    // Equal values have no variance, whatever their mean is rounded to.
    if values.iter().all(|value| *value == values[0]) {
        return Some((values[0], 0.0));
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some((mean, squares / (count - 1.0) / count))
}

/// How many standard errors an interval reaches to either side, with so many degrees of freedom.
///
/// With x = sqrt(freedom) tan(angle) the density of Student's distribution is a power of the cosine, so the share
/// between -x and x is the integral of that to the angle, over the integral to a right angle.
fn t(freedom: f64) -> f64 {
    let freedom = freedom.clamp(1.0, MOST_FREEDOM);
    let all = integral(freedom, FRAC_PI_2);
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if integral(freedom, middle) < CONFIDENCE * all { low = middle } else { high = middle }
    }
    freedom.sqrt() * low.tan()
}

/// The integral of cos(x)^(freedom - 1) from 0 to an angle, by Simpson's rule.
fn integral(freedom: f64, angle: f64) -> f64 {
    let step = angle / f64::from(STEPS);
    let density = |at: u32| (f64::from(at) * step).cos().max(0.0).powf(freedom - 1.0);
    let weight = |at: u32| if at == 0 || at == STEPS { 1.0 } else { 2.0 + 2.0 * f64::from(at % 2) };
    (0..=STEPS).map(|at| weight(at) * density(at)).sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the printed tables of Student's distribution, two-sided, 95 %.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (1e9, 1.960)];
        for (freedom, right) in table {
            assert!((t(freedom) - right).abs() < 0.0015, "{freedom}: {} instead of {right}", t(freedom));
        }
    }

    #[test]
    fn one_value_says_nothing_and_equal_ones_leave_no_doubt() {
        assert_eq!((of_mean(&[3.0]), of_difference(&[1.0], &[2.0, 3.0])), (None, None));
        assert_eq!((of_mean(&[0.1; 3]), of_difference(&[1.0; 2], &[4.0; 3])), (Some((0.1, 0.1)), Some((3.0, 3.0))));
    }

    /// Student's sleep data (1908), as two independent samples: textbooks give -3.365 to 0.205.
    #[test]
    fn welch_agrees_with_a_textbook() {
        let a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let (least, most) = of_difference(&a, &b).unwrap();
        assert!((least - -0.2055).abs() < 0.001 && (most - 3.3655).abs() < 0.001, "{least} to {most}");
    }

    /// Of many samples from one distribution, the interval misses the mean in about one of twenty.
    #[test]
    fn intervals_cover_what_they_promise() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut sample = || [0; 5].map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0);
        let missed = (0..400).filter(|_| of_mean(&sample()).is_some_and(|(least, most)| least > 0.0 || most < 0.0));
        let missed = missed.count();
        assert!((10..=30).contains(&missed), "{missed} of 400");
    }
}
