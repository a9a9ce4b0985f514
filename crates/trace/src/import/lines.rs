//! Lines of a text that may be anything: no line is longer than a page, and none is binary.

use super::ImportError;
use std::io::{BufRead, Read};

/// The longest line, as in fio.
const LONGEST: usize = 4096;

/// The lines, without their ends, be these LF or CRLF. Empty ones are passed over.
pub(super) struct Lines<'a, R> {
    from: &'a mut R,
    line: Vec<u8>,
    number: u64,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(from: &'a mut R) -> Self {
        Lines { from, line: Vec::new(), number: 0 }
    }

    /// The number of the last line, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ImportError> {
        loop {
            self.line.clear();
            self.number += 1;
            let got = self.from.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut self.line)?;
            if got == 0 {
                return Ok(None);
            }
            let bad = |why: String| ImportError::Line { number: self.number, why };
            if self.number == 1 && self.line.starts_with(b"\x1f\x8b") {
                return Err(bad("it is compressed; gunzip it first".into()));
            }
            while let Some(b'\n' | b'\r') = self.line.last() {
                self.line.pop();
            }
            let is_text = |byte: &u8| *byte >= b' ' || *byte == b'\t';
            if !self.line.iter().all(is_text) || std::str::from_utf8(&self.line).is_err() {
                return Err(bad("it is no text".into()));
            }
            if self.line.len() > LONGEST {
                return Err(bad(format!("it is longer than {LONGEST} bytes")));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(std::str::from_utf8(&self.line).ok())
    }
}
