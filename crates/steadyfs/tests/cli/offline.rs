//! The commands that read and change a volume without mounting it; Linux and f2fs-tools judge what they leave.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use steadyfs_testkit::manifest::{Fields, Options};
use steadyfs_testkit::{Manifest, fsck_f2fs, linux_manifest, mkfs_f2fs};

use crate::inspect::fails;
use crate::run::{Output, finish, run, steadyfs};
use crate::tree::make_tree;

/// An image made by mkfs.f2fs, and a directory for everything else.
pub(crate) struct Volume {
    dir: tempfile::TempDir,
}

impl Volume {
    pub(crate) fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        mkfs_f2fs(dir.path().join("f2fs.img"), 128 << 20, args).unwrap();
        Volume { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.path("f2fs.img")
    }

    /// A directory with the tree of everything.
    fn tree(&self) -> PathBuf {
        let tree = self.path("tree");
        fs::create_dir(&tree).unwrap();
        make_tree(&tree);
        tree
    }

    /// Runs a command; `@` stands for the image, `./x` for a file beside it.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        finish(
            steadyfs()
                .args(args.iter().map(|arg| if *arg == "@" { "f2fs.img" } else { arg }))
                .current_dir(self.dir.path()),
        )
    }

    /// The output of a run that succeeds in silence.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        out.stdout
    }

    /// What Linux and fsck.f2fs say at the end.
    #[track_caller]
    fn judge(&self) -> Manifest {
        fsck_f2fs(self.image()).unwrap();
        linux_manifest(self.image(), "", &Options { data: true, ..Options::default() }, Duration::from_secs(60))
            .unwrap()
    }
}

fn fields() -> Fields {
    Fields {
        atime: false,
        ctime: false,
        crtime: false,
        dir_size: false,
        blocks: false,
        flags: false,
        data: false,
        ignored_xattrs: vec!["system.advise".into()],
        ..Fields::all()
    }
}

fn manifest(top: &Path) -> Manifest {
    Manifest::of(top, &Options { data: true, ..Options::default() }).unwrap()
}

/// Without what mkfs put there.
fn without_lost_found(mut manifest: Manifest) -> Manifest {
    manifest.entries.remove("lost+found");
    manifest
}

#[test]
fn a_tree_goes_in_and_comes_out_and_linux_sees_it() {
    for args in [vec!["-q"], vec!["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr"]] {
        let volume = Volume::new(&args);
        let tree = volume.tree();
        volume.ok(&["put", "tree/.", "@", "/"]);
        volume.ok(&["get", "@", "/", "out"]);
        manifest(&tree).assert_same(&without_lost_found(manifest(&volume.path("out"))), &fields());
        manifest(&tree).assert_same(&without_lost_found(volume.judge()), &fields());
        // Holes came through both ways.
        let blocks = |top: &Path| fs::metadata(top.join("sparse")).unwrap().blocks();
        assert!(blocks(&volume.path("out")) <= blocks(&tree) + 16);
    }
}

