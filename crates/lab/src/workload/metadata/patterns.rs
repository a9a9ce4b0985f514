//! What programs do that want their names to last, as `steadyfs-bench journal` has it: clients, each in a directory of
//! its own, do rounds of a pattern; beside them somebody else has written to files and not synced them.
//!
//! With `dirty` files each round begins at once in all clients, after all of these files have been written to, which is
//! not in the measured time: `round_rate` is rounds a second of the rounds themselves.

use super::check_count;
use crate::error::{Error, Result};
use crate::spec::Size;
use crate::stage::{self, Pattern as Contents, Stage, Tally};
use crate::workload::{Act, Options, Plan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::{Fs, InodeRef, NewInode, RenameFlags};
use steadyfs_rt::{Cost, charge, now};

const FILE_MODE: u32 = 0o100_644;
const DIR_MODE: u32 = 0o040_755;
/// What a document or a message has.
const DOCUMENT: u64 = 4096;
/// Pages of the database.
const DATABASE: u64 = 64;
/// What SQLite writes again of its rollback journal when the pages in it are durable.
const JOURNAL_HEADER: u64 = 12;
/// Files in a directory of somebody else.
const FILES_PER_DIR: u64 = 1000;

/// What a round is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    /// Write a new temporary file, fsync it, rename it over the old one, fsync the directory.
    #[default]
    SafeSave,
    /// The same with one temporary name.
    LockFile,
    /// Write in `tmp`, fsync, link into `new`, remove from `tmp`.
    Maildir,
    /// A rollback journal, synced with its directory, its header again, two pages of the database, and the journal is
    /// removed.
    SqliteDelete,
}

/// The options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Patterns {
    pattern: Pattern,
    /// Clients.
    clients: u32,
    /// Rounds of each.
    rounds: u64,
    /// Small files that somebody else writes to before each round.
    dirty: u64,
    /// Bytes of each.
    dirty_bytes: Size,
}

impl Default for Patterns {
    fn default() -> Self {
        Patterns { pattern: Pattern::SafeSave, clients: 1, rounds: 100, dirty: 0, dirty_bytes: Size::of(100) }
    }
}

impl Patterns {
    /// The same with fewer rounds, and fewer files of somebody else.
    pub(super) fn scaled(mut self, factor: f64) -> Self {
        let part = |count: u64| ((count as f64 * factor).round() as u64).max(1);
        self.rounds = part(self.rounds);
        self.dirty = if self.dirty > 0 { part(self.dirty) } else { 0 };
        self
    }
}

impl Options for Patterns {
    fn check(&self) -> std::result::Result<(), String> {
        check_count("clients", self.clients.into(), 4096)?;
        check_count("rounds", self.rounds, 1 << 32)?;
        check_count("dirty", self.dirty.max(1), 1 << 24)?;
        check_count("dirty_bytes", self.dirty_bytes.bytes(), 1 << 20)
    }

    fn file_bytes(&self) -> u64 {
        self.dirty * self.dirty_bytes.bytes() + u64::from(self.clients) * DATABASE * DOCUMENT
    }
}

impl Plan for Patterns {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        Box::new(Programs {
            stage: Arc::clone(stage),
            options: self.clone(),
            clients: Vec::new(),
            others: Arc::default(),
        })
    }
}

struct Programs {
    stage: Arc<Stage>,
    options: Patterns,
    clients: Vec<Arc<Client>>,
    others: Arc<Vec<InodeRef>>,
}

/// A client, in its directory.
struct Client {
    number: u64,
    home: InodeRef,
    /// Of maildir: where messages are written, and where they come.
    tmp: InodeRef,
    new: InodeRef,
    file: InodeRef,
}

type CoreResult<T> = std::result::Result<T, steadyfs_core::Error>;

fn make(fs: &Fs, dir: &InodeRef, name: &str, mode: u32) -> CoreResult<InodeRef> {
    charge(Cost::SyscallEntry);
    fs.create(dir, name.as_bytes(), &NewInode { mode, ..NewInode::default() })
}

fn sync(fs: &Fs, what: &InodeRef) -> CoreResult<()> {
    charge(Cost::SyscallEntry);
    fs.fsync(what, false)
}

