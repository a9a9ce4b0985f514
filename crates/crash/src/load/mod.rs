//! Load on a volume that is nearly full: writers that read, write through the cache and past it, punch, cut, rename,
//! replace and sync, and compare what they read with what they know. The volume stays as full as the plan says, so it
//! collects all the time.
//!
//! [`prepare`] fills a volume, [`run`] does the work for some operations or some time, [`verify`] reads everything. The
//! same code runs on the library and on a mount ([`Target`]), with threads or in virtual time ([`schedules`]).
//!
//! Kept true: a writer's own files hold what its model says, to the byte. Each page of a file that all share holds a
//! version that was written, and none older than was there when the read began. In virtual time everything follows from
//! the seed.

mod model;
pub mod schedules;
mod shared;
mod target;
mod writer;

pub use target::{Failure, Library, Target};

use model::{Model, PAGE};
use shared::{STRIPE, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use writer::{Writer, read_all};

/// Files that are shared by all.
const SHARED: u32 = 2;
/// Pages of each writer's small file.
const SMALL: u64 = 32;

/// How a volume is filled.
#[derive(Clone, Copy, Debug)]
pub struct FillPlan {
    /// Writers.
    pub writers: u64,
    /// Files of each, one of them small.
    pub files: u64,
    /// Of 1000 blocks this many shall be in use.
    pub full: u64,
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this many operations of each writer.
    Operations(u64),
    /// After this time.
    Passed(Duration),
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Operations, without the writes that take space again.
    pub operations: u64,
    /// Writes, and how many of them were direct.
    pub writes: u64,
    /// See `writes`.
    pub direct: u64,
    /// Ranges punched.
    pub punches: u64,
    /// Sizes set.
    pub sizes: u64,
    /// Files moved to another name.
    pub renames: u64,
    /// Syncs of a file or of all.
    pub syncs: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes read and found right.
    pub verified: u64,
    /// The fewest blocks of 1000 that were seen in use, their sum over all looks, and how many looks there were.
    pub emptiest: u64,
    /// See `emptiest`.
    pub fullness: u64,
    /// See `emptiest`.
    pub looks: u64,
}

impl Figures {
    fn look(&mut self, used: u64, all: u64) {
        let full = used * 1000 / all.max(1);
        self.emptiest = if self.looks == 0 { full } else { self.emptiest.min(full) };
        self.fullness += full;
        self.looks += 1;
    }

    /// Of 1000 blocks, how many were in use on average.
    pub fn mean_fullness(&self) -> u64 {
        self.fullness / self.looks.max(1)
    }

    /// Adds those of another load.
    pub fn add(&mut self, other: &Figures) {
        self.emptiest = match (self.looks, other.looks) {
            (0, _) => other.emptiest,
            (_, 0) => self.emptiest,
            _ => self.emptiest.min(other.emptiest),
        };
        self.operations += other.operations;
        self.writes += other.writes;
        self.direct += other.direct;
        self.punches += other.punches;
        self.sizes += other.sizes;
        self.renames += other.renames;
        self.syncs += other.syncs;
        self.written += other.written;
        self.verified += other.verified;
        self.fullness += other.fullness;
        self.looks += other.looks;
    }
}

/// What a volume under load holds.
#[derive(Debug)]
pub struct Contents {
    owned: Vec<Owned>,
    shared: Vec<Arc<Shared>>,
}

/// What one writer has.
#[derive(Clone, Debug)]
struct Owned {
    /// Paths, and what is there. The first is a small file.
    files: Vec<(String, Model)>,
    /// The last version that was written.
    version: u32,
    /// Pages that the files shall take.
    budget: u64,
}

impl Clone for Contents {
    fn clone(&self) -> Self {
        Contents { owned: self.owned.clone(), shared: self.shared.iter().map(|file| file.copy()).collect() }
    }
}

/// Tells of a file: its path, its size, and where each page begins with what it holds.
pub type Tell<'a> = dyn FnMut(&str, u64, &mut dyn Iterator<Item = (u64, Vec<u8>)>) + 'a;

impl Contents {
    /// Tells of each file.
    pub fn tell(&self, tell: &mut Tell<'_>) {
        for (path, model) in self.owned.iter().flat_map(|owned| &owned.files) {
            let pages = (0..model.size.div_ceil(PAGE)).map(|page| {
                let mut bytes = Vec::new();
                model.expect(page * PAGE, &mut bytes, PAGE.min(model.size - page * PAGE));
                (page * PAGE, bytes)
            });
            tell(path, model.size, &mut { pages });
        }
        for file in &self.shared {
            let mut pages = (0..file.pages()).map(|page| (page * PAGE, file.expect(page)));
            tell(&file.path, file.pages() * PAGE, &mut pages);
        }
    }
}

/// Fills an empty volume.
///
/// # Errors
/// What the target says.
pub fn prepare<T: Target>(target: &Arc<T>, plan: &FillPlan) -> Result<Contents, Failure> {
    target.mkdir("common")?;
    let (used, all) = target.used()?;
    // A node for each thousand pages or so, and some for files and directories.
    let nodes = all / 1000 + plan.writers * (plan.files + 1) + 8;
    let pages = (all * plan.full / 1000).saturating_sub(used + nodes);
    let in_shared = (pages / 20 / u64::from(SHARED) / (plan.writers * STRIPE)).max(1) * plan.writers * STRIPE;
    let budget = (pages - in_shared * u64::from(SHARED)) / plan.writers;
    let mut owned = Vec::new();
    for writer in 0..plan.writers {
        target.mkdir(&format!("w{writer}"))?;
        let mut files = Vec::new();
        for number in 0..plan.files {
            let path = format!("w{writer}/f{number}");
            target.create(&path)?;
            // With room for holes.
            let pages = if number == 0 { SMALL } else { budget * 5 / 4 / (plan.files - 1) };
            files.push((path, Model::new((writer * plan.files + number) as u32, pages)));
        }
        owned.push(Owned { files, version: 1, budget });
    }
    let mut shared = Vec::new();
    for number in 0..SHARED {
        let path = format!("common/shared{number}");
        let (file, known) = (target.create(&path)?, Shared::new(path, 1 << 20 | number, plan.writers, in_shared));
        for page in (0..in_shared).step_by(STRIPE as usize) {
            drop(known.change(page, STRIPE, 1, false));
            target.write(&file, false, page * PAGE, &known.contents(page, STRIPE, 1))?;
        }
        shared.push(Arc::new(known));
    }
    let mut contents = Contents { owned, shared };
    for number in 0..contents.owned.len() {
        let mut writer = Writer::open(target, &contents, number, 0)?;
        writer.refill()?;
        contents.owned[number] = writer.into_owned();
    }
    target.sync()?;
    Ok(contents)
}

/// Does the work, each writer in a thread of its own; what the volume holds then, and what was done.
///
/// # Errors
/// The first thing that was wrong.
pub fn run<T: Target>(
    target: &Arc<T>,
    contents: Contents,
    seed: u64,
    until: Until,
) -> Result<(Contents, Figures), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for number in 0..contents.owned.len() {
        let mut writer = Writer::open(target, &contents, number, seed)?;
        let stop = Arc::clone(&stop);
        let began = steadyfs_rt::now();
        let work = move || -> Result<Writer<T>, Failure> {
            let goes_on = |operations| match until {
                Until::Operations(most) => operations < most,
                Until::Passed(time) => began.elapsed() < time,
            };
            while !stop.load(SeqCst) && goes_on(writer.figures.operations) {
                writer.step().inspect_err(|_| stop.store(true, SeqCst))?;
            }
            Ok(writer)
        };
        threads.push(steadyfs_rt::spawn("load", work));
    }
    let (mut owned, mut figures, mut outcome) = (Vec::new(), Figures::default(), Ok(()));
    for thread in threads {
        match thread
            .join()
            .map_err(|panic| Failure::from(format!("a writer panicked: {panic}")))
            .and_then(|ended| ended)
        {
            Ok(writer) => {
                figures.add(&writer.figures);
                owned.push(writer.into_owned());
            }
            Err(wrong) => outcome = outcome.and(Err(wrong)),
        }
    }
    outcome.map(|()| (Contents { owned, shared: contents.shared }, figures))
}

