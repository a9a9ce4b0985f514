//! `trace`: what is done with a mount is recorded, as often as it was done and without names and contents; and is
//! shown. Needs root.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use steadyfs_trace::Op;
use steadyfs_trace::file::{self, Trace};

use crate::run::{Output, finish, run, steadyfs, umount};

/// A mounted volume; unmounts when it goes.
pub(crate) struct Mount {
    pub(crate) dir: tempfile::TempDir,
}

impl Mount {
    /// A new volume, mounted in the background.
    pub(crate) fn new(args: &[&str]) -> Self {
        let mount = Mount { dir: tempfile::tempdir().unwrap() };
        let args: Vec<String> = args.iter().map(|arg| arg.replace("DIR", mount.dir.path().to_str().unwrap())).collect();
        let out = finish(
            steadyfs()
                .args(["mount", "--background", "--create", "128M"])
                .args(args)
                .arg(mount.path("a.img"))
                .arg(mount.path("mnt")),
        );
        assert_eq!(out.code, 0, "{out:?}");
        mount
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Unmounts, and waits until the image is closed and what was recorded is written.
    pub(crate) fn end(&self) {
        umount(&self.path("mnt"));
        let (image, start) = (File::open(self.path("a.img")).unwrap(), Instant::now());
        while flock(&image, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "the image is still in use");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn trace(&self, name: &str) -> Trace {
        file::read(&mut &fs::read(self.path(name)).unwrap()[..]).unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It may have been unmounted already.
        let _ = Command::new("umount").arg(self.path("mnt")).stderr(std::process::Stdio::null()).status();
    }
}

/// Ten files of ten pages each in a directory, synced; half of them renamed, two removed, one read, one shortened, one
/// linked.
pub(crate) fn known_work(mount: &Mount) {
    let dir = mount.path("mnt/confidential-directory");
    fs::create_dir(&dir).unwrap();
    let name = |number: usize| dir.join(format!("secret-name-{number}"));
    for number in 0..10 {
        let mut file = File::create(name(number)).unwrap();
        for page in 0..10u8 {
            file.write_all(&[page; 4096]).unwrap();
        }
        file.sync_all().unwrap();
    }
    (0..5).for_each(|number| fs::rename(name(number), name(100 + number)).unwrap());
    (5..7).for_each(|number| fs::remove_file(name(number)).unwrap());
    let file = OpenOptions::new().read(true).write(true).open(name(7)).unwrap();
    let mut page = [0; 4096];
    (0..10).for_each(|at| file.read_exact_at(&mut page, at * 4096).unwrap());
    file.set_len(8192).unwrap();
    fs::hard_link(name(8), name(9).with_extension("link")).unwrap();
    assert!(fs::create_dir(&dir).is_err());
    let mut sparse = OpenOptions::new().write(true).open(name(9)).unwrap();
    sparse.seek(SeekFrom::Start(1 << 20)).unwrap();
    sparse.write_all(b"contents that nobody may see").unwrap();
    sparse.sync_data().unwrap();
}

/// What of this the file system is asked for, exactly.
pub(crate) const KNOWN: [(Op, u64); 9] = [
    (Op::Mkdir, 1),
    (Op::Create, 10),
    (Op::Write, 101),
    (Op::Fsync, 11),
    (Op::Rename, 5),
    (Op::Unlink, 2),
    (Op::Read, 10),
    (Op::Setattr, 1),
    (Op::Link, 1),
];

pub(crate) fn counts(trace: &Trace) -> BTreeMap<Op, u64> {
    let mut counts = BTreeMap::new();
    trace.records.iter().for_each(|record| *counts.entry(record.op).or_default() += 1);
    counts
}

#[track_caller]
fn is_known(trace: &Trace) {
    let counts = counts(trace);
    for (op, count) in KNOWN {
        assert_eq!(counts.get(&op), Some(&count), "{op:?} of {counts:?}");
    }
    assert_eq!((trace.dropped, trace.cut_off), (0, false));
    let sum = |op| trace.records.iter().filter(|record| record.op == op).map(|record| record.done).sum::<u64>();
    assert_eq!((sum(Op::Write), sum(Op::Read)), (100 * 4096 + 28, 40960));
    let me = trace.records.iter().find(|record| record.op == Op::Mkdir).unwrap().thread;
    assert!(trace.records.iter().filter(|record| record.op == Op::Write).all(|record| record.thread == me));
    let last = trace.records.iter().rfind(|record| record.op == Op::Write).unwrap();
    assert_eq!((last.offset, last.size, last.done, last.error), (1 << 20, 28, 28, 0));
}

#[test]
fn a_mount_records_what_is_done_with_it_and_neither_names_nor_contents() {
    let mount = Mount::new(&["-o", "direct_io", "--trace", "DIR/t"]);
    known_work(&mount);
    mount.end();
    is_known(&mount.trace("t"));
    let bytes = fs::read(mount.path("t")).unwrap();
    for secret in ["secret", "confidential", "contents", "link"] {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} is in the trace");
    }
    let shown = run(&["trace", "show", mount.path("t").to_str().unwrap()]);
    let lines = mount.trace("t").records.len();
    assert_eq!((shown.code, shown.stdout.lines().count(), shown.stderr.as_str()), (0, lines, ""));
    let json = run(&["trace", "show", "--json", mount.path("t").to_str().unwrap()]);
    let writes = json.stdout.lines().filter(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["op"] == "write" && record["size"] == 4096
    });
    assert_eq!(writes.count(), 100);
    let stats = run(&["trace", "stats", "--json", mount.path("t").to_str().unwrap()]);
    let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!((&stats["ops"]["write"]["count"], &stats["written_bytes"]), (&101.into(), &(409_600 + 28).into()));
    assert_eq!(stats["footprint_bytes"], 101 * 4096);
    assert!(run(&["trace", "stats", mount.path("t").to_str().unwrap()]).stdout.contains("footprint 404 KiB"));
    assert_eq!(run(&["fsck", mount.path("a.img").to_str().unwrap()]).code, 0);
}

