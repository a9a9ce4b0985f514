//! The numbers of [`Parameters`] by name, for experiments that change some: [`Parameters::numbers`] and
//! [`Parameters::set`].
//!
//! Kept true: every field that a [`crate::Preset`] fills in has a name here, but for its own name, the translation
//! layer and whether it takes notes for power cuts, which are no numbers of a drive.

use crate::parameters::{Duplex, Order, Parameters, Suspendable};
use crate::units::{Bandwidth, nanos};
use std::time::Duration;

/// A number: its name, which ends with its unit, how to read it, and how to change it: false if the text makes no
/// sense.
struct Number {
    name: &'static str,
    get: fn(&Parameters) -> String,
    set: fn(&mut Parameters, &str) -> bool,
}

/// Why a number cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// There is none of this name.
    #[error("unknown key '{name}', expected one of {}", Parameters::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name that nobody knows.
        name: String,
    },
    /// Its value makes no sense.
    #[error("{name}: '{value}' makes no sense; {}", wanted(.name))]
    Value {
        /// The number.
        name: &'static str,
        /// The value that it was to get.
        value: String,
    },
}

fn wanted(name: &str) -> &'static str {
    match name {
        "suspend" => "say off, program, erase or both",
        "order" => "say fifo or read-first",
        "duplex" => "say full or half",
        "power_loss_protection" => "say true or false",
        "over_provisioning" => "say a share of the capacity",
        _ => "say a whole number",
    }
}

/// Puts a value there, if there is one.
fn put<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

fn time(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}

fn rate(text: &str) -> Option<Bandwidth> {
    text.parse().ok().filter(|bytes| *bytes > 0).map(Bandwidth::bytes_per_second)
}

/// Rows of counts, of times and of rates, by the path of their field.
macro_rules! number {
    ($name:literal, count $($path:tt)+) => {
        Number {
            name: $name,
            get: |p| p.$($path)+.to_string(),
            set: |p, text| put(&mut p.$($path)+, text.parse().ok()),
        }
    };
    ($name:literal, time $($path:tt)+) => {
        Number {
            name: $name,
            get: |p| nanos(p.$($path)+).to_string(),
            set: |p, text| put(&mut p.$($path)+, time(text)),
        }
    };
    ($name:literal, rate $($path:tt)+) => {
        Number {
            name: $name,
            get: |p| p.$($path)+.get().to_string(),
            set: |p, text| put(&mut p.$($path)+, rate(text)),
        }
    };
}

const NUMBERS: [Number; 37] = [
    number!("channels", count geometry.channels),
    number!("chips_per_channel", count geometry.chips_per_channel),
    number!("planes", count geometry.planes),
    number!("page_bytes", count geometry.page_bytes),
    number!("block_pages", count geometry.block_pages),
    number!("sense_small_even_ns", time timing.sense_small[0]),
    number!("sense_small_odd_ns", time timing.sense_small[1]),
    number!("sense_even_ns", time timing.sense[0]),
    number!("sense_odd_ns", time timing.sense[1]),
    number!("program_ns", time timing.program),
    number!("erase_ns", time timing.erase),
    number!("channel_bytes_s", rate timing.channel),
    number!("channel_piece_bytes", count timing.channel_piece),
    Number {
        name: "order",
        get: |p| p.suspension.order.name().to_owned(),
        set: |p, text| put(&mut p.suspension.order, Order::ALL.into_iter().find(|order| order.name() == text)),
    },
    Number {
        name: "suspend",
        get: |p| p.suspension.what.name().to_owned(),
        set: |p, text| put(&mut p.suspension.what, Suspendable::ALL.into_iter().find(|what| what.name() == text)),
    },
    number!("suspend_program_ns", time suspension.program),
    number!("suspend_erase_ns", time suspension.erase),
    number!("suspend_resume_ns", time suspension.resume),
    number!("suspend_limit", count suspension.limit),
    number!("link_bytes_s", rate interface.link),
    Number {
        name: "duplex",
        get: |p| p.interface.duplex.name().to_owned(),
        set: |p, text| put(&mut p.interface.duplex, Duplex::ALL.into_iter().find(|duplex| duplex.name() == text)),
    },
    number!("queue_depth", count interface.queue_depth),
    number!("max_transfer_bytes", count interface.max_transfer),
    number!("read_short_ns", time interface.read[0]),
    number!("read_long_ns", time interface.read[1]),
    number!("write_ns", time interface.write),
    number!("write_page_ns", time interface.write_page),
    number!("flush_ns", time interface.flush),
    number!("discard_ns", time interface.discard),
    number!("discard_page_ns", time interface.discard_page),
    number!("buffer_bytes", count buffer_bytes),
    number!("power_loss_protection", count power_loss_protection),
    number!("over_provisioning", count policy.over_provisioning),
    number!("streams", count policy.streams),
    number!("gc_lines", count policy.gc_lines),
    number!("idle_gc_lines", count policy.idle_gc_lines),
    number!("idle_ns", time policy.idle),
];