/// Reads every file and compares it; how many bytes that were.
///
/// # Errors
/// The first difference.
pub fn verify<T: Target>(target: &Arc<T>, contents: &Contents) -> Result<u64, Failure> {
    let (mut verified, mut outcome) = (0, Ok(()));
    contents.tell(&mut |path, size, pages| {
        if outcome.is_ok() {
            outcome = verify_file(&**target, path, size, pages);
            verified += size;
        }
    });
    outcome.map(|()| verified)
}

fn verify_file<T: Target>(
    target: &T,
    path: &str,
    size: u64,
    pages: &mut dyn Iterator<Item = (u64, Vec<u8>)>,
) -> Result<(), Failure> {
    let file = target.open(path)?;
    let mut seen = vec![0; PAGE as usize];
    for (off, wanted) in pages {
        read_all(target, &file, false, off, &mut seen, wanted.len() as u64)?;
        if seen[..wanted.len()] != wanted[..] {
            let (seen, wanted) = (model::describe(&seen), model::describe(&wanted));
            return Err(format!("{path}, page at {off}: {seen} instead of {wanted}").into());
        }
    }
    match target.read(&file, false, size, &mut seen)? {
        0 => Ok(()),
        more => Err(format!("{path}: {more} bytes beyond its size of {size}").into()),
    }
}
