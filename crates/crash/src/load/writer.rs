//! One writer of the load: what it does next, and whether what it reads is right.

use super::model::{Model, PAGE, SECTOR, describe};
use super::shared::Shared;
use super::target::{Failure, Target};
use super::{Contents, Figures, Owned};
use crate::rng::Rng;
use std::sync::Arc;

/// Most sectors that one write through the cache has, and most pages of a direct one.
const MOST_SECTORS: u64 = 96;
const MOST_PAGES: u64 = 16;
/// Pages written at a time where space is to be taken again.
const REFILL: u64 = 64;
/// Operations between two looks at how full the volume is.
const LOOK: u64 = 64;

struct Held<F> {
    file: F,
    path: String,
    model: Model,
}

/// A writer with its files open.
pub(super) struct Writer<T: Target> {
    target: Arc<T>,
    number: u64,
    rng: Rng,
    files: Vec<Held<T::File>>,
    shared: Vec<(T::File, Arc<Shared>)>,
    /// The last version that it wrote.
    version: u32,
    /// Pages that its files shall take, and take.
    budget: u64,
    mapped: u64,
    bytes: Vec<u8>,
    wanted: Vec<u8>,
    pub(super) figures: Figures,
}

impl<T: Target> Writer<T> {
    /// Opens the files of a writer.
    pub(super) fn open(target: &Arc<T>, contents: &Contents, number: usize, seed: u64) -> Result<Self, Failure> {
        let owned = &contents.owned[number];
        let mut files = Vec::new();
        for (path, model) in &owned.files {
            files.push(Held { file: target.open(path)?, path: path.clone(), model: model.clone() });
        }
        let mapped = files.iter().map(|held| held.model.pages() - held.model.holes(0, held.model.pages() * PAGE)).sum();
        let mut shared = Vec::new();
        for file in &contents.shared {
            shared.push((target.open(&file.path)?, Arc::clone(file)));
        }
        Ok(Writer {
            target: Arc::clone(target),
            number: number as u64,
            rng: Rng::new(seed ^ (number as u64 + 1) << 40),
            files,
            shared,
            version: owned.version,
            budget: owned.budget,
            mapped,
            bytes: Vec::new(),
            wanted: Vec::new(),
            figures: Figures::default(),
        })
    }

    /// What its files hold now.
    pub(super) fn into_owned(self) -> Owned {
        let files = self.files.into_iter().map(|held| (held.path, held.model)).collect();
        Owned { files, version: self.version, budget: self.budget }
    }

    /// One operation; after it the files take their space again.
    pub(super) fn step(&mut self) -> Result<(), Failure> {
        if self.figures.operations.is_multiple_of(LOOK) {
            let (used, all) = self.target.used()?;
            self.figures.look(used, all);
        }
        self.figures.operations += 1;
        let at = self.rng.below(self.files.len() as u64) as usize;
        match self.rng.below(1000) {
            0..280 => self.read_some(at)?,
            280..520 => self.write_some(at, false)?,
            520..680 => self.write_some(at, true)?,
            680..780 => self.change_shared()?,
            780..850 => self.read_shared()?,
            850..900 => self.punch(at)?,
            900..920 => self.set_size(at)?,
            920..950 => self.sync_one(at)?,
            950..970 => self.rename(at)?,
            970..975 => self.replace()?,
            975..980 => self.read_whole(at)?,
            980 => {
                self.target.sync()?;
                self.figures.syncs += 1;
            }
            _ => self.read_some(at)?,
        }
        self.refill()
    }

