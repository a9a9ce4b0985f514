//! The personalities that work on whole files: what their threads do, and how.

use super::Settings;
use super::fileset::{FILE_MODE, FileSet, Pick, Written};
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::stage::{self, Stage, Tally};
use crate::workload::Act;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{InodeRef, NewInode};
use steadyfs_rt::{Cost, Instant, Mutex, charge, now, sleep};

/// How long a thread waits that finds no file.
const NO_FILE: Duration = Duration::from_micros(100);
/// Bytes that the layout writes, and that are read back, at a time.
const PIECE: u64 = 1 << 20;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flowop {
    CreateFile,
    WriteWholeFile,
    CloseFile,
    OpenFile,
    AppendFileRand,
    ReadWholeFile,
    DeleteFile,
    StatFile,
    Fsync,
    /// An append to the log that all threads share, and have open.
    AppendLog,
}

use Flowop::{
    AppendFileRand, AppendLog, CloseFile, CreateFile, DeleteFile, Fsync, OpenFile, ReadWholeFile, StatFile,
    WriteWholeFile,
};

pub(super) const FILESERVER: &[Flowop] = &[
    CreateFile,
    WriteWholeFile,
    CloseFile,
    OpenFile,
    AppendFileRand,
    CloseFile,
    OpenFile,
    ReadWholeFile,
    CloseFile,
    DeleteFile,
    StatFile,
];

pub(super) const VARMAIL: &[Flowop] = &[
    DeleteFile,
    CreateFile,
    AppendFileRand,
    Fsync,
    CloseFile,
    OpenFile,
    ReadWholeFile,
    AppendFileRand,
    Fsync,
    CloseFile,
    OpenFile,
    ReadWholeFile,
    CloseFile,
];

/// One file read.
const READ: [Flowop; 3] = [OpenFile, ReadWholeFile, CloseFile];

pub(super) const WEBSERVER: &[Flowop] = &{
    let mut ops = [AppendLog; 31];
    let mut at = 0;
    while at < 30 {
        ops[at] = READ[at % 3];
        at += 1;
    }
    ops
};

impl Flowop {
    /// The word for it in figures.
    fn name(self) -> &'static str {
        match self {
            CreateFile => "createfile",
            WriteWholeFile => "writewholefile",
            CloseFile => "closefile",
            OpenFile => "openfile",
            AppendFileRand => "appendfilerand",
            ReadWholeFile => "readwholefile",
            DeleteFile => "deletefile",
            StatFile => "statfile",
            Fsync => "fsync",
            AppendLog => "appendlog",
        }
    }
}

/// A file that a thread has open.
struct Fd {
    number: usize,
    file: InodeRef,
    written: Arc<Mutex<Written>>,
}

/// What all threads share.
struct Shared {
    stage: Arc<Stage>,
    settings: Settings,
    /// One for all threads, or one for each.
    sets: Vec<Arc<FileSet>>,
    /// Webserver's log: a set of one file.
    log: Option<FileSet>,
}

/// A whole file server.
pub(super) struct FileServer {
    stage: Arc<Stage>,
    settings: Settings,
    shared: Option<Arc<Shared>>,
}

/// What came of a flowop.
enum Outcome {
    Done,
    /// Nothing was done, and nothing is counted: the file to be deleted is open.
    Left,
    /// There was no file to do it with.
    NoFile,
    /// There was no space for all of it.
    NoSpace,
}

impl FileServer {
    /// One without files.
    pub(super) fn new(settings: Settings, stage: &Arc<Stage>) -> Self {
        FileServer { stage: Arc::clone(stage), settings, shared: None }
    }

    fn shared(&self) -> Result<&Arc<Shared>> {
        self.shared.as_ref().ok_or_else(|| Error::Check("the files have not been laid out".into()))
    }
}

