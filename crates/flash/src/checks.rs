//! Self-checks of an emulated device, to be printed beside every figure that comes from it.
//!
//! [`Report`] is what users see: empty, or a line for each rule that does not hold. Translation layers look after their
//! maps themselves ([`crate::ftl::Ftl::check`]). Here are the rules of the whole:
//! - Each programmed page is the host's, the collector's, the device's own or padding.
//! - Every unit is programmed in order and once between two erases.
//! - Erases only rise and are all counted.
//! - Nothing is suspended more often than it may be.

use crate::media::Media;
use std::fmt;

/// What the checks found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// A line for each rule that does not hold, with its numbers.
    pub found: Vec<String>,
}

impl Report {
    /// True if every rule holds.
    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found.as_slice() {
            [] => f.write_str("self-checks: all hold"),
            found => write!(f, "self-checks: {} broken:\n  {}", found.len(), found.join("\n  ")),
        }
    }
}

/// What the last look saw.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    erases: Vec<u32>,
}

impl Checks {
    /// The rules that concern chips and buffer.
    pub(crate) fn look(&mut self, media: &Media, found: &mut Vec<String>) {
        let counters = media.nand.counters();
        let geometry = media.nand.geometry();
        let parts = counters.host_programmed + counters.gc_programmed + counters.meta_programmed + counters.padding;
        let programmed = counters.units_programmed * u64::from(geometry.unit_pages());
        if parts != programmed {
            found.push(format!(
                "{programmed} pages programmed are not the {parts} of host, collector, meta and padding"
            ));
        }
        let lines = media.nand.lines();
        let standing: u64 = lines.iter().map(|line| u64::from(line.programmed)).sum();
        if standing > counters.units_programmed || lines.iter().any(|line| line.programmed > geometry.line_units()) {
            found.push(format!("{standing} units stand programmed, {} ever were", counters.units_programmed));
        }
        let (suspended, most) = (media.nand.suspended(), media.nand.most_suspended());
        if suspended.0 > most.0 || suspended.1 > most.1 {
            found.push(format!("programs and erases were suspended {suspended:?} times, and could be {most:?} times"));
        }
        let erases: u64 = lines.iter().map(|line| u64::from(line.erases)).sum();
        if erases != counters.lines_erased {
            found.push(format!("lines were erased {erases} times, {} were counted", counters.lines_erased));
        }
        let fallen = self.erases.iter().zip(lines).position(|(before, line)| line.erases < *before);
        if let Some(line) = fallen {
            found.push(format!("line {line} has fewer erases than before"));
        }
        self.erases = lines.iter().map(|line| line.erases).collect();
    }
}
