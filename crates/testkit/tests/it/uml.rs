//! The user-mode kernel does what its script says, and what goes wrong in it is seen.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use steadyfs_testkit::{Error, Uml, fsck_f2fs, mkfs_f2fs};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A fresh volume in a directory that goes away.
fn volume() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("volume.img");
    mkfs_f2fs(&image, 64 * MIB, &["-q"]).unwrap();
    (dir, image)
}

#[test]
fn a_volume_is_written_and_unmounted() {
    let (_dir, image) = volume();
    let out = Uml::new()
        .disk(&image)
        .script("mount -t f2fs /dev/ubda $MNT\necho hello >$MNT/file\necho done\ncp $MNT/file $HOST/copy")
        .run()
        .unwrap();
    assert_eq!(out.stdout, "done\n");
    assert_eq!(std::fs::read_to_string(out.file("copy")).unwrap(), "hello\n");
    assert!(out.kernel.contains("Mounted with checkpoint version"), "{}", out.kernel);
    let report = fsck_f2fs(&image).unwrap();
    assert!(report.contains("unmount"), "a clean checkpoint was expected: {report}");
    let again =
        Uml::new().disk_read_only(&image).script("mount -t f2fs -o ro /dev/ubda $MNT\ncat $MNT/file").run().unwrap();
    assert_eq!(again.stdout, "hello\n");
}

#[test]
fn a_power_failure_loses_what_was_not_synced() {
    let (_dir, image) = volume();
    let body = "mount -t f2fs /dev/ubda $MNT\necho kept >$MNT/a\nsync $MNT/a\necho lost >$MNT/b\necho now";
    Uml::new().disk(&image).script(body).crash().run().unwrap();
    let check = "mount -t f2fs /dev/ubda $MNT\nls $MNT\ncat $MNT/a";
    assert_eq!(Uml::new().disk(&image).script(check).run().unwrap().stdout, "a\nkept\n");
    let out = Uml::new().disk(&image).script(body).script("sleep 60").crash_at("now").run().unwrap();
    assert_eq!(out.status, None);
    assert!(out.elapsed < Duration::from_secs(50));
    assert_eq!(Uml::new().disk(&image).script(check).run().unwrap().stdout, "a\nkept\n");
    fsck_f2fs(&image).unwrap();
}

#[test]
fn a_failing_script_and_a_busy_mount_are_errors() {
    match Uml::new().script("echo one\nfalse\necho two").run() {
        Err(Error::Script { status: 1, stdout, .. }) => assert_eq!(stdout, "one\n"),
        other => panic!("{other:?}"),
    }
    let (_dir, image) = volume();
    let busy = "mount -t f2fs /dev/ubda $MNT\nsleep 100 <$MNT &";
    match Uml::new().disk(&image).script(busy).run() {
        Err(Error::Script { status: 199, stdout, .. }) => assert!(stdout.contains("busy"), "{stdout}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_kernel_s_complaints_are_errors() {
    let (_dir, image) = volume();
    // The root inode, the first block of the main area, is overwritten.
    let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 4096], 4096 * 4096).unwrap();
    let script = "mount -t f2fs /dev/ubda $MNT || echo refused";
    match Uml::new().disk(&image).script(script).run() {
        Err(Error::Kernel { complaints, stdout }) => {
            assert!(complaints.iter().any(|l| l.contains("F2FS-fs (ubda)")), "{complaints:?}");
            assert!(stdout.contains("refused"));
        }
        other => panic!("{other:?}"),
    }
    match fsck_f2fs(&image) {
        Err(Error::Tool { .. }) => {}
        other => panic!("{other:?}"),
    }
    Uml::new().disk(&image).script(script).expect("F2FS-fs (ubda)").run().unwrap();
}

#[test]
fn a_hanging_machine_is_killed_with_all_its_processes() {
    let (dir, image) = volume();
    let started = Instant::now();
    let script = "mount -t f2fs /dev/ubda $MNT\nsleep 1000 &\nsleep 1000";
    match Uml::new().disk(&image).script(script).timeout(Duration::from_secs(5)).run() {
        Err(Error::Timeout { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    // The helpers would hold a lock on the image and keep the next machine from it.
    Uml::new().disk(&image).script("mount -t f2fs /dev/ubda $MNT").run().unwrap();
    drop(dir);
}

#[test]
fn machines_run_side_by_side() {
    let threads: Vec<_> = (0..2)
        .map(|n| {
            std::thread::spawn(move || {
                let (_dir, image) = volume();
                let script = format!("mount -t f2fs /dev/ubda $MNT\necho {n} >$MNT/f\ncat $MNT/f");
                Uml::new().disk(image).script(script).run().unwrap().stdout
            })
        })
        .collect();
    let outputs: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(outputs, ["0\n", "1\n"]);
}
