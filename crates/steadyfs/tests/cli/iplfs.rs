//! IPLFS volumes by every command, in images on a file system that has files of 1 EiB (tmpfs), mounted and not.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::Signal;
use serde_json::Value;

use crate::inspect::{fails, value};
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, steadyfs};

const MIB: u64 = 1 << 20;

/// Where files may be that long.
fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("these tests need /dev/shm")
}

/// An image with an empty volume that may hold 64 MiB.
struct Infinite {
    place: Place,
}

impl Infinite {
    fn new() -> Self {
        let place = Place { dir: tempdir() };
        let made = finish(steadyfs().args(["mkfs", "-q", "--kind", "iplfs", "--capacity", "64M"]).arg(place.image()));
        assert_eq!((made.code, made.stderr.as_str()), (0, ""));
        Infinite { place }
    }

    fn image(&self) -> PathBuf {
        self.place.image()
    }

    /// Runs a command; `@` stands for the image, other names for files beside it.
    fn run(&self, args: &[&str]) -> Output {
        let args = args.iter().map(|arg| if *arg == "@" { "a.img" } else { arg });
        finish(steadyfs().args(args).current_dir(self.place.dir.path()))
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}\n{}", out.stdout);
        out.stdout
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Puts a file of so many bytes in.
    fn put(&self, name: &str, bytes: usize) {
        fs::write(self.place.dir.path().join(name), contents(bytes)).unwrap();
        self.ok(&["put", name, "@", "/"]);
    }

    fn taken(&self) -> u64 {
        fs::metadata(self.image()).unwrap().blocks() * 512
    }

    fn serve(&self) -> Child {
        fs::create_dir_all(self.place.mnt()).unwrap();
        self.place.serve(&[])
    }
}

/// Bytes that tell their place.
fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 4096 * 7 + at % 251) as u8).collect()
}

