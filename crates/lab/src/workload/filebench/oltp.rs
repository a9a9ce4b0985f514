//! The personality `oltp`: readers (`shadow`), database writers and a log writer on two sets of files.
//!
//! A reader reads `iosize` bytes at random, of one file after the other, computes a while, and posts to the log writer
//! and to each database writer; it may run ahead of them by a bounded number of posts. The log writer writes 256 KiB
//! for 3200 posts, a database writer a hundred times `iosize` for 1000 posts. Writes are asynchronous and synchronised
//! (`dsync`: the data is durable when a write ends); before its next batch a writer waits for half of those that are
//! under way.
//!
//! What differs from the tool:
//! - The time of a write counts from its submission to its end.
//! - Computing is waiting and takes no core.
//! - A file has at most one write of a writer under way, as with the C library's implementation of aio.

use super::semaphore::Gate;
use super::{check_runtime, check_size};
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::spec::Size;
use crate::stage::{self, Pattern, Stage, Tally};
use crate::workload::{Act, Options, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{InodeRef, NewInode};
use steadyfs_rt::queue::Queue;
use steadyfs_rt::{Condvar, Cost, Instant, JoinHandle, LockClass, Mutex, charge, now, sleep};

static AIO: LockClass = LockClass::new("lab.aio", 0);
/// Bytes of a write to the log.
const LOG_IO: u64 = 256 << 10;
/// Posts that the log writer waits for, and that it may lag behind by.
const LOG_POSTS: (u64, u64) = (3200, 1000);
/// The same for each database writer.
const DB_POSTS: (u64, u64) = (1000, 2000);
/// Writes of a database writer between two waits.
const DB_BATCH: u32 = 100;
/// Most tasks that do a writer's asynchronous writes.
const AIO_TASKS: usize = 20;
/// Bytes that the layout writes, and that are read back, at a time.
const PIECE: u64 = 1 << 20;

/// The parameters, by the names of the `.f` file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Oltp {
    /// Data files.
    nfiles: u32,
    /// Bytes of each.
    filesize: Size,
    nlogfiles: u32,
    logfilesize: Size,
    /// Readers.
    nshadows: u32,
    ndbwriters: u32,
    /// Bytes of a read, and of a write to a data file.
    iosize: Size,
    /// Steps that a reader computes for each read, half a nanosecond each.
    usermode: u64,
    /// Past the page cache.
    directio: bool,
    /// Seconds.
    runtime: f64,
}

impl Default for Oltp {
    fn default() -> Self {
        Oltp {
            nfiles: 10,
            filesize: Size::of(10 << 20),
            nlogfiles: 1,
            logfilesize: Size::of(10 << 20),
            nshadows: 200,
            ndbwriters: 10,
            iosize: Size::of(2 << 10),
            usermode: 200_000,
            directio: false,
            runtime: 60.0,
        }
    }
}

impl Oltp {
    /// The same with smaller files and a shorter time.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.filesize = self.filesize.times(factor, self.iosize.bytes());
        self.logfilesize = Size::of(self.logfilesize.times(factor, LOG_IO).bytes());
        self.runtime *= factor;
        self
    }
}

impl Options for Oltp {
    fn check(&self) -> std::result::Result<(), String> {
        let counts = [
            ("nfiles", self.nfiles),
            ("nlogfiles", self.nlogfiles),
            ("nshadows", self.nshadows),
            ("ndbwriters", self.ndbwriters),
        ];
        for (name, value) in counts {
            if value == 0 || value > 4096 {
                return Err(format!("workload.{name}: {value} is not between 1 and 4096"));
            }
        }
        check_size("iosize", self.iosize.bytes(), 1, 64 << 20)?;
        check_size("filesize", self.filesize.bytes(), self.iosize.bytes(), 1 << 40)?;
        check_size("logfilesize", self.logfilesize.bytes(), LOG_IO, 1 << 40)?;
        check_runtime(self.runtime)
    }

    fn file_bytes(&self) -> u64 {
        let set = |files: u32, size: Size| size.bytes().saturating_mul(u64::from(files));
        set(self.nfiles, self.filesize).saturating_add(set(self.nlogfiles, self.logfilesize))
    }
}

impl Plan for Oltp {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(Database { shared: None, options: self.clone(), stage: Arc::clone(stage) })
    }
}

/// A file of the database.
struct File {
    inode: InodeRef,
    pattern: Pattern,
    size: u64,
}

/// What all tasks share.
struct Shared {
    stage: Arc<Stage>,
    options: Oltp,
    data: Vec<File>,
    logs: Vec<File>,
    /// That of the log writer, then those of the database writers.
    gates: Vec<Gate>,
}

/// The whole workload.
struct Database {
    stage: Arc<Stage>,
    options: Oltp,
    shared: Option<Arc<Shared>>,
}

