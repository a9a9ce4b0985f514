//! `steadyfs-bench fsck`: our checker beside fsck.f2fs, on one volume with a million files, in one run; and our checker
//! on an IPLFS volume with the same files.
//!
//! Each check is a process of its own, timed from its start to its end, with its peak of memory (`VmHWM`); they take
//! turns. The volumes lie in memory and have been read once before, so that no check pays for a device. All walk
//! everything and change nothing.

use crate::comparison;
use crate::machine::Machine;
use crate::measure::peak_memory;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::{Infinite, MkfsOptions, format};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{FileDevice, OpenOptions};

/// The name of the command.
pub(crate) const COMMAND: &str = "fsck";
/// The name of the hidden command that runs one check.
pub(crate) const CHECK: &str = "check-once";

const FILES_PER_DIRECTORY: u64 = 1000;
/// Bytes of a file: one in eight has blocks of its own, the others keep them in the inode.
const SMALL: usize = 300;
const LARGE: usize = 20_000;

/// Compare our checker with fsck.f2fs
#[derive(Debug, Parser)]
struct Args {
    /// Files of the volume
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// How often each checks it
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    /// Where the images are made; should be in memory, with 14 KiB per file
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// What one check took.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Duration,
    peak_kib: u64,
}

/// Makes the volume, checks it, and prints the figures. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words);
    let scratch = comparison::directory(&args.scratch)?;
    let [image, infinite] = ["image", "infinite"].map(|name| scratch.path().join(name));
    let mut machine = Machine::look();
    fill(&image, Kind::F2fs, args.files).context("making the volume")?;
    fill(&infinite, Kind::Iplfs, args.files).context("making the IPLFS volume")?;
    let this = std::env::current_exe()?;
    let mut ours = Vec::new();
    let mut iplfs = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..args.reps {
        ours.push(measure(Command::new(&this).arg(CHECK).arg(&image))?);
        iplfs.push(measure(Command::new(&this).arg(CHECK).arg(&infinite))?);
        theirs.push(measure(Command::new("fsck.f2fs").args(["--dry-run", "-f"]).arg(&image))?);
    }
    machine.finish();
    let (ours, iplfs, theirs) = (median(ours), median(iplfs), median(theirs));
    let over = |sample: Sample| sample.time.as_secs_f64() / ours.time.as_secs_f64();
    println!("{}", machine.line());
    println!("fsck of a volume with {} files, median of {}:", args.files, args.reps);
    for (name, sample) in [("steadyfs fsck", ours), ("of IPLFS", iplfs), ("fsck.f2fs", theirs)] {
        println!("  {name:14} {:7.2} s  {:6} MiB peak", sample.time.as_secs_f64(), sample.peak_kib / 1024);
    }
    println!("  ratio          {:7.2} (time of fsck.f2fs / ours)", over(theirs));
    println!("  ratio          {:7.2} (time of ours, IPLFS / F2FS; goal at most 1.2)", over(iplfs));
    Ok(())
}

/// One whole check by ours; an error if it finds anything.
pub(crate) fn check_once(image: &Path) -> Result<()> {
    let device = FileDevice::open(image, OpenOptions { read_only: true, ..OpenOptions::default() })?;
    let report = check(Arc::new(device), &CheckOptions::default())?;
    ensure!(report.is_clean(), "{:?}", report.issues.first());
    Ok(())
}

/// The kinds of volumes that are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F2fs,
    Iplfs,
}

/// Makes a volume with `files` files, through the library.
fn fill(image: &Path, kind: Kind, files: u64) -> Result<()> {
    let bytes = (files * 12 * 1024).max(256 << 20).next_multiple_of(2 << 20);
    let infinite = (kind == Kind::Iplfs).then(|| Infinite::new(bytes >> 12));
    let create = infinite.map_or(bytes, |infinite| infinite.device_blocks() << 12);
    let device = FileDevice::open(image, OpenOptions { create: Some(create), ..OpenOptions::default() })?;
    format(&device, &MkfsOptions { infinite, ..MkfsOptions::new(*b"steadyfs-bench\0\0", 1_700_000_000) })?;
    let fs = Fs::mount(Arc::new(device), MountOptions::parse("background_gc=off")?)?;
    let new = |mode| NewInode { mode, ..NewInode::default() };
    let data = vec![7; LARGE];
    let root = fs.root()?;
    let mut dir = root.clone();
    for number in 0..files {
        if number % FILES_PER_DIRECTORY == 0 {
            let name = format!("dir{}", number / FILES_PER_DIRECTORY);
            dir = fs.create(&root, name.as_bytes(), &new(0o040_755))?;
        }
        let file = fs.create(&dir, format!("file{number}").as_bytes(), &new(0o100_644))?;
        fs.write(&file, 0, &data[..if number % 8 == 0 { LARGE } else { SMALL }])?;
    }
    drop((root, dir));
    Ok(fs.unmount()?)
}

/// Runs a check to its end.
fn measure(command: &mut Command) -> Result<Sample> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.with_context(|| format!("cannot run {name}; is it installed?"))?;
    let mut peak_kib = 0;
    let status = loop {
        peak_kib = (peak_memory(child.id()).unwrap_or(0) >> 10).max(peak_kib);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let time = begin.elapsed();
    if !status.success() {
        bail!("{name} found something wrong ({status})");
    }
    Ok(Sample { time, peak_kib })
}

/// The sample with the median time, and the highest peak of all.
fn median(mut samples: Vec<Sample>) -> Sample {
    samples.sort_by_key(|sample| sample.time);
    let peak_kib = samples.iter().map(|sample| sample.peak_kib).max().unwrap_or(0);
    Sample { peak_kib, ..samples[samples.len() / 2] }
}