impl Parameters {
    /// Names of all numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NUMBERS.iter().map(|number| number.name)
    }

    /// All numbers, by name, as [`Parameters::set`] reads them.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, String)> {
        NUMBERS.iter().map(|number| (number.name, (number.get)(self)))
    }

    /// Changes a number. Whether all of them go together is seen when a device is made.
    ///
    /// # Errors
    /// There is none of this name, or the value makes no sense.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), NumberError> {
        let number = NUMBERS.iter().find(|number| number.name == name);
        let number = number.ok_or_else(|| NumberError::Unknown { name: name.to_owned() })?;
        if (number.set)(self, value) {
            return Ok(());
        }
        Err(NumberError::Value { name: number.name, value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Geometry, Interface, Policy, Preset, Suspension, Timing};

    /// Another value than this one.
    fn another(name: &str, value: &str) -> String {
        match (name, value) {
            ("suspend", "off") => "both".to_owned(),
            ("order", "fifo") => "read-first".to_owned(),
            ("order", "read-first") => "fifo".to_owned(),
            ("duplex", "full") => "half".to_owned(),
            ("duplex", "half") => "full".to_owned(),
            (_, "true") => "false".to_owned(),
            (_, "false") => "true".to_owned(),
            ("over_provisioning", _) => "0.28".to_owned(),
            _ => (value.parse::<u64>().unwrap() + 1).to_string(),
        }
    }

    #[test]
    fn each_number_changes_and_reads_back_and_changes_no_other() {
        for preset in Preset::ALL {
            for (name, value) in preset.parameters().numbers() {
                let mut changed = preset.parameters();
                let wanted = another(name, &value);
                changed.set(name, &wanted).unwrap();
                let before = preset.parameters();
                let differ: Vec<_> = changed.numbers().zip(before.numbers()).filter(|(a, b)| a != b).collect();
                assert_eq!(differ.len(), 1, "{name}: {differ:?}");
                assert_eq!(differ[0].0, (name, wanted));
                changed.set(name, &value).unwrap();
                assert_eq!(changed, before, "{name}");
            }
        }
    }

    /// A field that is new has to be named here before this compiles.
    #[test]
    fn every_field_has_a_name() {
        let (before, mut after) = (Preset::Pm9a3.parameters(), Preset::Pm9a3.parameters());
        for (name, value) in before.numbers() {
            after.set(name, &another(name, &value)).unwrap();
        }
        let Parameters {
            name: _, layer: _, remember_cells: _, geometry, timing, suspension, interface, policy, ..
        } = after.clone();
        let Geometry { channels, chips_per_channel, planes, page_bytes, block_pages } = geometry;
        let g = before.geometry;
        assert!(channels != g.channels && chips_per_channel != g.chips_per_channel && planes != g.planes);
        assert!(page_bytes != g.page_bytes && block_pages != g.block_pages);
        let Timing { sense_small, sense, program, erase, channel, channel_piece } = timing;
        let t = before.timing;
        assert!((0..2).all(|row| sense_small[row] != t.sense_small[row] && sense[row] != t.sense[row]));
        assert!(program != t.program && erase != t.erase && channel != t.channel && channel_piece != t.channel_piece);
        let Suspension { what, order, program, erase, resume, limit } = suspension;
        let s = before.suspension;
        assert!(
            order != s.order
                && what != s.what
                && program != s.program
                && erase != s.erase
                && resume != s.resume
                && limit != s.limit
        );
        let Interface {
            link,
            duplex,
            queue_depth,
            max_transfer,
            read,
            write,
            write_page,
            flush,
            discard,
            discard_page,
        } = interface;
        let i = before.interface;
        assert!(link != i.link && duplex != i.duplex && queue_depth != i.queue_depth && write != i.write);
        assert!(max_transfer != i.max_transfer && read[0] != i.read[0] && read[1] != i.read[1]);
        assert!(write_page != i.write_page && flush != i.flush && discard != i.discard);
        assert!(discard_page != i.discard_page);
        let Policy { over_provisioning, streams, gc_lines, idle_gc_lines, idle } = policy;
        let p = before.policy;
        assert!((over_provisioning - p.over_provisioning).abs() > 0.1 && streams != p.streams);
        assert!(gc_lines != p.gc_lines && idle_gc_lines != p.idle_gc_lines && idle != p.idle);
        assert!(after.buffer_bytes != before.buffer_bytes);
        assert!(after.power_loss_protection != before.power_loss_protection);
    }

    #[test]
    fn what_is_not_known_is_named_beside_what_is() {
        let mut parameters = Preset::Pm9a3.parameters();
        let error = parameters.set("progam_ns", "1").unwrap_err().to_string();
        assert!(error.contains("'progam_ns'") && error.contains("program_ns, erase_ns"), "{error}");
        for (name, value, part) in [
            ("suspend", "sometimes", "off, program, erase or both"),
            ("order", "lifo", "fifo or read-first"),
            ("duplex", "quarter", "full or half"),
            ("program_ns", "1us", "whole number"),
            ("link_bytes_s", "0", "whole number"),
        ] {
            let error = parameters.set(name, value).unwrap_err().to_string();
            assert!(error.starts_with(name) && error.contains(part), "{error}");
        }
        assert_eq!(parameters, Preset::Pm9a3.parameters());
    }
}
