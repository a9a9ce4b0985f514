//! The commit by time (`journal.commit=`): names that nobody synced are durable after its seconds, by one batch and one
//! flush and no checkpoint, and no name is before the contents that took the place of others. In virtual time.

use super::support::{DIR, FILE, complaints};
use crate::common::{in_virtual_time, make};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::stats::VolumeStats;
use steadyfs_core::{DirEntry, Error, Fs, InodeRef, MountOptions, NewInode, RenameFlags, SetAttr};
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, Op, OpKind, Record, RecordingDevice, errno};
use steadyfs_rt::sleep;

/// The default of the option, and a tick of the housekeeper more.
const LONG_ENOUGH: Duration = Duration::from_secs(6);

fn volume() -> MemDevice {
    let device = MemDevice::new((64 << 20) / 4096);
    format(&device, &MkfsOptions::new([7; 16], 1_700_000_000)).expect("a volume");
    device
}

fn mount(device: Arc<dyn Device>, options: &str) -> Arc<Fs> {
    let options = format!("background_gc=off,commit=0,gc=f2fs-lfs,{options}");
    Fs::mount(device, MountOptions::parse(&options).expect("good options")).expect("mounts")
}

fn put(fs: &Fs, name: &str, byte: u8, bytes: usize) -> InodeRef {
    let file = make(fs, &fs.root().expect("a root"), name, FILE);
    fs.write(&file, 0, &vec![byte; bytes]).expect("room");
    file
}

/// What two files are there for that [`change_names`] needs.
fn prepare(fs: &Fs) {
    put(fs, "old", b'A', 9000);
    put(fs, "gone", b'A', 9000);
    fs.sync().expect("a good device");
}

/// One of each operation on names and attributes.
fn change_names(fs: &Fs) {
    let root = fs.root().expect("a root");
    let dir = make(fs, &root, "dir", DIR);
    let made = make(fs, &dir, "made", FILE);
    fs.setattr(&made, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).expect("ours");
    fs.link(&made, &root, b"linked").expect("a link");
    fs.rename(&root, b"old", &dir, b"moved", RenameFlags::NoReplace).expect("a rename");
    fs.unlink(&root, b"gone").expect("a removal");
}

/// How many of [`change_names`] a crash leaves; each is one of the seven.
fn found(device: MemDevice) -> usize {
    assert_eq!(complaints(&device), [""; 0]);
    let fs = crate::common::mount(Arc::new(device), "");
    let root = fs.root().expect("a root");
    let has = |dir: &InodeRef, name: &str| fs.lookup(dir, name.as_bytes()).is_ok();
    let dir = fs.lookup(&root, b"dir").ok();
    let made = dir.as_ref().and_then(|dir| fs.lookup(dir, b"made").ok());
    let mode = made.as_ref().map(|made| fs.attr(made).expect("readable").mode & 0o777);
    let done = [
        dir.is_some(),
        made.is_some(),
        mode == Some(0o600),
        has(&root, "linked"),
        dir.is_some_and(|dir| has(&dir, "moved")),
        !has(&root, "old"),
        !has(&root, "gone"),
    ];
    done.into_iter().filter(|done| *done).count()
}

/// What was done without any sync for so long, and what a crash leaves of it.
struct Unsynced {
    found: usize,
    before: VolumeStats,
    after: VolumeStats,
    /// Operations that changed the device.
    records: Vec<Record>,
    /// The same, in a minute in which there was nothing to do.
    idle: Vec<Record>,
}

fn unsynced(options: &str, wait: Duration) -> Unsynced {
    let options = options.to_owned();
    in_virtual_time(4, move || {
        let device = Arc::new(RecordingDevice::new(volume()));
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, &options);
        prepare(&fs);
        sleep(LONG_ENOUGH);
        let before = fs.stats();
        device.take_log();
        change_names(&fs);
        sleep(wait);
        let (after, records, found) = (fs.stats(), device.take_log(), found(device.inner().fork()));
        let moved = fs.lookup(&fs.lookup(&fs.root().expect("a root"), b"dir").expect("there"), b"moved");
        fs.read(&moved.expect("there"), 0, &mut [0; 9000]).expect("readable");
        sleep(Duration::from_secs(60));
        Unsynced { found, before, after, records, idle: device.take_log() }
    })
}

