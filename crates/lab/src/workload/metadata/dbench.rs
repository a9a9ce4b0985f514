//! A mix as dbench's client load has it: clients of a file server, each in directories of its own, that open, create,
//! read, write, rename, delete, look for and ask about small files, in the proportions of the load.
//!
//! The proportions are those of the counts that dbench 4 prints for its load `client.txt`; they stay the same for any
//! length of run. The load itself, a recording, is not here: which file comes next, and how long an I/O is, is drawn at
//! random. A round of a client is a deck of operations in these proportions (5783 of them), shuffled; one that cannot
//! be done when its turn comes (closing with nothing open) is put further back.

use super::check_count;
use crate::error::{Error, Result};
use crate::rng::Rng;
use crate::spec::Size;
use crate::stage::{self, Pattern, Stage, Tally};
use crate::workload::{Act, Options, Plan};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use steadyfs_core::{InodeRef, NewInode, RenameFlags, SetAttr};
use steadyfs_rt::{Cost, Instant, LockClass, Mutex, charge, now};

static CLIENT: LockClass = LockClass::new("lab.client", 0);
/// Directories of a client: as many as the load has.
const DIRS: usize = 9;
/// Entries that a search lists at most.
const FIND: usize = 512;

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Dbench {
    /// Clients.
    clients: u32,
    /// Files of a client at the start, and about as many later.
    nfiles: u32,
    /// Bytes that a file may have.
    filesize: Size,
    /// Bytes of a read or write: any number up to this, all equally likely; the default gives about the load's mean of
    /// 15 KB, since reads end with files.
    iosize: Size,
    /// Seconds; shorter with the scale.
    runtime: f64,
}

impl Default for Dbench {
    fn default() -> Self {
        Dbench { clients: 1, nfiles: 200, filesize: Size::of(256 << 10), iosize: Size::of(44 << 10), runtime: 60.0 }
    }
}

impl Dbench {
    /// The same with smaller files and a shorter time.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.filesize = self.filesize.times(factor, 4096);
        self.runtime *= factor;
        self
    }
}

impl Options for Dbench {
    fn check(&self) -> std::result::Result<(), String> {
        check_count("clients", self.clients.into(), 4096)?;
        check_count("nfiles", self.nfiles.into(), 1 << 20)?;
        check_count("filesize", self.filesize.bytes(), 1 << 32)?;
        check_count("iosize", self.iosize.bytes(), 1 << 26)?;
        if !(self.runtime > 0.0 && self.runtime < 1e7) {
            return Err(format!("workload.runtime: {} is no number of seconds above 0", self.runtime));
        }
        Ok(())
    }

    fn file_bytes(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.nfiles).saturating_mul(self.filesize.bytes() / 2)
    }
}

impl Plan for Dbench {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(Server { stage: Arc::clone(stage), options: self.clone(), clients: Vec::new() })
    }
}

/// What clients do. Names in figures are dbench's, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// An open of a name that is not there.
    OpenMissing,
    OpenNew,
    Open,
    Close,
    Rename,
    Unlink,
    QueryPath,
    QueryFile,
    QueryFs,
    SetFile,
    Find,
    Write,
    Read,
    Lock,
    Unlock,
    Flush,
}

/// For a thousand opens, 265 of which find nothing. Making and removing directories (4 in 100,000) is left out.
const DECK: [(Op, u32); 16] = [
    (Op::OpenMissing, 265),
    (Op::OpenNew, 202),
    (Op::Open, 533),
    (Op::Close, 735),
    (Op::Rename, 42),
    (Op::Unlink, 202),
    (Op::QueryPath, 906),
    (Op::QueryFile, 159),
    (Op::QueryFs, 166),
    (Op::SetFile, 81),
    (Op::Find, 350),
    (Op::Write, 498),
    (Op::Read, 1568),
    (Op::Lock, 3),
    (Op::Unlock, 3),
    (Op::Flush, 70),
];

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::OpenMissing | Op::OpenNew | Op::Open => "ntcreatex",
            Op::Close => "close",
            Op::Rename => "rename",
            Op::Unlink => "unlink",
            Op::QueryPath => "qpathinfo",
            Op::QueryFile => "qfileinfo",
            Op::QueryFs => "qfsinfo",
            Op::SetFile => "sfileinfo",
            Op::Find => "find",
            Op::Write => "writex",
            Op::Read => "readx",
            Op::Lock => "lockx",
            Op::Unlock => "unlockx",
            Op::Flush => "flush",
        }
    }
}

/// A file that exists.
#[derive(Clone, Debug)]
struct File {
    dir: usize,
    name: String,
    pattern: Pattern,
    length: u64,
    opens: u32,
}