/// What `ttl=` promises, as a trace by `trace=` shows it.
#[test]
fn the_kernel_asks_again_for_names_and_attributes_when_their_time_is_over() {
    let asked = |options: &str| {
        let mount = Mount::new(&["-o", options, "-o", "trace=DIR/t"]);
        let path = mount.path("mnt/file");
        let file = File::create(&path).unwrap();
        (0..10).for_each(|_| assert!(fs::metadata(&path).unwrap().is_file() && file.metadata().unwrap().is_file()));
        drop(file);
        mount.end();
        let counts = counts(&mount.trace("t"));
        [Op::Lookup, Op::Getattr].map(|op| counts.get(&op).copied().unwrap_or(0))
    };
    let (trusting, asking) = (asked("ttl=3600"), asked("ttl=0"));
    assert!(trusting.iter().all(|times| *times < 5), "lookups and attributes: {trusting:?}");
    assert!(asking.iter().all(|times| *times >= 10), "lookups and attributes: {asking:?}");
}

#[test]
fn a_running_mount_is_recorded_from_outside_while_a_command_runs() {
    let mount = Mount::new(&[]);
    let record = |mount: &Mount, to: &str, command: &[&str]| -> Output {
        let mut all = steadyfs();
        all.args(["trace", "record"]).arg(mount.path("mnt")).arg("-o").arg(mount.path(to));
        finish(all.args(command))
    };
    fs::write(mount.path("mnt/before"), [7; 5000]).unwrap();
    let script = format!(
        "cd {} && dd if=/dev/zero of=a bs=64k count=16 2>/dev/null && mv a b && exit 3",
        mount.path("mnt").display()
    );
    let out = record(&mount, "t1", &["--", "sh", "-c", &script]);
    assert!(out.code == 3 && out.stderr.contains(" 0 dropped"), "the command's code: {out:?}");
    let trace = mount.trace("t1");
    let (counted, written) = (counts(&trace), |trace: &Trace| {
        trace.records.iter().filter(|record| record.op == Op::Write).map(|record| record.done).sum::<u64>()
    });
    assert_eq!((counted[&Op::Create], counted[&Op::Rename]), (1, 1));
    // The kernel kept what was written until the end of the recording made it write back.
    assert_eq!(written(&trace), 1 << 20);
    // A second recording, for a time; then nothing is recorded any more.
    let out = record(&mount, "t2", &["--seconds", "1"]);
    assert!(out.code == 0 && mount.trace("t2").records.len() < 20, "{out:?}");
    fs::write(mount.path("mnt/after"), b"x").unwrap();
    // What cannot be recorded, and what must not be touched.
    fs::write(mount.path("mnt/mine"), b"kept").unwrap();
    for (out, part) in [
        (record(&mount, "mnt/mine", &[]), "not on the volume"),
        (record(&mount, "nowhere/t", &[]), "cannot write"),
        (run(&["trace", "record", "/proc", "-o", "t"]), "no SteadyFS volume is mounted there"),
        (run(&["trace", "show", mount.path("a.img").to_str().unwrap()]), "no trace of steadyfs"),
    ] {
        assert!(out.code != 0 && out.stderr.contains(part), "{part}: {out:?}");
    }
    assert_eq!(fs::read(mount.path("mnt/mine")).unwrap(), b"kept");
    mount.end();
}

