//! The handlers without a kernel: messages in, messages out, over a volume in memory.

mod errors;
mod files;
mod lost;
mod names;
mod protocol;
mod room;
pub(crate) mod volume;

use super::{Greeting, Handled, Kernel, Policy, Server};
use crate::options::FuseOptions;
use crate::wire::abi::{CreateIn, EntryOut, InHeader, InitIn, InitOut, OpenOut, OutHeader, ReadIn, WriteIn, WriteOut};
use crate::wire::{MINOR, Notice, Opcode, Reply};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use steadyfs_core::Fs;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const ROOT: u64 = 1;
const OWNER: u32 = 1000;

/// How a word of somebody's memory is read.
type ReadMemory = Box<dyn FnMut() -> [u8; 4] + Send>;

/// A kernel that remembers what it was asked for.
#[derive(Default)]
struct MockKernel {
    invalidated: Mutex<Vec<u64>>,
    /// Nodes whose attributes it was to ask for again.
    forgotten: Mutex<Vec<u64>>,
    /// What it was told behind replies.
    told: Mutex<Vec<Notice>>,
    /// What it does when it is asked.
    act: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// Reads the memory of who asks.
    memory: Mutex<Option<ReadMemory>>,
}

impl Kernel for MockKernel {
    fn invalidate(&self, node: u64, _: std::ops::Range<u64>) {
        self.invalidated.lock().unwrap().push(node);
        if let Some(act) = &mut *self.act.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            act();
        }
    }

    fn forget_attributes(&self, node: u64) {
        self.forgotten.lock().unwrap().push(node);
    }

    fn memory_of(&self, _: &InHeader, _: u64) -> Option<[u8; 4]> {
        self.memory.lock().unwrap().as_mut().map(|read| read())
    }
}

/// The kernel's end: makes requests and reads replies.
struct Client {
    server: Server,
    fs: Arc<Fs>,
    kernel: MockKernel,
    unique: AtomicU64,
    uid: u32,
}

type Body = Result<Vec<u8>, Errno>;

impl Client {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut FuseOptions)) -> Self {
        let mut options = FuseOptions::new("image");
        change(&mut options);
        Self::over(volume::small(), &options)
    }

    fn over(fs: Arc<Fs>, options: &FuseOptions) -> Self {
        let server = Server::new(Arc::clone(&fs), Policy::new(options, OWNER));
        let client = Client { server, fs, kernel: MockKernel::default(), unique: AtomicU64::new(2), uid: 0 };
        let (greeting, _) = client.greet(7, MINOR, u64::MAX);
        assert_eq!(greeting, Ok(Greeting::Agreed));
        client
    }

    /// Greets as a kernel that speaks this version and offers these abilities.
    fn greet(&self, major: u32, minor: u32, offered: u64) -> (Result<Greeting, super::Fail>, Option<InitOut>) {
        let (flags, flags2) = (offered as u32, (offered >> 32) as u32);
        let init = InitIn { major, minor, max_readahead: 131_072, flags, flags2, unused: [0; 11] };
        let mut reply = Reply::new(4096);
        let greeting = self.server.greet(&self.message(Opcode::Init as u32, 0, init.as_bytes()), &mut reply);
        (greeting, InitOut::read_from_bytes(reply.body()).ok())
    }

    fn message(&self, opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
        message(self.unique.fetch_add(2, SeqCst), self.uid, opcode, nodeid, body)
    }

    /// Sends a message; the body of the reply, which is checked to belong to it. `None`: no reply.
    fn send(&self, message: &[u8]) -> Option<Body> {
        let mut reply = Reply::new(1 << 19);
        let handled = self.server.handle(message, &mut reply, &self.kernel);
        self.kernel.told.lock().unwrap().extend(reply.take_notices());
        if handled == Handled::Silent {
            return None;
        }
        let bytes: Vec<u8> = reply.send(|pieces| pieces.iter().flat_map(|piece| piece.to_vec()).collect());
        let (header, body) = OutHeader::read_from_prefix(&bytes).unwrap();
        assert_eq!(header.len as usize, bytes.len());
        assert_eq!(header.unique.to_ne_bytes(), message[8..16]);
        Some(match header.error {
            0 => Ok(body.to_vec()),
            error => {
                assert!(error < 0 && body.is_empty(), "error {error} with {} bytes", body.len());
                Err(Errno::from_raw_os_error(-error))
            }
        })
    }

    /// Asks for something about a node: arguments, then names (each gets its NUL).
    fn ask(&self, opcode: Opcode, node: u64, fixed: &(impl IntoBytes + Immutable), names: &[&[u8]]) -> Body {
        let mut body = fixed.as_bytes().to_vec();
        for name in names {
            body.extend_from_slice(name);
            body.push(0);
        }
        self.send(&self.message(opcode as u32, node, &body)).expect("a reply")
    }

    fn lookup(&self, dir: u64, name: &[u8]) -> Result<EntryOut, Errno> {
        self.ask(Opcode::Lookup, dir, &(), &[name]).map(|body| one(&body))
    }

    /// Makes and opens a file.
    fn create(&self, dir: u64, name: &[u8], flags: OFlags) -> Result<(EntryOut, OpenOut), Errno> {
        let fixed = CreateIn { flags: flags.bits(), mode: 0o100_644, umask: 0o22, open_flags: 0 };
        self.ask(Opcode::Create, dir, &fixed, &[name]).map(|body| (one(&body), one(&body[size_of::<EntryOut>()..])))
    }

    fn forget(&self, node: u64, nlookup: u64) {
        assert_eq!(self.send(&self.message(Opcode::Forget as u32, node, nlookup.as_bytes())), None);
    }

    fn unlink(&self, dir: u64, name: &[u8]) -> Body {
        self.ask(Opcode::Unlink, dir, &(), &[name])
    }

    fn write(&self, node: u64, offset: u64, data: &[u8], write_flags: u32) -> Result<u32, Errno> {
        let fixed =
            WriteIn { fh: 1, offset, size: data.len() as u32, write_flags, lock_owner: 0, flags: 0, padding: 0 };
        let body = [fixed.as_bytes(), data].concat();
        let reply = self.send(&self.message(Opcode::Write as u32, node, &body)).expect("a reply");
        reply.map(|body| one::<WriteOut>(&body).size)
    }

    fn read(&self, node: u64, offset: u64, size: u32) -> Body {
        self.ask(Opcode::Read, node, &read_in(offset, size), &[])
    }

    fn attr(&self, node: u64) -> Result<crate::wire::abi::Attr, Errno> {
        self.ask(Opcode::Getattr, node, &[0u64; 2], &[]).map(|body| one::<crate::wire::abi::AttrOut>(&body).attr)
    }

    /// Entries in the table of nodes, and those that are held.
    fn counts(&self) -> (usize, usize) {
        self.server.nodes.counts()
    }
}

/// A request as bytes.
pub(crate) fn message(unique: u64, uid: u32, opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { len, opcode, unique, nodeid, uid, gid: 100, pid: 1, total_extlen: 0, padding: 0 };
    [header.as_bytes(), body].concat()
}

fn read_in(offset: u64, size: u32) -> ReadIn {
    ReadIn { fh: 0, offset, size, read_flags: 0, lock_owner: 0, flags: 0, padding: 0 }
}

/// A structure at the front of a body.
fn one<T: FromBytes>(body: &[u8]) -> T {
    T::read_from_prefix(body).unwrap_or_else(|_| panic!("{} bytes are too few", body.len())).0
}
