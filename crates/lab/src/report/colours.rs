//! Colours of lines: as many as a page has systems, each with a tone for day and one for night.
//!
//! Kept true: hues lie evenly around the circle, beyond [`FEW`] neighbours differ in lightness too, and a browser
//! checks that no two lines of a plot look alike. What goes beyond [`MOST`] has the same colours with other dashes.

use std::fmt::Write as _;

/// Most colours that can be told apart.
pub(super) const MOST: usize = 12;
/// Kinds of dashes, the unbroken line among them.
pub(super) const DASHES: usize = 4;
/// Up to so many, hue alone tells them apart.
const FEW: usize = 6;

/// The colours `--c0` and so on of a page as CSS.
pub(super) fn style(lines: usize) -> String {
    let count = lines.clamp(1, MOST);
    let all = |night: bool| {
        (0..count).fold(String::new(), |mut out, at| {
            // Writing to a string does not fail.
            let _ = write!(out, "--c{at}:{};", colour(at, count, night));
            out
        })
    };
    format!(":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}", all(false), all(true))
}

/// One of so many colours.
fn colour(at: usize, count: usize, night: bool) -> String {
    let hue = (212 + 360 * at / count) % 360;
    let second = count > FEW && at % 2 == 1;
    // Green and yellow are lighter to the eye than blue and red of the same lightness.
    let bright = (40..200).contains(&hue);
    let light = match (night, second) {
        (false, false) => 44 - if bright { 14 } else { 0 },
        (false, true) => 58 - if bright { 16 } else { 0 },
        (true, false) => 76 - if bright { 14 } else { 0 },
        (true, true) => 60 - if bright { 16 } else { 0 },
    };
    format!("hsl({hue} {}% {light}%)", if second { 62 } else { 78 })
}

/// Colour and dash of a line: those of one system share the colour, those beyond all colours get other dashes.
pub(super) fn of(system: usize, series: usize) -> (usize, usize) {
    (system % MOST, (system / MOST + series) % DASHES)
}
