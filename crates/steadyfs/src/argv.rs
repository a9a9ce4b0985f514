//! The names under which the binary is called: `mkfs.steadyfs DEVICE` is `steadyfs mkfs DEVICE`.
//!
//! mkfs(8), fsck(8) and mount(8) find a file system's programs by such names; a link to the one binary is enough.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The command that a program name stands for.
const NAMES: [(&str, &str); 3] = [("mkfs.steadyfs", "mkfs"), ("fsck.steadyfs", "fsck"), ("dump.steadyfs", "dump")];

/// Puts the command that the program's name stands for in front of its arguments.
pub(crate) fn by_name(mut argv: Vec<OsString>) -> Vec<OsString> {
    let name = argv.first().map(|a| Path::new(a).file_name().unwrap_or(a).to_owned()).unwrap_or_default();
    if let Some((_, command)) = NAMES.iter().find(|(program, _)| OsStr::new(program) == name) {
        argv.insert(1, OsString::from(command));
    }
    argv
}
