//! The file of a trace: a header and frames, each whole by itself. All numbers are little-endian.
//!
//! Header, 32 bytes:
//! - `SFSTRACE`, version (u16), length of the header (u16);
//! - what the kernel cached (u32: 0 writes too, 1 reads only, 2 nothing);
//! - when the recording began (u64, seconds since 1970), 8 bytes of 0.
//!
//! Frame, 32 bytes of head, then the records (`codec`):
//! - `FRAM`, bytes of its records (u32), number of records (u32), CRC-32 of the records' bytes (u32);
//! - where its times count from (u64, nanoseconds since the recording began);
//! - records dropped since then (u64, all so far).
//!
//! A file that ends within a frame ends before it.

use crate::codec;
use crate::record::Record;
use std::io::{self, Read, Write};

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"SFSTRACE";
/// The version that is written, and the only one that is read.
pub const VERSION: u16 = 1;
const FRAME: &[u8; 4] = b"FRAM";
const HEAD: usize = 32;
/// No frame is larger: more is a damaged length.
const MOST: u32 = 1 << 20;

/// What stands at the beginning of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Header {
    /// When the recording began, in seconds since 1970.
    pub began: u64,
    /// What the kernel cached of file contents: 0 writes too, 1 reads only, 2 nothing.
    pub cache: u32,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is none.
    #[error("it is no trace of steadyfs: it does not begin with SFSTRACE")]
    NoTrace,
    /// It is one of another version.
    #[error("it is a trace of version {0}; this program reads version {VERSION}")]
    Version(u16),
    /// A frame is damaged.
    #[error("frame {number} is damaged: {what}")]
    Damaged {
        /// Counted from 0.
        number: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// A whole trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What stands at its beginning.
    pub header: Header,
    /// The operations, in the order in which they ended, nearly.
    pub records: Vec<Record>,
    /// How many more there were that did not fit into the recorder's memory.
    pub dropped: u64,
    /// Whether the file ends within a frame.
    pub cut_off: bool,
}

/// Writes the header.
///
/// # Errors
/// Those of the writer.
pub fn write_header(out: &mut impl Write, header: &Header) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEAD);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(HEAD as u16).to_le_bytes());
    bytes.extend_from_slice(&header.cache.to_le_bytes());
    bytes.extend_from_slice(&header.began.to_le_bytes());
    bytes.resize(HEAD, 0);
    out.write_all(&bytes)
}

/// One frame of at most `most` bytes from the first of these records; how many are in it.
pub(crate) fn frame(records: &[Record], dropped: u64, most: usize, out: &mut Vec<u8>) -> usize {
    let base = records.first().map_or(0, |record| record.start_ns);
    let (mut body, mut before, mut count) = (Vec::new(), base, 0);
    for record in records {
        let (end, at) = (body.len(), before);
        codec::encode(record, &mut before, &mut body);
        if HEAD + body.len() > most && count > 0 {
            body.truncate(end);
            before = at;
            break;
        }
        count += 1;
    }
    let _ = before;
    out.extend_from_slice(FRAME);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&(count as u32).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&dropped.to_le_bytes());
    out.extend_from_slice(&body);
    count
}

/// Writes records as frames, some thousands at a time.
pub struct Writer<'a, W> {
    out: &'a mut W,
    waiting: Vec<Record>,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Records of a frame, at most.
    const RECORDS: usize = 4096;
    /// Bytes of a frame, at most.
    const BYTES: usize = 512 << 10;

    /// One that writes behind what is there: the header.
    pub fn new(out: &'a mut W) -> Self {
        Writer { out, waiting: Vec::with_capacity(Self::RECORDS) }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the writer below.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        self.waiting.push(record);
        if self.waiting.len() == Self::RECORDS { self.finish() } else { Ok(()) }
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// Those of the writer below.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut at = 0;
        while at < self.waiting.len() {
            let mut bytes = Vec::new();
            at += frame(&self.waiting[at..], 0, Self::BYTES, &mut bytes);
            self.out.write_all(&bytes)?;
        }
        self.waiting.clear();
        Ok(())
    }
}