fn of(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn an_image_is_one_exbibyte_of_holes() {
    let dir = tempdir();
    let mkfs = |args: &[&str]| finish(steadyfs().args(["mkfs", "--kind", "iplfs"]).args(args).current_dir(&dir));
    let made = mkfs(&["--capacity", "64M", "-l", "infinite", "-d", "1", "a.img"]);
    assert_eq!((made.code, made.stderr.as_str()), (0, ""));
    assert_eq!(value(&made.stdout, "capacity"), "64.0 MiB, 60.0 MiB of it for files");
    assert_eq!(value(&made.stdout, "logs"), "6, and one for discards; each takes 128 PiB in its life");
    assert_eq!(value(&made.stdout, "hot data"), format!("from block {}", 1u64 << 45));
    let meta = fs::metadata(dir.path().join("a.img")).unwrap();
    assert!(meta.len() == 1 << 60 && meta.blocks() * 512 < MIB / 4, "{meta:?}");
    // What is there is kept, unless somebody says otherwise; then the length stays.
    fails(&mkfs(&["--capacity", "64M", "a.img"]), 8, &["it holds something already (iplfs)", "add -f"]);
    let again = mkfs(&["--capacity", "32M", "-f", "--json", "a.img"]);
    let json: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((of(&json, "/capacity"), of(&json, "/log_size"), of(&json, "/size")), (32 * MIB, 1 << 57, 1 << 60));
    // A shorter address space, as asked for.
    assert_eq!(mkfs(&["--capacity", "64M", "--leap", "1M", "-q", "b.img", "1T"]).code, 0);
    assert_eq!(fs::metadata(dir.path().join("b.img")).unwrap().len(), 1 << 40);
    let dump = finish(steadyfs().args(["dump", "sb", "b.img"]).current_dir(&dir)).stdout;
    assert_eq!((value(&dump, "log_shift"), value(&dump, "leap")), ("25".to_owned(), "256".to_owned()));
    let planned = mkfs(&["--capacity", "64M", "-n", "c.img"]);
    assert!(planned.code == 0 && !dir.path().join("c.img").exists(), "{planned:?}");
}

#[test]
fn what_cannot_be_made_says_what_to_do() {
    let dir = tempdir();
    let mkfs = |args: &[&str]| finish(steadyfs().arg("mkfs").args(args).current_dir(&dir));
    for (args, code, parts) in [
        (&["--kind", "iplfs", "a.img"][..], 16, &["needs a --capacity", "--capacity 64G"][..]),
        (
            &["--capacity", "1G", "a.img", "1G"],
            16,
            &["only an IPLFS or a D2FS volume has a --capacity", "--kind iplfs"],
        ),
        (&["--leap", "1G", "a.img", "1G"], 16, &["only an IPLFS volume has a --leap"]),
        (&["--kind", "iplfs", "--capacity", "1M", "a.img"], 16, &["the capacity is 4096 to "]),
        (&["--kind", "iplfs", "--capacity", "1G", "-s", "2", "a.img"], 16, &["has no sections (-s)"]),
        (&["--kind", "iplfs", "--capacity", "1G", "-g", "android", "a.img"], 16, &["has no defaults for Android (-g)"]),
        (&["--kind", "iplfs", "--capacity", "1G", "-O", "compression", "a.img"], 16, &["compression"]),
        (
            &["--kind", "iplfs", "--capacity", "1G", "a.img", "1T"],
            8,
            &["used up for good after 128 GiB", "8.00 TiB", "-f"],
        ),
        (&["--kind", "zonefs", "a.img"], 16, &["possible values: f2fs, iplfs"]),
    ] {
        let out = mkfs(args);
        assert_eq!((out.code, out.stdout.as_str()), (code, ""), "{args:?}: {}", out.stderr);
        assert!(parts.iter().all(|part| out.stderr.contains(part)), "{args:?}: {}", out.stderr);
        assert!(!dir.path().join("a.img").exists(), "{args:?}");
    }
    assert_eq!(mkfs(&["-q", "-f", "--kind", "iplfs", "--capacity", "1G", "a.img", "1T"]).code, 0);
    // As ext4 does: no files of that length, whether there is one already or not.
    fs::write(dir.path().join("c.img"), "").unwrap();
    for name in ["b.img", "c.img"] {
        let limited = "trap '' XFSZ; ulimit -f 1000000; exec \"$0\" mkfs --kind iplfs --capacity 1G";
        let out = finish(
            Command::new("bash")
                .args(["-c", &format!("{limited} {name}")])
                .arg(steadyfs().get_program())
                .current_dir(&dir),
        );
        fails(&out, 8, &["the file system there has no files of 1.00 EiB", "tmpfs, XFS or btrfs"]);
    }
    assert!(!dir.path().join("b.img").exists());
}

#[test]
fn files_go_in_and_come_out_and_nothing_is_left_behind() {
    let infinite = Infinite::new();
    infinite.put("one", 20 << 20);
    infinite.put("small", 100);
    for _ in 0..6 {
        // Six times what fits, over itself.
        infinite.put("one", 30 << 20);
    }
    assert!(infinite.ok(&["ls", "@", "/"]).contains("one"));
    assert!(infinite.ok(&["ls", "-l", "@", "/"]).contains(&(30 << 20).to_string()));
    let cat = finish(steadyfs().args(["cat", "a.img", "/small"]).current_dir(infinite.place.dir.path()));
    assert_eq!(cat.stdout.len(), String::from_utf8_lossy(&contents(100)).len());
    infinite.ok(&["get", "@", "/one", "out"]);
    assert!(fs::read(infinite.place.dir.path().join("out")).unwrap() == contents(30 << 20));
    assert!(infinite.ok(&["stat", "@", "/one"]).contains(&(30 << 20).to_string()));
    assert_eq!(infinite.ok(&["find", "@", "/", "--name", "sm*"]).trim(), "/small");
    assert_eq!(infinite.json(&["fsck", "--leaks", "--json", "@"])["issues"], serde_json::json!([]));
    let info = infinite.json(&["info", "--json", "@"]);
    assert_eq!((&info["kind"], of(&info, "/iplfs/capacity")), (&"iplfs".into(), 64 * MIB));
    assert!(info.get("sections").is_none() && info.get("logs").is_none(), "{info}");
    let (used, taken) = (of(&info, "/space/used"), infinite.taken());
    assert!(used > 30 * MIB && taken * 100 <= used * 105, "{taken} bytes for {used}");
    infinite.ok(&["rm", "@", "/one"]);
    let trimmed = infinite.ok(&["trim", "@"]);
    assert!(trimmed.starts_with("discarded ") && trimmed.contains(" 0 B of it that nobody knew"), "{trimmed}");
    assert!(infinite.taken() < MIB / 4, "{}", infinite.taken());
    infinite.ok(&["recover", "@"]);
}

/// A block that nobody needs and nobody knows to be dead is found, and given back.
#[test]
fn what_leaked_is_named_and_trimmed() {
    let infinite = Infinite::new();
    infinite.put("one", 1 << 20);
    let stray = (5u64 << 45) + (1 << 30);
    let limit = of(&infinite.json(&["info", "--json", "@"]), "/iplfs/heads/4/limit");
    assert!(stray > limit, "behind the limit");
    let image = File::options().write(true).open(infinite.image()).unwrap();
    image.write_all_at(&[7; 4096], stray * 4096).unwrap();
    drop(image);
    assert_eq!(infinite.run(&["fsck", "-f", "@"]).code, 0, "only --leaks looks for it");
    let found = infinite.run(&["fsck", "--leaks", "--json", "@"]);
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["issues"][0]["code"], "HeldBeyondLimit", "{report}");
    let trimmed = infinite.ok(&["trim", "@"]);
    assert!(trimmed.contains(" 4.00 KiB of it that nobody knew to be dead"), "{trimmed}");
    assert_eq!(infinite.json(&["fsck", "--leaks", "--json", "@"])["issues"], serde_json::json!([]));
    // Other volumes have none.
    let f2fs = Place { dir: tempdir() };
    f2fs.mkfs();
    fails(&finish(steadyfs().args(["fsck", "--leaks"]).arg(f2fs.image())), 16, &["it is no IPLFS volume"]);
}