/// An open file.
struct Handle {
    /// Which file, by its serial number.
    serial: u64,
    inode: InodeRef,
    at: u64,
}

/// A client, with its files by serial number (in the order in which they were made).
struct Client {
    number: u32,
    stage: Arc<Stage>,
    options: Dbench,
    rng: Rng,
    dirs: Vec<InodeRef>,
    files: Vec<(u64, File)>,
    made: u64,
    open: Vec<Handle>,
    deck: VecDeque<Op>,
    buffer: Vec<u8>,
}

struct Server {
    stage: Arc<Stage>,
    options: Dbench,
    clients: Vec<Arc<Mutex<Client>>>,
}

impl Act for Server {
    fn lay_out(&mut self) -> Result<()> {
        for number in 0..self.options.clients {
            let mut client = Client::new(number, &self.stage, &self.options)?;
            for _ in 0..self.options.nfiles {
                client.make(self.options.filesize.bytes() / 2)?;
            }
            self.clients.push(Arc::new(Mutex::new(&CLIENT, client)));
        }
        self.stage.fs.sync().map_err(Error::core("syncing the files"))
    }

    fn amount(&self) -> u64 {
        0
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.options.runtime)
    }

    fn work(&mut self) -> Result<Tally> {
        let deadline = self.stage.deadline(self.options.runtime);
        let tasks = self.clients.iter().map(|client| {
            let client = Arc::clone(client);
            self.stage.start("dbench", move || client.lock().run(deadline))
        });
        stage::join(tasks.collect())
    }

    fn verify(&mut self) -> Result<String> {
        let (mut files, mut bytes) = (0, 0);
        for client in &self.clients {
            let mut client = client.lock();
            client.open.clear();
            files += client.files.len();
            bytes += client.verify()?;
        }
        Ok(format!("{files} files with {bytes} bytes hold what was written to them"))
    }
}

impl Client {
    fn new(number: u32, stage: &Arc<Stage>, options: &Dbench) -> Result<Self> {
        let fs = &stage.fs;
        let new = NewInode { mode: 0o040_755, ..NewInode::default() };
        let make = |parent: &InodeRef, name: String| {
            fs.create(parent, name.as_bytes(), &new).map_err(Error::core(format!("making directory {name}")))
        };
        let root = fs.root().map_err(Error::core("opening the root directory"))?;
        let home = make(&root, format!("client{number}"))?;
        let dirs = (0..DIRS).map(|dir| make(&home, format!("dir{dir}"))).collect::<Result<_>>()?;
        Ok(Client {
            number,
            stage: Arc::clone(stage),
            options: options.clone(),
            rng: Rng::new(stage.seed, u64::from(number) << 8 | 6),
            dirs,
            files: Vec::new(),
            made: 0,
            open: Vec::new(),
            deck: VecDeque::new(),
            buffer: vec![0; options.iosize.bytes() as usize],
        })
    }

    fn doing(&self, what: &str) -> impl FnOnce(steadyfs_core::Error) -> Error + use<> {
        Error::core(format!("{what} of client {}", self.number))
    }

    /// Makes a file of this length and leaves it open.
    fn make(&mut self, length: u64) -> Result<()> {
        let dir = self.rng.below(DIRS as u64) as usize;
        self.made += 1;
        let name = format!("file{:08}.dat", self.made);
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        charge(Cost::SyscallEntry);
        let inode =
            self.stage.fs.create(&self.dirs[dir], name.as_bytes(), &new).map_err(self.doing("creating a file"))?;
        let pattern = Pattern::new(u64::from(self.number) << 40 | self.made, self.stage.seed);
        let mut at = 0;
        while at < length {
            let part = (1u64 << 20).min(length - at);
            if pattern.write(&self.stage.fs, &inode, at, part, false).map_err(self.doing("laying out a file"))? != part
            {
                return Err(self.doing("laying out a file")(steadyfs_core::Error::NoSpace));
            }
            self.stage.progress.advance(part);
            at += part;
        }
        self.files.push((self.made, File { dir, name, pattern, length, opens: 0 }));
        Ok(())
    }