fn sync_data(fs: &Fs, what: &InodeRef) -> CoreResult<()> {
    charge(Cost::SyscallEntry);
    fs.fsync(what, true)
}

fn unlink(fs: &Fs, dir: &InodeRef, name: &str) -> CoreResult<()> {
    charge(Cost::SyscallEntry);
    fs.unlink(dir, name.as_bytes())
}

impl Client {
    fn new(fs: &Fs, number: u64) -> CoreResult<Self> {
        let home = make(fs, &fs.root()?, &format!("client-{number}"), DIR_MODE)?;
        let (tmp, new) = (make(fs, &home, "tmp", DIR_MODE)?, make(fs, &home, "new", DIR_MODE)?);
        let file = make(fs, &home, "file", FILE_MODE)?;
        Ok(Client { number, home, tmp, new, file })
    }

    /// What the n-th file of this client holds.
    fn contents(&self, stage: &Stage, n: u64) -> Contents {
        Contents::new(self.number << 40 | n, stage.seed)
    }

    /// Makes a file of one document, durable.
    fn document(&self, stage: &Stage, dir: &InodeRef, name: &str, n: u64) -> CoreResult<InodeRef> {
        let file = make(&stage.fs, dir, name, FILE_MODE)?;
        if self.contents(stage, n).write(&stage.fs, &file, 0, DOCUMENT, false)? != DOCUMENT {
            return Err(steadyfs_core::Error::NoSpace);
        }
        stage.wrote(DOCUMENT);
        sync(&stage.fs, &file)?;
        Ok(file)
    }

    /// A transaction, as SQLite makes it with `journal_mode=delete` and `synchronous=full`. The first page of the
    /// database, which counts them, is always written.
    fn transaction(&self, stage: &Stage, n: u64) -> CoreResult<()> {
        let fs = &*stage.fs;
        let journal = self.document(stage, &self.home, "journal", n)?;
        sync(fs, &self.home)?;
        self.contents(stage, n).write(fs, &journal, 0, JOURNAL_HEADER, false)?;
        stage.wrote(JOURNAL_HEADER);
        sync_data(fs, &journal)?;
        for page in [0, 1 + n % (DATABASE - 1)] {
            self.contents(stage, 0).write(fs, &self.file, page * DOCUMENT, DOCUMENT, false)?;
            stage.wrote(DOCUMENT);
        }
        sync_data(fs, &self.file)?;
        unlink(fs, &self.home, "journal")
    }

    fn rename(&self, fs: &Fs, from: (&InodeRef, &str), to: (&InodeRef, &str)) -> CoreResult<()> {
        charge(Cost::SyscallEntry);
        fs.rename(from.0, from.1.as_bytes(), to.0, to.1.as_bytes(), RenameFlags::Replace).map(drop)
    }

    /// Round number `n`, from 1 on.
    fn round(&self, stage: &Stage, pattern: Pattern, n: u64) -> CoreResult<()> {
        let fs = &*stage.fs;
        match pattern {
            Pattern::SafeSave | Pattern::LockFile => {
                let tmp = if pattern == Pattern::SafeSave { format!(".file.{n}") } else { "file.lock".to_owned() };
                self.document(stage, &self.home, &tmp, n)?;
                self.rename(fs, (&self.home, &tmp), (&self.home, "file"))?;
                sync(fs, &self.home)
            }
            Pattern::Maildir => {
                let name = format!("{n}.host");
                let message = self.document(stage, &self.tmp, &name, n)?;
                charge(Cost::SyscallEntry);
                fs.link(&message, &self.new, name.as_bytes())?;
                unlink(fs, &self.tmp, &name)
            }
            Pattern::SqliteDelete => self.transaction(stage, n),
        }
    }

    /// What is there after so many rounds: the name, and the contents.
    fn last(&self, pattern: Pattern, rounds: u64) -> (&InodeRef, String, u64) {
        match pattern {
            Pattern::SafeSave | Pattern::LockFile => (&self.home, "file".to_owned(), rounds),
            Pattern::Maildir => (&self.new, format!("{rounds}.host"), rounds),
            Pattern::SqliteDelete => (&self.home, "file".to_owned(), 0),
        }
    }
}

