//! `lab import`: traces of others become traces of ours, which an experiment replays; whatever is wrong leaves no file.

use std::fs;
use std::path::Path;
use std::process::Command;

use steadyfs_trace::file::{self, Trace};
use steadyfs_trace::{DATA_ONLY, DIRECT, Op};

use crate::inspect::fails;
use crate::run::{Output, finish, run, steadyfs};

fn import(dir: &Path, args: &[&str]) -> Output {
    finish(steadyfs().args(["lab", "import"]).args(args).current_dir(dir))
}

fn trace(dir: &Path, name: &str) -> Trace {
    file::read(&mut &fs::read(dir.join(name)).unwrap()[..]).unwrap()
}

/// The figures of an experiment that replays this trace on a small volume.
fn replayed(dir: &Path, name: &str) -> serde_json::Value {
    let text = format!(
        "name = \"own\"\ntitle = \"A trace of others\"\ninterval = 0.01\n[machine]\ncores = 2\n[device]\n\
         preset = \"memory\"\nsize = \"128M\"\n[workload]\nkind = \"replay\"\ntrace = \"{}\"\n",
        dir.join(name).display()
    );
    let own = dir.join("own.toml");
    fs::write(&own, text).unwrap();
    let out = run(&["lab", "run", own.to_str().unwrap(), "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    serde_json::from_str::<serde_json::Value>(&out.stdout).unwrap()["runs"][0]["metrics"].clone()
}

/// Needs the program fio (tools/apt-deps.sh).
#[test]
fn what_fio_wrote_down_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let job = ["--name=j", "--nrfiles=2", "--size=2M", "--bs=4k", "--rw=randrw", "--fdatasync=8", "--write_iolog=log"];
    let fio = Command::new("fio").args(job).current_dir(dir).output().expect("fio is installed");
    assert!(fio.status.success(), "{}", String::from_utf8_lossy(&fio.stderr));
    let out = import(dir, &["log", "--out", "t", "--json"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    let imported: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&imported["format"], &imported["files"]), (&"fio".into(), &2.into()));
    let (log, trace) = (fs::read_to_string(dir.join("log")).unwrap(), trace(dir, "t"));
    let names = [("read", Op::Read), ("write", Op::Write), ("datasync", Op::Fsync), ("open", Op::Open)];
    for (word, op) in names {
        let theirs = log.lines().filter(|line| line.split(' ').nth(2) == Some(word)).count();
        let ours = trace.records.iter().filter(|record| record.op == op).count();
        assert!(theirs == ours && ours > 0, "{word}: {theirs} and {ours}");
    }
    let synced = trace.records.iter().filter(|record| record.op == Op::Fsync);
    assert!(synced.clone().all(|record| record.flags == DATA_ONLY));
    assert!(trace.records.iter().all(|record| record.flags & DIRECT == 0 || record.op != Op::Read));
    let figures = replayed(dir, "t");
    // Those of the trace, and the lookup of each file.
    assert_eq!(figures["ios"].as_f64(), Some(imported["operations"].as_f64().unwrap() + 2.0));
    assert_eq!(figures["replay_differs"], 0.0);
    // Direct, if it is said to have been.
    assert_eq!(import(dir, &["log", "--out", "d", "--direct", "--first", "50"]).code, 0);
    let direct = self::trace(dir, "d");
    assert_eq!(direct.records.len(), 52);
    assert!(direct.records.iter().any(|record| record.op == Op::Read && record.flags == DIRECT));
}

#[test]
fn a_block_trace_of_a_large_disk_is_replayed_on_a_small_volume() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Requests overlap, are not in order, and lie all over 1.25 TiB, at multiples of 512 bytes.
    let line = |i: u64| {
        let (ticks, kind) = (128_166_372_000_000_000 + i * 37 % 50 * 1000, ["Read", "Write"][i as usize % 2]);
        format!("{ticks},src1,{},{kind},{},{},50000\r\n", i % 2, ((i % 40) << 35) + i * 512, 512 + i % 7 * 4096)
    };
    fs::write(dir.join("csv"), (0..200).map(line).collect::<String>()).unwrap();
    let out = import(dir, &["csv", "--out", "t"]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{out:?}");
    assert_eq!(out.stdout, "t: 200 operations in 0.010 s on 2 files of 5.00 MiB together; 0 left out\n");
    let figures = replayed(dir, "t");
    assert_eq!((&figures["ios"], &figures["replay_differs"]), (&202.0.into(), &0.0.into()));
    assert!(figures["write_mb_s"].as_f64().unwrap() > 0.0, "{figures}");
    let shown = run(&["trace", "stats", dir.join("t").to_str().unwrap()]);
    assert!(shown.code == 0 && shown.stdout.contains("202 operations in 0.010 s by 1 threads"), "{shown:?}");
}

#[test]
fn a_bad_file_leaves_no_trace_and_no_file_is_overwritten_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let log = "fio version 2 iolog\nf read 0 512\n";
    fs::write(dir.join("log"), log).unwrap();
    fs::write(dir.join("bad"), format!("{log}f jump 0 512\n")).unwrap();
    std::os::unix::fs::symlink("log", dir.join("link")).unwrap();
    fails(&import(dir, &["bad", "--out", "t"]), 1, &["cannot import bad: line 3: 'jump' is no action"]);
    fails(&import(dir, &["log", "--out", "t", "--format", "msr"]), 1, &["line 1: it has 1 fields and not 7"]);
    fails(&import(dir, &["none", "--out", "t"]), 1, &["cannot import none"]);
    fails(&import(dir, &["/dev/zero", "--out", "t"]), 1, &["it is no regular file"]);
    fails(&import(dir, &["log", "--out", "none/t"]), 1, &["cannot write none/t"]);
    for itself in ["log", "link"] {
        fails(&import(dir, &["log", "--out", itself]), 1, &["it is the file that would be written"]);
    }
    assert!(!dir.join("t").exists() && fs::read_to_string(dir.join("log")).unwrap() == log);
}

/// A trace that could not be written whole goes; what is no file of ours, such as a pipe or a device, stays.
#[test]
fn only_half_a_trace_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..100_000u64).map(|i| format!("f write {} 4096\n", i * 7919 % 1000 * 4096)).collect();
    fs::write(dir.join("log"), format!("fio version 2 iolog\n{lines}")).unwrap();
    // No file may be longer than 64 KiB.
    let program = steadyfs().get_program().to_owned();
    let mut shell = Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" lab import log --out t"]).arg(program).current_dir(dir);
    fails(&finish(&mut shell), 1, &["cannot write t", "no trace has been written"]);
    assert!(!dir.join("t").exists());
    // A reader that goes at once.
    let pipe = dir.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let import = steadyfs().args(["lab", "import", "log", "--out", "pipe"]).current_dir(dir).spawn().unwrap();
    drop(fs::File::open(&pipe).unwrap());
    assert_eq!(import.wait_with_output().unwrap().status.code(), Some(1));
    assert!(pipe.exists(), "the pipe was removed");
}
