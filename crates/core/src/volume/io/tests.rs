//! Blocks that are written again: the newest contents are there in the end, whatever the device does first, and never
//! two writes of a block together.

use super::*;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use steadyfs_device::{DeviceInfo, MemDevice, errno};
use steadyfs_rt::sim::{SimConfig, call_after, run};
use steadyfs_rt::{sleep, spawn};

const AT: Lba = Lba(5);

/// What becomes of a write.
enum Fate {
    Refused,
    /// Done after so many microseconds; at once where there is no time.
    Done(u64),
}

/// A device that treats writes as it is told, one after the other.
struct Fateful {
    inner: Arc<MemDevice>,
    synchronous: bool,
    fates: Mutex<VecDeque<Fate>>,
    flying: Arc<Mutex<BTreeSet<u64>>>,
}

impl Device for Fateful {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: self.synchronous, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            if !matches!(op, Op::Write { .. }) {
                self.inner.submit(vec![Request { op, done }]);
                continue;
            }
            let (inner, flying) = (Arc::clone(&self.inner), Arc::clone(&self.flying));
            let at = op.range().0;
            assert!(flying.lock().insert(at), "two writes of a block are under way together");
            let refusal = op.error(errno::EIO);
            let end = move |refused: bool| {
                flying.lock().remove(&at);
                if refused { done(Err(refusal)) } else { inner.submit(vec![Request { op, done }]) }
            };
            let fate = self.fates.lock().pop_front().expect("as many writes as were expected");
            match fate {
                Fate::Refused => end(true),
                Fate::Done(_) if self.synchronous => end(false),
                Fate::Done(after) => call_after(Duration::from_micros(after), move || end(false)),
            }
        }
    }
}

/// A device with the old contents refused, and what it has.
fn refused(synchronous: bool, fates: impl IntoIterator<Item = Fate>) -> (Arc<BlockIo>, Arc<MemDevice>) {
    let inner = Arc::new(MemDevice::new(64));
    let fates = Mutex::new(&locks::STATE, [Fate::Refused].into_iter().chain(fates).collect());
    let flying = Arc::new(Mutex::new(&locks::STATE, BTreeSet::new()));
    let device = Fateful { inner: Arc::clone(&inner), synchronous, fates, flying };
    let io = BlockIo::new(Arc::new(device), 0);
    io.write(AT, vec![page(1)], StreamHint::MetaHot, |_| ());
    assert_eq!((io.failed.count(), byte(&io.read_block(AT).unwrap())), (1, 1));
    (io, inner)
}

fn page(byte: u8) -> PageBuf {
    PageBuf::from_slice(&[byte])
}

fn byte(page: &PageBuf) -> u8 {
    page.to_array()[0]
}

fn write_over(io: &Arc<BlockIo>) {
    io.write_over(AT, vec![page(2)], StreamHint::MetaHot, |_| ());
}

fn is_new(io: &Arc<BlockIo>, device: &MemDevice) {
    io.drain().unwrap();
    assert_eq!(byte(&device.read_one(AT.get()).unwrap()), 2, "the newest contents are lost");
    assert_eq!((io.failed.count(), byte(&io.read_block(AT).unwrap())), (0, 2));
}

/// The refused block is written again, with what becomes of that and of the newer contents, which come when that has
/// begun `after` microseconds ago.
fn newer_contents_come(fates: [Fate; 2], after: u64, before: impl FnOnce(&Arc<BlockIo>) + 'static) {
    let report = run(SimConfig::default(), move || {
        let (io, device) = refused(false, fates);
        before(&io);
        let again = Arc::clone(&io);
        let draining = spawn("draining", move || again.drain());
        sleep(Duration::from_micros(after));
        write_over(&io);
        draining.join().unwrap().unwrap();
        is_new(&io, &device);
    });
    report.unwrap();
}

#[test]
fn a_block_is_written_anew_only_when_the_second_attempt_with_its_old_contents_has_ended() {
    newer_contents_come([Fate::Done(300), Fate::Done(10)], 5, |_| ());
}

