//! The crew over a socket in place of `/dev/fuse`: it keeps messages apart in the same way.

use super::*;
use crate::FuseOptions;
use crate::server::tests::{message, volume};
use crate::server::{Policy, Server};
use crate::wire::Opcode;
use crate::wire::abi::{InitIn, LseekIn, MkdirIn, OutHeader};
use crate::wire::flags::NOTIFY_INVAL_INODE;
use crate::wire::flags::linux::SEEK_DATA;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;
use steadyfs_core::stats::ServingStats;
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{Fault, FaultyDevice, OpKind};
use zerocopy::{FromBytes, IntoBytes};

/// The other end of the conversation.
pub(super) struct Kernel {
    socket: OwnedFd,
    pub(super) server: Arc<Server>,
    pub(super) crew: Arc<Crew>,
    ends: Receiver<Option<rustix::io::Errno>>,
}

fn start(most: usize) -> Kernel {
    start_on(volume::small(), most, 0)
}

/// As [`start`], on this volume, and with so many queues.
pub(super) fn start_on(fs: Arc<Fs>, most: usize, queues: usize) -> Kernel {
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair of sockets");
    let server = Arc::new(Server::new(fs, Policy::new(&FuseOptions::new("image"), 0)));
    let init = InitIn { major: 7, minor: 41, max_readahead: 0, flags: 0, flags2: 0, unused: [0; 11] };
    let sent = send(&socket, &message(1, 0, Opcode::Init as u32, 0, init.as_bytes()), SendFlags::empty());
    assert!(sent.is_ok());
    let line = Channel::new(theirs);
    line.greet(&server).expect("a greeting");
    let (announce, ends) = channel();
    let ended = Box::new(move |error| announce.send(error).expect("the test waits"));
    let rings = (queues > 0).then(|| Rings::of_nobody(line.fuse(), queues));
    let crew = Crew::start(line, rings, Arc::clone(&server), most, ended).expect("threads");
    let kernel = Kernel { socket, server, crew, ends };
    assert_eq!(kernel.receive().unique, 1);
    kernel
}

impl Kernel {
    fn ask(&self, unique: u64, opcode: Opcode, body: &[u8]) {
        send(&self.socket, &message(unique, 0, opcode as u32, 1, body), SendFlags::empty()).expect("sent");
    }

    fn receive(&self) -> OutHeader {
        let mut buf = [0; 4096];
        let (len, _) = recv(&self.socket, &mut buf[..], RecvFlags::empty()).expect("received");
        let header = OutHeader::read_from_prefix(&buf).expect("a header").0;
        assert_eq!(header.len as usize, len);
        header
    }

    fn threads(&self) -> usize {
        self.crew.count.lock().threads
    }

    /// Waits until there are so many threads.
    fn await_threads(&self, wanted: usize) {
        let start = Instant::now();
        while self.threads() != wanted {
            assert!(start.elapsed() < Duration::from_secs(20), "{} threads, not {wanted}", self.threads());
            sleep(Duration::from_millis(1));
        }
    }

    /// Hangs up; the announcement of the end.
    pub(super) fn hang_up(self) -> Option<rustix::io::Errno> {
        drop(self.socket);
        let end = self.ends.recv_timeout(Duration::from_secs(20)).expect("the end is announced");
        assert_eq!(self.crew.count.lock().threads, 0);
        drop((self.crew, self.server));
        assert!(self.ends.recv_timeout(Duration::from_secs(20)).is_err(), "the end was announced twice");
        end
    }
}

#[test]
fn requests_are_answered_until_the_connection_ends() {
    let kernel = start(64);
    kernel.await_threads(1);
    for round in 0..20 {
        for unique in 0..10 {
            kernel.ask(10 * round + unique, Opcode::Getattr, &[0; 16]);
        }
        let mut answered: Vec<u64> = (0..10).map(|_| kernel.receive().unique).collect();
        answered.sort_unstable();
        assert_eq!(answered, (10 * round..10 * round + 10).collect::<Vec<_>>());
    }
    assert_eq!(kernel.hang_up(), None);
}

/// Times of an operation, by its name.
pub(super) fn latency(kernel: &Kernel, operation: &str) -> steadyfs_core::stats::Latency {
    kernel.server.counts().stats().latency.get(operation).copied().unwrap_or_default()
}

#[test]
fn a_request_is_timed_from_its_arrival_to_its_reply() {
    let kernel = start(2);
    let held = Duration::from_millis(30);
    let stalled = kernel.server.stall();
    kernel.ask(1, Opcode::Getattr, &[0; 16]);
    let asked = Instant::now();
    while kernel.server.counts().stats().in_service.is_empty() && asked.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(1));
    }
    sleep(held);
    assert_eq!(latency(&kernel, "getattr").count, 0, "it has no reply yet");
    drop(stalled);
    kernel.receive();
    // The thread notes the time when the reply is on its way.
    let start = Instant::now();
    while latency(&kernel, "getattr").count == 0 && start.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(1));
    }
    let times = latency(&kernel, "getattr");
    assert!(times.count == 1 && times.longest >= held && times.sum >= times.longest, "{times:?}");
    // One that wants no reply is timed too, and one that failed.
    kernel.ask(2, Opcode::Forget, &[0; 8]);
    kernel.ask(3, Opcode::Access, &[0; 8]);
    kernel.receive();
    let ended = || ["forget", "access"].iter().all(|name| latency(&kernel, name).count > 0);
    while !ended() && start.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(["forget", "access", "write"].map(|name| latency(&kernel, name).count), [1, 1, 0]);
    assert_eq!(kernel.hang_up(), None);
}

