//! `steadyfs-bench discard DIR`: what a hole in a file costs on each host file system, beside the removal of a file.
//!
//! A volume that gives space back block by block punches holes into its image. Here they are punched into a file that
//! is full and durable, in random order, each with a block that stays on both sides, so that none merges with another;
//! then the file is synced. Both times are told for each hole. Beside that: the removal of a whole file of a chunk's
//! size. Hosts are tmpfs, and ext4, XFS and btrfs on loop devices whose images lie in DIR.

use crate::arguments;
use crate::bed::{Loop, MountPoint, tool};
use crate::comparison;
use crate::data::Random;
use crate::machine::Machine;
use crate::measure::Stop;
use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The name of the command.
pub(crate) const COMMAND: &str = "discard";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// A chunk of a chunk directory.
const CHUNK: u64 = 64 * MIB;
/// Bytes of a hole, and how many are punched unless the file is too small for them.
const HOLES: [(u64, u64); 3] = [(4 * KIB, 8192), (64 * KIB, 2048), (2 * MIB, 128)];
/// Host file systems, and how each is made on a device.
const HOSTS: [(&str, &[&str]); 4] = [
    ("tmpfs", &[]),
    ("ext4", &["mkfs.ext4", "-q", "-F"]),
    ("xfs", &["mkfs.xfs", "-q", "-f"]),
    ("btrfs", &["mkfs.btrfs", "-q", "-f"]),
];

/// Measure what holes cost on this machine's file systems
#[derive(Debug, Parser)]
struct Args {
    /// Where the images of the loop devices are made
    dir: PathBuf,
    /// MiB of the file that gets holes
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(16..=65536))]
    size: u64,
    /// How often everything is measured; told are medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    reps: u64,
    /// Hosts to measure; all that can be made here unless given
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
}

/// Microseconds for each hole, or file, and what came back of the space.
#[derive(Clone, Copy, Debug)]
struct Cost {
    call_us: f64,
    sync_us: f64,
    /// The share of the holes' bytes that the host has back.
    back: f64,
}

/// Measures and prints. `words` are those of the command line from the command on.
pub(crate) fn compare(words: &[String]) -> Result<()> {
    let args = Args::parse_from(words);
    let hosts = arguments::chosen("host", &HOSTS, |(name, _)| name, &args.hosts)?;
    ensure!(rustix::process::geteuid().is_root(), "mounts and loop devices need root");
    let stop = Stop::on_signals()?;
    let scratch = comparison::directory(&args.dir)?;
    let mut machine = Machine::look();
    let mut lines = Vec::new();
    for (host, mkfs) in hosts {
        let mut samples: Vec<Vec<Cost>> = vec![Vec::new(); HOLES.len() + 1];
        for _ in 0..args.reps {
            stop.check()?;
            let costs =
                on_host(host, mkfs, scratch.path(), args.size * MIB, &stop).with_context(|| (*host).to_owned())?;
            samples.iter_mut().zip(costs).for_each(|(samples, cost)| samples.push(cost));
        }
        let names = HOLES.iter().map(|(bytes, _)| format!("hole of {}", size(*bytes)));
        for (what, samples) in names.chain([format!("removal of a file of {}", size(CHUNK))]).zip(samples) {
            let Cost { call_us, sync_us, back } = median(&samples);
            let back = back * 100.0;
            lines.push(format!("  {host:6} {what:26} {call_us:9.1} us {sync_us:9.1} us {back:6.0} %"));
        }
    }
    machine.finish();
    println!("{}", machine.line());
    println!("median of {}: the call, its share of the sync that follows, and what the host has back:", args.reps);
    println!("{}", lines.join("\n"));
    Ok(())
}

fn size(bytes: u64) -> String {
    if bytes < MIB { format!("{} KiB", bytes / KIB) } else { format!("{} MiB", bytes / MIB) }
}

fn median(samples: &[Cost]) -> Cost {
    let middle = |part: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost { call_us: middle(|c| c.call_us), sync_us: middle(|c| c.sync_us), back: middle(|c| c.back) }
}

/// Makes a host, and measures each size of hole on a file of its own, and then removals.
fn on_host(host: &str, mkfs: &[&str], scratch: &Path, bytes: u64, stop: &Stop) -> Result<Vec<Cost>> {
    let (image, dir) = (scratch.join("image"), scratch.join("mount"));
    std::fs::create_dir_all(&dir)?;
    // The loop device goes after the mount.
    let mut attached = None;
    if let [program, options @ ..] = mkfs {
        let _ = std::fs::remove_file(&image);
        File::create_new(&image)?.set_len(2 * bytes + (1 << 30))?;
        let device = attached.insert(Loop::attach(&image)?).device();
        tool(Command::new(program).args(options).arg(device))?;
    }
    let device = attached.as_ref().map_or(Path::new("tmpfs"), Loop::device);
    let mut point = MountPoint::mount_kernel(device, &dir, host)?;
    let mut costs = Vec::new();
    for (hole, count) in HOLES {
        stop.check()?;
        costs.push(punch(&dir.join("file"), bytes, hole, count.min(bytes / (2 * hole)))?);
    }
    stop.check()?;
    costs.push(remove(&dir, bytes / CHUNK)?);
    point.unmount()?;
    Ok(costs)
}

/// A file full of what nobody compresses or shares, durable.
fn full(path: &Path, bytes: u64) -> Result<File> {
    let mut file = File::create_new(path)?;
    let mut random = Random::new(bytes);
    let piece: Vec<u8> = (0..MIB / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    for _ in 0..bytes / MIB {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Punches every second hole's length out of a new file, in random order.
fn punch(path: &Path, bytes: u64, hole: u64, count: u64) -> Result<Cost> {
    let file = full(path, bytes)?;
    let before = file.metadata()?.blocks();
    let order = Random::new(hole).shuffled(usize::try_from(count)?);
    let stride = bytes / count / hole * hole;
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let begin = Instant::now();
    for number in order {
        fallocate(&file, mode, number as u64 * stride, hole)?;
    }
    let called = begin.elapsed();
    file.sync_all()?;
    let synced = begin.elapsed() - called;
    let back = before.saturating_sub(file.metadata()?.blocks()) * 512;
    drop(file);
    std::fs::remove_file(path)?;
    Ok(Cost {
        call_us: called.as_secs_f64() * 1e6 / count as f64,
        sync_us: synced.as_secs_f64() * 1e6 / count as f64,
        back: back as f64 / (count * hole) as f64,
    })
}

/// Removes files of a chunk's size, and syncs their directory.
fn remove(dir: &Path, count: u64) -> Result<Cost> {
    let name = |number: u64| dir.join(format!("chunk{number}"));
    for number in 0..count {
        full(&name(number), CHUNK)?;
    }
    let begin = Instant::now();
    for number in 0..count {
        std::fs::remove_file(name(number))?;
    }
    let called = begin.elapsed();
    File::open(dir)?.sync_all()?;
    let synced = begin.elapsed() - called;
    let per = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
    Ok(Cost { call_us: per(called), sync_us: per(synced), back: 1.0 })
}
