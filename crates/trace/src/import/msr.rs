//! Block traces of MSR Cambridge, as SNIA has them: CSV with the fields Timestamp, Hostname, DiskNumber, Type, Offset,
//! Size and ResponseTime.
//!
//! Times are in units of 100 ns, the first since 1601 ("Windows filetime"). Requests overlap, and nothing says which
//! program they came from.

use super::Parser;
use super::event::{Event, Names, What, nanoseconds, number, shown};

/// Fields of a line.
pub(super) const FIELDS: usize = 7;
const TICK_NS: u64 = 100;
/// Seconds from 1601 to 1970.
const TO_1970: u64 = 11_644_473_600;

/// The disks so far.
#[derive(Default)]
pub(super) struct Csv {
    disks: Names,
    is_begun: bool,
}

impl Parser for Csv {
    fn line(&mut self, line: &str) -> Result<Option<Event>, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim_ascii).collect();
        let [time, host, disk, kind, offset, size, took] = fields[..] else {
            return Err(format!("it has {} fields and not {FIELDS}", fields.len()));
        };
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first && time.eq_ignore_ascii_case("Timestamp") {
            return Ok(None);
        }
        let what = match kind {
            _ if kind.eq_ignore_ascii_case("read") => What::Read,
            _ if kind.eq_ignore_ascii_case("write") => What::Write,
            _ => return Err(format!("the type {} is neither Read nor Write", shown(kind))),
        };
        let at_ns = nanoseconds("timestamp", time, TICK_NS)?;
        let took_ns = nanoseconds("response time", took, TICK_NS)?;
        let name = format!("{host}_{}", number("disk number", disk)?);
        let file = self.disks.number(&name, name.len())?;
        let (offset, size) = (number("offset", offset)?, number("size", size)?);
        Event { what, file, at_ns, took_ns, offset, size, direct: true }.check().map(Some)
    }

    fn names(&self) -> &[usize] {
        self.disks.lengths()
    }

    fn is_one_program(&self) -> bool {
        false
    }

    fn began(&self, first_ns: u64) -> u64 {
        (first_ns / 1_000_000_000).saturating_sub(TO_1970)
    }
}
