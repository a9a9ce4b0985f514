//! What commands say of what goes wrong, or is not what it seems, and what they leave behind then.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, run_as, steadyfs};

/// A place with a volume, and commands about it: `@` is its image, other names are of files beside it.
struct Volume(Place);

impl Volume {
    fn new() -> Self {
        let place = Place::formatted();
        Volume(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let args = args.iter().map(|arg| if *arg == "@" { "a.img" } else { arg });
        finish(steadyfs().args(args).current_dir(self.0.dir.path()))
    }
}

/// As tar and cp do: what is gone, or may not be read, is named and left out. What the user named has to be there.
#[test]
fn put_goes_on_where_a_file_cannot_be_read() {
    let volume = Volume::new();
    let script = r#"
mkdir -p tree/closed; echo a >tree/a; echo z >tree/z; echo in >tree/closed/file; chmod 0 tree/closed tree/z
chmod 777 . a.img tree
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$STEADYFS" put tree a.img /
"#;
    let program = volume.path("steadyfs");
    fs::copy(steadyfs().get_program(), &program).unwrap();
    fs::set_permissions(volume.0.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut run = std::process::Command::new("bash");
    let out = finish(run.args(["-ec", script]).current_dir(volume.0.dir.path()).env("STEADYFS", &program));
    assert_eq!((out.code, out.stderr.lines().count()), (1, 2), "{out:?}");
    assert!(out.stderr.contains("tree/closed: left out: permission denied"), "{out:?}");
    assert!(out.stderr.contains("tree/z: left out: permission denied"), "{out:?}");
    assert_eq!(volume.run(&["find", "@", "/tree"]).stdout, "/tree\n/tree/a\n/tree/closed\n");
    fails(&volume.run(&["put", "nothing", "@", "/"]), 1, &["cannot read nothing", "no such file"]);
    volume.0.judge();
}

/// A header of a tar stream, with its file's bytes.
fn member(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", contents.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = [&header[..], contents].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn put_ends_at_ctrl_c_with_what_was_copied() {
    let volume = Volume::new();
    let fifo = volume.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let mut put = steadyfs();
    put.args(["put", "--tar", "fifo", "a.img", "/"]).current_dir(volume.0.dir.path()).stderr(Stdio::piped());
    let child = put.spawn().unwrap();
    let mut tar = File::options().write(true).open(&fifo).unwrap();
    tar.write_all(&member("first", b"1")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = format!("/proc/{}/status", child.id());
    let pending = |status: String| status.lines().any(|line| line.starts_with("ShdPnd") && !line.ends_with("0000"));
    while pending(fs::read_to_string(&status).unwrap()) {
        std::thread::yield_now();
    }
    // It may have gone by then.
    let _ = tar.write_all(&member("second", b"2"));
    drop(tar);
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(said.contains("cannot copy the rest: it was interrupted; what was copied before is there"), "{said}");
    assert!(!volume.run(&["ls", "@", "/"]).stdout.contains("second"));
    volume.0.judge();
}

#[test]
fn recover_says_that_it_took_the_mark_of_a_journal_away() {
    let volume = Volume::new();
    let marked = |on: bool| {
        let image = File::options().read(true).write(true).open(volume.0.image()).unwrap();
        let sector = if on { *b"SFJV" } else { 9u32.to_le_bytes() };
        for copy in [0, 4096] {
            image.write_all_at(&sector, copy + 1024 + 8).unwrap();
        }
    };
    marked(true);
    assert!(volume.run(&["info", "@"]).stdout.contains("journal"));
    assert!(volume.run(&["dump", "sb", "@"]).stdout.contains("(there may be a metadata journal to replay)"));
    let again = volume.run(&["mkfs", "@"]);
    fails(&again, 8, &["it holds something already (f2fs with a metadata journal)"]);
    let recovered = volume.run(&["recover", "@"]);
    assert!(recovered.code == 0 && recovered.stdout.contains("the mark of a journal is gone"), "{recovered:?}");
    let again = volume.run(&["recover", "@"]);
    assert!(
        again.code == 0 && again.stdout.ends_with("there was nothing to recover; the volume is clean\n"),
        "{again:?}"
    );
    volume.0.judge();
}

#[test]
fn a_check_of_a_volume_in_use_says_how_it_can_be_checked() {
    let volume = Volume::new();
    fs::create_dir(volume.0.mnt()).unwrap();
    let child = volume.0.serve(&[]);
    fails(&volume.run(&["fsck", "@"]), 8, &["it is in use, mounted on", "check its last checkpoint with -n"]);
    assert_eq!(volume.run(&["fsck", "-n", "@"]).code, 0);
    ends_well(child, Some(Signal::INT));
}

/// Warnings are lines like all others.
#[test]
fn what_is_warned_of_has_the_name_of_the_program_and_no_time() {
    let volume = Volume::new();
    let dump = volume.run(&["dump", "sb", "@"]).stdout;
    let number = |name: &str| -> u64 {
        let line = dump.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let image = File::options().write(true).open(volume.0.image()).unwrap();
    // Both copies of the first block of the SIT; the journal of a new volume has some of its entries.
    for block in [0, 512] {
        image.write_all_at(&[0xFF; 4096], (number("sit_blkaddr") + block) * 4096).unwrap();
    }
    let out = volume.run(&["ls", "@", "/"]);
    assert!(out.code == 0 && !out.stderr.is_empty(), "{out:?}");
    assert!(out.stderr.lines().all(|line| line.starts_with("steadyfs: ")), "{out:?}");
}

#[test]
fn a_volume_with_larger_blocks_is_told_as_one() {
    let volume = Volume::new();
    let image = File::options().write(true).open(volume.0.image()).unwrap();
    image.write_all_at(&[0; 4096], 4096).unwrap();
    for (at, value) in [(12, 5u32), (16, 14)] {
        image.write_all_at(&value.to_le_bytes(), 1024 + at).unwrap();
    }
    let why = "it has blocks of 16 KiB, and only blocks of 4 KiB are read";
    for command in [&["ls", "@", "/"][..], &["info", "@"], &["put", "a.img", "@", "/"]] {
        let out = volume.run(command);
        fails(&out, 1, &[why, "pages have that size"]);
        assert!(!out.stderr.contains("fsck"), "{out:?}");
    }
    let out = volume.run(&["fsck", "@"]);
    assert!(out.code == 8 && out.stdout.contains(why) && !out.stdout.contains("damaged"), "{out:?}");
    fails(&volume.run(&["mkfs", "@"]), 8, &["it holds something already (f2fs)"]);
}

#[test]
fn flags_and_options_that_people_bring() {
    let volume = Volume::new();
    assert_eq!(volume.run(&["mkfs", "-q", "-f", "-b", "4096", "@"]).code, 0);
    fails(&volume.run(&["mkfs", "-f", "-b", "16384", "@"]), 16, &["blocks of 16384 bytes (-b)", "has 4096"]);
    fs::create_dir(volume.0.mnt()).unwrap();
    // A kernel without SELinux needs no label, and takes none.
    if !std::path::Path::new("/sys/fs/selinux").exists() {
        let labels = "seclabel,io_bits=2,context=system_u:object_r:tmp_t:s0,rootcontext=u:r:t:s0";
        let child = volume.0.serve(&["-o", labels]);
        ends_well(child, Some(Signal::INT));
    }
    for topic in [&["help"][..], &["help", "mount"]] {
        let out = volume.run(topic);
        assert!(out.code == 0 && out.stdout.contains("Usage: "), "{out:?}");
    }
    assert!(run_as("steadyfs", &["help", "nothing"]).code != 0);
}

/// D2FS' mark is known in a file, too: a copy of the device's blocks.
#[test]
fn an_image_of_a_d2fs_volume_is_overwritten_only_with_force() {
    let volume = Volume::new();
    let made = volume.run(&["mkfs", "-q", "--kind", "d2fs", "--capacity", "64M", "a.d2fs"]);
    assert_eq!(made.code, 0, "{made:?}");
    fails(&volume.run(&["mkfs", "a.d2fs/blocks"]), 8, &["it holds something already (d2fs)", "add -f"]);
}