impl Database {
    fn shared(&self) -> Result<&Arc<Shared>> {
        self.shared.as_ref().ok_or_else(|| Error::Check("the files have not been laid out".into()))
    }

    fn lay_out_set(&self, name: &str, files: u32, size: u64) -> Result<Vec<File>> {
        let fs = &self.stage.fs;
        let new = |mode| NewInode { mode, ..NewInode::default() };
        let root = fs.root().map_err(Error::core("opening the root directory"))?;
        let dir = fs.create(&root, name.as_bytes(), &new(0o040_755));
        let dir = dir.map_err(Error::core(format!("making directory {name}")))?;
        let mut made = Vec::new();
        for number in 1..=files {
            let doing = || Error::core(format!("laying out {name}/{number:08}"));
            charge(Cost::SyscallEntry);
            let file_name = format!("{number:08}");
            let inode = fs.create(&dir, file_name.as_bytes(), &new(super::fileset::FILE_MODE)).map_err(doing())?;
            let owner = u64::from(number) << 1 | u64::from(name == "logfile");
            let pattern = Pattern::new(owner, self.stage.seed);
            let mut at = 0;
            while at < size {
                let len = PIECE.min(size - at);
                if pattern.write(fs, &inode, at, len, false).map_err(doing())? != len {
                    return Err(doing()(steadyfs_core::Error::NoSpace));
                }
                at += len;
                self.stage.progress.advance(len);
            }
            made.push(File { inode, pattern, size });
        }
        Ok(made)
    }
}

impl Act for Database {
    fn lay_out(&mut self) -> Result<()> {
        let options = self.options.clone();
        let data = self.lay_out_set("datafiles", options.nfiles, options.filesize.bytes())?;
        let logs = self.lay_out_set("logfile", options.nlogfiles, options.logfilesize.bytes())?;
        self.stage.fs.sync().map_err(Error::core("syncing the files"))?;
        let db_gates = (0..options.ndbwriters).map(|_| Gate::new(DB_POSTS.1));
        let gates = [Gate::new(LOG_POSTS.1)].into_iter().chain(db_gates).collect();
        self.shared = Some(Arc::new(Shared { stage: Arc::clone(&self.stage), options, data, logs, gates }));
        Ok(())
    }

    fn amount(&self) -> u64 {
        0
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.options.runtime)
    }

    fn work(&mut self) -> Result<Tally> {
        let shared = self.shared()?;
        let deadline = shared.stage.deadline(self.options.runtime);
        let mut tasks = Vec::new();
        for number in 0..=self.options.ndbwriters {
            let shared = Arc::clone(shared);
            tasks.push(self.stage.start("writer", move || writer(&shared, number, deadline)));
        }
        for number in 0..self.options.nshadows {
            let shared = Arc::clone(shared);
            tasks.push(self.stage.start("shadow", move || shadow(&shared, number, deadline)));
        }
        let alarm = {
            let shared = Arc::clone(shared);
            self.stage.start("alarm", move || {
                // Also looks whether somebody has failed, for whom others would wait.
                while shared.stage.goes_on(Some(deadline)) {
                    sleep(Duration::from_millis(1));
                }
                shared.gates.iter().for_each(Gate::close);
                Ok(Tally::default())
            })
        };
        tasks.push(alarm);
        stage::join(tasks)
    }

    fn verify(&mut self) -> Result<String> {
        let shared = self.shared()?;
        let mut buffer = vec![0; PIECE as usize];
        for (number, file) in shared.data.iter().chain(&shared.logs).enumerate() {
            let mut at = 0;
            while at < file.size {
                let n = self.stage.fs.read_direct(&file.inode, at, &mut buffer);
                let n = n.map_err(Error::core(format!("reading file {number} back")))?;
                let end = if n == 0 { Err(format!("ends at {at}")) } else { file.pattern.judge(at, &buffer[..n]) };
                end.map_err(|why| Error::Check(format!("file {number}: {why}")))?;
                at += n as u64;
                self.stage.progress.advance(n as u64);
            }
        }
        Ok(format!("{} bytes in {} files", self.options.file_bytes(), shared.data.len() + shared.logs.len()))
    }
}

/// One reader.
fn shadow(shared: &Shared, number: u32, deadline: Instant) -> Result<Tally> {
    let mut rng = Rng::new(shared.stage.seed, u64::from(number) << 8 | 4);
    let mut tally = Tally::default();
    let bytes = shared.options.iosize.bytes();
    let mut buffer = vec![0; bytes as usize];
    let mut next = number as usize;
    while shared.stage.goes_on(Some(deadline)) {
        let file = &shared.data[next % shared.data.len()];
        next += 1;
        let off = rng.below(file.size / bytes) * bytes;
        let began = now();
        charge(Cost::SyscallEntry);
        let read = match shared.options.directio {
            true => shared.stage.fs.read_direct(&file.inode, off, &mut buffer),
            false => shared.stage.fs.read(&file.inode, off, &mut buffer),
        };
        let n = read.map_err(Error::core("reading a data file"))?;
        tally.record("shadowread", began.elapsed());
        file.pattern.judge(off, &buffer[..n]).map_err(Error::Check)?;
        shared.stage.read(n as u64);
        shared.stage.progress.advance(n as u64);
        sleep(Duration::from_nanos(shared.options.usermode / 2));
        if !shared.gates.iter().all(Gate::post) {
            break;
        }
    }
    Ok(tally)
}

