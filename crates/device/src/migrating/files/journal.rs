//! The journal of a [`MigratingDevice`](super::MigratingDevice): the steps of its ledger, in a file.
//!
//! The file is a row of frames, each {bytes of the payload, checksum, payload}; numbers have 8 bytes and are
//! little-endian. The first payload is a whole ledger, each other one the steps that a flush made durable. Steps of
//! neighbouring blocks are one run. A frame that is cut short, or has another checksum, is the end: a power cut came
//! amid it. When steps take much more room than the ledger, a new file with a ledger alone takes the old one's name.
//!
//! Kept true: a frame is written after the blocks that its steps tell of are durable. One that could not be written, or
//! synced, is written again at the same place, with the steps since.

use crate::host::{Access, HostDir, HostFile};
use crate::migrating::{MigrationGeometry, Move, Numbers, Sort, Step, put};
use crate::{Ledger, OpenError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Its name in the directory of the device, and a new one before it is complete.
const NAME: &str = "journal";
const BEGUN: &str = "journal.new";
pub(super) const NAMES: [&str; 2] = [NAME, BEGUN];
/// Length and checksum.
const HEAD: usize = 16;
/// Steps may take so much, and four times as much as the ledger, before a ledger takes their place.
const SHORT: u64 = if cfg!(test) { 1 << 16 } else { 1 << 20 };

const WRITE: [u64; 2] = [1, 2];
const REFUSED: u64 = 3;
const DISCARD: u64 = 4;
const MOVED: u64 = 5;
const DELIVER: u64 = 6;
const COMPLETE: u64 = 7;
const RESUME: u64 = 8;
const UNWRITTEN: u64 = 9;

pub(super) struct Journal {
    dir: HostDir,
    /// None of a device that is only read.
    file: Option<Arc<HostFile>>,
    /// Where the next frame goes.
    end: u64,
    /// How many there are.
    frames: u64,
    /// What the first frame takes.
    ledger: u64,
    /// Steps of the next frame, which may have been tried.
    framed: Vec<u8>,
    /// Steps behind those.
    pending: Vec<u8>,
    /// The last of them, if it may become longer: its kind, first block and count.
    run: Option<(u64, u64, u64)>,
    #[cfg(test)]
    begun: u64,
}

fn system(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |source| OpenError::System { path: path.to_owned(), source }
}

/// FNV-1a with 64 bits, which tells a torn frame from a whole one.
fn checksum(number: u64, payload: &[u8]) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ number;
    payload.iter().fold(begin, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + payload.len());
    put(&mut frame, &[payload.len() as u64, checksum(number, payload)]);
    frame.extend(payload);
    frame
}

/// The payload of the frame with this number, and what follows it; `None` at the end.
fn split(bytes: &[u8], number: u64) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let mut head = Numbers(head);
    let (len, sum) = (usize::try_from(head.next()?).ok()?, head.next()?);
    let (payload, rest) = rest.split_at_checked(len)?;
    (checksum(number, payload) == sum || steadyfs_rt::mutated("a-torn-frame-is-the-end")).then_some((payload, rest))
}

/// Whether a whole frame follows the one that is none: no power cut leaves that.
fn is_amid(bytes: &[u8], number: u64) -> bool {
    let len = Numbers(bytes).next().and_then(|len| usize::try_from(len).ok());
    let rest = len.and_then(|len| bytes.get(HEAD..)?.get(len..));
    rest.is_some_and(|rest| split(rest, number + 1).is_some())
}

impl Journal {
    /// Makes the journal of a device that holds nothing.
    pub(super) fn create(dir: &HostDir, geometry: &MigrationGeometry) -> io::Result<()> {
        write_beside(dir, &Ledger::new(geometry.clone()))?;
        take_name(dir)
    }