#[test]
fn names_that_nobody_syncs_are_durable_after_five_seconds() {
    for form in ["journal=single", "journal=double", "journal=percore"] {
        let Unsynced { found, before, after, records, idle } = unsynced(form, LONG_ENOUGH);
        assert_eq!(found, 7, "{form}");
        assert_eq!(after.checkpoints.committed, before.checkpoints.committed, "{form}: a checkpoint did it");
        assert_eq!((after.journal.batches - before.journal.batches, after.journal.timed), (1, 1), "{form}");
        let flushes = records.iter().filter(|record| record.op == Op::Flush).count();
        let last = records.last().map(|record| &record.op);
        assert!(flushes == 1 && last == Some(&Op::Flush), "{form}: {flushes} flushes, and at last {last:?}");
        assert!(idle.is_empty(), "{form}: {} operations where nothing was to do", idle.len());
    }
}

#[test]
fn the_option_says_after_how_many_seconds() {
    let after = |options: &str, seconds: u64| unsynced(options, Duration::from_secs(seconds)).found;
    // The last two are of the set-up.
    assert_eq!(after("journal=single,journal.commit=0", 300), 0, "never by time");
    assert_eq!(after("", 300), 0, "no journal");
    assert_eq!(after("journal=single,journal.commit=1", 2), 7);
    assert_eq!(after("journal=single,journal.commit=40", 20), 0, "not yet");
    assert_eq!(after("journal=single,journal.commit=40", 41), 7);
}

/// What an fsync has made durable is not written once more.
#[test]
fn what_an_fsync_took_leaves_nothing_for_the_timer() {
    in_virtual_time(4, || {
        let fs = mount(Arc::new(volume()), "journal=single");
        prepare(&fs);
        change_names(&fs);
        fs.fsync(&fs.root().expect("a root"), false).expect("a good device");
        sleep(LONG_ENOUGH);
        let journal = fs.journal_stats();
        assert_eq!((journal.batches, journal.timed), (1, 0));
    });
}

/// Of a small new file with its name; of others when they are old, by a checkpoint.
#[test]
fn contents_that_nobody_syncs_are_durable_with_their_name_or_when_they_are_old() {
    in_virtual_time(4, || {
        let device = Arc::new(volume());
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, "journal=single");
        let old = put(&fs, "old", b'A', 100);
        fs.fsync(&old, false).expect("a good device");
        fs.sync().expect("a good device");
        put(&fs, "small", b'B', 3000);
        put(&fs, "large", b'B', 20_000);
        fs.write(&old, 0, &[b'B'; 100]).expect("room");
        let found = |name: &str| {
            let crashed = crate::common::mount(Arc::new(device.fork()), "");
            let file = crashed.lookup(&crashed.root().expect("a root"), name.as_bytes()).expect("it has its name");
            let mut bytes = vec![0; 30_000];
            let read = crashed.read(&file, 0, &mut bytes).expect("readable");
            bytes.truncate(read);
            bytes
        };
        sleep(LONG_ENOUGH);
        assert_eq!(found("small"), [b'B'; 3000]);
        assert_eq!((found("large").len(), found("old")), (0, vec![b'A'; 100]), "not yet");
        let made = fs.stats().checkpoints.committed;
        sleep(Duration::from_secs(35));
        assert_eq!((found("large"), found("old")), (vec![b'B'; 20_000], vec![b'B'; 100]));
        // What was written to the inode was due a moment before the other.
        let in_the_end = fs.stats().checkpoints.committed;
        assert!((made + 1..=made + 2).contains(&in_the_end), "{made} checkpoints, and then {in_the_end}");
        sleep(Duration::from_secs(120));
        assert_eq!(fs.stats().checkpoints.committed, in_the_end, "nothing is left to do");
    });
}