    fn run(&mut self, deadline: Instant) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut put_back = 0;
        while self.stage.goes_on(Some(deadline)) {
            let Some(op) = self.deck.pop_front() else {
                self.shuffle();
                continue;
            };
            let began = now();
            if self.perform(op)? {
                tally.record(op.name(), began.elapsed());
                put_back = 0;
            } else if put_back > self.deck.len() {
                // Nothing that is left can be done.
                self.deck.clear();
            } else {
                self.deck.push_back(op);
                put_back += 1;
            }
        }
        Ok(tally)
    }

    fn shuffle(&mut self) {
        let mut ops: Vec<Op> = DECK.iter().flat_map(|(op, count)| std::iter::repeat_n(*op, *count as usize)).collect();
        self.rng.shuffle(&mut ops);
        self.deck = ops.into();
    }

    /// Does an operation; false if there is nothing that it could be done to.
    fn perform(&mut self, op: Op) -> Result<bool> {
        match op {
            Op::Close | Op::QueryFile | Op::SetFile | Op::Write | Op::Read | Op::Lock | Op::Unlock | Op::Flush => {
                if self.open.is_empty() {
                    return Ok(false);
                }
                let handle = self.rng.below(self.open.len() as u64) as usize;
                self.on_handle(op, handle)?;
            }
            Op::OpenNew => {
                self.make(0)?;
                self.open_file(self.files.len() - 1)?;
            }
            Op::OpenMissing => {
                charge(Cost::SyscallEntry);
                let dir = &self.dirs[self.rng.below(DIRS as u64) as usize];
                let name = format!("none{:08}.dat", self.rng.below(1 << 20));
                match self.stage.fs.lookup(dir, name.as_bytes()) {
                    Err(steadyfs_core::Error::NotFound) => {}
                    Err(e) => return Err(self.doing("looking for a file")(e)),
                    Ok(_) => return Err(Error::Check(format!("{name} is there and should not be"))),
                }
            }
            Op::QueryFs => {
                charge(Cost::SyscallEntry);
                std::hint::black_box(self.stage.fs.statfs());
            }
            Op::Find => self.find()?,
            Op::Open | Op::Rename | Op::Unlink | Op::QueryPath => return self.on_file(op),
        }
        Ok(true)
    }

    fn on_file(&mut self, op: Op) -> Result<bool> {
        if self.files.is_empty() {
            return Ok(false);
        }
        let at = self.rng.below(self.files.len() as u64) as usize;
        if op == Op::Open {
            charge(Cost::SyscallEntry);
            self.open_file(at)?;
            return Ok(true);
        }
        let fs = &self.stage.fs;
        let file = &self.files[at].1;
        let (dir, name) = (&self.dirs[file.dir], file.name.clone());
        match op {
            Op::QueryPath => {
                charge(Cost::SyscallEntry);
                let found = fs.lookup(dir, name.as_bytes()).and_then(|inode| fs.attr(&inode));
                let size = found.map_err(self.doing("asking for a file"))?.size;
                if size != file.length {
                    return Err(Error::Check(format!("{name} has {size} bytes and should have {}", file.length)));
                }
            }
            _ if file.opens > 0 => return Ok(false),
            Op::Unlink => {
                charge(Cost::SyscallEntry);
                fs.unlink(dir, name.as_bytes()).map_err(self.doing("deleting a file"))?;
                self.files.remove(at);
            }
            _ => {
                charge(Cost::SyscallEntry);
                let new_dir = self.rng.below(DIRS as u64) as usize;
                self.made += 1;
                let new_name = format!("name{:08}.dat", self.made);
                let to = (&self.dirs[new_dir], new_name.as_bytes());
                let renamed = fs.rename(dir, name.as_bytes(), to.0, to.1, RenameFlags::Replace);
                renamed.map_err(self.doing("renaming a file"))?;
                let file = &mut self.files[at].1;
                (file.dir, file.name) = (new_dir, new_name);
            }
        }
        Ok(true)
    }

    fn open_file(&mut self, at: usize) -> Result<()> {
        let (serial, file) = &self.files[at];
        let serial = *serial;
        let inode = self.stage.fs.lookup(&self.dirs[file.dir], file.name.as_bytes());
        let inode = inode.map_err(self.doing("opening a file"))?;
        self.files[at].1.opens += 1;
        self.open.push(Handle { serial, inode, at: 0 });
        Ok(())
    }

    fn on_handle(&mut self, op: Op, at: usize) -> Result<()> {
        charge(Cost::SyscallEntry);
        let Handle { serial, inode, at: offset } = &self.open[at];
        let (serial, inode, offset) = (*serial, inode.clone(), *offset);
        let Ok(file) = self.files.binary_search_by_key(&serial, |(serial, _)| *serial) else {
            return Err(Error::Check(format!("file {serial} was deleted while it was open")));
        };
        let fs = Arc::clone(&self.stage.fs);
        match op {
            Op::Close => {
                self.files[file].1.opens -= 1;
                self.open.swap_remove(at);
            }
            Op::QueryFile => {
                let size = fs.attr(&inode).map_err(self.doing("asking for an open file"))?.size;
                let right = self.files[file].1.length;
                if size != right {
                    return Err(Error::Check(format!("open file {serial} has {size} bytes and should have {right}")));
                }
            }
            Op::SetFile => {
                let set = SetAttr { mtime: Some(steadyfs_core::SetTime::Now), ..SetAttr::default() };
                fs.setattr(&inode, &set).map_err(self.doing("setting a file's time"))?;
            }
            Op::Flush => fs.fsync(&inode, false).map_err(self.doing("syncing a file"))?,
            Op::Write => {
                let from = if offset >= self.options.filesize.bytes() { 0 } else { offset };
                let most = (self.options.filesize.bytes() - from).min(self.options.iosize.bytes());
                let len = 1 + self.rng.below(most);
                let (pattern, length) = (self.files[file].1.pattern, self.files[file].1.length);
                // A handle that is ahead of a shorter file would leave a hole.
                let from = from.min(length);
                let wrote = pattern.write(&fs, &inode, from, len, false).map_err(self.doing("writing a file"))?;
                if wrote != len {
                    return Err(self.doing("writing a file")(steadyfs_core::Error::NoSpace));
                }
                self.files[file].1.length = length.max(from + len);
                self.open[at].at = from + len;
                self.stage.wrote(len);
                self.stage.progress.advance(len);
            }
            Op::Read => {
                let (pattern, length) = (self.files[file].1.pattern, self.files[file].1.length);
                let from = if offset >= length { 0 } else { offset };
                let len = 1 + self.rng.below(self.options.iosize.bytes()) as usize;
                let read = fs.read(&inode, from, &mut self.buffer[..len]);
                let n = read.map_err(self.doing("reading a file"))?;
                if n as u64 != (length - from).min(len as u64) {
                    return Err(Error::Check(format!("file {serial} gives {n} bytes at {from} of {length}")));
                }
                pattern.judge(from, &self.buffer[..n]).map_err(Error::Check)?;
                self.open[at].at = from + n as u64;
                self.stage.read(n as u64);
                self.stage.progress.advance(n as u64);
            }
            // Locks are the kernel's business.
            _ => {}
        }
        Ok(())
    }

    fn find(&mut self) -> Result<()> {
        charge(Cost::SyscallEntry);
        let dir = self.rng.below(DIRS as u64) as usize;
        let mut seen = 0;
        let mut count = |_: steadyfs_core::DirEntry<'_>| {
            seen += 1;
            seen < FIND
        };
        self.stage.fs.readdir(&self.dirs[dir], 0, &mut count).map_err(self.doing("listing a directory"))?;
        let files = self.files.iter().filter(|(_, file)| file.dir == dir).count();
        if seen < files.min(FIND) {
            return Err(Error::Check(format!("a directory of {files} files lists {seen} entries")));
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<u64> {
        let mut bytes = 0;
        for (serial, file) in &self.files {
            let found = self.stage.fs.lookup(&self.dirs[file.dir], file.name.as_bytes());
            let inode = found.map_err(self.doing("opening a file"))?;
            let mut at = 0;
            while at < file.length {
                let read = self.stage.fs.read_direct(&inode, at, &mut self.buffer);
                let n = read.map_err(self.doing("reading a file back"))? as u64;
                let wrong = |why: String| Error::Check(format!("file {serial} of client {}: {why}", self.number));
                if n == 0 {
                    return Err(wrong(format!("it ends at {at} and should have {} bytes", file.length)));
                }
                file.pattern.judge(at, &self.buffer[..n as usize]).map_err(wrong)?;
                at += n;
                self.stage.progress.advance(n);
            }
            bytes += at;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deck_has_the_proportions_of_the_load_and_is_balanced() {
        let of = |wanted: &str| DECK.iter().filter(|(op, _)| op.name() == wanted).map(|(_, n)| n).sum::<u32>();
        // Counts of a run of 300 s of 16 clients, as dbench 4.00 printed them.
        for (name, count) in [
            ("close", 7_896_674.0),
            ("rename", 455_222.0),
            ("unlink", 2_171_189.0),
            ("qpathinfo", 9_744_323.0),
            ("qfileinfo", 1_707_092.0),
            ("qfsinfo", 1_786_756.0),
            ("sfileinfo", 875_612.0),
            ("find", 3_767_281.0),
            ("writex", 5_356_924.0),
            ("readx", 16_852_694.0),
            ("flush", 753_458.0),
        ] {
            let (ours, theirs) = (f64::from(of(name)) / f64::from(of("ntcreatex")), count / 10_750_455.0);
            assert!((ours / theirs - 1.0).abs() < 0.02, "{name}: {ours} and {theirs}");
        }
        let count = |wanted: Op| DECK.iter().find(|(op, _)| *op == wanted).map_or(0, |(_, n)| *n);
        assert_eq!(count(Op::OpenNew) + count(Op::Open), count(Op::Close), "what is opened is closed");
        assert_eq!(count(Op::OpenNew), count(Op::Unlink), "as many are made as deleted");
    }
}
