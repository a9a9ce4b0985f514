//! What threads wait for, as others see it, where checkpoints, collection and devices hold them up.

use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, InodeRef, MountOptions, NewInode};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_device::{Fault, FaultyDevice, MemDevice, OpKind};
use steadyfs_format::BLOCK_SIZE;
use steadyfs_rt::{Completion, JoinHandle, WaitCause, cause_at, now, sleep, spawn, waiting_place};

const PAGE: usize = BLOCK_SIZE;

/// How long a device takes that stalls: long enough to be seen.
const STALL: Duration = Duration::from_millis(300);

fn mount(mib: u64, options: &str) -> (Arc<FaultyDevice<MemDevice>>, Arc<Fs>) {
    let device = FaultyDevice::new(MemDevice::new((mib << 20) / PAGE as u64));
    mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
    let device = Arc::new(device);
    let fs = Fs::mount(Arc::clone(&device) as Arc<_>, MountOptions::parse(options).unwrap()).unwrap();
    (device, fs)
}

fn create(fs: &Fs, name: &str) -> InodeRef {
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    fs.create(&fs.root().unwrap(), name.as_bytes(), &new).unwrap()
}

/// Does something in a thread that others may ask about, and where they ask.
fn seen(fs: &Arc<Fs>, work: impl FnOnce(&Fs) + Send + 'static) -> (usize, JoinHandle<()>) {
    let (fs, place) = (Arc::clone(fs), Completion::new());
    let told = place.clone();
    let thread = spawn("seen", move || {
        told.complete(waiting_place().expect("there is room"));
        work(&fs);
    });
    (place.wait(), thread)
}

/// Waits until the thread at a place waits for this.
#[track_caller]
fn comes_to_wait(place: usize, cause: WaitCause) {
    let has_come = (0..20_000).any(|_| {
        sleep(Duration::from_millis(1));
        cause_at(place) == Some(cause)
    });
    assert!(has_come, "waits for {:?}, not for {cause:?}", cause_at(place));
}

#[test]
fn a_write_waits_for_the_end_of_a_freeze() {
    for lock in ["shared", "cores"] {
        let (_, fs) = mount(128, &format!("commit=0,cp_lock={lock}"));
        let file = create(&fs, "file");
        let frozen = fs.vol.freeze().unwrap();
        let (place, writer) = seen(&fs, move |fs| assert_eq!(fs.write(&file, 0, &[1; PAGE]).unwrap(), PAGE));
        comes_to_wait(place, WaitCause::Freeze);
        drop(frozen);
        writer.join().unwrap();
        assert_eq!(cause_at(place), None, "{lock}");
        fs.unmount().unwrap();
    }
}

#[test]
fn one_sync_waits_for_the_device_and_the_other_for_its_commit() {
    let (device, fs) = mount(128, "commit=0");
    let file = create(&fs, "file");
    fs.write(&file, 0, &[1; PAGE]).unwrap();
    device.add(Fault::delay(STALL).on(OpKind::Flush));
    let (first, one) = seen(&fs, |fs| fs.sync().unwrap());
    comes_to_wait(first, WaitCause::Device);
    let (second, other) = seen(&fs, |fs| fs.sync().unwrap());
    comes_to_wait(second, WaitCause::Commit);
    device.heal();
    one.join().unwrap();
    other.join().unwrap();
    drop(file);
    fs.unmount().unwrap();
}

#[test]
fn a_read_waits_for_the_device() {
    let (device, fs) = mount(128, "commit=0");
    let file = create(&fs, "file");
    fs.write_direct(&file, 0, &[1; PAGE]).unwrap();
    fs.sync().unwrap();
    device.add(Fault::delay(STALL).on(OpKind::Read));
    let (place, reader) = seen(&fs, move |fs| {
        assert_eq!(fs.read_direct(&file, 0, &mut [0; PAGE]).unwrap(), PAGE);
    });
    comes_to_wait(place, WaitCause::Device);
    device.heal();
    reader.join().unwrap();
    fs.unmount().unwrap();
}

#[test]
fn a_writer_without_room_waits_for_collection() {
    let (_, fs) = mount(256, "commit=0,gc.collectors=2");
    let file = create(&fs, "file");
    let pages = fs.statfs().blocks_free * 8 / 10;
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let (place, writer) = seen(&fs, move |fs| {
        for n in 0.. {
            let page = if n < pages { n } else { n * 7919 % pages };
            assert_eq!(fs.write_direct(&file, page * PAGE as u64, &[1; PAGE]).unwrap(), PAGE);
            if ends.load(SeqCst) {
                break;
            }
        }
    });
    let mut causes = BTreeSet::new();
    let began = now();
    while !causes.contains("room") && began.elapsed() < Duration::from_secs(60) {
        causes.extend(cause_at(place).map(WaitCause::name));
        sleep(Duration::from_micros(10));
    }
    over.store(true, SeqCst);
    writer.join().unwrap();
    assert!(causes.contains("room"), "{causes:?}");
    fs.unmount().unwrap();
}
