//! What commands leave on the host: files that only their owner reads, never made through a symlink, and a serving
//! process that takes along nothing of its starter.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::inspect::fails;
use crate::mount::Place;
use crate::run::{Output, finish, steadyfs};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a command below a directory, with a umask that takes nothing away.
fn open_handed(dir: &Path, args: &[&str]) -> Output {
    let program = steadyfs().get_program().to_owned();
    finish(Command::new("sh").args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(program).args(args).current_dir(dir))
}

#[test]
fn images_archives_and_traces_are_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (args, made) in [
        (&["mkfs", "-q", "image", "64M"][..], &["image"][..]),
        (
            &["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M", "empty"],
            &["empty/blocks", "empty/journal", "empty/steadyfs-coupled"],
        ),
        (&["export", "empty", "exported"], &["exported"]),
        (&["get", "--tar", "archive", "image"], &["archive"]),
        (&["mount", "-b", "--create", "64M", "--trace", "trace", "new", "mnt"], &["new", "trace"]),
    ] {
        if made.len() > 1 && args[0] == "mkfs" {
            // That others may look into.
            fs::create_dir(at("empty")).unwrap();
        }
        let out = open_handed(dir.path(), args);
        assert_eq!(out.code, 0, "{args:?}: {out:?}");
        made.iter().for_each(|name| assert_eq!(mode(&at(name)), 0o600, "{name}"));
    }
    crate::run::umount(&at("mnt"));
}

#[test]
fn nothing_is_made_through_a_symlink() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("victim"), "kept").unwrap();
    symlink(at("victim"), at("to victim")).unwrap();
    symlink(at("nothing"), at("to nothing")).unwrap();
    let ok = |args: &[&str]| {
        let out = open_handed(dir.path(), args);
        assert_eq!(out.code, 0, "{args:?}: {out:?}");
    };
    ok(&["mkfs", "-q", "image", "64M"]);
    ok(&["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M", "d2fs"]);
    let loose = "it is a symbolic link that leads to no file";
    for (args, code, words) in [
        (&["mkfs", "-q", "to nothing", "64M"][..], 8, loose),
        (&["mount", "--create", "64M", "to nothing", "mnt"], 32, loose),
        (&["export", "d2fs", "to nothing"], 1, "there already"),
        (&["export", "d2fs", "to victim"], 1, "there already"),
        (&["get", "--tar", "to nothing", "image"], 1, "no such file"),
        (&["mount", "--trace", "to victim", "image", "mnt"], 32, "symbolic link"),
        (&["mount", "--trace", "to nothing", "image", "mnt"], 32, "symbolic link"),
    ] {
        fails(&open_handed(dir.path(), args), code, &[words]);
        assert!(!at("nothing").exists(), "{args:?}");
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept", "{args:?}");
    }
    // A link of one's own to something that is there leads there.
    ok(&["get", "--tar", "to victim", "image"]);
    assert_eq!(fs::metadata(at("victim")).unwrap().len() % 512, 0);
    // Pages replace no file that a link leads to.
    fs::create_dir(at("man")).unwrap();
    symlink(at("victim"), at("man/steadyfs-ls.1")).unwrap();
    let before = fs::read(at("victim")).unwrap();
    assert_eq!(open_handed(dir.path(), &["man", "--dir", "man"]).code, 1);
    assert_eq!(fs::read(at("victim")).unwrap(), before);
    fs::remove_file(at("man/steadyfs-ls.1")).unwrap();
    ok(&["man", "--dir", "man"]);
    assert!(at("man/steadyfs-ls.1").exists() && at("man/steadyfs-lab-run.1").exists() && at("man/steadyfs.1").exists());
}

/// The process that serves an image.
pub(crate) fn server(image: &Path) -> PathBuf {
    let serves = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        words.contains(&&b"--serve"[..]) && words.contains(&image.as_os_str().as_encoded_bytes())
    };
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).find(serves).expect("a process that serves")
}

/// Whether a process has not ended. It may be seen for a second more, until somebody has taken its status.
pub(crate) fn is_running(process: &Path) -> bool {
    fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty())
}

#[test]
fn a_server_takes_nothing_along() {
    let place = Place::formatted();
    let secret = place.dir.path().join("secret");
    fs::write(&secret, "").unwrap();
    let program = steadyfs().get_program().to_owned();
    let out = finish(
        Command::new("sh")
            .args(["-c", "exec 7<\"$1\"; exec \"$0\" mount -b \"$2\" \"$3\""])
            .arg(program)
            .args([&secret, &place.image(), &place.mnt()])
            .env("PASSWORD", "secret")
            .env("STEADYFS_LOG", "warn"),
    );
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    let process = server(&place.image().canonicalize().unwrap());
    let environment = fs::read(process.join("environ")).unwrap();
    let has = |word: &[u8]| environment.windows(word.len()).any(|window| window == word);
    assert!(has(b"STEADYFS_LOG=warn") && !has(b"PASSWORD"));
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let open = fs::read_link(entry.unwrap().path()).unwrap_or_default();
        assert_ne!(open, secret);
    }
    place.umount();
}

#[test]
fn a_mount_for_all_tells_that_all_may_read_its_image() {
    let place = Place::formatted();
    let permissions = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    permissions(place.dir.path(), 0o711);
    for (mode, options, told) in [(0o644, "rw", true), (0o600, "rw", false), (0o644, "noallow_other", false)] {
        permissions(&place.image(), mode);
        let out = place.mount(&["-b", "-o", options]);
        assert_eq!(out.code, 0, "{out:?}");
        assert_eq!(out.stderr.contains("every user may read"), told, "{mode:o} {options}: {out:?}");
        assert_eq!(out.stderr.is_empty(), !told, "{out:?}");
        place.umount();
    }
}
