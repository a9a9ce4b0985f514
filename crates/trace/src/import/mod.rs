//! Traces of others as traces of ours: logs of fio, and block traces in the CSV of MSR Cambridge.
//!
//! A text is read twice: [`Plan::of`] checks every line and notes which pieces of which file are used, then
//! [`Plan::write`] writes the records. `lines` reads with bounded memory, `fio` and `msr` know the two forms, `pieces`
//! brings the addresses of a disk into a file that is no longer than what is used of it.
//!
//! Kept true: nothing is written of a text that has a bad line; the same text gives the same bytes; memory grows with
//! the files and pieces that are used, which have an upper bound, and not with the text.

mod event;
mod fio;
mod lines;
mod msr;
mod pieces;
#[cfg(test)]
mod tests;

use crate::file::{self, Header, Writer};
use crate::record::{DATA_ONLY, DIRECT, Name, Op, Record};
use event::{Event, What};
use lines::Lines;
use pieces::Pieces;
use serde::Serialize;
use std::io::{self, BufRead, Seek, Write};

/// The most operations of a trace: a replay holds them all in memory.
pub const MOST_OPERATIONS: u64 = 1 << 26;
/// The most files, or disks.
pub const MOST_FILES: usize = 1 << 16;
/// The longest time that a trace may cover, in nanoseconds: a year.
const LONGEST_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;
/// As of a regular file in `mode_t`.
const FILE_MODE: u64 = 0o100_644;
/// The inode of the first file; 1 is the root.
const FIRST_INODE: u64 = 2;
/// fallocate(2): make a hole, keep the size.
const HOLE: u64 = 3;

/// The form of a foreign trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// What fio's `write_iolog` writes, versions 2 and 3.
    Fio,
    /// CSV of MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
    Msr,
}

impl Format {
    /// The form of a text that begins with this line.
    fn guess(first: &str) -> Option<Self> {
        if first.starts_with("fio ") {
            Some(Format::Fio)
        } else {
            (first.split(',').count() == msr::FIELDS).then_some(Format::Msr)
        }
    }

    fn parser(self, direct: bool) -> Box<dyn Parser> {
        match self {
            Format::Fio => Box::new(fio::Log::new(direct)),
            Format::Msr => Box::new(msr::Csv::default()),
        }
    }
}

/// One form of text: takes its lines in order.
trait Parser {
    /// The operation in a line; `None` if it has none.
    fn line(&mut self, line: &str) -> Result<Option<Event>, String>;

    /// Of each file that was named so far, how long its name is in bytes.
    fn names(&self) -> &[usize];

    /// Whether the operations are those of one program, one after the other. Else they are requests that overlap.
    fn is_one_program(&self) -> bool;

    /// When the recording began, in seconds since 1970, if its first time in nanoseconds says so.
    fn began(&self, first_ns: u64) -> u64;
}

/// What to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The form of the text; `None`: what its first line looks like.
    pub format: Option<Format>,
    /// Reads and writes of fio were past the page cache (`direct=1`), which its log does not say.
    pub direct: bool,
    /// The first operations, up to this number.
    pub first: Option<u64>,
}

/// Why a text is no trace.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {number}: {why}")]
    Line {
        /// Counted from 1.
        number: u64,
        /// The fault.
        why: String,
    },
    /// Neither form.
    #[error("its first line is neither that of a log of fio nor that of a CSV of MSR Cambridge")]
    Unknown,
    /// There is no operation in it.
    #[error("there is no operation in it")]
    Empty,
    /// The second reading found something else.
    #[error("it changed while it was read")]
    Changed,
}

/// What a trace was made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Imported {
    /// The form of the text.
    pub format: Format,
    /// Operations in the trace.
    pub operations: u64,
    /// Files, or disks.
    pub files: u64,
    /// Bytes of these files: all that is used of them, in pieces of 64 KiB.
    pub file_bytes: u64,
    /// From the first operation to the end of the last.
    pub seconds: f64,
    /// Operations of the text that are not in the trace: on no bytes, or a trim of what nothing else uses.
    pub left_out: u64,
}

/// A text that was read once, and has no bad line.
pub struct Plan {
    format: Format,
    options: Options,
    files: Vec<Pieces>,
    /// Of each file, the length of its name.
    names: Vec<usize>,
    first_ns: u64,
    last_ns: u64,
    began: u64,
    /// Operations, those included that will be left out.
    count: u64,
}