/// Waits until a request in service is listed; what is known of it.
fn slow(kernel: &Kernel) -> ServingStats {
    let start = Instant::now();
    loop {
        let stats = kernel.server.counts().stats();
        if !stats.slow.is_empty() {
            return stats;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is slow: {stats:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until no request is in service: one is for a moment more than its reply.
fn wait_for_rest(kernel: &Kernel) {
    let start = Instant::now();
    while !kernel.server.counts().stats().in_service.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", kernel.server.counts().stats());
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_that_is_held_up_is_listed_with_its_cause() {
    let device = Arc::new(FaultyDevice::new(volume::device()));
    let fs = Fs::mount(Arc::clone(&device) as Arc<_>, MountOptions::default()).expect("mounts");
    let kernel = start_on(fs, 4, 0);
    let stalled = kernel.server.stall();
    kernel.ask(1, Opcode::Getattr, &[0; 16]);
    let stats = slow(&kernel);
    let held = &stats.slow[0];
    assert_eq!((held.operation.as_str(), held.user, held.process, held.inode), ("getattr", 0, 1, 3));
    assert_eq!(held.waits_for.as_deref(), Some("lock"));
    assert_eq!((stats.in_service["getattr"], stats.waiting["lock"]), (1, 1));
    assert!(held.lasted_us >= 100_000 && stats.oldest_us == held.lasted_us, "{held:?}");
    drop(stalled);
    kernel.receive();
    wait_for_rest(&kernel);
    // A device that takes no write until it heals.
    device.add(Fault::delay(Duration::from_secs(1)).on(OpKind::Write).times(1));
    let make = MkdirIn { mode: 0o755, umask: 0o22 };
    kernel.ask(2, Opcode::Mkdir, &[make.as_bytes(), b"dir\0"].concat());
    kernel.receive();
    wait_for_rest(&kernel);
    kernel.ask(3, Opcode::Syncfs, &[0; 8]);
    let stats = slow(&kernel);
    assert_eq!(stats.slow[0].operation, "syncfs");
    assert_eq!(stats.slow[0].waits_for.as_deref(), Some("device"));
    kernel.receive();
    wait_for_rest(&kernel);
    let stats = kernel.server.counts().stats();
    assert_eq!((stats.slow.len(), stats.waiting.len(), stats.oldest_us), (0, 0, 0));
    assert_eq!(kernel.hang_up(), None);
}

/// Prints what the bookkeeping of a request costs: `cargo test -p steadyfs-fuse bookkeeping -- --nocapture`.
#[test]
fn bookkeeping_counts_each_request() {
    const ROUNDS: u32 = 200_000;
    let kernel = start(1);
    let request = message(1, 0, Opcode::Getattr as u32, 1, &[0; 16]);
    let began = Instant::now();
    (0..ROUNDS).for_each(|_| drop(kernel.server.counts().arrived(&request, now())));
    println!("{:.0} ns for each request", began.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    assert_eq!(latency(&kernel, "getattr").count, u64::from(ROUNDS));
    kernel.hang_up();
}

#[test]
fn threads_come_while_requests_wait_and_go_afterwards() {
    let kernel = start(10);
    let keep = cpus().clamp(2, 8);
    let stalled = kernel.server.stall();
    for unique in 1..=20 {
        kernel.ask(unique, Opcode::Getattr, &[0; 16]);
    }
    kernel.await_threads(10);
    drop(stalled);
    for _ in 1..=20 {
        kernel.receive();
    }
    // Whoever finds enough others waiting leaves; a request now and then makes them look.
    let start = Instant::now();
    while kernel.threads() > keep {
        assert!(start.elapsed() < Duration::from_secs(20), "{} threads stay", kernel.threads());
        kernel.ask(30, Opcode::Getattr, &[0; 16]);
        kernel.receive();
    }
    assert_eq!(kernel.hang_up(), None);
}

#[test]
fn one_thread_can_be_enough() {
    let kernel = start(1);
    kernel.await_threads(1);
    kernel.ask(5, Opcode::Getattr, &[0; 16]);
    assert_eq!((kernel.receive().unique, kernel.threads()), (5, 1));
    assert_eq!(kernel.hang_up(), None);
}

#[test]
fn write_back_is_asked_for_from_inside_a_request() {
    let kernel = start(4);
    // A file open for writing, by its node id in the reply to CREATE.
    let create = [[2u32, 0o100_644, 0, 0].as_bytes(), b"file\0"].concat();
    kernel.ask(2, Opcode::Create, &create);
    let mut buf = [0; 4096];
    recv(&kernel.socket, &mut buf[..], RecvFlags::empty()).expect("received");
    let node = u64::read_from_prefix(&buf[16..]).expect("a node id").0;
    let seek = LseekIn { fh: 1, offset: 0, whence: SEEK_DATA, padding: 0 };
    let sent = send(&kernel.socket, &message(3, 0, Opcode::Lseek as u32, node, seek.as_bytes()), SendFlags::empty());
    assert!(sent.is_ok());
    let first = kernel.receive();
    assert_eq!((first.unique, first.error), (0, NOTIFY_INVAL_INODE));
    assert_eq!(kernel.receive().unique, 3);
    assert_eq!(kernel.hang_up(), None);
}