#[test]
fn old_contents_are_not_written_again_beside_newer_ones() {
    newer_contents_come([Fate::Done(100), Fate::Done(300)], 50, |io| {
        io.write(AT + 1, vec![page(3)], StreamHint::MetaHot, |_| ());
    });
}

#[test]
fn newer_contents_that_are_refused_too_are_those_that_are_written_again() {
    let report = run(SimConfig::default(), || {
        let (io, device) = refused(false, [Fate::Refused, Fate::Done(1)]);
        write_over(&io);
        is_new(&io, &device);
    });
    report.unwrap();
}

#[test]
fn a_device_that_works_at_once_is_written_to_by_one_at_a_time() {
    let (io, device) = refused(true, [Fate::Done(0)]);
    write_over(&io);
    is_new(&io, &device);
}

/// Runs that are read into the caller's memory have what is not on the device yet, too.
#[test]
fn what_is_read_into_memory_is_what_was_written_last() {
    for synchronous in [true, false] {
        let report = run(SimConfig::default(), move || {
            let (io, device) = refused(synchronous, [Fate::Done(1), Fate::Done(1000)]);
            device.write(AT.get() + 1, vec![page(7), page(8)]).unwrap();
            io.write(AT + 4, vec![page(4)], StreamHint::MetaHot, |_| ());
            let owed = io.prepare(AT + 2, vec![page(9)], StreamHint::MetaHot, |_| ());
            let mut bytes = vec![0xEE; 4 * BLOCK_SIZE];
            let (three, one) = bytes.split_at_mut(3 * BLOCK_SIZE);
            let read = io.read_runs_to(vec![(AT, three), (AT + 4, one)]);
            assert!(read.iter().all(Result::is_ok));
            // A device that works at once has nothing on its way.
            let third = if synchronous { 8 } else { 9 };
            assert_eq!([0, 1, 2, 3].map(|page| bytes[page * BLOCK_SIZE]), [1, 7, third, 4]);
            io.submit(vec![owed]);
        });
        report.unwrap();
    }
}

/// Whoever has gathered writes may have to write a summary before these are submitted.
#[test]
fn who_owes_writes_can_write_others_anew() {
    let report = run(SimConfig::default(), || {
        let (io, device) = refused(false, [Fate::Done(100), Fate::Done(1), Fate::Done(1)]);
        io.write(AT, vec![page(1)], StreamHint::MetaHot, |_| ());
        let owed = io.prepare(AT + 9, vec![page(3)], StreamHint::DataWarm, |_| ());
        write_over(&io);
        assert_eq!(byte(&io.read_block(AT + 9).unwrap()), 3, "what is owed is in flight");
        io.submit(vec![owed]);
        is_new(&io, &device);
    });
    report.unwrap();
}

/// A device whose requests another thread ends.
struct Beside(steadyfs_rt::queue::Queue<Request>);

impl Device for Beside {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..MemDevice::new(64).info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        batch.into_iter().for_each(|request| assert!(self.0.push(request).is_ok()));
    }
}

/// Whoever unmounts drops the device after the last wait, and it must be closed then, not when the thread that ended
/// the last write gets round to it.
#[test]
fn nobody_holds_the_device_once_its_writes_were_waited_for() {
    let device = Arc::new(Beside(steadyfs_rt::queue::Queue::unbounded()));
    let server = {
        let device = Arc::clone(&device);
        spawn("server", move || {
            while let Some(Request { done, .. }) = device.0.pop() {
                done(Ok(Vec::new()));
            }
        })
    };
    let io = BlockIo::new(Arc::clone(&device) as Arc<dyn Device>, 0);
    let held = (0..20_000).filter(|_| {
        io.write(AT, vec![page(1)], StreamHint::MetaHot, |_| ());
        io.drain().unwrap();
        Arc::strong_count(&io) > 1
    });
    assert_eq!(held.count(), 0);
    device.0.close();
    server.join().unwrap();
}
