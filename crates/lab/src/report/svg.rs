//! Line plots as SVG, inside the page: no script, no font, nothing from outside. Colours are the page's (`--c0` and so
//! on).

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
// Room for labels of twice their usual size: the page makes them larger on narrow screens, where the plot shrinks.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 56.0;
/// Most points of a line: more cannot be told apart.
const POINTS: usize = 600;
/// Colours that the page defines.
pub(super) const COLOURS: usize = 6;

/// One line: points, and which colour.
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: usize,
    /// A line of another seed than the first.
    pub(super) faint: bool,
}

/// What the horizontal axis is, with its name.
#[derive(Clone, Copy)]
pub(super) enum Over<'a> {
    Linear(&'a str),
    /// From one power of ten to another.
    Logarithmic(&'a str),
}

/// A horizontal axis: ticks with their labels, and where a value lies, as a share of the width.
struct Across<'a> {
    name: &'a str,
    ticks: Vec<(f64, String)>,
    place: Box<dyn Fn(f64) -> f64>,
}

impl<'a> Across<'a> {
    fn new(over: Over<'a>, values: impl Iterator<Item = f64>) -> Self {
        match over {
            Over::Linear(name) => {
                let (step, end) = axis(values.fold(0.0, f64::max));
                let ticks = ticks(step, end).map(|tick| (tick, label(tick, step))).collect();
                Across { name, ticks, place: Box::new(move |value| value / end) }
            }
            Over::Logarithmic(name) => {
                let powers = values.filter(|value| *value > 0.0).map(f64::log10);
                let (least, most) = powers.fold((f64::MAX, f64::MIN), |(least, most), p| (least.min(p), most.max(p)));
                let (from, to) =
                    if least > most { (0.0, 1.0) } else { (least.floor(), most.ceil().max(least.floor() + 1.0)) };
                let ticks =
                    (from as i32..=to as i32).map(|power| 10f64.powi(power)).map(|tick| (tick, tick.to_string()));
                let place = move |value: f64| (value.max(10f64.powf(from)).log10() - from) / (to - from);
                Across { name, ticks: ticks.collect(), place: Box::new(place) }
            }
        }
    }
}

/// A plot of lines. `what` says to those who cannot see it what it shows.
pub(super) fn plot(what: &str, over: Over<'_>, unit: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let across = Across::new(over, all().map(|point| point.0));
    let (y_step, y_end) = axis(all().map(|point| point.1).fold(0.0, f64::max));
    let x = |value: f64| LEFT + (across.place)(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_end * (HEIGHT - TOP - BOTTOM);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(what));
    // Writing to a string does not fail, here and below.
    for tick in ticks(y_step, y_end) {
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(tick) + 4.0,
            label(tick, y_step),
            y = y(tick),
        );
    }
    for (number, (tick, label)) in across.ticks.iter().enumerate() {
        let _ = write!(
            out,
            "<text{} x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            // Narrow screens have room for every second one.
            if number % 2 == 1 { " class=\"odd\"" } else { "" },
            x(*tick),
            HEIGHT - BOTTOM + 21.0,
            label
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"{LEFT}\" y=\"20\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        escape(across.name),
        escape(unit)
    );
    // Faint lines lie below the others.
    for line in lines.iter().filter(|line| line.faint).chain(lines.iter().filter(|line| !line.faint)) {
        let points: Vec<String> =
            thin(&line.points).iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let class = if line.faint { "faint" } else { "line" };
        let colour = line.colour % COLOURS;
        if let [(at, value)] = line.points[..] {
            let _ = write!(
                out,
                "<circle class=\"{class}\" fill=\"var(--c{colour})\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                x(at),
                y(value)
            );
            continue;
        }
        let _ =
            write!(out, "<polyline class=\"{class}\" stroke=\"var(--c{colour})\" points=\"{}\"/>", points.join(" "));
    }
    out + "</svg>"
}

/// Distance of the ticks and end of an axis from 0 to at least `most`: steps of 1, 2 or 5 times a power of ten, four to
/// ten of them.
fn axis(most: f64) -> (f64, f64) {
    let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step =
        [5.0, 2.0, 1.0].map(|factor| factor * power).into_iter().find(|step| most / step >= 4.0).unwrap_or(power);
    (step, (most / step).ceil() * step)
}

fn ticks(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0..=(end / step).round() as u64).map(move |tick| tick as f64 * step)
}

fn label(value: f64, step: f64) -> String {
    let places = if step >= 1.0 { 0 } else { (-step.log10().floor()) as usize };
    format!("{value:.places$}")
}

/// Fewer points: of each stretch of the line the least and the most, in their order, so that no peak is lost.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS / 2);
    let mut out = Vec::with_capacity(POINTS);
    for part in points.chunks(stretch) {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (least, most) = (part.iter().min_by(by_value), part.iter().max_by(by_value));
        let mut pair: Vec<(f64, f64)> = least.into_iter().chain(most).copied().collect();
        pair.sort_by(|a, b| a.0.total_cmp(&b.0));
        pair.dedup();
        out.extend(pair);
    }
    out
}

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_few_round_ticks() {
        for most in [0.0, 0.003, 0.9, 1.0, 7.0, 10.0, 68.0, 213.0, 578.0, 3400.0, 1e9] {
            let (step, end) = axis(most);
            let count = (end / step).round() as u64;
            assert!(end >= most && (4..=10).contains(&count), "{most}: {step}, {end}");
        }
        assert_eq!((label(0.25, 0.05), label(20.0, 5.0)), ("0.25".into(), "20".into()));
    }

    #[test]
    fn thin_lines_keep_their_peaks() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 7777 { 99.0 } else { f64::from(i % 7) })).collect();
        let thinned = thin(&points);
        assert!(thinned.len() <= POINTS && thinned.contains(&(7777.0, 99.0)), "{}", thinned.len());
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
