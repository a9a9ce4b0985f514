//! The files of sessions: what writers do with them, whether they hold what was promised, and how a volume is looked at
//! that a cut has left.

use crate::rng::Rng;
use crate::seeds::{LIMIT, in_time};
use crate::sessions::{CutDisk, Ledger};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, Fs, InodeRef, NewInode};
use steadyfs_device::{Device, Migrations};
use steadyfs_rt::sim::SimConfig;

const PAGE: u64 = 4096;
/// Pages of a writer's file.
const PAGES: u64 = 300;

/// What pages of a file hold.
pub(crate) type Pages = BTreeMap<u64, u8>;

/// What writers do between two promises.
pub(crate) struct Work {
    /// Pages that they overwrite at least, and how many more there may be.
    pub(crate) least: u64,
    pub(crate) more: u64,
    /// They make or remove another file one time in this many.
    pub(crate) extra_every: u64,
    /// How many such files there are, and pages of each.
    pub(crate) extras: u64,
    pub(crate) extra_pages: u64,
    /// They press the device to collect, if it does.
    pub(crate) presses: bool,
}

/// A writer of a file.
pub(crate) struct FileWriter<D> {
    pub(crate) fs: Arc<Fs>,
    pub(crate) disk: Arc<D>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) number: usize,
    /// The contents of its file.
    pub(crate) known: Pages,
    pub(crate) ledger: Ledger,
}

impl<D: CutDisk> FileWriter<D> {
    pub(crate) fn work(mut self, mut random: Rng) -> Result<Ledger, Error> {
        let (data, number) = (file(&self.fs, self.number)?, self.number);
        let Work { least, more, extra_every, extras, extra_pages, presses } = self.disk.work();
        for round in 0..6 + random.below(8) {
            for _ in 0..least + random.below(more) {
                let (page, byte) = (random.below(PAGES), 1 + random.below(255) as u8);
                self.disk.forget(number, page, &mut self.ledger);
                self.fs.write(&data, page * PAGE, &[byte; PAGE as usize])?;
                self.known.insert(page, byte);
                self.disk.wrote(&self.fs, &mut self.ledger);
            }
            if random.below(extra_every) == 0 {
                let name = format!("extra{number}-{}", (random.below(extras) + round) % extras);
                come_and_go(&self.fs, &name, extra_pages)?;
            }
            if presses && random.below(3) == 0 {
                self.device.migrations().into_iter().for_each(Migrations::press);
            }
            match random.below(3) {
                0 => self.fs.sync()?,
                _ => self.fs.fsync(&data, random.below(2) == 0)?,
            }
            self.disk.promise(number, &self.known, &mut self.ledger);
        }
        Ok(self.ledger)
    }
}

/// Mounts a volume on a kind of disk.
pub(crate) fn mount<D: CutDisk>(device: &Arc<dyn Device>, options: &str) -> Result<Arc<Fs>, String> {
    let mounted = D::options(options).and_then(|options| Fs::mount(Arc::clone(device), options));
    mounted.map_err(|e| format!("it does not mount: {e}"))
}

/// The file of a writer.
fn file(fs: &Fs, writer: usize) -> Result<InodeRef, Error> {
    let (root, name) = (fs.root()?, format!("data{writer}"));
    match fs.lookup(&root, name.as_bytes()) {
        Err(Error::NotFound) => fs.create(&root, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() }),
        found => found,
    }
}

/// Whether files hold what was promised.
pub(crate) fn compare_all(fs: &Fs, files: &[Pages]) -> Result<(), String> {
    files.iter().enumerate().try_for_each(|(writer, pages)| compare(fs, writer, pages))
}

fn compare(fs: &Fs, writer: usize, pages: &Pages) -> Result<(), String> {
    let file = file(fs, writer).map_err(|e| format!("the file: {e}"))?;
    let mut buffer = vec![0; PAGE as usize];
    for (page, byte) in pages {
        let read = fs.read(&file, page * PAGE, &mut buffer).map_err(|e| format!("page {page}: {e}"))?;
        if read != buffer.len() || buffer.iter().any(|found| found != byte) {
            return Err(format!("page {page} of file {writer} should hold {byte} and holds {}", buffer[0]));
        }
    }
    Ok(())
}

/// Makes a file of `pages` pages, or removes it.
fn come_and_go(fs: &Fs, name: &str, pages: u64) -> Result<(), Error> {
    let root = fs.root()?;
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    match fs.create(&root, name.as_bytes(), &new) {
        Ok(extra) => fs.write(&extra, 0, &vec![1; (pages * PAGE) as usize]).map(drop),
        Err(_) => fs.unlink(&root, name.as_bytes()),
    }
}

/// Mounts a volume that a cut has left, compares it with what was promised, changes and unmounts it; what `look` sees
/// of it.
pub(crate) fn go_on<D: CutDisk, T>(
    device: &Arc<dyn Device>,
    files: &[Pages],
    look: impl FnOnce(&Fs) -> T,
) -> Result<T, String> {
    let fs = mount::<D>(device, "")?;
    compare_all(&fs, files)?;
    let data = file(&fs, 0).map_err(|e| e.to_string())?;
    fs.write(&data, PAGES * PAGE, &[9; PAGE as usize]).map_err(|e| format!("it takes no write: {e}"))?;
    fs.sync().map_err(|e| format!("it does not sync: {e}"))?;
    let seen = look(&fs);
    fs.unmount().map_err(|e| format!("it does not unmount: {e}"))?;
    Ok(seen)
}

/// The same in virtual time.
pub(crate) fn go_on_in_time<D: CutDisk, T: Send + 'static>(
    device: Arc<dyn Device>,
    files: Vec<Pages>,
    seed: u64,
    look: impl FnOnce(&Fs) -> T + Send + 'static,
) -> Result<T, String> {
    let went_on = in_time(judging(seed), LIMIT, move || go_on::<D, T>(&device, &files, look));
    went_on.map_err(|e| format!("while it is mounted, {e}"))
}

/// Where a state is judged.
pub(crate) fn judging(seed: u64) -> SimConfig {
    SimConfig { cores: 2, seed, ..SimConfig::default() }
}

/// What the checker finds.
pub(crate) fn inspect(device: &Arc<dyn Device>, when: &str) -> Result<(), String> {
    let options = CheckOptions { threads: 1, ..CheckOptions::default() };
    let report = check(Arc::clone(device), &options).map_err(|e| format!("{when}: {e}"))?;
    match report.issues.iter().find(|issue| issue.severity() >= Severity::Error) {
        Some(issue) => Err(format!("{when}, {issue}")),
        None => Ok(()),
    }
}

/// Whether a device that collects has completed all records, and holds no more than its volume needs.
pub(crate) fn holds_what_is_needed(outstanding: usize, held: &[u64], volume: &Image) -> Result<(), String> {
    if outstanding > 0 {
        return Err(format!("{outstanding} records are outstanding after an unmount"));
    }
    let mut needed = BTreeSet::new();
    volume.blocks_in_use(&mut |lba| _ = needed.insert(lba.get())).map_err(|e| e.to_string())?;
    if !held.iter().eq(&needed) {
        return Err(format!("the device holds {} blocks and the volume needs {}", held.len(), needed.len()));
    }
    Ok(())
}