    /// Reads the journal; the ledger is that after the last whole frame. `None` if the first is none.
    pub(super) fn open(
        dir: &HostDir,
        path: &Path,
        geometry: MigrationGeometry,
        read_only: bool,
    ) -> Result<Option<(Journal, Ledger)>, OpenError> {
        let path = path.join(NAME);
        let access = if read_only { Access::Read } else { Access::Write };
        let file = dir.open(NAME, access).map_err(|errno| system(&path)(errno.into()))?;
        let bytes = file.read_all().map_err(system(&path))?;
        let Some((mut ledger, first, mut rest)) = split(&bytes, 0).and_then(|(payload, rest)| {
            let ledger = Ledger::restore(geometry, &mut Numbers(payload))?;
            Some((ledger, (HEAD + payload.len()) as u64, rest))
        }) else {
            return Ok(None);
        };
        let mut frames = 1;
        while let Some((payload, after)) = split(rest, frames) {
            if !replay(payload, &mut ledger) {
                return Ok(None);
            }
            (rest, frames) = (after, frames + 1);
        }
        if is_amid(rest, frames) && !steadyfs_rt::mutated("a-damaged-frame-is-refused") {
            return Ok(None);
        }
        let end = (bytes.len() - rest.len()) as u64;
        if !read_only {
            // The rest of a torn frame must not follow those to come.
            file.set_len(end).map_err(system(&path))?;
        }
        let file = (!read_only).then(|| Arc::new(file));
        let dir = dir.clone();
        let journal = Journal {
            dir,
            file,
            end,
            frames,
            ledger: first,
            framed: Vec::new(),
            pending: Vec::new(),
            run: None,
            #[cfg(test)]
            begun: 0,
        };
        Ok(Some((journal, ledger.cut())))
    }

    /// Notes a step.
    pub(super) fn push(&mut self, step: &Step) {
        if self.file.is_none() {
            return;
        }
        match *step {
            Step::Write(block, sort) => self.push_run(WRITE[usize::from(sort == Sort::Node)], block),
            Step::Refused(block) => self.push_run(REFUSED, block),
            Step::Unwritten(block) => self.push_run(UNWRITTEN, block),
            Step::Discard(block) => self.push_run(DISCARD, block),
            Step::Moved(Move { from, to }) => self.push_one(&[MOVED, from, to]),
            Step::Deliver(count) => self.push_one(&[DELIVER, count as u64]),
            // What a session has heard of is nothing to the next.
            Step::Hear(_) => {}
            Step::Complete(up_to) => self.push_one(&[COMPLETE, up_to]),
            Step::Resume(served) => self.push_one(&[RESUME, served]),
        }
    }

    fn push_run(&mut self, kind: u64, block: u64) {
        match &mut self.run {
            Some((last, first, count)) if *last == kind && *first + *count == block => *count += 1,
            _ => {
                self.close_run();
                self.run = Some((kind, block, 1));
            }
        }
    }

    fn push_one(&mut self, numbers: &[u64]) {
        self.close_run();
        put(&mut self.pending, numbers);
    }

    fn close_run(&mut self) {
        if let Some((kind, first, count)) = self.run.take() {
            put(&mut self.pending, &[kind, first, count]);
        }
    }

    /// All steps so far go to the next frame.
    pub(super) fn close_frame(&mut self) {
        self.close_run();
        self.framed.append(&mut self.pending);
    }

    /// Writes the next frame, and returns the file that is to be synced. Until [`Journal::appended`] says that it is
    /// durable the frame does not count, and is written again: nobody knows what a failed sync has lost. Nothing
    /// follows it, so whatever is left of an attempt ends the journal, or is true.
    pub(super) fn append(&self) -> io::Result<Option<Arc<HostFile>>> {
        let Some(file) = self.file.clone().filter(|_| !self.framed.is_empty()) else { return Ok(None) };
        file.write_all_at(&frame(self.frames, &self.framed), self.end)?;
        Ok(Some(file))
    }

