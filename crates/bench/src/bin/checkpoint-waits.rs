//! `checkpoint-waits`: how long foreground operations are held up by checkpoints that have much to write.
//!
//! A volume in memory is given many dirty nodes and much dirty file data; then foreground threads go on creating and
//! overwriting files while a checkpoint, and after it a whole sync, runs beside them. Printed are the figures that the
//! volume keeps itself (`Fs::checkpoint_stats`), and the latencies that the threads saw with and without a checkpoint.

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use steadyfs_core::mkfs::MkfsOptions;
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode};
use steadyfs_device::{FileDevice, OpenOptions};

/// Measure how long operations wait for checkpoints
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// MiB of dirty file data
    #[arg(long, default_value_t = 1024)]
    data: u64,
    /// Dirty nodes: files created and not yet checkpointed
    #[arg(long, default_value_t = 100_000)]
    nodes: u64,
    /// Foreground threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where the image is made; should be in memory
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// What one phase showed. Times in microseconds.
#[derive(Debug, Serialize)]
struct Phase {
    name: &'static str,
    /// The checkpoint or sync itself.
    took: u128,
    longest_freeze: u128,
    waits: u64,
    longest_wait: u128,
    p99_wait: u128,
    operations: usize,
    longest_operation: u128,
    p99_operation: u128,
}

const FILES_PER_DIR: u64 = 1000;

fn main() -> Result<()> {
    let args = Args::parse();
    let scratch = tempfile::Builder::new().prefix("steadyfs-bench.").tempdir_in(&args.scratch)?;
    let image = scratch.path().join("image");
    let mib = 2 * args.data + args.nodes / 64 + 2048;
    std::fs::File::create(&image)?.set_len(mib << 20)?;
    let device = Arc::new(FileDevice::open(&image, OpenOptions::default())?);
    steadyfs_core::mkfs::format(&*device, &MkfsOptions::new([7; 16], 0)).context("making the volume")?;
    let phases = [
        ("nothing beside", None),
        ("checkpoint", Some(checkpoint as fn(&Fs) -> Result<()>)),
        ("sync", Some(sync as fn(&Fs) -> Result<()>)),
    ];
    let mut out = Vec::new();
    for (number, (name, act)) in phases.into_iter().enumerate() {
        // Freshly mounted, so that the counters are those of this phase.
        // Room for all of it, so that no checkpoint comes by itself.
        let (cache, nodes) = (2 * args.data + 1024, args.nodes / 64 + 64);
        let options = format!("cache={cache}M,node_cache={nodes}M,commit=0,background_gc=off");
        let fs = Fs::mount(Arc::clone(&device) as _, MountOptions::parse(&options)?)?;
        eprintln!("{name}: making {} dirty nodes and {} MiB of dirty data", args.nodes, args.data);
        let area = directory(&fs, &fs.root()?, &format!("phase{number}"))?;
        make_dirty(&fs, &area, &args)?;
        out.push(measure(&fs, &area, name, act, args.threads)?);
        drop(area);
        fs.unmount()?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&out)?);
    } else {
        print(&out);
    }
    Ok(())
}

fn checkpoint(fs: &Fs) -> Result<()> {
    Ok(fs.fsync(&fs.root()?, false)?)
}

fn sync(fs: &Fs) -> Result<()> {
    Ok(fs.sync()?)
}

fn directory(fs: &Fs, parent: &InodeRef, name: &str) -> Result<InodeRef> {
    Ok(fs.create(parent, name.as_bytes(), &NewInode { mode: 0o040_755, ..NewInode::default() })?)
}

fn file(fs: &Fs, parent: &InodeRef, name: &str) -> Result<InodeRef> {
    Ok(fs.create(parent, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() })?)
}

fn make_dirty(fs: &Fs, area: &InodeRef, args: &Args) -> Result<()> {
    let piece = vec![0x5A; 1 << 20];
    let large = file(fs, area, "large")?;
    for n in 0..args.data {
        fs.write(&large, n << 20, &piece)?;
    }
    for n in 0..args.nodes.div_ceil(FILES_PER_DIR) {
        let dir = directory(fs, area, &format!("dir{n}"))?;
        for m in 0..FILES_PER_DIR.min(args.nodes - n * FILES_PER_DIR) {
            file(fs, &dir, &format!("file{m}"))?;
        }
    }
    Ok(())
}

/// Runs the foreground threads for a second, or while `act` lasts.
fn measure(
    fs: &Arc<Fs>,
    area: &InodeRef,
    name: &'static str,
    act: Option<fn(&Fs) -> Result<()>>,
    threads: usize,
) -> Result<Phase> {
    let stop = AtomicBool::new(false);
    let dirs = (0..threads).map(|n| directory(fs, area, &format!("foreground{n}"))).collect::<Result<Vec<_>>>()?;
    let before = fs.checkpoint_stats().committed;
    let (took, latencies) = thread::scope(|scope| -> Result<_> {
        let workers: Vec<_> = dirs.iter().map(|dir| scope.spawn(|| foreground(fs, dir, &stop))).collect();
        thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let outcome = act.map_or(Ok(()), |act| act(fs));
        let took = began.elapsed();
        thread::sleep(Duration::from_millis(if act.is_some() { 20 } else { 900 }));
        stop.store(true, SeqCst);
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow::anyhow!("a foreground thread panicked"))??);
        }
        outcome.map(|()| (took, all))
    })?;
    let stats = fs.checkpoint_stats();
    anyhow::ensure!((stats.committed > before) == act.is_some(), "checkpoints: {} before, {}", before, stats.committed);
    let mut sorted = latencies;
    sorted.sort_unstable();
    let at =
        |part: f64| sorted.get((sorted.len() as f64 * part) as usize).or(sorted.last()).copied().unwrap_or_default();
    Ok(Phase {
        name,
        took: took.as_micros(),
        longest_freeze: stats.longest_freeze.as_micros(),
        waits: stats.freeze_waits.waits,
        longest_wait: stats.freeze_waits.longest.as_micros(),
        p99_wait: stats.freeze_waits.p99.as_micros(),
        operations: sorted.len(),
        longest_operation: at(1.0).as_micros(),
        p99_operation: at(0.99).as_micros(),
    })
}

/// Creates a file, writes a page to it, overwrites a page of another; the latency of each call.
fn foreground(fs: &Fs, dir: &InodeRef, stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let other = file(fs, dir, "other")?;
    let mut n = 0u64;
    while !stop.load(SeqCst) {
        let mut timed = |f: &dyn Fn() -> Result<()>| -> Result<()> {
            let began = Instant::now();
            f()?;
            latencies.push(began.elapsed());
            Ok(())
        };
        let name = format!("new{n}");
        timed(&|| file(fs, dir, &name).map(drop))?;
        timed(&|| Ok(fs.write(&other, n % 256 * 4096, &[n as u8; 4096]).map(drop)?))?;
        // A little less than all of the machine, as services do.
        thread::sleep(Duration::from_micros(50));
        n += 1;
    }
    Ok(latencies)
}

fn print(phases: &[Phase]) {
    println!("beside          took ms  freeze ms    waits  longest ms  p99 ms  operations  longest ms  p99 ms");
    let ms = |us: u128| us as f64 / 1000.0;
    for p in phases {
        println!(
            "{:15} {:7.1} {:10.2} {:8} {:11.2} {:7.2} {:11} {:11.2} {:7.2}",
            p.name,
            ms(p.took),
            ms(p.longest_freeze),
            p.waits,
            ms(p.longest_wait),
            ms(p.p99_wait),
            p.operations,
            ms(p.longest_operation),
            ms(p.p99_operation)
        );
    }
}
