//! How text that came from a volume, or from anybody else, is shown: one rule for commands, messages, reports and logs.
//!
//! Names, labels and targets may hold any bytes. Shown as they are they could move the cursor, rewrite lines that were
//! printed before, change the order in which a line reads, or begin a line that looks like one of ours. [`quote`] keeps
//! every one-line text one line of visible characters: what is dangerous becomes `\n`, `\u{1b}` or, where it is no
//! UTF-8, `\xff`. Quoting twice is the same as quoting once.

use std::fmt::{self, Write};

/// A UUID in its usual form.
pub fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Whether a character must not reach a terminal or a line of a log: C0, DEL and C1 controls, separators of lines, and
/// what directs the order of reading (Unicode's bidirectional controls).
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes that are shown quoted; made by [`quote`].
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(&'a [u8]);

/// Shows bytes on one line: UTF-8 without what is dangerous, everything else in escapes.
pub fn quote<T: AsRef<[u8]> + ?Sized>(bytes: &T) -> Quoted<'_> {
    Quoted(bytes.as_ref())
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            Quoting(&mut *f).write_str(chunk.valid())?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Quotes all that is written through it.
#[derive(Debug)]
pub struct Quoting<W>(pub W);

impl<W: Write> Write for Quoting<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_dangerous) {
            let (before, from) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut chars = from.chars();
            chars.next().map_or(Ok(()), |c| write!(self.0, "{}", c.escape_default()))?;
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_dangerous_is_left() {
        for (bytes, shown) in [
            (&b"plain n\xc3\xa4me"[..], "plain näme"),
            (b"\x1b]0;x\x07", "\\u{1b}]0;x\\u{7}"),
            (b"a\nb\tc\r\x7f\0", "a\\nb\\tc\\r\\u{7f}\\u{0}"),
            (
                "\u{9b}31m \u{202e}cod.exe \u{2066}\u{200f}\u{2028}".as_bytes(),
                "\\u{9b}31m \\u{202e}cod.exe \\u{2066}\\u{200f}\\u{2028}",
            ),
            (b"\x9b31m \xff\xfe", "\\x9b31m \\xff\\xfe"),
            (b"back\\slash", "back\\slash"),
        ] {
            assert_eq!(quote(bytes).to_string(), shown);
            assert_eq!(quote(shown).to_string(), shown, "twice is once");
        }
        let all: String = ('\0'..='\u{ffff}').collect();
        assert!(!quote(&all).to_string().contains(is_dangerous));
    }
}