impl Act for FileServer {
    fn lay_out(&mut self) -> Result<()> {
        let (stage, settings) = (Arc::clone(&self.stage), self.settings.clone());
        let set = |number: u64| {
            let name = if settings.private { format!("bigfileset.{number}") } else { "bigfileset".to_owned() };
            FileSet::new(&stage.fs, &name, &settings, stage.seed ^ number << 32).map(Arc::new)
        };
        let sets = (0..settings.sets()).map(set).collect::<Result<Vec<_>>>()?;
        let log = match settings.flowops.contains(&AppendLog) {
            true => {
                Some(FileSet::new(&stage.fs, "logfiles", &Settings { nfiles: 1, ..settings.clone() }, stage.seed ^ 1)?)
            }
            false => None,
        };
        let shared = Shared { stage, settings, sets, log };
        for set in &shared.sets {
            let mut order: Vec<usize> = (0..set.files.len()).collect();
            Rng::new(shared.stage.seed, 0xA110).shuffle(&mut order);
            order.truncate(shared.settings.preallocated() as usize);
            order.into_iter().try_for_each(|number| shared.preallocate(set, number))?;
        }
        if let Some(log) = &shared.log {
            shared.preallocate(log, 0)?;
        }
        shared.stage.fs.sync().map_err(Error::core("syncing the files"))?;
        self.shared = Some(Arc::new(shared));
        Ok(())
    }

    fn amount(&self) -> u64 {
        0
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.settings.runtime)
    }

    fn work(&mut self) -> Result<Tally> {
        let shared = self.shared()?;
        let deadline = shared.stage.deadline(self.settings.runtime);
        let threads = (0..self.settings.nthreads).map(|number| {
            let shared = Arc::clone(shared);
            let thread = move || Thread::new(&shared, number).and_then(|thread| thread.run(deadline));
            self.stage.start("filebench", thread)
        });
        stage::join(threads.collect())
    }

    fn verify(&mut self) -> Result<String> {
        let shared = self.shared()?;
        let (mut files, mut bytes) = (0u64, 0u64);
        for set in shared.sets.iter().map(|set| &**set).chain(shared.log.as_ref()) {
            for number in set.existing() {
                bytes += shared.verify(set, number)?;
                files += 1;
            }
        }
        Ok(format!("{files} files with {bytes} bytes hold what was written to them"))
    }
}

impl Shared {
    fn open(&self, set: &FileSet, number: usize) -> Result<Fd> {
        charge(Cost::SyscallEntry);
        let (dir, name) = set.place(number);
        let file = self.stage.fs.lookup(dir, name.as_bytes()).map_err(Error::core(format!("opening {name}")))?;
        Ok(Fd { number, file, written: Arc::clone(&set.files[number].written) })
    }

    fn create(&self, set: &FileSet, number: usize) -> Result<Option<Fd>> {
        charge(Cost::SyscallEntry);
        let (dir, name) = set.place(number);
        let new = NewInode { mode: FILE_MODE, ..NewInode::default() };
        match self.stage.fs.create(dir, name.as_bytes(), &new) {
            Ok(file) => {
                set.begin(number);
                Ok(Some(Fd { number, file, written: Arc::clone(&set.files[number].written) }))
            }
            Err(steadyfs_core::Error::NoSpace) => Ok(None),
            Err(e) => Err(Error::core(format!("creating {name}"))(e)),
        }
    }

    /// Makes a file of its full size, before the measured phase.
    fn preallocate(&self, set: &FileSet, number: usize) -> Result<()> {
        let full = || Error::Core { doing: "laying out the files".into(), source: steadyfs_core::Error::NoSpace };
        let fd = self.create(set, number)?.ok_or_else(full)?;
        set.release(number, true, false);
        let size = set.files[number].size;
        for _ in 0..size.div_ceil(PIECE) {
            if !self.extend(&fd, PIECE, size)? {
                return Err(full());
            }
        }
        self.stage.progress.advance(size);
        Ok(())
    }