/// Reads a trace.
///
/// # Errors
/// See [`Error`].
pub fn read(from: &mut impl Read) -> Result<Trace, Error> {
    let mut head = [0; HEAD];
    if fill(from, &mut head)? < HEAD || &head[..8] != MAGIC {
        return Err(Error::NoTrace);
    }
    let version = u16::from_le_bytes([head[8], head[9]]);
    if version != VERSION {
        return Err(Error::Version(version));
    }
    let header = Header { cache: number(&head, 12), began: long(&head, 16) };
    let mut trace = Trace { header, records: Vec::new(), dropped: 0, cut_off: false };
    for number in 0.. {
        match next(from, number, &mut trace)? {
            Next::Frame => {}
            Next::End => break,
            Next::CutOff => {
                trace.cut_off = true;
                break;
            }
        }
    }
    Ok(trace)
}

enum Next {
    Frame,
    End,
    CutOff,
}

fn next(from: &mut impl Read, frame: u64, trace: &mut Trace) -> Result<Next, Error> {
    let damaged = |what| Error::Damaged { number: frame, what };
    let mut head = [0; HEAD];
    match fill(from, &mut head)? {
        0 => return Ok(Next::End),
        HEAD => {}
        _ => return Ok(Next::CutOff),
    }
    if &head[..4] != FRAME {
        return Err(damaged("it does not begin as one"));
    }
    let (length, count, crc) = (number(&head, 4), number(&head, 8), number(&head, 12));
    if length > MOST {
        return Err(damaged("its length makes no sense"));
    }
    let mut body = vec![0; length as usize];
    if fill(from, &mut body)? < body.len() {
        return Ok(Next::CutOff);
    }
    if crc32fast::hash(&body) != crc {
        return Err(damaged("its checksum is wrong"));
    }
    let (mut rest, mut before) = (&body[..], long(&head, 16));
    for _ in 0..count {
        trace.records.push(codec::decode(&mut rest, &mut before).ok_or_else(|| damaged("a record in it is none"))?);
    }
    if !rest.is_empty() {
        return Err(damaged("there is something behind its records"));
    }
    trace.dropped = trace.dropped.max(long(&head, 24));
    Ok(Next::Frame)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Reads until the buffer is full or there is no more; how much came.
fn fill(from: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match from.read(&mut buf[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;

    fn records(count: u64) -> Vec<Record> {
        (0..count)
            .map(|i| Record { start_ns: 1000 * i, offset: i, size: 4096, ..Record::new(Op::Write, 7, 5 + i % 3) })
            .collect()
    }

    fn trace(count: u64, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out, &Header { began: 99, cache: 2 }).unwrap();
        let (all, mut at) = (records(count), 0);
        while at < all.len() {
            let mut bytes = Vec::new();
            at += frame(&all[at..], 3, most, &mut bytes);
            assert!(bytes.len() <= most.max(64), "{}", bytes.len());
            out.extend(bytes);
        }
        out
    }

    #[test]
    fn what_is_written_is_read() {
        for most in [1, 100, 1000, 1 << 20] {
            let read = read(&mut &trace(500, most)[..]).unwrap();
            assert_eq!(read.header, Header { began: 99, cache: 2 });
            assert!(read.records == records(500) && read.dropped == 3 && !read.cut_off, "{most}");
        }
    }

    #[test]
    fn a_cut_file_is_read_to_its_last_whole_frame_and_a_damaged_one_is_refused() {
        let whole = trace(100, 300);
        for len in HEAD..whole.len() {
            let part = read(&mut &whole[..len]).unwrap();
            assert!(records(100).starts_with(&part.records), "{len}");
        }
        assert!(read(&mut &whole[..whole.len() - 1]).unwrap().cut_off);
        let mut refused = 0;
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            match read(&mut &damaged[..]) {
                Err(Error::Io(e)) => panic!("{e}"),
                Err(_) => refused += 1,
                Ok(_) => {}
            }
        }
        // Times and counts of dropped records in heads are not covered by a checksum.
        assert!(refused * 10 > whole.len() * 8, "{refused} of {}", whole.len());
        assert!(matches!(read(&mut &b"no trace"[..]), Err(Error::NoTrace)));
        let mut later = whole;
        later[8] = 2;
        assert!(read(&mut &later[..]).unwrap_err().to_string().contains("version 2"));
    }
}