#[test]
fn one_recording_at_a_time_and_the_end_of_the_mount_ends_it() {
    let mount = Mount::new(&["-o", "direct_io"]);
    let start = |to: &str| {
        let mut command = steadyfs();
        command.args(["trace", "record"]).arg(mount.path("mnt")).arg("-o").arg(mount.path(to));
        command
    };
    let mut first = start("t1").stderr(std::process::Stdio::null()).spawn().unwrap();
    // It records as soon as there is something in its file.
    let began = Instant::now();
    while fs::metadata(mount.path("t1")).map_or(0, |meta| meta.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the first does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = finish(start("t2").args(["--", "true"]));
    assert!(second.code != 0 && second.stderr.contains("it is being recorded already"), "{second:?}");
    known_work(&mount);
    // The mount goes when all of it has been taken.
    while counts(&mount.trace("t1")).get(&Op::Fsync) != Some(&11) {
        assert!(began.elapsed() < Duration::from_secs(60), "what was done is not recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    mount.end();
    assert!(first.wait().unwrap().success());
    is_known(&mount.trace("t1"));
}

/// Replays a trace; the runs, as JSON.
fn replay(trace: &std::path::Path, args: &[&str]) -> Vec<serde_json::Value> {
    let out = run(&[&["lab", "replay", trace.to_str().unwrap(), "--json"], args].concat());
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    json["runs"].as_array().unwrap().clone()
}

/// What a replay did is what the trace has, each operation as often and with the same end.
#[track_caller]
fn is_the_same(run: &serde_json::Value, trace: &Trace) {
    let metrics = &run["metrics"];
    for (op, count) in counts(trace) {
        assert_eq!(metrics[format!("{}_ops", op.name())].as_f64(), Some(count as f64), "{op:?}");
    }
    assert_eq!(metrics["ios"].as_f64(), Some(trace.records.len() as f64));
    assert_eq!(metrics["replay_differs"].as_f64(), Some(0.0));
    assert_eq!(run["checks"]["volume"], "clean");
    let sum = |op| trace.records.iter().filter(|record| record.op == op).map(|record| record.done as f64).sum::<f64>();
    let seconds = metrics["seconds"].as_f64().unwrap();
    for (figure, op) in [("write_mb_s", Op::Write), ("read_mb_s", Op::Read)] {
        let moved = metrics[figure].as_f64().unwrap() * seconds * 1e6;
        assert!((moved - sum(op)).abs() < 1.0, "{figure}: {moved} and {} bytes", sum(op));
    }
}

#[test]
fn known_work_is_replayed_as_it_was_recorded() {
    let mount = Mount::new(&["-o", "direct_io", "--trace", "DIR/t"]);
    known_work(&mount);
    mount.end();
    let (path, trace) = (mount.path("t"), mount.trace("t"));
    is_known(&trace);
    let designs = ["--mount", "", "--mount", "mode=lfs", "--over-provisioning", "0.07,0.5"];
    let runs = replay(&path, &designs);
    assert_eq!(runs.len(), 4);
    runs.iter().for_each(|run| is_the_same(run, &trace));
    assert_eq!(runs, replay(&path, &designs), "the same again");
    // Thinking takes the time that it took; without it, or with a part of it, there is less.
    let seconds = |args: &[&str]| replay(&path, args)[0]["metrics"]["seconds"].as_f64().unwrap();
    let (recorded, half, asap) = (seconds(&[]), seconds(&["--speed", "2"]), seconds(&["--speed", "asap"]));
    assert!(asap < half && half < recorded, "{asap} {half} {recorded}");
    // When nothing was under way; the file has operations in the order of their ends.
    let mut records = trace.records.clone();
    records.sort_by_key(|record| record.start_ns);
    let mut last = records.first().unwrap().start_ns;
    let thought: u64 = records
        .iter()
        .map(|record| {
            let think = record.start_ns.saturating_sub(last);
            last = last.max(record.end_ns());
            think
        })
        .sum();
    assert!(recorded >= thought as f64 / 1e9, "{recorded} s and {thought} ns of thinking");
    // For people: a line for each design and device.
    let dir = mount.path("out");
    let table =
        run(&[&["lab", "replay", path.to_str().unwrap(), "--out", dir.to_str().unwrap()], &designs[..]].concat());
    let rows = table.stdout.lines().filter(|line| line.contains("over-provisioning 0."));
    assert_eq!((table.code, rows.count()), (0, 4), "{table:?}");
    for part in ["seconds", "MB/s", "p50 us", "p99 us", "WAF", "GC %", "mode=lfs"] {
        assert!(table.stdout.contains(part), "no {part} in {table:?}");
    }
    assert!(dir.join("index.html").exists());
    for (args, part) in [
        (&["--speed", "0"][..], "asap"),
        (&["--mount", "nonsense=1"], "nonsense"),
        (&["--fill", "1.5"], "share"),
        (&["--size", "32M"], "is too small"),
        (&["--device", "floppy"], "970pro"),
        (&["--size", "1M"], "device.size"),
    ] {
        let out = run(&[&["lab", "replay", path.to_str().unwrap()], args].concat());
        assert!(out.code > 0 && out.stderr.contains(part), "{part}: {out:?}");
    }
    let none = run(&["lab", "replay", "/nowhere/t"]);
    assert!(none.code == 2 && none.stderr.contains("/nowhere/t"), "{none:?}");
}

/// Programs side by side on files that were there before, through the kernel's cache.
/// A whiteout is left under the old name, and later steps find it there.
#[test]
fn a_rename_that_leaves_a_whiteout_is_replayed_as_one() {
    let mount = Mount::new(&["-o", "direct_io", "--trace", "DIR/t"]);
    let (old, new) = (mount.path("mnt/old"), mount.path("mnt/new"));
    fs::write(&old, [1; 4096]).unwrap();
    rustix::fs::renameat_with(rustix::fs::CWD, &old, rustix::fs::CWD, &new, rustix::fs::RenameFlags::WHITEOUT).unwrap();
    assert!(fs::metadata(&old).unwrap().file_type().is_char_device());
    fs::remove_file(&old).unwrap();
    mount.end();
    let (path, trace) = (mount.path("t"), mount.trace("t"));
    assert!(trace.records.iter().any(|record| record.op == Op::Rename && record.flags & 4 != 0));
    is_the_same(&replay(&path, &[])[0], &trace);
}

#[test]
fn programs_side_by_side_are_replayed_as_they_were_recorded() {
    let mount = Mount::new(&[]);
    let script =
        "mkdir p q && for i in 1 2 3 4 5 6 7 8; do head -c ${i}0000 /dev/zero > p/f$i; done; ln -s p link; sync .";
    let sh = |script: &str| Command::new("sh").args(["-c", script]).current_dir(mount.path("mnt")).status().unwrap();
    assert!(sh(script).success());
    let work = "cd MNT && (cp -r p a; rm -r a/f1; mv a/f2 a/g) & cd MNT && (cp -r p b && cat b/* > q/all; rm -r b) & \
                cd MNT && (for i in 1 2 3 4 5 6 7 8 9; do echo $i > q/t$i; mv q/t$i q/u$i; done; readlink link) & wait; \
                cd MNT && mkdir d && rmdir d && truncate -s 100 p/f8 && ls -lR . && ln q/u1 q/v1 && rm q/u1";
    let work = work.replace("MNT", mount.path("mnt").to_str().unwrap());
    let out = finish(
        steadyfs()
            .args(["trace", "record"])
            .arg(mount.path("mnt"))
            .arg("-o")
            .arg(mount.path("t"))
            .args(["--", "sh", "-c", &work]),
    );
    assert_eq!(out.code, 0, "{out:?}");
    mount.end();
    let trace = mount.trace("t");
    assert!(trace.dropped == 0 && trace.records.len() > 200);
    for args in [&[][..], &["--speed", "asap"], &["--speed", "asap", "--seeds", "3", "--fill", "0.5"]] {
        let runs = replay(&mount.path("t"), args);
        runs.iter().for_each(|run| is_the_same(run, &trace));
    }
}