    /// Writes so many bytes at the end of a file, not beyond a size; false if there was no space for all of them.
    fn extend(&self, fd: &Fd, len: u64, most: u64) -> Result<bool> {
        let mut written = fd.written.lock();
        let len = len.min(most.saturating_sub(written.length));
        if len == 0 {
            return Ok(true);
        }
        match written.pattern.write(&self.stage.fs, &fd.file, written.length, len, false) {
            Ok(n) => {
                written.length += n;
                Ok(n == len)
            }
            Err(steadyfs_core::Error::NoSpace) => Ok(false),
            Err(e) => Err(Error::core(format!("writing file {}", fd.number))(e)),
        }
    }

    /// As [`Shared::extend`], in the measured phase.
    fn grow(&self, fd: &Fd, len: u64, most: u64) -> Result<bool> {
        let before = fd.written.lock().length;
        let done = self.extend(fd, len, most)?;
        let bytes = fd.written.lock().length - before;
        self.stage.wrote(bytes);
        self.stage.progress.advance(bytes);
        Ok(done)
    }

    /// Reads a file from its beginning to its end.
    fn read_whole(&self, fd: &Fd, buffer: &mut [u8]) -> Result<()> {
        let pattern = fd.written.lock().pattern;
        let mut at = 0;
        loop {
            charge(Cost::SyscallEntry);
            let read = self.stage.fs.read(&fd.file, at, buffer);
            let n = read.map_err(Error::core(format!("reading file {}", fd.number)))?;
            if n == 0 {
                return Ok(());
            }
            pattern.judge(at, &buffer[..n]).map_err(|why| Error::Check(format!("file {}: {why}", fd.number)))?;
            at += n as u64;
            self.stage.read(n as u64);
        }
    }

    /// Reads a file back, past the cache; its length.
    fn verify(&self, set: &FileSet, number: usize) -> Result<u64> {
        let wrong = |why: String| Error::Check(format!("file {number}: {why}"));
        let fd = self.open(set, number)?;
        let right = fd.written.lock().clone();
        let doing = || Error::core(format!("reading file {number} back"));
        let size = self.stage.fs.attr(&fd.file).map_err(doing())?.size;
        if size != right.length {
            return Err(wrong(format!("its size is {size} and should be {}", right.length)));
        }
        let mut buffer = vec![0; PIECE as usize];
        let mut at = 0;
        while at < size {
            let n = self.stage.fs.read_direct(&fd.file, at, &mut buffer).map_err(doing())?;
            if n == 0 {
                return Err(wrong(format!("it ends at {at}")));
            }
            right.pattern.judge(at, &buffer[..n]).map_err(wrong)?;
            at += n as u64;
            self.stage.progress.advance(n as u64);
        }
        Ok(size)
    }
}

/// One thread.
struct Thread {
    shared: Arc<Shared>,
    set: Arc<FileSet>,
    rng: Rng,
    fd: Option<Fd>,
    log: Option<Fd>,
    buffer: Vec<u8>,
    tally: Tally,
}

impl Thread {
    fn new(shared: &Arc<Shared>, number: u32) -> Result<Self> {
        Ok(Thread {
            shared: Arc::clone(shared),
            set: Arc::clone(&shared.sets[number as usize % shared.sets.len()]),
            rng: Rng::new(shared.stage.seed, u64::from(number) << 8 | 3),
            fd: None,
            log: shared.log.as_ref().map(|log| shared.open(log, 0)).transpose()?,
            buffer: vec![0; shared.settings.iosize as usize],
            tally: Tally::default(),
        })
    }

    /// Does the flowops in their order until time is over.
    fn run(mut self, deadline: Instant) -> Result<Tally> {
        let ops = self.shared.settings.flowops;
        let delete = ops.iter().position(|op| *op == DeleteFile).unwrap_or(0);
        let mut at = 0;
        while self.shared.stage.goes_on(Some(deadline)) {
            let op = ops[at];
            let began = now();
            let outcome = self.perform(op)?;
            at = (at + 1) % ops.len();
            match outcome {
                Outcome::Done => self.tally.record(op.name(), began.elapsed()),
                Outcome::Left => self.tally.add("deletes_of_open_files", 1),
                Outcome::NoSpace => self.tally.add("no_space", 1),
                Outcome::NoFile => {
                    self.tally.add("no_file", 1);
                    self.close();
                    sleep(NO_FILE);
                    at = delete;
                }
            }
        }
        self.close();
        Ok(self.tally)
    }

