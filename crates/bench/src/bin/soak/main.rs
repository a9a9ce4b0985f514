//! `soak`: many writers on a volume that is kept nearly full, with many collectors, for any time; then everybody looks
//! at what is left.
//!
//! The writers (`steadyfs_crash::load`) compare all that they read. At the end the contents are compared once more, as
//! they are in memory, after another mount, and as Linux reads them; our checker and fsck.f2fs look at the volume,
//! fsck.f2fs also at a checkpoint with the collectors' streams open. Any fault ends the program with what was wrong and
//! exit code 1. So does a run in which not every collector has worked.

mod mounted;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use mounted::Mounted;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, check};
use steadyfs_core::mkfs::MkfsOptions;
use steadyfs_core::{Fs, GcReport, MountOptions};
use steadyfs_crash::load::{Contents, Failure, Figures, FillPlan, Library, Target, Until, prepare, run, verify};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_testkit::manifest::{ContentDigest, Manifest, Options};
use steadyfs_testkit::{fsck_f2fs, linux::linux_manifest};

/// Put load on a nearly full volume, compare everything, and have Linux and fsck.f2fs look at what is left
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// How long the writers work
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Writers
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=200))]
    writers: u64,
    /// Collectors; the volume is made with a reserve that lets so many exist
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(3..=256))]
    collectors: u32,
    /// Size of the volume in MiB
    #[arg(long, default_value_t = 768)]
    mib: u64,
    /// Of 100 blocks for files, how many are in use
    #[arg(long, default_value_t = 96.0)]
    full: f64,
    /// Seed of what the writers do
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Through a FUSE mount instead of the library
    #[arg(long)]
    mount: bool,
    /// More mount options
    #[arg(short = 'o', long, default_value = "")]
    options: String,
    /// Where the image is made; should be in memory
    #[arg(long, default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// How many times the writers work on because a collector has had no victim.
const MORE: u64 = 3;

/// How long Linux may take to boot and to read everything.
const LINUX: Duration = Duration::from_secs(300);

fn main() -> Result<()> {
    let args = Args::parse();
    let scratch = tempfile::Builder::new().prefix("steadyfs-soak.").tempdir_in(&args.scratch)?;
    let image = scratch.path().join("image");
    make(&image, &args)?;
    let fs = open(&image, &args)?;
    let there = fs.stats().collectors.number;
    ensure!(there == u64::from(args.collectors), "the volume has {there} collectors");
    let (contents, did) = if args.mount {
        let dir = scratch.path().join("mnt");
        std::fs::create_dir(&dir)?;
        let (handle, target) = Mounted::new(&fs, &image, &dir)?;
        let worked = work(&Arc::new(target), &fs, &image, &args);
        handle.unmount(&dir)?;
        worked?
    } else {
        let worked = work(&Arc::new(Library(Arc::clone(&fs))), &fs, &image, &args)?;
        fs.unmount()?;
        worked
    };
    drop(fs);
    did.print(&args);
    look_again(&image, &args, &contents)?;
    let lazy: Vec<usize> = (0..).zip(&did.victims).filter(|(_, n)| **n == 0).map(|(i, _)| i).collect();
    ensure!(lazy.is_empty(), "collectors {lazy:?} never had a victim");
    ensure!(did.figures.mean_fullness() >= 950, "the volume was not kept full");
    println!("nothing wrong");
    Ok(())
}

/// What happened while writers worked.
struct Did {
    figures: Figures,
    collected: GcReport,
    /// Victims of each collector.
    victims: Vec<u64>,
    checkpoints: u64,
    blocks_written: u64,
    verified_at_the_end: u64,
}

impl Did {
    fn print(&self, args: &Args) {
        let Figures { operations, writes, direct, punches, sizes, renames, syncs, written, verified, emptiest, .. } =
            self.figures;
        let mib = |bytes: u64| bytes >> 20;
        let how = if args.mount { "a mount" } else { "the library" };
        println!("{} writers through {how}, {} MiB, {} s, seed {}", args.writers, args.mib, args.seconds, args.seed);
        println!("operations        {operations}");
        println!("  writes          {writes}, {direct} of them direct; {} MiB", mib(written));
        println!("  punches, sizes  {punches}, {sizes}");
        println!("  renames, syncs  {renames}, {syncs}");
        println!("verified          {} MiB while working, {} at the end", mib(verified), mib(self.verified_at_the_end));
        let mean = self.figures.mean_fullness();
        println!(
            "in use            {}.{} % on average, {}.{} % at least",
            mean / 10,
            mean % 10,
            emptiest / 10,
            emptiest % 10
        );
        println!("sections          {} collected, {} emptied", self.collected.victims, self.collected.sections_freed);
        let GcReport { data_moved, nodes_moved, skipped, .. } = self.collected;
        println!(
            "blocks moved      {data_moved} of data, {nodes_moved} of nodes; {} were gone meanwhile",
            skipped.total()
        );
        println!(
            "blocks written    {}, {:.2} for one of the writers'",
            self.blocks_written,
            self.blocks_written as f64 * 4096.0 / written.max(1) as f64
        );
        println!("checkpoints       {}", self.checkpoints);
        let cleaned = &self.victims;
        let worked = cleaned.iter().filter(|cleaned| **cleaned > 0).count();
        let (least, most) = (cleaned.iter().min().unwrap_or(&0), cleaned.iter().max().unwrap_or(&0));
        println!("collectors        {}, of which {worked} worked; {least} to {most} victims each", cleaned.len());
    }
}