#[test]
fn structures_are_shown_in_the_words_of_the_format() {
    let infinite = Infinite::new();
    infinite.put("one", 10 << 20);
    let info = infinite.ok(&["info", "@"]);
    assert_eq!((value(&info, "kind"), value(&info, "state")), ("iplfs".to_owned(), "clean".to_owned()));
    assert!(value(&info, "warm data").contains("of 128 PiB used up"), "{info}");
    assert!(value(&info, "capacity").starts_with("64.0 MiB; `steadyfs resize`"), "{info}");
    let cp = infinite.ok(&["dump", "cp", "@"]);
    let sb = infinite.ok(&["dump", "sb", "@"]);
    assert_eq!((value(&sb, "magic"), value(&sb, "first_log")), ("0x464c5049".to_owned(), (1u64 << 45).to_string()));
    assert!(value(&cp, "warm node").starts_with("next ") && value(&cp, "meta").contains(" limit "), "{cp}");
    let inode = infinite.json(&["dump", "inode", "--json", "/one", "@"]);
    let direct = inode["i_nid[0]"].as_str().unwrap().split(' ').next().unwrap().to_owned();
    let node = of(&infinite.json(&["dump", "nat", "--json", &direct, "@"]), "/block_addr");
    assert_eq!(node >> 45, 5, "a node of the warm node log");
    let block = infinite.ok(&["dump", "block", &node.to_string(), "@"]);
    assert_eq!(
        (value(&block, "area"), value(&block, "state")),
        ("log warm node".to_owned(), "before the head".to_owned())
    );
    assert_eq!(value(&infinite.ok(&["dump", "block", "512", "@"]), "area"), "checkpoint pack 1");
    assert!(infinite.ok(&["dump", "dir", "3", "@"]).contains("one"));
    for table in ["sit", "ssa"] {
        fails(&infinite.run(&["dump", table, "0", "@"]), 1, &["an IPLFS volume has logs and no segments", "dump cp"]);
    }
    for plan in [&["gc", "@"][..], &["gc", "--plan", "@"]] {
        assert!(infinite.ok(plan).starts_with("nothing to collect: "), "{plan:?}");
    }
    assert_eq!(of(&infinite.json(&["gc", "--json", "@"]), "/data_moved"), 0);
    let top = infinite.ok(&["top", "--once", "@"]);
    assert!(value(&top, "held").ends_with(" of 64.0 MiB that it may hold") && !top.contains("segments"), "{top}");
    assert!(value(&top, "logs").ends_with("128 PiB before one is used up"), "{top}");
}