type Replacement = fn(&Fs, &InodeRef);

/// Ways to put new contents in the place of old ones without a sync.
fn replacements() -> [(&'static str, Replacement); 4] {
    [
        ("rename over", |fs, root| {
            put(fs, "new", b'B', 30_000);
            fs.rename(root, b"new", root, b"old", RenameFlags::Replace).expect("a rename");
        }),
        ("rename over, and a rename before it", |fs, root| {
            put(fs, "new", b'B', 30_000);
            fs.rename(root, b"new", root, b"newer", RenameFlags::Replace).expect("a rename");
            fs.rename(root, b"newer", root, b"old", RenameFlags::Replace).expect("a rename");
        }),
        ("exchange", |fs, root| {
            put(fs, "new", b'B', 30_000);
            fs.rename(root, b"new", root, b"old", RenameFlags::Exchange).expect("a rename");
        }),
        ("truncation and the same again", |fs, root| {
            let old = fs.lookup(root, b"old").expect("there");
            fs.setattr(&old, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("ours");
            fs.write(&old, 0, &[b'B'; 30_000]).expect("room");
            make(fs, root, "a name to be noted", FILE);
        }),
    ]
}

/// The device at each moment since `base`, if its writes came in order.
fn moments(base: MemDevice, records: Vec<Record>) -> impl Iterator<Item = MemDevice> {
    let writes = records.into_iter().filter_map(|record| match record.op {
        Op::Write { block, pages, .. } => Some((block, pages)),
        _ => None,
    });
    writes.scan(base, |device, (block, pages)| {
        device.write(block, pages).expect("in range");
        Some(device.fork())
    })
}

#[test]
fn whoever_takes_the_place_of_others_is_never_there_without_contents() {
    for (what, replace) in replacements() {
        in_virtual_time(4, move || {
            let device = Arc::new(RecordingDevice::new(volume()));
            let fs = mount(Arc::clone(&device) as Arc<dyn Device>, "journal=single");
            put(&fs, "old", b'A', 20_000);
            fs.sync().expect("a good device");
            let base = device.inner().fork();
            device.take_log();
            replace(&fs, &fs.root().expect("a root"));
            sleep(LONG_ENOUGH);
            let mut states = 0;
            let mut last = Vec::new();
            for state in moments(base, device.take_log()) {
                let crashed = crate::common::mount(Arc::new(state), "");
                let old = crashed.lookup(&crashed.root().expect("a root"), b"old").expect("one of the two is there");
                last = vec![0; 40_000];
                let bytes = crashed.read(&old, 0, &mut last).expect("readable");
                last.truncate(bytes);
                let whole = last == vec![b'A'; 20_000] || last == vec![b'B'; 30_000];
                assert!(whole, "{what}, write {states}: {bytes} bytes, {:?}", last.first());
                states += 1;
            }
            let newest = if what.starts_with("truncation") { b'A' } else { b'B' };
            assert!(states > 0 && last.first() == Some(&newest), "{what}: {states} writes, {:?} at last", last.first());
        });
    }
}

/// A volume with changed names whose device is about to fail.
fn with_faults(options: &str) -> (Arc<FaultyDevice<MemDevice>>, Arc<Fs>) {
    let device = Arc::new(FaultyDevice::new(volume()));
    let fs = mount(Arc::clone(&device) as Arc<dyn Device>, options);
    prepare(&fs);
    change_names(&fs);
    (device, fs)
}

/// What the device refuses once comes to it later, by whatever way; and a crash meanwhile loses nothing old.
#[test]
fn a_refused_write_delays_names_and_loses_none() {
    let mut struck = 0;
    for nth in 0..4 {
        for fault in [Fault::fail(errno::EIO), Fault::torn(3), Fault::fail(errno::ENOSPC)] {
            struck += u32::from(in_virtual_time(4, move || {
                let (device, fs) = with_faults("journal=single,errors=continue");
                device.add(fault.on(OpKind::Write).nth(nth));
                sleep(LONG_ENOUGH);
                let first = found(device.inner().fork());
                assert!(first == 0 || first == 7, "write {nth}: {first} of 7 names");
                sleep(Duration::from_secs(20));
                assert_eq!(found(device.inner().fork()), 7, "write {nth}");
                drop(make(&fs, &fs.root().expect("a root"), "more", FILE));
                sleep(LONG_ENOUGH);
                let again = crate::common::mount(Arc::new(device.inner().fork()), "");
                again.lookup(&again.root().expect("a root"), b"more").expect("later ones are durable, too");
                fs.stats().io.failed > 0
            }));
        }
    }
    assert!(struck > 0, "no write was refused");
}

#[test]
fn a_device_that_takes_nothing_for_a_while_gets_the_names_afterwards() {
    in_virtual_time(4, || {
        let (device, fs) = with_faults("journal=single,errors=continue");
        device.add(Fault::fail(errno::EIO).on(OpKind::Write));
        sleep(Duration::from_secs(30));
        assert_eq!(found(device.inner().fork()), 0, "the checkpoint before is whole");
        fs.fsync(&fs.root().expect("a root"), false).expect_err("nothing is durable");
        device.heal();
        sleep(Duration::from_secs(12));
        assert_eq!(found(device.inner().fork()), 7);
    });
}

/// Nobody knows what a device lost that did not flush: the volume stops, as after an fsync.
#[test]
fn a_failed_flush_stops_the_volume() {
    in_virtual_time(4, || {
        let (device, fs) = with_faults("journal=single,errors=continue");
        device.add(Fault::fail(errno::EIO).on(OpKind::Flush));
        sleep(LONG_ENOUGH);
        device.heal();
        let more = fs.create(&fs.root().expect("a root"), b"more", &NewInode { mode: FILE, ..NewInode::default() });
        assert!(more.is_err(), "it goes on");
        let found = found(device.inner().fork());
        assert!(found == 0 || found == 7, "{found} of 7 names");
    });
}

/// On a full volume a batch has a place, or a checkpoint helps.
#[test]
fn names_of_a_full_volume_are_durable_by_time() {
    in_virtual_time(4, || {
        let device = Arc::new(volume());
        let fs = mount(Arc::clone(&device) as Arc<dyn Device>, "journal=single");
        let filler = put(&fs, "filler", b'F', 4096);
        let mut at = 4096;
        while fs.write(&filler, at, &[b'F'; 65_536]).is_ok_and(|written| written > 0) {
            at += 65_536;
        }
        let some_room = SetAttr { size: Some(at - (2 << 20)), ..SetAttr::default() };
        fs.setattr(&filler, &some_room).expect("ours");
        fs.sync().expect("room for a checkpoint");
        let root = fs.root().expect("a root");
        let (mut made, mut times_full) = (0, 0);
        for round in 0..6 {
            let full = (0..200).find_map(|n| {
                let order = NewInode { mode: DIR, ..NewInode::default() };
                let result = fs.create(&root, format!("{round}-{n:0>200}").as_bytes(), &order);
                made += u32::from(result.is_ok());
                result.err()
            });
            let full = full.inspect(|error| assert!(matches!(error, Error::NoSpace), "{error}"));
            times_full += u32::from(full.is_some());
            sleep(LONG_ENOUGH);
            let after = crate::common::mount(Arc::new(device.fork()), "");
            let mut names = 0;
            let count = &mut |entry: DirEntry<'_>| {
                names += u32::from(entry.name.first().is_some_and(u8::is_ascii_digit));
                true
            };
            after.readdir(&after.root().expect("a root"), 0, count).expect("readable");
            assert_eq!(names, made, "round {round}");
        }
        assert!(made > 0 && times_full > 0, "{made} names, and the volume was full {times_full} times");
    });
}
