//! The links by which mount(8), fsck(8) and mkfs(8) find the program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::inspect::fails;
use crate::run::{finish, in_a_mount_namespace, steadyfs};

#[test]
fn links_are_made_once_and_replace_nothing_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let links = |args: &[&str]| finish(steadyfs().arg("links").args(args).arg(dir.path()));
    symlink("/no/such/program", dir.path().join("mkfs.steadyfs")).unwrap();
    for _ in 0..2 {
        let out = links(&[]);
        assert_eq!((out.code, out.stderr.as_str(), out.stdout.lines().count()), (0, "", 7));
        for name in ["mkfs", "fsck", "mount", "mount.fuse", "umount.fuse", "umount.fuseblk", "dump"] {
            let link = dir.path().join(format!("{name}.steadyfs"));
            assert_eq!(link.canonicalize().unwrap(), fs::canonicalize(env!("CARGO_BIN_EXE_steadyfs")).unwrap());
        }
    }
    // As packages have them.
    let (relative, program) = (dir.path().join("dump.steadyfs"), Path::new(env!("CARGO_BIN_EXE_steadyfs")));
    fs::remove_file(&relative).unwrap();
    symlink("mkfs.steadyfs", &relative).unwrap();
    assert_eq!(links(&[]).code, 0);
    assert_eq!(fs::read_link(&relative).unwrap(), Path::new("mkfs.steadyfs"));
    assert_eq!(relative.canonicalize().unwrap(), program.canonicalize().unwrap());
    let mine = dir.path().join("fsck.steadyfs");
    fs::remove_file(&mine).unwrap();
    fs::write(&mine, "mine").unwrap();
    fails(&links(&[]), 1, &["fsck.steadyfs", "another file", "-f"]);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(links(&["-f"]).code, 0);
    let out = finish(Command::new(&mine).arg("--version"));
    assert!(out.code == 0 && out.stdout.contains("fsck"), "{out:?}");
    fails(&finish(steadyfs().args(["links", "/no/such/dir"])), 1, &["no such file"]);
}

/// In a mount namespace of its own, where /etc/fstab and /usr/sbin are ours. fsck(8) goes by what is on the device
/// unless the table names a type.
#[test]
fn mkfs_8_and_fsck_8_find_them() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("a.img");
    let image = image.to_str().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("fstab"), format!("{image} /mnt steadyfs noauto 0 2\n")).unwrap();
    let script = format!(
        "set -e\n\
         truncate -s 64M {image}\n\
         {program} links {dir}/bin\n\
         PATH={dir}/bin:$PATH\n\
         mkfs -t steadyfs -q {image}\n\
         mount --bind {dir}/fstab /etc/fstab\n\
         fsck -t steadyfs {image} -f\n",
        dir = dir.path().display(),
        program = env!("CARGO_BIN_EXE_steadyfs"),
    );
    let out = finish(&mut in_a_mount_namespace(&script));
    assert_eq!(out.code, 0, "{out:?}");
    assert!(out.stdout.contains("0 files, 1 directories"), "{out:?}");
}