#[test]
fn tar_streams_both_ways() {
    let volume = Volume::new(&[]);
    let tree = volume.tree();
    let stream = Command::new("tar")
        .args(["-c", "--format=posix", "-S", "--xattrs", "--xattrs-include=*", "-C"])
        .arg(&tree)
        .arg(".")
        .output()
        .unwrap();
    let mut put =
        steadyfs().args(["put", "--tar", "-"]).arg(volume.image()).arg("/").stdin(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(&stream.stdout).unwrap();
    assert!(put.wait().unwrap().success());

    volume.ok(&["get", "--tar", "out.tar", "@"]);
    fs::create_dir(volume.path("out")).unwrap();
    let tar = Command::new("tar")
        .args(["-x", "-p", "--same-owner", "--xattrs", "--xattrs-include=*", "-f", "out.tar", "-C", "out"])
        .current_dir(volume.dir.path())
        .output()
        .unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    manifest(&tree).assert_same(&without_lost_found(manifest(&volume.path("out"))), &fields());
    fsck_f2fs(volume.image()).unwrap();
}

#[test]
fn names_that_put_and_get_choose() {
    let volume = Volume::new(&[]);
    fs::create_dir(volume.path("d")).unwrap();
    fs::write(volume.path("d/f"), "one").unwrap();
    fs::write(volume.path("g"), "two").unwrap();
    volume.ok(&["put", "d", "g", "@", "/"]); // into an existing directory
    volume.ok(&["put", "d", "@", "/new"]); // as a new name
    volume.ok(&["put", "d/.", "@", "/new"]); // the contents
    volume.ok(&["put", "g", "@", "/d/f"]); // over a file
    assert_eq!(volume.ok(&["find", "@"]), "/\n/d\n/d/f\n/g\n/new\n/new/f\n");
    assert_eq!(volume.ok(&["cat", "@", "/d/f", "new/f"]), "twoone");
    volume.ok(&["get", "@", "/d", "copy"]);
    volume.ok(&["get", "@", "/d", "copy"]);
    assert_eq!(fs::read_to_string(volume.path("copy/f")).unwrap(), "two");
    assert_eq!(fs::read_to_string(volume.path("copy/d/f")).unwrap(), "two");
    fails(&volume.run(&["put", "d", "g", "@", "/nowhere"]), 1, &["several files", "mkdir"]);
    fails(&volume.run(&["put", "missing", "@", "/"]), 1, &["cannot read missing", "no such file"]);
    fails(&volume.run(&["put", "g", "@", "/no/such/dir"]), 1, &["no such file"]);
    fails(&volume.run(&["put", "@", "/"]), 2, &["SRC is missing"]);
    fails(&volume.run(&["put", "--tar", "-", "d", "@", "/"]), 2, &["--tar"]);
    fails(&volume.run(&["get", "@", "/missing", "x"]), 1, &["/missing", "no such file"]);
    assert!(!volume.path("x").exists());
}

#[test]
fn directories_links_and_moves() {
    let volume = Volume::new(&[]);
    volume.ok(&["mkdir", "-p", "@", "/a/b/c"]);
    volume.ok(&["mkdir", "-p", "@", "/a/b/c"]);
    volume.ok(&["mkdir", "-m", "1777", "@", "/tmp"]);
    fs::write(volume.path("f"), "text").unwrap();
    volume.ok(&["put", "f", "@", "/a/f"]);
    volume.ok(&["ln", "@", "/a/f", "/a/b/hard"]);
    volume.ok(&["ln", "-s", "@", "../f", "/a/b/soft"]);
    volume.ok(&["ln", "-s", "@", "/a/b/loop", "/a/b/loop"]);
    assert_eq!(volume.ok(&["cat", "@", "/a/b/soft", "/a/b/hard"]), "texttext");
    volume.ok(&["mv", "@", "/a/b/hard", "/a/moved"]);
    volume.ok(&["mv", "@", "/a/moved", "/a/f", "/tmp"]);
    assert_eq!(volume.ok(&["ls", "@", "/tmp"]), "f\nmoved\n");
    let long = volume.ok(&["ls", "-l", "@", "/tmp"]);
    assert!(long.lines().all(|line| line.starts_with("-rw") && line.contains("   2 ")), "{long}");
    assert!(volume.ok(&["ls", "-ld", "@", "/tmp"]).starts_with("drwxrwxrwt"));
    assert_eq!(volume.ok(&["find", "--type", "l", "@", "/a"]), "/a/b/loop\n/a/b/soft\n");
    assert_eq!(volume.ok(&["find", "--name", "[a-f]", "@"]), "/a\n/a/b\n/a/b/c\n/tmp/f\n");
    let recursive = volume.ok(&["ls", "-R", "@", "/a"]);
    assert_eq!(recursive, "/a:\nb\n\n/a/b:\nc\nloop\nsoft\n\n/a/b/c:\n");
    fails(&volume.run(&["cat", "@", "/a/b/loop"]), 1, &["/a/b/loop"]);
    fails(&volume.run(&["cat", "@", "/a"]), 1, &["is a directory"]);
    fails(&volume.run(&["mkdir", "@", "/a"]), 1, &["exists"]);
    fails(&volume.run(&["mv", "-n", "@", "/tmp/f", "/tmp/moved"]), 1, &["exists"]);
    fails(
        &volume.run(&["mv", "@", "/a", "/a/b/below"]),
        1,
        &["cannot move /a: a directory cannot move to a place below itself"],
    );
    fails(&volume.run(&["ln", "@", "/a/b", "/x"]), 1, &["/a/b is a directory", "symbolic link with -s"]);
    fails(&volume.run(&["rm", "@", "/a"]), 1, &["is a directory", "-r"]);
    fails(&volume.run(&["rm", "@", "/nothing"]), 1, &["/nothing"]);
    volume.ok(&["rm", "-f", "@", "/nothing"]);
    volume.ok(&["rm", "-r", "@", "/a", "/tmp"]);
    assert_eq!(volume.ok(&["find", "@"]), "/\n");
    volume.judge();
}

#[test]
fn stat_shows_what_is_kept() {
    let volume = Volume::new(&["-O", "extra_attr,inode_crtime"]);
    volume.tree();
    volume.ok(&["put", "tree", "@", "/"]);
    let json: serde_json::Value =
        serde_json::from_str(&volume.ok(&["stat", "--json", "@", "/tree/plain", "/tree/link"])).unwrap();
    let (plain, link) = (&json[0], &json[1]);
    assert_eq!((&plain["size"], &plain["links"]), (&5.into(), &2.into()));
    assert_eq!(plain["modified"], "2001-09-09 01:46:40.123456789 UTC");
    assert_eq!(plain["xattrs"].as_array().unwrap().len(), 2);
    assert!(plain["created"].is_string());
    assert_eq!((&link["kind"], &link["target"]), (&"symbolic link".into(), &"plain".into()));
    assert!(volume.ok(&["stat", "@", "/tree/suid"]).contains("4751 (-rwsr-x--x)"));
}

#[test]
fn commands_that_look_never_write() {
    let volume = Volume::new(&[]);
    fs::write(volume.path("f"), "text").unwrap();
    volume.ok(&["put", "f", "@", "/"]);
    fs::set_permissions(volume.image(), fs::Permissions::from_mode(0o444)).unwrap();
    let before = (fs::read(volume.image()).unwrap(), fs::metadata(volume.image()).unwrap().modified().unwrap());
    for args in [
        &["ls", "-lR", "@"][..],
        &["cat", "@", "/f"],
        &["stat", "@", "/f"],
        &["find", "@"],
        &["get", "@", "/f", "out"],
        &["info", "@"],
        &["dump", "dir", "3", "@"],
    ] {
        volume.ok(args);
        // Two readers at a time are fine.
        let lock = File::open(volume.image()).unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        if args[0] != "get" {
            volume.ok(args);
        }
    }
    let after = (fs::read(volume.image()).unwrap(), fs::metadata(volume.image()).unwrap().modified().unwrap());
    assert!(before == after, "the image has changed");
    let lock = File::open(volume.image()).unwrap();
    flock(&lock, FlockOperation::LockShared).unwrap();
    fails(&volume.run(&["rm", "@", "/f"]), 1, &["in use by another process"]);
}

#[test]
fn a_full_volume_is_said_to_be_full_and_stays_whole() {
    let volume = Volume::new(&[]);
    let file = File::create(volume.path("big")).unwrap();
    let noise: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for n in 0..200 {
        file.write_all_at(&noise, n << 20).unwrap();
    }
    fails(&volume.run(&["put", "big", "@", "/"]), 1, &["no space left on the volume", "larger volume"]);
    fsck_f2fs(volume.image()).unwrap();
    volume.ok(&["rm", "@", "/big"]);
    fs::write(volume.path("small"), "text").unwrap();
    volume.ok(&["put", "small", "@", "/"]);
    fsck_f2fs(volume.image()).unwrap();
}

#[test]
fn android_sparse_images_are_read() {
    let volume = Volume::new(&[]);
    fs::write(volume.path("f"), "text").unwrap();
    volume.ok(&["put", "f", "@", "/"]);
    let raw = fs::read(volume.image()).unwrap();
    let blocks = (raw.len() / 4096) as u32;
    // One chunk with all of it: the smallest image of the format.
    let mut sparse = Vec::new();
    sparse.extend(0xED26_FF3Au32.to_le_bytes());
    sparse.extend([1u16, 0, 28, 12].iter().flat_map(|n| n.to_le_bytes()));
    sparse.extend([4096, blocks, 1, 0].iter().flat_map(|n| n.to_le_bytes()));
    sparse.extend([0xCAC1u16, 0].iter().flat_map(|n| n.to_le_bytes()));
    sparse.extend([blocks, raw.len() as u32 + 12].iter().flat_map(|n| n.to_le_bytes()));
    sparse.extend(raw);
    fs::write(volume.image(), sparse).unwrap();
    assert_eq!(volume.ok(&["cat", "@", "/f"]), "text");
    assert!(volume.ok(&["fsck", "@"]).contains("no errors"));
    fails(&volume.run(&["rm", "@", "/f"]), 1, &["Android sparse", "simg2img"]);
}

#[test]
fn volumes_that_may_only_be_read() {
    let volume = Volume::new(&["-O", "extra_attr,compression"]);
    fs::write(volume.path("f"), "text").unwrap();
    assert_eq!(volume.ok(&["ls", "@"]), "");
    fails(&volume.run(&["put", "f", "@", "/"]), 1, &["compression"]);
}

#[test]
fn volumes_from_the_future() {
    let volume = Volume::new(&[]);
    let image = File::options().read(true).write(true).open(volume.image()).unwrap();
    for copy in [0, 4096] {
        image.write_all_at(&0x8000_0000u32.to_le_bytes(), copy + 1024 + 2180).unwrap();
    }
    for args in
        [&["ls", "@"][..], &["mkdir", "@", "/x"], &["cat", "@", "/x"], &["rm", "@", "/x"], &["gc", "@"], &["trim", "@"]]
    {
        fails(&volume.run(args), 1, &["0x80000000"]);
    }
}

#[test]
fn garbage_is_collected_on_request() {
    let volume = Volume::new(&[]);
    fs::write(volume.path("f"), vec![7; 3 << 20]).unwrap();
    for n in 0..10 {
        volume.ok(&["put", "f", "@", &format!("/f{n}")]);
    }
    for n in 0..10 {
        if n % 2 == 0 {
            volume.ok(&["rm", "@", &format!("/f{n}")]);
        }
    }
    let text = volume.ok(&["gc", "@"]);
    assert!(text.contains("sections collected"), "{text}");
    for n in (1..10).step_by(2) {
        assert_eq!(volume.ok(&["cat", "@", &format!("/f{n}")]).len(), 3 << 20);
    }
    fsck_f2fs(volume.image()).unwrap();
}

#[test]
fn free_space_goes_back_to_the_host() {
    let volume = Volume::new(&[]);
    fs::write(volume.path("f"), vec![7; 20 << 20]).unwrap();
    volume.ok(&["put", "f", "@", "/f"]);
    volume.ok(&["put", "f", "@", "/gone"]);
    volume.ok(&["rm", "@", "/gone"]);
    let allocated = || fs::metadata(volume.image()).unwrap().blocks() * 512;
    let before = allocated();
    let text = volume.ok(&["trim", "@"]);
    assert!(text.starts_with("discarded "), "{text}");
    assert!(allocated() + (18 << 20) < before, "{before} before, {} after", allocated());
    assert_eq!(volume.ok(&["cat", "@", "/f"]).len(), 20 << 20);
    volume.judge();
}

#[test]
fn bad_devices_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, directory) = (dir.path().join("missing"), dir.path());
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for (before, after) in [
        (&["ls"][..], &[][..]),
        (&["cat"], &["/x"]),
        (&["stat"], &["/x"]),
        (&["find"], &[]),
        (&["put", file.to_str().unwrap()], &["/"]),
        (&["get"], &["/", "out"]),
        (&["rm"], &["/x"]),
        (&["mkdir"], &["/x"]),
        (&["ln"], &["/x", "/y"]),
        (&["mv"], &["/x", "/y"]),
        (&["gc"], &[]),
        (&["trim"], &[]),
    ] {
        let on = |device: &Path| run(&[before, &[device.to_str().unwrap()], after].concat());
        fails(&on(&missing), 1, &["no such file"]);
        fails(&on(directory), 1, &["a directory"]);
        fails(&on(&file), 1, &["1 bytes"]);
    }
}