    fn next_version(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    fn read_some(&mut self, at: usize) -> Result<(), Failure> {
        let size = self.files[at].model.size;
        let off = self.rng.below(size.max(1));
        let len = (1 + self.rng.below(16 * PAGE)).min(size - off.min(size));
        if self.rng.below(2) == 0 {
            return self.compare(at, false, off, len);
        }
        let first = off / PAGE * PAGE;
        self.compare(at, true, first, (off + len).next_multiple_of(PAGE) - first)
    }

    fn read_whole(&mut self, at: usize) -> Result<(), Failure> {
        let mut off = 0;
        while off < self.files[at].model.size {
            self.compare(at, false, off, 64 * PAGE)?;
            off += 64 * PAGE;
        }
        Ok(())
    }

    /// Reads a range and compares it with the model. It may pass the size.
    fn compare(&mut self, at: usize, direct: bool, off: u64, len: u64) -> Result<(), Failure> {
        let held = &self.files[at];
        let there = len.min(held.model.size.saturating_sub(off));
        self.bytes.resize(len as usize, 0);
        read_all(&*self.target, &held.file, direct, off, &mut self.bytes, there)?;
        held.model.expect(off, &mut self.wanted, there);
        self.figures.verified += there;
        let seen = &self.bytes[..there as usize];
        let Some(wrong) = seen.iter().zip(&self.wanted).position(|(seen, wanted)| seen != wanted) else {
            return Ok(());
        };
        let cell = (off + wrong as u64) / 16 * 16;
        let from = cell.saturating_sub(off) as usize;
        Err(format!(
            "{}, offset {}{}: {} instead of {}",
            held.path,
            off + wrong as u64,
            if direct { ", direct" } else { "" },
            describe(&seen[from..]),
            describe(&self.wanted[from..])
        )
        .into())
    }

    fn write_some(&mut self, at: usize, direct: bool) -> Result<(), Failure> {
        let unit = if direct { PAGE } else { SECTOR };
        let most = if direct { MOST_PAGES } else { MOST_SECTORS };
        let model = &self.files[at].model;
        let end = model.pages() * PAGE;
        let mut off = self.rng.below(end / unit) * unit;
        let mut len = ((1 + self.rng.below(most)) * unit).min(end - off);
        if self.mapped + model.holes(off, len) > self.budget {
            let Some(page) = model.find(off / PAGE, true) else { return Ok(()) };
            off = page * PAGE;
            len = len.min(model.run(page, true, MOST_PAGES) * PAGE);
        }
        self.write(at, direct, off, len)
    }

    fn write(&mut self, at: usize, direct: bool, off: u64, len: u64) -> Result<(), Failure> {
        let version = self.next_version();
        let held = &mut self.files[at];
        self.bytes.resize(len as usize, 0);
        super::model::fill(&mut self.bytes, held.model.id, version, off);
        whole(self.target.write(&held.file, direct, off, &self.bytes)?, len)?;
        self.mapped += held.model.holes(off, len);
        held.model.write(off, len, version);
        self.figures.written += len;
        self.figures.direct += u64::from(direct);
        self.figures.writes += 1;
        Ok(())
    }

    fn punch(&mut self, at: usize) -> Result<(), Failure> {
        let held = &mut self.files[at];
        if held.model.size == 0 {
            return Ok(());
        }
        let off = self.rng.below(held.model.size / SECTOR) * SECTOR;
        let len = (1 + self.rng.below(MOST_SECTORS)) * SECTOR;
        let len = len.min(held.model.pages() * PAGE - off);
        self.target.punch(&held.file, off, len)?;
        let holes = held.model.holes(0, held.model.pages() * PAGE);
        held.model.punch(off, len);
        self.mapped -= held.model.holes(0, held.model.pages() * PAGE) - holes;
        self.figures.punches += 1;
        Ok(())
    }

    /// Shrinks a file by up to a tenth, or grows it.
    fn set_size(&mut self, at: usize) -> Result<(), Failure> {
        let held = &mut self.files[at];
        let end = held.model.pages() * PAGE;
        let size = (end - self.rng.below(end / 10 / SECTOR + 1) * SECTOR).max(SECTOR);
        self.target.set_size(&held.file, size)?;
        let holes = held.model.holes(0, end);
        held.model.set_size(size);
        self.mapped -= held.model.holes(0, end) - holes;
        self.figures.sizes += 1;
        Ok(())
    }

    fn sync_one(&mut self, at: usize) -> Result<(), Failure> {
        let data = self.rng.below(2) == 0;
        self.target.fsync(&self.files[at].file, data)?;
        self.figures.syncs += 1;
        Ok(())
    }

    /// Moves a file to its other name: in the writer's own directory, or in the one where all come together.
    fn rename(&mut self, at: usize) -> Result<(), Failure> {
        let held = &mut self.files[at];
        let own = format!("w{}/", self.number);
        let name = match held.path.strip_prefix(&own) {
            Some(name) => format!("common/w{}-{name}", self.number),
            None => format!("{own}{}", held.path.rsplit_once('-').map_or("", |(_, name)| name)),
        };
        self.target.rename(&held.path, &name)?;
        held.path = name;
        self.figures.renames += 1;
        Ok(())
    }

    /// Writes the first file, which is a small one, again and moves it over the old.
    fn replace(&mut self) -> Result<(), Failure> {
        let old = &self.files[0];
        let (path, pages) = (old.path.clone(), old.model.pages());
        self.mapped -= pages - old.model.holes(0, pages * PAGE);
        let new = format!("w{}/new", self.number);
        let model = Model::new(old.model.id, pages);
        self.files[0] = Held { file: self.target.create(&new)?, path: new.clone(), model };
        self.write(0, false, 0, pages * PAGE / 2)?;
        if self.rng.below(2) == 0 {
            self.target.fsync(&self.files[0].file, false)?;
        }
        self.target.rename(&new, &path)?;
        self.files[0].path = path;
        self.figures.renames += 1;
        Ok(())
    }

    /// Changes pages of its own in a shared file.
    fn change_shared(&mut self) -> Result<(), Failure> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let version = self.next_version();
        let (file, shared) = &self.shared[self.rng.below(self.shared.len() as u64) as usize];
        let (first, pages) = shared.stripe_of(self.number, self.rng.next());
        if pages == 0 {
            return Ok(());
        }
        let skip = self.rng.below(pages);
        let (first, pages) = (first + skip, 1 + self.rng.below(pages - skip));
        let (off, len) = (first * PAGE, pages * PAGE);
        let zeros = self.rng.below(8) == 0;
        let _changing = shared.change(first, pages, version, zeros);
        if zeros {
            self.target.punch(file, off, len)?;
            self.figures.punches += 1;
            return Ok(());
        }
        let direct = self.rng.below(2) == 0;
        whole(self.target.write(file, direct, off, &shared.contents(first, pages, version))?, len)?;
        self.figures.written += len;
        self.figures.direct += u64::from(direct);
        self.figures.writes += 1;
        Ok(())
    }