#[test]
fn the_capacity_changes_mounted_and_not() {
    let infinite = Infinite::new();
    let resize = |size: &str, volume: &Path| finish(steadyfs().args(["resize", "--capacity", size]).arg(volume));
    let image = infinite.image();
    let grown = resize("128M", &image);
    assert!(
        grown.code == 0 && grown.stdout.contains("may hold 128 MiB instead of 64.0 MiB, 120 MiB of it"),
        "{grown:?}"
    );
    infinite.put("one", 50 << 20);
    fails(&resize("32M", &image), 1, &["it holds more already", "remove something"]);
    let out = resize("1K", &image);
    assert!(out.code == 2 && out.stderr.contains("the capacity is 4096 to"), "{out:?}");
    let child = infinite.serve();
    let mnt = infinite.place.mnt();
    let write = || {
        let mut file = File::create(mnt.join("two"))?;
        file.write_all(&contents(120 << 20))?;
        file.sync_all()
    };
    assert_eq!(write().unwrap_err().kind(), ErrorKind::StorageFull, "there is no room for it");
    fs::remove_file(mnt.join("two")).unwrap();
    // By the mount, and by the image that is mounted.
    let by_mount = resize("192M", &mnt);
    assert!(by_mount.code == 0 && by_mount.stdout.contains("192 MiB instead of 128 MiB"), "{by_mount:?}");
    let by_image = resize("256M", &image);
    assert!(by_image.code == 0 && by_image.stdout.contains("256 MiB instead of 192 MiB"), "{by_image:?}");
    write().unwrap();
    fails(&resize("100M", &mnt), 1, &["it holds more already"]);
    assert_eq!(resize("1K", &mnt).code, 2);
    let nobody = finish(
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "setfattr", "-n", "steadyfs.capacity"])
            .args(["-v", "999999999"])
            .arg(&mnt),
    );
    assert_ne!(nobody.code, 0);
    let stats = finish(steadyfs().args(["info", "--json"]).arg(&mnt)).stdout;
    assert_eq!(of(&serde_json::from_str(&stats).unwrap(), "/logs/capacity"), 256 * MIB / 4096);
    let top = finish(steadyfs().args(["top", "--once"]).arg(&mnt)).stdout;
    assert!(value(&top, "held").ends_with(" of 256 MiB that it may hold"), "{top}");
    ends_well(child, Some(Signal::INT));
    infinite.place.wait_until_closed();
    assert_eq!(infinite.json(&["fsck", "--leaks", "--json", "@"])["issues"], serde_json::json!([]));
    assert!(infinite.ok(&["ls", "-l", "@", "/"]).contains(&(120 << 20).to_string()));
    // Volumes of the other kind keep their size.
    let f2fs = Place { dir: tempdir() };
    f2fs.mkfs();
    fails(&resize("1G", &f2fs.image()), 1, &["keeps the size that it was made with", "mkfs --kind iplfs"]);
    fs::create_dir_all(f2fs.mnt()).unwrap();
    let child = f2fs.serve(&[]);
    fails(&resize("1G", &f2fs.mnt()), 1, &["keeps the size that it was made with"]);
    ends_well(child, Some(Signal::INT));
}

