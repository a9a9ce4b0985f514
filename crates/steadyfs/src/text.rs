//! How paths come in from the command line and how names, modes, numbers and JSON are shown.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::DeviceNumber;

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

/// A name for standard output: as it is, but on a terminal without bytes that would change the terminal.
pub(crate) fn name(bytes: &[u8]) -> Vec<u8> {
    if !std::io::stdout().is_terminal() {
        return bytes.to_vec();
    }
    let mut shown = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into_bytes()
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

/// A uuid in its usual form.
pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Prints a value as JSON, and a newline.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(|e| Failure::output(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

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