/// The log writer, which is number 0, or a database writer.
fn writer(shared: &Arc<Shared>, number: u32, deadline: Instant) -> Result<Tally> {
    let log = number == 0;
    let mut rng = Rng::new(shared.stage.seed, u64::from(number) << 8 | 5);
    let files = if log { shared.logs.len() } else { shared.data.len() };
    let bytes = if log { LOG_IO } else { shared.options.iosize.bytes() };
    let (batch, posts) = if log { (1, LOG_POSTS.0) } else { (DB_BATCH, DB_POSTS.0) };
    let aio = Aio::start(shared, log, files);
    let mut next = number as usize;
    while shared.stage.goes_on(Some(deadline)) {
        for _ in 0..batch {
            // The log writer keeps the file that it opened first.
            let file = if log { 0 } else { next % files };
            next += 1;
            let size = if log { shared.logs[file].size } else { shared.data[file].size };
            aio.submit(Write { file, off: rng.below(size / bytes) * bytes, bytes, began: now() });
        }
        if !shared.gates[number as usize].block(posts) {
            break;
        }
        aio.wait();
    }
    aio.finish()
}

/// An asynchronous write.
struct Write {
    file: usize,
    off: u64,
    bytes: u64,
    began: Instant,
}

/// The tasks that do a writer's writes.
struct Aio {
    /// A queue for each task; the writes of a file all go to the same.
    queues: Vec<Arc<Queue<Write>>>,
    under_way: Arc<(Mutex<usize>, Condvar)>,
    tasks: Vec<JoinHandle<Result<Tally>>>,
}

impl Aio {
    fn start(shared: &Arc<Shared>, log: bool, files: usize) -> Self {
        let under_way = Arc::new((Mutex::new(&AIO, 0), Condvar::new()));
        let queues: Vec<Arc<Queue<Write>>> = (0..files.min(AIO_TASKS)).map(|_| Arc::new(Queue::unbounded())).collect();
        let task = |queue: &Arc<Queue<Write>>| {
            let (shared, queue, under_way) = (Arc::clone(shared), Arc::clone(queue), Arc::clone(&under_way));
            let stage = Arc::clone(&shared.stage);
            stage.start("aio", move || {
                let mut tally = Tally::default();
                let mut outcome = Ok(());
                while let Some(write) = queue.pop() {
                    // After a failure the queue is emptied, so that nobody waits for what is in it.
                    outcome = outcome.and_then(|()| perform(&shared, log, &write, &mut tally));
                    *under_way.0.lock() -= 1;
                    under_way.1.notify_all();
                }
                outcome.map(|()| tally)
            })
        };
        let tasks = queues.iter().map(task).collect();
        Aio { queues, under_way, tasks }
    }

    fn submit(&self, write: Write) {
        charge(Cost::SyscallEntry);
        *self.under_way.0.lock() += 1;
        let queue = &self.queues[write.file % self.queues.len()];
        assert!(queue.push(write).is_ok(), "closed only when the writer has ended");
    }

    /// Waits for half of what is under way.
    fn wait(&self) {
        let mut under_way = self.under_way.0.lock();
        let most = *under_way / 2;
        self.under_way.1.wait_while(&mut under_way, |under_way| *under_way > most);
    }

    /// Waits for all of it.
    fn finish(self) -> Result<Tally> {
        self.queues.iter().for_each(|queue| queue.close());
        stage::join(self.tasks)
    }
}

fn perform(shared: &Shared, log: bool, write: &Write, tally: &mut Tally) -> Result<()> {
    let (files, kind) = if log { (&shared.logs, "lg_write") } else { (&shared.data, "dbwrite") };
    let (file, fs) = (&files[write.file], &shared.stage.fs);
    let direct = shared.options.directio;
    let wrote = file.pattern.write(fs, &file.inode, write.off, write.bytes, direct);
    if wrote.map_err(Error::core("writing to the database"))? != write.bytes {
        return Err(Error::core("writing to the database")(steadyfs_core::Error::NoSpace));
    }
    fs.fsync(&file.inode, true).map_err(Error::core("syncing a write to the database"))?;
    tally.record(kind, write.began.elapsed());
    shared.stage.wrote(write.bytes);
    shared.stage.progress.advance(write.bytes);
    Ok(())
}
