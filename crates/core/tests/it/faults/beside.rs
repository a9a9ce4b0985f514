//! An fsync beside one of the same file that fails, in virtual time: what it says is true.

use crate::common::{create, in_virtual_time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::{Error, Fs, InodeRef, MountOptions};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request, StreamHint, errno};
use steadyfs_rt::sim::call_after;
use steadyfs_rt::{sleep, spawn};

/// How long a write of a node takes.
const NODE_MS: u64 = 1;
/// A page that hangs below a direct node.
const FAR: u64 = 5000 * 4096;

/// A device that takes its time for what fsync writes, and refuses some of it.
struct Grudging {
    inner: Arc<MemDevice>,
    /// How many writes of nodes of the chain it is still going to refuse.
    refusals: Arc<AtomicU64>,
}

impl Device for Grudging {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { synchronous: false, ..self.inner.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for Request { op, done } in batch {
            if !matches!(op, Op::Write { hint: StreamHint::NodeWarm, .. }) {
                self.inner.submit(vec![Request { op, done }]);
                continue;
            }
            let (inner, refusals) = (Arc::clone(&self.inner), Arc::clone(&self.refusals));
            call_after(Duration::from_millis(NODE_MS), move || {
                let refused = refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                if refused { done(Err(op.error(errno::EIO))) } else { inner.submit(vec![Request { op, done }]) }
            });
        }
    }
}

fn read(fs: &Fs, name: &str) -> Option<Vec<u8>> {
    let file = fs.lookup(&fs.root().unwrap(), name.as_bytes()).ok()?;
    let mut page = vec![0; 4096];
    let got = fs.read(&file, FAR, &mut page).unwrap();
    page.truncate(got);
    Some(page)
}

/// What an fsync said.
type Said = Result<(), Error>;

/// A new file whose first fsync is refused so many writes, and whose second one begins so much later: what both said,
/// and what a power cut then leaves of the file.
fn beside(refusals: u64, later: Duration) -> (Said, Said, Option<Vec<u8>>) {
    let memory = Arc::new(MemDevice::new(64 << 8));
    format(&memory, &MkfsOptions::new([0x5f; 16], 1_700_000_000)).unwrap();
    let device = Arc::new(Grudging { inner: Arc::clone(&memory), refusals: Arc::new(AtomicU64::new(0)) });
    in_virtual_time(2, move || {
        let options = MountOptions { background_gc: false, ..MountOptions::parse("commit=0").unwrap() };
        let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options.clone()).unwrap();
        let file = create(&fs, "file");
        fs.write(&file, FAR, &[7; 4096]).unwrap();
        device.refusals.store(refusals, SeqCst);
        let fsync = |wait: Duration| {
            let (fs, file): (Arc<Fs>, InodeRef) = (Arc::clone(&fs), file.clone());
            spawn("fsync", move || {
                sleep(wait);
                fs.fsync(&file, false)
            })
        };
        let (first, second) = (fsync(Duration::ZERO), fsync(later));
        let said = (first.join().unwrap(), second.join().unwrap());
        let after = Fs::mount(Arc::new(memory.fork()), options).unwrap();
        let found = read(&after, "file");
        after.unmount().unwrap();
        drop(file);
        fs.unmount().unwrap();
        (said.0, said.1, found)
    })
}

#[test]
fn an_fsync_beside_one_that_fails_tells_the_truth() {
    let (mut failed, mut between) = (0, 0);
    for refusals in 0..5 {
        for tenths in 1..60 {
            let later = Duration::from_micros(100 * tenths);
            let (first, second, found) = beside(refusals, later);
            failed += u64::from(first.is_err());
            between += u64::from(first.is_err() && second.is_ok());
            let kept = found.as_deref() == Some(&[7; 4096]);
            assert!(
                kept || first.is_err() && second.is_err(),
                "{refusals} refused, {later:?} later: {first:?}, {second:?}, and then {:?}",
                found.map(|page| page.len())
            );
        }
    }
    assert!(failed > 50 && between > 50, "{failed} failed, {between} beside one that did not");
}
