//! An operation of a foreign trace, and how its numbers and names are read.

use super::MOST_FILES;
use std::collections::HashMap;

/// The longest name of a file or disk, as in fio.
const LONGEST_NAME: usize = 256;
/// The most that one operation reads or writes: a replay does no more at once.
const MOST_BYTES: u64 = 64 << 20;
/// No place lies behind it.
const LAST: u64 = i64::MAX as u64;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Read,
    Write,
    /// The bytes are not needed any more.
    Trim,
    Sync,
    DataSync,
    /// All files were made durable.
    SyncAll,
    Open,
    Close,
    /// Something that a replay has no use for.
    Nothing,
}

impl What {
    /// Whether it has an offset and a size.
    pub(super) fn is_on_bytes(self) -> bool {
        matches!(self, What::Read | What::Write | What::Trim)
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) what: What,
    /// Counted from 0, in the order in which they are named.
    pub(super) file: usize,
    /// In nanoseconds; what they count from is the form's.
    pub(super) at_ns: u64,
    pub(super) took_ns: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Past the page cache.
    pub(super) direct: bool,
}

impl Event {
    /// When it ended.
    pub(super) fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.took_ns)
    }

    /// Refuses bytes that no file has, and more than are read or written at once.
    pub(super) fn check(self) -> Result<Self, String> {
        if self.offset > LAST || self.size > LAST - self.offset {
            return Err(format!("{} bytes at {} are beyond the end of any file", self.size, self.offset));
        }
        if matches!(self.what, What::Read | What::Write) && self.size > MOST_BYTES {
            return Err(format!("{} bytes at once are more than {MOST_BYTES}", self.size));
        }
        Ok(self)
    }
}

/// A field that is a number.
pub(super) fn number(what: &str, text: &str) -> Result<u64, String> {
    let text = text.trim_matches([' ', '\t']);
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if digits { text.parse().ok() } else { None };
    value.ok_or_else(|| format!("the {what} {} is no whole number from 0 to {}", shown(text), u64::MAX))
}

/// The number of a name among those so far, by what tells it from others.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, usize>,
    lengths: Vec<usize>,
}

impl Names {
    /// Its number; a name that is new has `length` bytes in the trace.
    pub(super) fn number(&mut self, name: &str, length: usize) -> Result<usize, String> {
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        if name.len() > LONGEST_NAME {
            return Err(format!("the name {} is longer than {LONGEST_NAME} bytes", shown(name)));
        }
        let number = self.lengths.len();
        if number == MOST_FILES {
            return Err(format!("more than {MOST_FILES} files"));
        }
        self.known.insert(name.to_owned(), number);
        self.lengths.push(length);
        Ok(number)
    }

    /// Of each name its length in the trace.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths
    }
}

/// A time as nanoseconds.
pub(super) fn nanoseconds(what: &str, text: &str, unit_ns: u64) -> Result<u64, String> {
    number(what, text)?.checked_mul(unit_ns).ok_or_else(|| format!("the {what} {} is too large", shown(text)))
}

/// Some of a text, without what a terminal takes for an order.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let part: String = text.chars().take(MOST).collect();
    let rest = if part.len() < text.len() { "..." } else { "" };
    format!("'{}{rest}'", part.escape_debug())
}
