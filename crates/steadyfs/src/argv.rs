//! The names under which the binary is called: `mkfs.steadyfs DEVICE` is `steadyfs mkfs DEVICE`.
//!
//! mkfs(8), fsck(8) and mount(8) find a file system's programs by names of the form `mkfs.TYPE`; a link to the one
//! binary is enough, whatever TYPE it has.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What the program's name before the dot stands for.
const NAMES: [(&str, &[&str]); 5] = [
    ("mkfs", &["mkfs"]),
    ("fsck", &["fsck"]),
    ("mount", &["mount", "--helper"]),
    ("umount", &["umount"]),
    ("dump", &["dump"]),
];

/// What the flags of dump.f2fs stand for.
const DUMP_FLAGS: [(&str, &str); 5] = [("-i", "inode"), ("-n", "nat"), ("-s", "sit"), ("-a", "ssa"), ("-b", "block")];

/// Options that find(1) has with one dash; `-print` it does anyhow.
const FIND_OPTIONS: [&str; 4] = ["-name", "-type", "-size", "-print0"];

/// Gives the options of find(1) the two dashes of long options.
fn as_long_options(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut is_value = false;
    let mut all = Vec::with_capacity(arguments.len());
    for mut argument in arguments {
        let option = !is_value && FIND_OPTIONS.iter().any(|known| argument == *known);
        if option {
            argument = [OsStr::new("-"), &argument].into_iter().collect();
        }
        if is_value || argument != "-print" {
            is_value = !is_value && ["--name", "--type", "--size"].iter().any(|known| argument == *known);
            all.push(argument);
        }
    }
    all
}

/// Puts the command that the program's name stands for in front of its arguments.
pub(crate) fn by_name(mut argv: Vec<OsString>) -> Vec<OsString> {
    let name = argv.first().and_then(|a| Path::new(a).file_name()?.to_str()).unwrap_or_default();
    let command = name.split_once('.').and_then(|(tool, _)| NAMES.iter().find(|(known, _)| *known == tool));
    if command.is_some_and(|(tool, _)| *tool == "dump")
        && let Some(flag) = argv.get_mut(1)
        && let Some((_, word)) = DUMP_FLAGS.iter().find(|(known, _)| flag == known)
    {
        *flag = OsString::from(word);
    }
    // mount.fuse(8), for a mount of type `fuse.steadyfs`, calls `steadyfs DEVICE DIR -o OPTIONS`.
    let is_path = |argument: Option<&OsString>| argument.is_some_and(|path| path.as_encoded_bytes().contains(&b'/'));
    let words = match command {
        Some((_, words)) => words,
        None if is_path(argv.get(1)) && is_path(argv.get(2)) => &["mount", "--helper"][..],
        None => &[],
    };
    let behind_name = argv.len().min(1);
    argv.splice(behind_name..behind_name, words.iter().map(OsString::from));
    match argv.get(1) {
        Some(command) if command == "find" => as_long_options(argv),
        _ => argv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools() {
        for (name, words) in [
            ("/sbin/mkfs.steadyfs", &["mkfs"][..]),
            ("fsck.f2fs", &["fsck"]),
            ("mount.steadyfs", &["mount", "--helper"]),
            ("/sbin/mount.fuse.steadyfs", &["mount", "--helper"]),
            ("/sbin/umount.fuse.steadyfs", &["umount"]),
            ("/sbin/umount.fuseblk.steadyfs", &["umount"]),
            ("dump.steadyfs", &["dump"]),
            ("steadyfs", &[]),
            ("./target/steadyfs.old", &[]),
            ("mkfs", &[]),
        ] {
            let argv = by_name(vec![name.into(), "x".into()]);
            assert_eq!(argv[1..argv.len() - 1], words.iter().map(OsString::from).collect::<Vec<_>>(), "{name}");
        }
        let dump = by_name(["dump.steadyfs", "-i", "3", "img"].map(OsString::from).to_vec());
        assert_eq!(dump, ["dump.steadyfs", "dump", "inode", "3", "img"].map(OsString::from));
        let fuse = by_name(["/usr/bin/steadyfs", "/img", "/mnt", "-o", "rw"].map(OsString::from).to_vec());
        assert_eq!(fuse[1..4], ["mount", "--helper", "/img"].map(OsString::from));
        let typed =
            ["steadyfs", "find", "img", "/", "-name", "-print", "-type", "f", "-print0", "-size", "-9k", "-print"];
        let taken = ["steadyfs", "find", "img", "/", "--name", "-print", "--type", "f", "--print0", "--size", "-9k"];
        assert_eq!(by_name(typed.map(OsString::from).to_vec()), taken.map(OsString::from));
        assert_eq!(by_name(Vec::new()), Vec::<OsString>::new());
    }
}