    fn close(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.set.close(fd.number);
        }
    }

    fn perform(&mut self, op: Flowop) -> Result<Outcome> {
        let shared = Arc::clone(&self.shared);
        match op {
            CreateFile => self.create(),
            DeleteFile => delete(&shared, &self.set),
            StatFile => stat(&shared, &self.set),
            OpenFile => {
                let Some(number) = self.set.pick(Pick::Existing) else { return Ok(Outcome::NoFile) };
                self.fd = Some(shared.open(&self.set, number)?);
                self.set.release(number, true, true);
                Ok(Outcome::Done)
            }
            CloseFile => {
                charge(Cost::SyscallEntry);
                self.close();
                Ok(Outcome::Done)
            }
            AppendLog => self.append(true),
            AppendFileRand => self.append(false),
            WriteWholeFile | ReadWholeFile | Fsync => {
                let Some(fd) = &self.fd else { return Ok(Outcome::NoFile) };
                match op {
                    WriteWholeFile => return write_whole(&shared, &self.set, fd),
                    ReadWholeFile => shared.read_whole(fd, &mut self.buffer)?,
                    _ => {
                        charge(Cost::SyscallEntry);
                        let synced = shared.stage.fs.fsync(&fd.file, false);
                        synced.map_err(Error::core(format!("syncing file {}", fd.number)))?;
                    }
                }
                Ok(Outcome::Done)
            }
        }
    }

    fn create(&mut self) -> Result<Outcome> {
        let set = &self.set;
        let Some(number) = set.pick(Pick::Missing) else { return Ok(Outcome::NoFile) };
        let created = self.shared.create(set, number)?;
        set.release(number, created.is_some(), created.is_some());
        self.fd = created;
        Ok(if self.fd.is_some() { Outcome::Done } else { Outcome::NoFile })
    }

    fn append(&mut self, to_log: bool) -> Result<Outcome> {
        let Some(fd) = (if to_log { &self.log } else { &self.fd }) else { return Ok(Outcome::NoFile) };
        let len = self.rng.below(self.shared.settings.meanappendsize);
        let done = self.shared.grow(fd, len, u64::MAX)?;
        Ok(if done { Outcome::Done } else { Outcome::NoSpace })
    }
}

fn write_whole(shared: &Shared, set: &FileSet, fd: &Fd) -> Result<Outcome> {
    let size = set.files[fd.number].size;
    let mut left = size;
    while left > 0 {
        if !shared.grow(fd, shared.settings.iosize, size)? {
            return Ok(Outcome::NoSpace);
        }
        left = left.saturating_sub(shared.settings.iosize);
    }
    Ok(Outcome::Done)
}

fn delete(shared: &Shared, set: &FileSet) -> Result<Outcome> {
    let Some(number) = set.pick(Pick::Existing) else { return Ok(Outcome::NoFile) };
    if set.is_open(number) {
        set.release(number, true, false);
        return Ok(Outcome::Left);
    }
    charge(Cost::SyscallEntry);
    let (dir, name) = set.place(number);
    shared.stage.fs.unlink(dir, name.as_bytes()).map_err(Error::core(format!("deleting {name}")))?;
    set.release(number, false, false);
    Ok(Outcome::Done)
}

fn stat(shared: &Shared, set: &FileSet) -> Result<Outcome> {
    let Some(number) = set.pick(Pick::Existing) else { return Ok(Outcome::NoFile) };
    let fd = shared.open(set, number)?;
    let found = shared.stage.fs.attr(&fd.file);
    found.map_err(Error::core(format!("asking for file {number}'s attributes")))?;
    set.release(number, true, false);
    Ok(Outcome::Done)
}