impl Plan {
    /// Reads a text for the first time.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn of(from: &mut (impl BufRead + Seek), options: Options) -> Result<Self, ImportError> {
        let format = match options.format {
            Some(format) => format,
            None => {
                from.rewind()?;
                let mut lines = Lines::new(from);
                let first = lines.next()?.ok_or(ImportError::Empty)?;
                Format::guess(first).ok_or(ImportError::Unknown)?
            }
        };
        let mut plan = Plan {
            format,
            options,
            files: Vec::new(),
            names: Vec::new(),
            first_ns: u64::MAX,
            last_ns: 0,
            began: 0,
            count: 0,
        };
        let mut parser = format.parser(options.direct);
        let mut pieces = 0;
        each(from, &options, &mut *parser, |event| plan.note(&event, &mut pieces))?;
        if plan.count == 0 {
            return Err(ImportError::Empty);
        }
        plan.files.resize_with(parser.names().len(), Pieces::default);
        plan.files.iter_mut().for_each(Pieces::seal);
        plan.names = parser.names().to_vec();
        plan.began = parser.began(plan.first_ns);
        Ok(plan)
    }

    fn note(&mut self, event: &Event, pieces: &mut usize) -> Result<(), String> {
        self.count += 1;
        self.first_ns = self.first_ns.min(event.at_ns);
        self.last_ns = self.last_ns.max(event.end_ns());
        if self.last_ns - self.first_ns > LONGEST_NS {
            return Err("it is more than a year from the first operation to the last".into());
        }
        if self.files.len() <= event.file {
            self.files.resize_with(event.file + 1, Pieces::default);
        }
        if matches!(event.what, What::Read | What::Write) && event.size > 0 {
            *pieces += self.files[event.file].add(event.offset, event.size);
        }
        pieces::check(*pieces)
    }

    /// Reads the text for the second time, and writes the trace.
    ///
    /// # Errors
    /// Those of reader and writer; the text is another one now.
    pub fn write(&self, from: &mut (impl BufRead + Seek), to: &mut impl Write) -> Result<Imported, ImportError> {
        file::write_header(to, &Header { began: self.began, cache: 2 })?;
        let mut writer = Writer::new(to);
        let mut parser = self.format.parser(self.options.direct);
        let thread = u32::from(parser.is_one_program());
        for (number, (pieces, name)) in self.files.iter().zip(&self.names).enumerate() {
            writer.push(found(thread, number, pieces.bytes(), *name))?;
        }
        let (mut operations, mut left_out, mut trouble) = (0, 0, None);
        let read = each(from, &self.options, &mut *parser, |event| {
            let written = self.record(&event, thread).and_then(|record| match record {
                Some(record) => writer.push(record).map(|()| operations += 1).map_err(ImportError::Io),
                None => {
                    left_out += 1;
                    Ok(())
                }
            });
            written.map_err(|e| trouble.insert(e).to_string())
        });
        match (trouble, read) {
            (Some(trouble), _) => return Err(trouble),
            (None, Err(ImportError::Line { .. })) => return Err(ImportError::Changed),
            (None, read) => read?,
        }
        if operations + left_out != self.count {
            return Err(ImportError::Changed);
        }
        writer.finish()?;
        Ok(Imported {
            format: self.format,
            operations,
            files: self.files.len() as u64,
            file_bytes: self.files.iter().map(Pieces::bytes).sum(),
            seconds: (self.last_ns - self.first_ns) as f64 / 1e9,
            left_out,
        })
    }

    /// An operation as we record it; none if it does nothing.
    fn record(&self, event: &Event, thread: u32) -> Result<Option<Record>, ImportError> {
        let start_ns = event.at_ns.checked_sub(self.first_ns).ok_or(ImportError::Changed)?;
        let pieces = self.files.get(event.file).ok_or(ImportError::Changed)?;
        let (start, end) = (pieces.place(event.offset), pieces.place(event.offset + event.size));
        let range = (start, end - start);
        // Bytes that are read or written are used, and keep their length.
        if matches!(event.what, What::Read | What::Write) && range.1 != event.size {
            return Err(ImportError::Changed);
        }
        if event.what == What::Nothing || event.what.is_on_bytes() && range.1 == 0 {
            return Ok(None);
        }
        let (op, flags) = match event.what {
            What::Read => (Op::Read, if event.direct { DIRECT } else { 0 }),
            What::Write => (Op::Write, if event.direct { DIRECT } else { 0 }),
            What::Trim => (Op::Fallocate, HOLE),
            What::Sync => (Op::Fsync, 0),
            What::DataSync => (Op::Fsync, DATA_ONLY),
            What::SyncAll => (Op::Syncfs, 0),
            What::Open => (Op::Open, 0),
            What::Close | What::Nothing => (Op::Release, 0),
        };
        let (offset, size) = if event.what.is_on_bytes() { range } else { (0, 0) };
        let done = if event.what == What::Trim { 0 } else { size };
        let record = Record::new(op, thread, FIRST_INODE + event.file as u64);
        let duration_ns = event.took_ns;
        Ok(Some(Record { start_ns, duration_ns, offset, size, done, flags, ..record }))
    }
}

/// That a file was found, with all that is used of it, before anything else is done.
fn found(thread: u32, number: usize, bytes: u64, name: usize) -> Record {
    let hash = number as u64 + 1;
    Record {
        name: Name::new(hash, name),
        other: FIRST_INODE + number as u64,
        size: bytes,
        flags: FILE_MODE,
        ..Record::new(Op::Lookup, thread, 1)
    }
}

/// Shows the operations of a text from its beginning on.
fn each(
    from: &mut (impl BufRead + Seek),
    options: &Options,
    parser: &mut dyn Parser,
    mut see: impl FnMut(Event) -> Result<(), String>,
) -> Result<(), ImportError> {
    from.rewind()?;
    let most = options.first.unwrap_or(u64::MAX);
    let (mut lines, mut count) = (Lines::new(from), 0);
    while count < most {
        let Some(line) = lines.next()? else { break };
        let seen = parser.line(line).and_then(|event| match event {
            Some(_) if count == MOST_OPERATIONS => Err(format!("more than {MOST_OPERATIONS} operations; take a part")),
            Some(event) => see(event).map(|()| 1),
            None => Ok(0),
        });
        count += seen.map_err(|why| ImportError::Line { number: lines.number(), why })?;
    }
    Ok(())
}
