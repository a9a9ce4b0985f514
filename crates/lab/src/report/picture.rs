//! A plot as a file of its own, for a page that is not of the laboratory: SVG that needs nothing else, by day and by
//! night.
//!
//! Writing to a string does not fail: the results of `write!` in this file are dropped for that reason.

use super::colours;
use super::svg::{self, Line, Over, Up, Weight, escape};
use std::fmt::Write as _;

/// A line of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name, for the key.
    pub name: String,
    /// Where it goes, from left to right.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
/// Of the plot without title and key.
const PLOT: f64 = 300.0;
const TITLE: f64 = 30.0;
/// Of each line of the key.
const KEY: f64 = 20.0;

/// A picture of these curves as a file of SVG. Both axes begin at 0; `over` names the horizontal one, `unit` the other.
pub fn picture(title: &str, over: &str, unit: &str, curves: &[Curve]) -> String {
    let place = |number: usize| colours::of(number, 0);
    let line = |(number, curve): (usize, &Curve)| {
        let (colour, dash) = place(number);
        Line { points: curve.points.clone(), colour, dash, weight: Weight::Line }
    };
    let lines: Vec<Line> = curves.iter().enumerate().map(line).collect();
    let height = TITLE + PLOT + KEY * curves.len() as f64 + 10.0;
    let (style, tones) = (svg::STYLE, colours::style(curves.len()));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>{style}{tones}text{{font-family:system-ui,sans-serif}}svg .title{{fill:var(--fg);font-size:15px}}.back{{fill:var(--bg)}}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/><text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n",
        title = escape(title),
    );
    let plot = svg::plot(title, Over::Linear(over), Up::Linear, unit, &lines, &[]);
    let placed = format!("<svg y=\"{TITLE}\" width=\"{WIDTH}\" height=\"{PLOT}\" ");
    let _ = writeln!(out, "{}", plot.replacen("<svg ", &placed, 1));
    for (number, curve) in curves.iter().enumerate() {
        let ((colour, dash), y) = (place(number), TITLE + PLOT + KEY * (number as f64 + 0.5));
        let _ = writeln!(
            out,
            "<line class=\"d{dash}\" x1=\"84\" x2=\"110\" y1=\"{y}\" y2=\"{y}\" stroke-width=\"3\" stroke=\"var(--c{colour})\"/><text x=\"118\" y=\"{}\">{}</text>",
            y + 4.0,
            escape(&curve.name)
        );
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_its_curves_and_needs_nothing_else() {
        let curve = |name: &str, at: f64| Curve { name: name.into(), points: vec![(0.0, at), (1.0, 2.0 * at)] };
        let picture = picture("a < b", "seconds", "MB/s", &[curve("ours", 3.0), curve("theirs & others", 1.0)]);
        for part in ["a &lt; b", ">seconds<", ">MB/s<", ">ours<", ">theirs &amp; others<", "prefers-color-scheme:dark"]
        {
            assert!(picture.contains(part), "{part} in {picture}");
        }
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<svg").count(), picture.matches("</svg>").count());
        assert_eq!(picture.matches("http").count(), 1, "the name space alone");
    }
}