/// Node ids are made with the volume: a capacity that they cannot use is refused, and one for which they may be few is
/// told so.
#[test]
fn the_capacity_goes_as_far_as_node_ids_do() {
    let infinite = Infinite::new();
    let resize = |image: &str, size: &str| infinite.run(&["resize", "--capacity", size, image]);
    fails(&resize("a.img", "1T"), 2, &["its 161280 node ids reach 82252800 blocks at most", "mkfs --grow-to"]);
    let grown = resize("a.img", "300G");
    assert!(grown.stdout.contains("; its 161277 node ids are the most files that it holds"), "{grown:?}");
    let child = infinite.serve();
    let refused = finish(steadyfs().args(["resize", "--capacity", "1T"]).arg(infinite.place.mnt()));
    fails(&refused, 2, &["2 MiB for each node id", "mkfs --grow-to"]);
    let df = finish(Command::new("df").args(["--output=itotal"]).arg(infinite.place.mnt())).stdout;
    assert!(df.contains("161277"), "{df}");
    ends_well(child, Some(Signal::INT));
    infinite.place.wait_until_closed();
    infinite.ok(&["mkfs", "-q", "--kind", "iplfs", "--capacity", "64M", "--grow-to", "4G", "b.img"]);
    let grown = resize("b.img", "4G");
    assert!(grown.code == 0 && !grown.stdout.contains("node ids"), "{grown:?}");
    infinite.ok(&["fsck", "-f", "b.img"]);
}

/// What the files of a directory take.
fn taken_by(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn a_directory_of_chunks_holds_a_volume_where_files_are_short() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| finish(steadyfs().args(args).current_dir(dir.path()));
    let ok = |args: &[&str]| {
        let out = run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}\n{}", out.stdout);
        out.stdout
    };
    let make = ["mkfs", "-q", "--kind", "iplfs", "--capacity", "64M", "a.d/"];
    ok(&make);
    fs::write(dir.path().join("large"), contents(8 << 20)).unwrap();
    ok(&["put", "large", "a.d", "/"]);
    let read = run(&["get", "a.d", "/large", "again"]);
    assert_eq!((read.code, fs::read(dir.path().join("again")).unwrap() == contents(8 << 20)), (0, true));
    ok(&["fsck", "--leaks", "a.d"]);
    let full = taken_by(&dir.path().join("a.d"));
    assert!((8 * MIB..9 * MIB).contains(&full), "{full} bytes are taken by 8 MiB");
    fails(&run(&make), 8, &["a.d", "holds something already", "add -f"]);

    ok(&["rm", "a.d", "/large"]);
    ok(&["fsck", "--leaks", "a.d"]);
    let empty = taken_by(&dir.path().join("a.d"));
    assert!(empty < MIB, "{empty} bytes are taken by nothing");

    // The end of a mount is waited for, by whichever name it is called.
    for name in ["m", "a.d"] {
        fs::create_dir_all(dir.path().join("m")).unwrap();
        run(&["mount", "--background", "a.d", "m"]);
        fs::write(dir.path().join("m/new"), contents(4 << 20)).unwrap();
        ok(&["umount", name]);
        ok(&["fsck", "--leaks", "a.d"]);
        ok(&["rm", "a.d", "/new"]);
    }

    fs::create_dir(dir.path().join("other")).unwrap();
    fs::write(dir.path().join("other/file"), "mine").unwrap();
    fails(&run(&["mkfs", "--kind", "iplfs", "--capacity", "64M", "other"]), 8, &["not empty"]);
    fails(&run(&["mkfs", "--kind", "iplfs", "--capacity", "64M", "b.d/", "1G"]), 8, &["used up for good"]);
    assert!(!dir.path().join("b.d").exists(), "what was made in vain is gone");
    assert_eq!(fs::read_to_string(dir.path().join("other/file")).unwrap(), "mine");
}