fn make(image: &Path, args: &Args) -> Result<()> {
    std::fs::File::create(image)?.set_len(args.mib << 20)?;
    let device = FileDevice::open(image, OpenOptions::default())?;
    // Each collector needs three reserved segments, and 200/percent + 8 are reserved.
    let overprovision = Some(200.0 / (3.0 * f64::from(args.collectors) - 7.0));
    let made = steadyfs_core::mkfs::format(&device, &MkfsOptions { overprovision, ..MkfsOptions::new([7; 16], 0) });
    made.context("making the volume: give it more --mib, or fewer --collectors")?;
    Ok(())
}

fn open(image: &Path, args: &Args) -> Result<Arc<Fs>> {
    let device = Arc::new(FileDevice::open(image, OpenOptions { leave_mountable: true, ..OpenOptions::default() })?);
    let options = format!("cache=32M,commit=5,gc=scalelfs,gc.collectors={},{}", args.collectors, args.options);
    Ok(Fs::mount(device, MountOptions::parse(&options)?)?)
}

fn failed(e: Failure) -> anyhow::Error {
    anyhow!("{e}")
}

/// Fills the volume, works, and compares everything. A reader of the image then finds streams open.
fn work<T: Target>(target: &Arc<T>, fs: &Fs, image: &Path, args: &Args) -> Result<(Contents, Did)> {
    let plan = FillPlan { writers: args.writers, files: 4, full: (args.full * 10.0) as u64 };
    let contents = prepare(target, &plan).map_err(failed).context("filling the volume")?;
    let (filled, checkpoints) = (fs.io_stats(), fs.checkpoint_stats().committed);
    let (contents, figures) = keep_working(target, contents, fs, args)?;
    let verified_at_the_end = verify(target, &contents).map_err(failed).context("at the end")?;
    target.sync().map_err(failed)?;
    let streams = fs.open_streams();
    let copy = image.with_extension("copy");
    std::fs::copy(image, &copy)?;
    fsck_f2fs(&copy).with_context(|| format!("with {} streams open", streams))?;
    std::fs::remove_file(copy)?;
    println!("fsck.f2fs         clean with {} streams open", streams);
    let did = Did {
        figures,
        collected: fs.gc_totals(),
        victims: victims(fs),
        checkpoints: fs.checkpoint_stats().committed - checkpoints,
        blocks_written: fs.io_stats().written_blocks() - filled.written_blocks(),
        verified_at_the_end,
    };
    Ok((contents, did))
}

/// Victims of each collector.
fn victims(fs: &Fs) -> Vec<u64> {
    fs.stats().collectors.each.iter().map(|each| each.victims).collect()
}

/// Works for the time that was asked for. A machine that does other things too may not have let every collector run
/// in it: then as long again, [`MORE`] times at most.
fn keep_working<T: Target>(
    target: &Arc<T>,
    mut contents: Contents,
    fs: &Fs,
    args: &Args,
) -> Result<(Contents, Figures)> {
    let mut figures = Figures::default();
    for again in 0..=MORE {
        let until = Until::Passed(Duration::from_secs(args.seconds));
        let (left, did) = run(target, contents, args.seed.wrapping_add(again), until).map_err(failed)?;
        figures.add(&did);
        contents = left;
        if victims(fs).iter().all(|cleaned| *cleaned > 0) {
            break;
        }
    }
    Ok((contents, figures))
}

/// After the unmount: the checkers, another mount, and Linux.
fn look_again(image: &Path, args: &Args, contents: &Contents) -> Result<()> {
    fsck_f2fs(image)?;
    let device = Arc::new(FileDevice::open(image, OpenOptions { read_only: true, ..OpenOptions::default() })?);
    let found = check(device, &CheckOptions { force: true, ..CheckOptions::default() })?;
    ensure!(found.is_clean(), "our checker finds {:?}", found.issues);
    println!("checkers          fsck.f2fs and ours find nothing");
    let fs = open(image, args)?;
    let verified =
        verify(&Arc::new(Library(Arc::clone(&fs))), contents).map_err(failed).context("after another mount")?;
    fs.unmount()?;
    drop(fs);
    println!("mounted again     {} MiB as they were", verified >> 20);
    let seen = linux_manifest(image, "", &Options::default(), LINUX)?;
    let files = as_linux_reads(&seen, contents)?;
    fsck_f2fs(image).context("after Linux")?;
    println!("Linux             {files} files as they were; fsck.f2fs finds nothing afterwards");
    Ok(())
}

fn as_linux_reads(seen: &Manifest, contents: &Contents) -> Result<usize> {
    let (mut files, mut wrong) = (0, Vec::new());
    contents.tell(&mut |path, size, pages| {
        files += 1;
        let mut digest = ContentDigest::new(size);
        pages.for_each(|(off, bytes)| digest.update(off, &bytes));
        let wanted = (size, (size > 0).then(|| digest.finish()));
        let found = seen.entries.get(path).map(|entry| (entry.size, entry.digest.clone()));
        if found.as_ref() != Some(&wanted) {
            wrong.push(format!("{path}: {found:?} instead of {wanted:?}"));
        }
    });
    ensure!(wrong.is_empty(), "Linux reads something else:\n{}", wrong.join("\n"));
    let regular = seen.entries.values().filter(|entry| entry.digest.is_some()).count();
    ensure!(regular <= files, "Linux sees {regular} files instead of {files}");
    Ok(files)
}
