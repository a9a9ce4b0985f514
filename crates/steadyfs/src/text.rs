//! How paths come in from the command line and how names, modes, numbers and JSON are shown.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::DeviceNumber;
use steadyfs_format::quote::{is_dangerous, quote};

use crate::failure::Failure;

/// A path in a volume, as bytes: names need not be UTF-8. It starts at the root, with or without a slash.
#[derive(Clone, Debug)]
pub(crate) struct PathArg(OsString);

impl From<OsString> for PathArg {
    fn from(path: OsString) -> Self {
        PathArg(path)
    }
}

impl From<&OsStr> for PathArg {
    fn from(path: &OsStr) -> Self {
        PathArg(path.to_owned())
    }
}

impl PathArg {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A name in a list on standard output: quoted on a terminal, and as it is for a program that reads a pipe, as with
/// ls(1) and find(1).
pub(crate) fn name(bytes: &[u8]) -> Vec<u8> {
    if std::io::stdout().is_terminal() { quote(bytes).to_string().into_bytes() } else { bytes.to_vec() }
}

/// A line on standard error, quoted.
pub(crate) fn warn(line: &str) {
    eprintln!("steadyfs: {}", quote(line));
}

/// The ten characters of ls: kind and permissions.
pub(crate) fn mode_string(mode: u32, kind: FileType) -> String {
    let kind = match kind {
        FileType::Regular => '-',
        FileType::Dir => 'd',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Symlink => 'l',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// A device number as `major, minor`.
pub(crate) fn rdev(device: DeviceNumber) -> String {
    format!("{}, {}", device.major, device.minor)
}

/// JSON in which strings hold nothing dangerous: it has an escape for every character.
struct Visible<F>(F);

macro_rules! pass_on {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<W: ?Sized + Write>(&mut self, out: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$method(out $(, $argument)*)
        }
    )*};
}

impl<F: Formatter> Formatter for Visible<F> {
    pass_on! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        fragment.chars().try_for_each(|c| match is_dangerous(c) {
            true => c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")),
            false => write!(out, "{c}"),
        })
    }
}

/// A JSON array on its way out, one element on a line: what it holds need not fit into memory.
pub(crate) struct JsonArray<W> {
    out: W,
    empty: bool,
}

impl<W: Write> JsonArray<W> {
    pub(crate) fn new(out: W) -> Self {
        JsonArray { out, empty: true }
    }

    pub(crate) fn push(&mut self, element: &impl Serialize) -> Result<(), Failure> {
        let gap: &[u8] = if self.empty { b"[\n" } else { b",\n" };
        self.empty = false;
        self.out.write_all(gap).map_err(|e| Failure::output(&e))?;
        let mut json = serde_json::Serializer::with_formatter(&mut self.out, Visible(CompactFormatter));
        element.serialize(&mut json).map_err(|e| Failure::output(&e.into()))
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let end: &[u8] = if self.empty { b"[]\n" } else { b"\n]\n" };
        self.out.write_all(end).and_then(|()| self.out.flush()).map_err(|e| Failure::output(&e))
    }
}

/// Bytes of a name or path as JSON has them: what is not UTF-8 is U+FFFD, and then all bytes are there in hexadecimal,
/// too.
pub(crate) fn json_name(bytes: &[u8]) -> (String, Option<String>) {
    let hex = std::str::from_utf8(bytes).is_err().then(|| bytes.iter().map(|b| format!("{b:02x}")).collect());
    (String::from_utf8_lossy(bytes).into_owned(), hex)
}

/// Prints a value as JSON, and a newline.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut json = serde_json::Serializer::with_formatter(&mut out, Visible(PrettyFormatter::new()));
    value
        .serialize(&mut json)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(|e| Failure::output(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_the_same_and_shows_nothing_dangerous() {
        let text = "\u{9b}31m \u{1b} \"\\ \u{202e} \u{10ffff} n\u{e4}me";
        let mut out = Vec::new();
        text.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Visible(PrettyFormatter::new()))).unwrap();
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        assert!(!String::from_utf8(out).unwrap().contains(is_dangerous));
    }

    #[test]
    fn modes() {
        for (mode, kind, text) in [
            (0o755, FileType::Dir, "drwxr-xr-x"),
            (0o4751, FileType::Regular, "-rwsr-x--x"),
            (0o2640, FileType::Fifo, "prw-r-S---"),
            (0o1777, FileType::Dir, "drwxrwxrwt"),
            (0o1000, FileType::Socket, "s--------T"),
            (0o777, FileType::Symlink, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode_string(mode, kind), text);
        }
    }
}
