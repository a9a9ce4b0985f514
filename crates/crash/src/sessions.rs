//! What sessions of writers have in common that are cut at any moment, whatever device is below: whom they have, what
//! they write, and how what is left is looked at.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::{Error, Fs, InodeRef, NewInode};
use steadyfs_device::{Device, DeviceInfo, IoError, Request, Zone, ZoneGeometry};
use steadyfs_rt::{LockClass, Mutex, sleep};

pub(crate) const PAGE: u64 = 4096;
/// Pages of a writer's file.
pub(crate) const PAGES: u64 = 300;
/// Sessions of a seed, and cuts of each, where many seeds are tried.
pub(crate) const SESSIONS: u64 = 3;
pub(crate) const CUTS: u64 = 8;
/// Threads of a volume that nobody has any more end when they look next; in virtual time that costs nothing.
pub(crate) const ENOUGH_TO_END: Duration = Duration::from_secs(15);
/// How long a device holds a request up at most.
const DELAY_NS: u64 = 60_000;

/// What pages of a file hold.
pub(crate) type Pages = BTreeMap<u64, u8>;

/// Whom a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionHost {
    /// One writer on two cores, and a device that ends requests at once.
    Alone,
    /// Two to four writers on one to eight cores; two of three devices hold requests up.
    Crowd,
}

impl SessionHost {
    pub(crate) fn writers(self, random: &mut Rng) -> u64 {
        if self == SessionHost::Alone { 1 } else { 2 + random.below(3) }
    }

    pub(crate) fn cores(self, random: &mut Rng) -> usize {
        if self == SessionHost::Alone { 2 } else { 1 + random.below(8) as usize }
    }

    pub(crate) fn is_late(self, random: &mut Rng) -> bool {
        self == SessionHost::Crowd && random.below(3) > 0
    }
}

/// Held to draw a number.
static LATE: LockClass = LockClass::new("crash.held_up", u16::MAX - 3);

/// A device that holds requests up, if it is told to.
pub(crate) struct HeldUp<D> {
    inner: Arc<D>,
    late: Mutex<Option<Rng>>,
}

impl<D: Device> HeldUp<D> {
    /// One that does not yet.
    pub(crate) fn new(inner: &Arc<D>) -> Self {
        HeldUp { inner: Arc::clone(inner), late: Mutex::new(&LATE, None) }
    }

    /// From now on each request for as long as these numbers say, or not at all.
    pub(crate) fn hold_up(&self, by: Option<Rng>) {
        *self.late.lock() = by;
    }

    pub(crate) fn inner(&self) -> &Arc<D> {
        &self.inner
    }
}

impl<D: Device> Device for HeldUp<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let wait = self.late.lock().as_mut().map(|random| random.below(DELAY_NS));
            wait.into_iter().for_each(|wait| sleep(Duration::from_nanos(wait)));
            self.inner.submit(vec![request]);
        }
    }

    fn zones(&self) -> Option<ZoneGeometry> {
        self.inner.zones()
    }

    fn zone_report(&self, first: u64, count: u64) -> Result<Vec<Zone>, IoError> {
        self.inner.zone_report(first, count)
    }
}

/// The file of a writer.
pub(crate) fn file(fs: &Fs, writer: usize) -> Result<InodeRef, Error> {
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

/// Whether a volume has what was promised, and can be changed.
pub(crate) fn goes_on(fs: &Fs, files: &[Pages]) -> Result<(), String> {
    compare_all(fs, files)?;
    let data = file(fs, 0).map_err(|e| e.to_string())?;
    fs.write(&data, PAGES * PAGE, &[9; PAGE as usize]).map_err(|e| format!("it takes no write: {e}"))?;
    fs.sync().map_err(|e| format!("it does not sync: {e}"))
}

/// Makes a file of `pages` pages, or removes it.
pub(crate) fn come_and_go(fs: &Fs, name: &str, pages: u64) -> Result<(), Error> {
    let root = fs.root()?;
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    match fs.create(&root, name.as_bytes(), &new) {
        Ok(extra) => fs.write(&extra, 0, &vec![1; (pages * PAGE) as usize]).map(drop),
        Err(_) => fs.unlink(&root, name.as_bytes()),
    }
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