    /// The frame is durable.
    pub(super) fn appended(&mut self) {
        if !self.framed.is_empty() {
            self.end += (HEAD + self.framed.len()) as u64;
            self.frames += 1;
            self.framed.clear();
        }
    }

    /// The file, for a device that may be changed.
    pub(super) fn file(&self) -> Option<&Arc<HostFile>> {
        self.file.as_ref()
    }

    /// Whether steps take much more room than the ledger.
    pub(super) fn is_long(&self) -> bool {
        self.end > self.ledger.saturating_mul(4).max(SHORT)
    }

    /// Writes a frame of this payload.
    #[cfg(test)]
    pub(super) fn append_frame(&mut self, payload: &[u8]) -> io::Result<()> {
        self.framed = payload.to_vec();
        self.append()?;
        self.appended();
        Ok(())
    }

    /// Its length.
    #[cfg(test)]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How often it began again.
    #[cfg(test)]
    pub(super) fn begun_anew(&self) -> u64 {
        self.begun
    }

    /// Puts the ledger, which contains all steps, in the place of what there is. Blocks that steps tell of are durable.
    /// False if there is no room for it now, and the journal goes on as it is.
    pub(super) fn begin_anew(&mut self, ledger: &Ledger) -> io::Result<bool> {
        if self.file.is_none() {
            return Ok(true);
        }
        let Ok((file, end)) = write_beside(&self.dir, ledger) else {
            let _ = self.dir.unlink(BEGUN);
            return Ok(false);
        };
        take_name(&self.dir)?;
        self.run = None;
        self.pending.clear();
        #[cfg(test)]
        {
            self.begun += 1;
        }
        (self.file, self.end, self.frames, self.ledger) = (Some(Arc::new(file)), end, 1, end);
        Ok(true)
    }
}

/// Makes a journal of a ledger alone, without its name, and its length.
fn write_beside(dir: &HostDir, ledger: &Ledger) -> io::Result<(HostFile, u64)> {
    let mut payload = Vec::new();
    ledger.save(&mut payload);
    let frame = frame(0, &payload);
    let file = dir.open(BEGUN, Access::Anew)?;
    file.write_all_at(&frame, 0)?;
    file.sync(true)?;
    Ok((file, frame.len() as u64))
}

/// Gives it the name.
fn take_name(dir: &HostDir) -> io::Result<()> {
    dir.rename(BEGUN, NAME)?;
    Ok(dir.sync()?)
}

/// Takes the steps of a frame; false if they are none.
fn replay(payload: &[u8], ledger: &mut Ledger) -> bool {
    let mut from = Numbers(payload);
    while let Some(kind) = from.next() {
        let Some(number) = from.next() else { return false };
        let taken = match kind {
            DELIVER => usize::try_from(number).is_ok_and(|count| ledger.replay(Step::Deliver(count))),
            COMPLETE => ledger.replay(Step::Complete(number)),
            RESUME => ledger.replay(Step::Resume(number)),
            _ => from.next().is_some_and(|second| replay_pair(kind, number, second, ledger)),
        };
        if !taken {
            return false;
        }
    }
    from.0.is_empty()
}

fn replay_pair(kind: u64, first: u64, second: u64, ledger: &mut Ledger) -> bool {
    let step = |block| match kind {
        _ if kind == WRITE[0] => Some(Step::Write(block, Sort::Data)),
        _ if kind == WRITE[1] => Some(Step::Write(block, Sort::Node)),
        REFUSED => Some(Step::Refused(block)),
        UNWRITTEN => Some(Step::Unwritten(block)),
        DISCARD => Some(Step::Discard(block)),
        _ => None,
    };
    if kind == MOVED {
        return ledger.replay(Step::Moved(Move { from: first, to: second }));
    }
    let blocks = ledger.geometry().gc.end;
    first.checked_add(second).is_some_and(|end| end <= blocks)
        && (first..first + second).all(|block| step(block).is_some_and(|step| ledger.replay(step)))
}