    /// Reads pages of a shared file, whichever writer they belong to.
    fn read_shared(&mut self) -> Result<(), Failure> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let (file, shared) = &self.shared[self.rng.below(self.shared.len() as u64) as usize];
        let first = self.rng.below(shared.pages());
        let pages = (1 + self.rng.below(MOST_PAGES)).min(shared.pages() - first);
        let direct = self.rng.below(2) == 0;
        let before = shared.before(first, pages);
        self.bytes.resize((pages * PAGE) as usize, 0);
        read_all(&*self.target, file, direct, first * PAGE, &mut self.bytes, pages * PAGE)?;
        shared.check(first, &before, &self.bytes)?;
        self.figures.verified += pages * PAGE;
        Ok(())
    }

    /// Writes into holes until the files take as much space as they shall.
    pub(super) fn refill(&mut self) -> Result<(), Failure> {
        while self.mapped + 8 <= self.budget {
            let from = self.rng.below(self.files.len() as u64) as usize;
            let all = self.files.len();
            let hole =
                (0..all).map(|i| (from + i) % all).find_map(|at| Some((at, self.files[at].model.find(0, false)?)));
            let Some((at, page)) = hole else { return Ok(()) };
            let run = self.files[at].model.run(page, false, REFILL.min(self.budget - self.mapped));
            self.write(at, false, page * PAGE, run * PAGE)?;
        }
        Ok(())
    }
}

/// Reads `there` bytes, and sees that no more are there if there is room for more.
pub(super) fn read_all<T: Target>(
    target: &T,
    file: &T::File,
    direct: bool,
    off: u64,
    buf: &mut [u8],
    there: u64,
) -> Result<(), Failure> {
    let mut done = 0;
    while done < buf.len() {
        match target.read(file, direct, off + done as u64, &mut buf[done..])? {
            0 => break,
            count => done += count,
        }
        if direct && !(done as u64).is_multiple_of(SECTOR) {
            break; // the end of the file
        }
    }
    if done as u64 == there { Ok(()) } else { Err(format!("{done} bytes at {off} instead of {there}").into()) }
}

fn whole(written: usize, len: u64) -> Result<(), Failure> {
    if written as u64 == len { Ok(()) } else { Err(format!("a write of {len} bytes ended after {written}").into()) }
}
