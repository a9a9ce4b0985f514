//! `mkfs`: what it makes, what it refuses, and its exit codes (0, 8 for work that failed, 16 for wrong arguments).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use steadyfs_testkit::{fsck_f2fs, mkfs_f2fs};

use crate::inspect::{fails, value};
use crate::run::{Output, finish, in_a_mount_namespace, run_as, steadyfs};

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

struct Dir {
    dir: tempfile::TempDir,
}

impl Dir {
    fn new() -> Self {
        Dir { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mkfs(&self, args: &[&str]) -> Output {
        finish(&mut self.command(args))
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.mkfs(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        out.stdout
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = steadyfs();
        command.arg("mkfs").args(args).current_dir(self.dir.path()).env_remove("SOURCE_DATE_EPOCH");
        command
    }
}

#[test]
fn a_new_image_is_what_was_asked_for() {
    let dir = Dir::new();
    let features = "extra_attr,inode_checksum,sb_checksum,inode_crtime,lost_found";
    let text = dir.ok(&["-l", "näme", "-O", features, "--uuid", UUID, "-s", "2", "a.img", "256M"]);
    assert_eq!((value(&text, "label"), value(&text, "uuid")), ("näme".into(), UUID.into()));
    assert_eq!(fs::metadata(dir.path("a.img")).unwrap().len(), 256 << 20);
    fsck_f2fs(dir.path("a.img")).unwrap();
    let info = crate::run::run(&["info".as_ref(), dir.path("a.img").as_os_str()]).stdout;
    assert_eq!((value(&info, "label"), value(&info, "uuid")), ("näme".into(), UUID.into()));
    for feature in features.split(',') {
        assert!(value(&info, "features").contains(feature), "{info}");
    }
    assert!(value(&info, "sections").contains("of 2 segments"));
    assert_eq!(dir.ok(&["-q", "b.img", "64M"]), "");
}

/// Of every kind, with every feature that it may have, and by the flags of a boot: what mkfs leaves is whole.
#[test]
fn the_checker_has_nothing_to_say_of_a_new_volume() {
    let dir = Dir { dir: tempfile::tempdir_in("/dev/shm").unwrap() };
    let kinds: [(&str, &[&str], &[&str]); 3] = [
        ("a.img", &[], &["128M"]),
        ("a.d2fs", &["--kind", "d2fs", "--capacity", "64M"], &[]),
        ("a.iplfs", &["--kind", "iplfs", "--capacity", "64M"], &[]),
    ];
    let extra = ["project_quota", "inode_checksum", "flexible_inline_xattr", "inode_crtime", "compression"];
    let alone = ["", "encrypt", "verity", "extra_attr", "quota", "lost_found", "sb_checksum", "casefold", "ro"];
    let sets = alone.map(str::to_owned).into_iter().chain(extra.map(|name| format!("extra_attr,{name}")));
    let sets: Vec<String> = sets.chain(["extra_attr,inode_checksum,sb_checksum,quota,lost_found".to_owned()]).collect();
    for (name, kind, size) in kinds {
        let mut made = 0;
        for set in &sets {
            let features: &[&str] = if set.is_empty() { &[] } else { &["-O", set] };
            let out = dir.mkfs(&[&["-q", "-f"], kind, features, &[name], size].concat());
            if out.code == 16 {
                continue;
            }
            assert_eq!(out.code, 0, "{kind:?} {set}: {out:?}");
            made += 1;
            for flags in [&["-f"][..], &["-n"], &["-p"]] {
                let out = finish(steadyfs().arg("fsck").args(flags).arg(dir.path(name)));
                let said = out.stdout.lines().find(|line| line.contains("warning:") || line.contains("note:"));
                assert_eq!((out.code, said), (0, None), "{kind:?} {set} {flags:?}\n{}", out.stdout);
            }
        }
        assert!(made > 7, "{kind:?}: {made} of them");
    }
}

#[test]
fn what_was_made_as_json() {
    let dir = Dir::new();
    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&dir.ok(args)).unwrap();
    let made =
        json(&["--json", "-l", "42", "--uuid", UUID, "-O", "extra_attr,inode_checksum", "-s", "2", "a.img", "256M"]);
    assert_eq!((&made["label"], &made["uuid"], &made["size"]), (&"42".into(), &UUID.into(), &(256u64 << 20).into()));
    assert_eq!(
        (&made["features"], &made["written"]),
        (&serde_json::json!(["extra_attr", "inode_checksum"]), &true.into())
    );
    assert_eq!((&made["segments_per_section"], &made["sections_per_zone"]), (&2.into(), &1.into()));
    assert!(made["user_size"].as_u64() < made["size"].as_u64() && made["files"].as_u64() > Some(1000), "{made}");
    assert_eq!(json(&["--json", "-n", "b.img", "256M"])["written"], false);
}

#[test]
fn the_same_uuid_and_time_give_the_same_bytes() {
    let dir = Dir::new();
    for name in ["a.img", "b.img"] {
        let out = finish(
            dir.command(&["--uuid", UUID, "-O", "extra_attr,inode_crtime", name, "64M"])
                .env("SOURCE_DATE_EPOCH", "12345"),
        );
        assert_eq!(out.code, 0, "{}", out.stderr);
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    dir.ok(&["--uuid", UUID, "-O", "extra_attr,inode_crtime", "-T", "12345", "c.img", "64M"]);
    dir.ok(&["--uuid", UUID, "-O", "extra_attr,inode_crtime", "-T", "12346", "d.img", "64M"]);
    let read = |name| fs::read(dir.path(name)).unwrap();
    assert!(read("a.img") == read("b.img") && read("a.img") == read("c.img"));
    assert!(read("a.img") != read("d.img"));
    let out = finish(dir.command(&["e.img", "64M"]).env("SOURCE_DATE_EPOCH", "yesterday"));
    fails(&out, 16, &["SOURCE_DATE_EPOCH=yesterday"]);
}

#[test]
fn what_a_device_holds_is_kept() {
    let dir = Dir::new();
    mkfs_f2fs(dir.path("f2fs.img"), 64 << 20, &[] as &[&str]).unwrap();
    File::create(dir.path("ext.img")).unwrap().set_len(64 << 20).unwrap();
    File::options().write(true).open(dir.path("ext.img")).unwrap().write_all_at(&[0x53, 0xEF], 1080).unwrap();
    for name in ["f2fs.img", "ext.img"] {
        let before = fs::read(dir.path(name)).unwrap();
        fails(&dir.mkfs(&[name]), 8, &["holds something", "-f"]);
        assert!(fs::read(dir.path(name)).unwrap() == before);
        dir.ok(&["-f", name]);
        fsck_f2fs(dir.path(name)).unwrap();
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = Dir::new();
    let text = dir.ok(&["-n", "a.img", "64M"]);
    assert!(text.contains("nothing was written"), "{text}");
    assert!(!dir.path("a.img").exists());
    File::create(dir.path("b.img")).unwrap().set_len(64 << 20).unwrap();
    dir.ok(&["-n", "b.img"]);
    assert!(fs::read(dir.path("b.img")).unwrap().iter().all(|b| *b == 0));
    mkfs_f2fs(dir.path("c.img"), 64 << 20, &[] as &[&str]).unwrap();
    fails(&dir.mkfs(&["-n", "c.img"]), 8, &["holds something"]);
}

#[test]
fn sizes() {
    let dir = Dir::new();
    File::create(dir.path("larger.img")).unwrap().set_len(128 << 20).unwrap();
    let text = dir.ok(&["larger.img", "64M"]);
    assert!(value(&text, "size").starts_with("64.0 MiB"), "{text}");
    assert_eq!(fs::metadata(dir.path("larger.img")).unwrap().len(), 128 << 20);
    File::create(dir.path("smaller.img")).unwrap().set_len(1 << 20).unwrap();
    dir.ok(&["smaller.img", "64M"]);
    assert_eq!(fs::metadata(dir.path("smaller.img")).unwrap().len(), 64 << 20);
    fsck_f2fs(dir.path("smaller.img")).unwrap();
    dir.ok(&["--offset", "1M", "inside.img", "64M"]);
    assert_eq!(fs::metadata(dir.path("inside.img")).unwrap().len(), 65 << 20);
    let info =
        crate::run::run(&["info".as_ref(), "--offset".as_ref(), "1M".as_ref(), dir.path("inside.img").as_os_str()]);
    assert_eq!(info.code, 0, "{}", info.stderr);
}

#[test]
fn sizes_and_percentages_that_do_not_fit_are_told_what_does() {
    let dir = Dir::new();
    let text = dir.ok(&["half.img", "0.125G"]);
    assert!(value(&text, "size").starts_with("128 MiB"), "{text}");
    fails(&dir.mkfs(&["a.img", "50M"]), 8, &["52428800 bytes", "52 MiB are enough"]);
    dir.ok(&["a.img", "52M"]);
    fails(&dir.mkfs(&["-o", "0.5", "b.img", "256M"]), 8, &["over-provisioning of 0.5 %", "to 95 %"]);
    for percent in ["99", "0", "-1", "nan", "many"] {
        let out = dir.mkfs(&["-o", percent, "b.img", "256M"]);
        assert_eq!(out.code, 16, "{out:?}");
        assert!(out.stderr.contains("more than 0, and at most 95"), "{out:?}");
    }
    assert!(!dir.path("b.img").exists());
    // 16 TiB, of which only the tables are written; in memory, as the file system of the directory may have no such
    // files.
    let text = dir.ok(&["-n", "-d", "1", "b.img", "16T"]);
    assert!(value(&text, "size").starts_with("16.0 TiB"), "{text}");
    fails(&dir.mkfs(&["-n", "b.img", "17T"]), 8, &["room for 16 TiB"]);
}

#[test]
fn flags_of_mkfs_f2fs() {
    let dir = Dir::new();
    let superblock = |name: &str| {
        let out = crate::run::run(&["dump".as_ref(), "sb".as_ref(), dir.path(name).as_os_str()]);
        assert_eq!(out.code, 0, "{}", out.stderr);
        out.stdout
    };
    let text = dir.ok(&["-a", "1", "-d", "1", "heap.img", "64M"]);
    assert_eq!(value(&text, "hot node"), "from segment 23", "as with mkfs.f2fs");
    assert_eq!(value(&text, "main area"), "from block 4096");
    fsck_f2fs(dir.path("heap.img")).unwrap();
    dir.ok(&["-C", "utf8:strict", "fold.img", "64M"]);
    assert_eq!(value(&superblock("fold.img"), "s_encoding"), "1 (flags 0x1)");
    dir.ok(&["fold.img", "64M", "-f", "-r", "--uuid", UUID]);
    // Over a volume without asking, owned by root, with the features.
    let text = dir.ok(&["-g", "android", "fold.img"]);
    assert_eq!(value(&text, "features"), "encrypt,extra_attr,project_quota,quota,verity");
    assert!(text.contains("main area"), "{text}");
    // Of an image file fsck.f2fs expects sectors of 512 bytes.
    assert_eq!(value(&superblock("fold.img"), "log_sectorsize"), "12");
    assert_eq!(crate::run::run(&["fsck".as_ref(), dir.path("fold.img").as_os_str()]).code, 0);
    for (args, words) in [
        (&["-c", "/dev/sdb"][..], "several devices (-c)"),
        (&["-m"], "has no zones"),
        (&["-S"], "sparse image (-S)"),
        (&["-C", "latin1"], "the only encoding is utf8"),
        (&["-C", "utf8:loose"], "strict"),
        (&["-g", "phone"], "android"),
        (&["-a", "2"], "0..=1"),
    ] {
        let out = dir.mkfs(&[args, &["a.img", "64M"]].concat());
        assert_eq!(out.code, 16, "{out:?}");
        assert!(out.stderr.contains(words), "{out:?}");
        assert!(!dir.path("a.img").exists());
    }
}

#[test]
fn what_cannot_be_made() {
    let dir = Dir::new();
    fails(&dir.mkfs(&["missing.img"]), 8, &["no such file", "SIZE"]);
    fails(&dir.mkfs(&["tiny.img", "1M"]), 8, &["tiny.img"]);
    assert!(!dir.path("tiny.img").exists(), "a file that could not be used is left behind");
    fails(&dir.mkfs(&["."]), 8, &["a directory"]);
    fails(&dir.mkfs(&["/no/such/dir/a.img", "64M"]), 8, &["no such file"]);
    fails(&dir.mkfs(&["-O", "nonsense", "a.img", "64M"]), 16, &["nonsense"]);
    fails(&dir.mkfs(&["-O", "inode_checksum", "a.img", "64M"]), 16, &["extra_attr"]);
    fails(&dir.mkfs(&["-l", &"x".repeat(512), "a.img", "64M"]), 16, &["label"]);
    for args in
        [&[][..], &["--bad"], &["a.img", "64Q"], &["--uuid", "12", "a.img", "64M"], &["-R", "root", "a.img", "64M"]]
    {
        let out = dir.mkfs(args);
        assert_eq!((out.code, out.stdout.as_str()), (16, ""), "{args:?}: {}", out.stderr);
    }
    assert!(!dir.path("a.img").exists());
}

#[test]
fn an_image_that_is_in_use() {
    let dir = Dir::new();
    let file = File::create(dir.path("a.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    fails(&dir.mkfs(&["-f", "a.img"]), 8, &["in use"]);
}

#[test]
fn an_image_that_is_mounted_through_a_loop_device() {
    let dir = Dir::new();
    let (image, mount) = (dir.path("ext4.img"), dir.path("mnt"));
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(&mount).unwrap();
    let ok = |program: &str, args: &[&std::ffi::OsStr]| {
        Command::new(program).args(args).output().is_ok_and(|out| out.status.success())
    };
    let made = ok("mkfs.ext4", &["-q".as_ref(), image.as_ref()])
        && ok("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), mount.as_ref()]);
    if !made {
        eprintln!("not tested: this user or machine cannot mount ext4 through a loop device");
        return;
    }
    let out = dir.mkfs(&["-f", "ext4.img"]);
    assert!(ok("umount", &[mount.as_ref()]));
    fails(&out, 8, &["mounted on", "umount"]);
}

#[test]
fn by_the_name_of_the_tool() {
    let dir = Dir::new();
    let image = dir.path("a.img");
    let out = run_as("/sbin/mkfs.steadyfs", &["-q", image.to_str().unwrap(), "64M"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    assert_eq!(run_as("mkfs.steadyfs", &["--bad"]).code, 16);
    fsck_f2fs(image).unwrap();
}

#[test]
fn a_volume_belongs_to_whoever_makes_it() {
    use std::os::unix::process::CommandExt;
    let dir = Dir::new();
    std::os::unix::fs::chown(dir.path("."), Some(65534), Some(65533)).unwrap();
    let owner = |args: &[&str]| {
        let out = finish(dir.command(args).uid(65534).gid(65533));
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        let text = crate::run::run(&["stat".as_ref(), dir.path("a.img").as_os_str(), "/".as_ref()]).stdout;
        let mode = value(&text, "mode");
        mode.split_once("uid").map(|(_, ids)| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let ids = |uid: &str, gid: &str| Some([uid, "gid", gid, "project", "0"].map(str::to_owned).to_vec());
    assert_eq!(owner(&["a.img", "100M"]), ids("65534", "65533"), "as with mkfs.f2fs");
    assert_eq!(owner(&["-f", "-R", "7:8", "a.img"]), ids("7", "8"));
}

/// In a container of the program alone there are no devices.
#[test]
fn a_uuid_needs_no_device() {
    // Not below /dev, where temporary files of tests may be.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let script = format!(
        "mount -t tmpfs none /dev; '{}' mkfs -q '{}' 64M",
        env!("CARGO_BIN_EXE_steadyfs"),
        dir.path().join("a.img").display()
    );
    let out = finish(&mut in_a_mount_namespace(&script));
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
}