impl Programs {
    /// All clients do these rounds, side by side; the time it took.
    fn at_once(&self, rounds: std::ops::RangeInclusive<u64>, tally: &mut Tally) -> Result<Duration> {
        let began = now();
        let pattern = self.options.pattern;
        let client = |client: &Arc<Client>| {
            let (client, stage, rounds) = (Arc::clone(client), Arc::clone(&self.stage), rounds.clone());
            self.stage.start("client", move || {
                let mut tally = Tally::default();
                for n in rounds {
                    if !stage.goes_on(None) {
                        break;
                    }
                    let began = now();
                    let done = client.round(&stage, pattern, n);
                    done.map_err(Error::core(format!("round {n} of client {}", client.number)))?;
                    tally.record("round", began.elapsed());
                    stage.progress.advance(1);
                }
                Ok(tally)
            })
        };
        tally.merge(&stage::join(self.clients.iter().map(client).collect())?);
        Ok(began.elapsed())
    }

    /// Somebody writes to all files beside.
    fn dirty(&self) -> Result<()> {
        let bytes = self.options.dirty_bytes.bytes();
        for (number, file) in self.others.iter().enumerate() {
            let contents = Contents::new(1 << 63 | number as u64, self.stage.seed);
            contents.write(&self.stage.fs, file, 0, bytes, false).map_err(Error::core("writing beside"))?;
        }
        Ok(())
    }
}

impl Act for Programs {
    fn lay_out(&mut self) -> Result<()> {
        let fs = Arc::clone(&self.stage.fs);
        let doing = || Error::core("laying out the files");
        let clients = (0..u64::from(self.options.clients)).map(|number| Client::new(&fs, number).map(Arc::new));
        self.clients = clients.collect::<CoreResult<_>>().map_err(doing())?;
        let mut others = Vec::new();
        let mut dir = fs.root().map_err(doing())?;
        for number in 0..self.options.dirty {
            if number % FILES_PER_DIR == 0 {
                let root = fs.root().map_err(doing())?;
                dir = make(&fs, &root, &format!("others-{}", number / FILES_PER_DIR), DIR_MODE).map_err(doing())?;
            }
            others.push(make(&fs, &dir, &number.to_string(), FILE_MODE).map_err(doing())?);
        }
        self.others = Arc::new(others);
        self.dirty()?;
        for client in &self.clients {
            let contents = client.contents(&self.stage, 0);
            contents.write(&fs, &client.file, 0, DATABASE * DOCUMENT, false).map_err(doing())?;
        }
        fs.sync().map_err(Error::core("syncing the files"))
    }

    fn amount(&self) -> u64 {
        u64::from(self.options.clients) * self.options.rounds
    }

    fn work(&mut self) -> Result<Tally> {
        let (mut tally, mut taken) = (Tally::default(), Duration::ZERO);
        let rounds = self.options.rounds;
        if self.options.dirty == 0 {
            taken = self.at_once(1..=rounds, &mut tally)?;
        } else {
            for n in 1..=rounds {
                self.dirty()?;
                taken += self.at_once(n..=n, &mut tally)?;
            }
        }
        tally.set("round_rate", self.amount() as f64 / taken.as_secs_f64().max(1e-9));
        Ok(tally)
    }

    fn verify(&mut self) -> Result<String> {
        let mut page = vec![0; DOCUMENT as usize];
        for client in &self.clients {
            let (dir, name, n) = client.last(self.options.pattern, self.options.rounds);
            let doing = || Error::core(format!("reading {name} of client {} back", client.number));
            let file = self.stage.fs.lookup(dir, name.as_bytes()).map_err(doing())?;
            let read = self.stage.fs.read_direct(&file, 0, &mut page).map_err(doing())?;
            let right = client.contents(&self.stage, n).judge(0, &page[..read]);
            right.map_err(|why| Error::Check(format!("{name} of client {}: {why}", client.number)))?;
            if read as u64 != DOCUMENT {
                return Err(Error::Check(format!("{name} of client {} ends at {read}", client.number)));
            }
        }
        Ok(format!("{} clients have what they saved last", self.clients.len()))
    }
}
