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

/// How a page looks by day and by night, and what plots need of it.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1d21;--mute:#5b6470;--rule:#d9dee4;--good:#12733f;--bad:#b3261e;--link:#1f6fb2}\
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ed;--mute:#9aa4b0;--rule:#333a43;--good:#5fcf92;--bad:#ff8a80;--link:#6cb2ee}}\
svg text{fill:var(--mute);font-size:12px}.grid{stroke:var(--rule)}\
polyline{fill:none;stroke-width:1.6px;vector-effect:non-scaling-stroke;stroke-linejoin:round}.faint{opacity:.45}polyline.raw{opacity:.3;stroke-width:1px}.d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 4}.d3{stroke-dasharray:9 3 2 3}path.paper{fill:var(--bg);stroke-width:2px}line.paper{stroke-width:1.2px;stroke-dasharray:1 5}";

/// One line: points, which colour, and which dashes.
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: usize,
    pub(super) dash: usize,
    pub(super) weight: Weight,
}

/// How a line is shown. Later ones lie above earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// What was measured, before it was smoothed.
    Raw,
    /// Of another seed than the first.
    Faint,
    Line,
}

impl Weight {
    fn class(self) -> &'static str {
        match self {
            Weight::Raw => "raw",
            Weight::Faint => "faint",
            Weight::Line => "line",
        }
    }
}

/// A number of a paper: a point, or a level where it has no place on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) at: Option<f64>,
    pub(super) value: f64,
    pub(super) colour: usize,
}

/// What the horizontal axis is, with its name.
#[derive(Clone, Copy)]
pub(super) enum Over<'a> {
    Linear(&'a str),
    /// From one power of ten to another.
    Logarithmic(&'a str),
}

/// What the vertical axis is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Up {
    /// From 0.
    Linear,
    /// Shares, from 1 down by powers of ten: the smaller, the lower.
    Tail,
}

/// A vertical axis: ticks with their labels, and how high a value lies, as a share of the height.
struct Upward {
    ticks: Vec<(f64, String)>,
    place: Box<dyn Fn(f64) -> f64>,
}

impl Upward {
    fn new(up: Up, values: impl Iterator<Item = f64>) -> Self {
        match up {
            Up::Linear => {
                let (step, end) = axis(values.fold(0.0, f64::max));
                let ticks = ticks(step, end).map(|tick| (tick, label(tick, step))).collect();
                Upward { ticks, place: Box::new(move |value| value / end) }
            }
            Up::Tail => {
                let powers = values.filter(|share| *share > 0.0).map(f64::log10);
                // 1 - 0.99999 is a little less than a power of ten.
                let from = (powers.fold(-1.0, f64::min) + 1e-6).floor();
                // Longer labels have no room where the page makes them larger.
                let label = |power: i32| match power {
                    ..-3 => format!("1e{power}"),
                    _ => 10f64.powi(power).to_string(),
                };
                let ticks = (from as i32..=0).map(|power| (10f64.powi(power), label(power)));
                let place = move |share: f64| 1.0 - share.max(10f64.powf(from)).log10().min(0.0) / from;
                Upward { ticks: ticks.collect(), place: Box::new(place) }
            }
        }
    }
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

/// A plot of lines and of a paper's numbers. `what` says to those who cannot see it what it shows.
pub(super) fn plot(what: &str, over: Over<'_>, up: Up, unit: &str, lines: &[Line], marks: &[Mark]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let across = Across::new(over, all().map(|point| point.0).chain(marks.iter().filter_map(|mark| mark.at)));
    let upward = Upward::new(up, all().map(|point| point.1).chain(marks.iter().map(|mark| mark.value)));
    let place = Place { x: &*across.place, y: &*upward.place };
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(what));
    axes(&mut out, &across, &upward, unit, &place);
    let mut in_order: Vec<&Line> = lines.iter().collect();
    in_order.sort_by_key(|line| line.weight);
    in_order.into_iter().for_each(|line| draw(&mut out, line, &place));
    marks.iter().for_each(|mark| draw_mark(&mut out, mark, &place));
    out + "</svg>"
}

/// Where values lie in the picture.
struct Place<'a> {
    x: &'a dyn Fn(f64) -> f64,
    y: &'a dyn Fn(f64) -> f64,
}

impl Place<'_> {
    fn x(&self, value: f64) -> f64 {
        LEFT + (self.x)(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (self.y)(value) * (HEIGHT - TOP - BOTTOM)
    }
}

/// Ticks, labels and names of both axes. Writing to a string does not fail, here and below.
fn axes(out: &mut String, across: &Across<'_>, upward: &Upward, unit: &str, place: &Place<'_>) {
    for (tick, label) in &upward.ticks {
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" class=\"up\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            place.y(*tick) + 4.0,
            y = place.y(*tick),
        );
    }
    for (number, (tick, label)) in across.ticks.iter().enumerate() {
        let _ = write!(
            out,
            "<text{} x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            // Narrow screens have room for every second one.
            if number % 2 == 1 { " class=\"odd\"" } else { "" },
            place.x(*tick),
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
}

fn draw(out: &mut String, line: &Line, place: &Place<'_>) {
    let Line { points, colour, dash, weight } = line;
    let class = weight.class();
    if let [(at, value)] = points[..] {
        let (x, y) = (place.x(at), place.y(value));
        let _ =
            write!(out, "<circle class=\"{class}\" fill=\"var(--c{colour})\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        return;
    }
    let points: Vec<String> =
        thin(points).iter().map(|(at, value)| format!("{:.1},{:.1}", place.x(*at), place.y(*value))).collect();
    let points = points.join(" ");
    let _ = write!(out, "<polyline class=\"{class} d{dash}\" stroke=\"var(--c{colour})\" points=\"{points}\"/>");
}

/// A diamond; with a dotted line across where it is a level.
fn draw_mark(out: &mut String, Mark { at, value, colour }: &Mark, place: &Place<'_>) {
    let (x, y) = (at.map_or(WIDTH - RIGHT, |at| place.x(at)), place.y(*value));
    if at.is_none() {
        let _ = write!(
            out,
            "<line class=\"paper\" stroke=\"var(--c{colour})\" x1=\"{LEFT}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }
    let _ = write!(out, "<path class=\"paper\" stroke=\"var(--c{colour})\" d=\"M{x:.1} {y:.1}{DIAMOND}\"/>");
}

/// The outline of a diamond around a point.
pub(super) const DIAMOND: &str = "m-6 0l6 -6l6 6l-6 6z";

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

    #[test]
    fn each_power_of_ten_of_a_tail_takes_as_much_room() {
        let tail = Upward::new(Up::Tail, [0.5, 1.0 - 0.9999, 0.0].into_iter());
        let ticks: Vec<(f64, &str)> =
            tail.ticks.iter().map(|(tick, label)| ((tail.place)(*tick), &label[..])).collect();
        let right = [(0.0, "1e-4"), (0.25, "0.001"), (0.5, "0.01"), (0.75, "0.1"), (1.0, "1")];
        assert!(
            ticks.iter().zip(right).all(|(a, b)| (a.0 - b.0).abs() < 1e-9 && a.1 == b.1) && ticks.len() == 5,
            "{ticks:?}"
        );
    }
}
