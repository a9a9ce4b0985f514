//! Damage of what reading can do without: journals and summaries of the checkpoint pack, addresses in the NAT.

use crate::common::{change, image};
use std::sync::Arc;
use steadyfs_core::fsck::{self, CheckOptions};
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_core::{Error, Fs, MountOptions, NewInode};
use steadyfs_device::{Device, Fault, FaultyDevice, MemDevice, OpKind, errno};
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::{Log, Nid};

/// A volume of 64 MiB with 60 files, more than a NAT journal holds nodes, of which the first was changed in a mount of
/// its own. The node ids of the changed file and of another one.
fn sound() -> (MemDevice, Nid, Nid) {
    with_files(60, 0)
}

/// The same with as many files, of which this one was changed.
fn with_files(files: u64, changed: u64) -> (MemDevice, Nid, Nid) {
    let device = Arc::new(MemDevice::new(16 * 1024));
    format(&*device, &MkfsOptions::new([7; 16], 0)).unwrap();
    let fs = mount(&device, "").unwrap();
    let root = fs.root().unwrap();
    for n in 0..files {
        let new = NewInode { mode: 0o100_644, ..NewInode::default() };
        let file = fs.create(&root, format!("file-{n}").as_bytes(), &new).unwrap();
        fs.write(&file, 0, &[n as u8; 4096]).unwrap();
    }
    fs.unmount().unwrap();
    drop((root, fs));
    let fs = mount(&device, "").unwrap();
    let named = |n: u64| fs.lookup(&fs.root().unwrap(), format!("file-{n}").as_bytes()).unwrap();
    let [changed, other] = [named(changed), named(1)];
    fs.write(&changed, 0, &[99; 4096]).unwrap();
    let nids = [changed.ino().nid(), other.ino().nid()];
    drop((changed, other));
    fs.unmount().unwrap();
    drop(fs);
    let image = image(device.clone());
    let [in_journal, in_table] = nids.map(|nid| image.nat_journal().iter().any(|(other, _)| *other == nid));
    assert!(in_journal && !in_table, "{:?}", image.nat_journal());
    drop(image);
    (device.fork(), nids[0], nids[1])
}

fn mount<D: Device + 'static>(device: &Arc<D>, options: &str) -> Result<Arc<Fs>, Error> {
    let options = MountOptions { background_gc: false, ..MountOptions::parse(options).unwrap() };
    Fs::mount(Arc::clone(device) as Arc<dyn Device>, options)
}

/// The files that were not changed last are there.
#[track_caller]
fn assert_others_read(fs: &Fs) {
    let root = fs.root().unwrap();
    for n in 1..60 {
        let file = fs.lookup(&root, format!("file-{n}").as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        assert_eq!((fs.read(&file, 0, &mut bytes).unwrap(), bytes), (4096, [n; 4096]));
    }
}

/// What a journal that counts too many entries costs.
#[track_caller]
fn damage_journal(log: Log, expected: &str, code: &str) {
    let (device, changed, _) = sound();
    let device = Arc::new(device);
    let whole = image(device.clone());
    let first = whole.layout().pack(whole.pack()) + u64::from(whole.checkpoint().pack_map().data_summaries.start);
    let compact = whole.checkpoint().header().flags().contains(CpFlags::COMPACT_SUM);
    let (block, at) = match (compact, log) {
        (true, Log::HotData) => (0, 0),
        (true, _) => (0, 507),
        (false, log) => (log.index() as u64, 3584),
    };
    change(&device, (first + block).get(), |bytes| bytes[at..at + 2].fill(0xFF));
    let Err(error) = mount(&device, "") else { panic!("mounted for changes") };
    assert!(error.to_string().contains(expected), "{error}");
    assert_others_read(&mount(&device, "ro").unwrap());
    let image = image(device.clone());
    let found: Vec<_> = image.damage().iter().map(ToString::to_string).collect();
    assert!(matches!(&found[..], [one] if one.contains(expected)), "{found:?}");
    assert_eq!(image.load_sit().is_ok(), log == Log::HotData);
    assert!(image.nat(changed).is_ok());
    let report = fsck::check(Arc::clone(&device) as Arc<dyn Device>, &CheckOptions::default()).unwrap();
    assert!(report.counts.is_some(), "the check went on to its end");
    assert!(report.issues.iter().any(|issue| issue.code() == code), "{:?}", report.issues);
}

#[test]
fn a_nat_journal_with_an_impossible_count_costs_what_it_held() {
    damage_journal(Log::HotData, "the NAT journal of the last checkpoint", "NatJournalDamaged");
}

#[test]
fn a_sit_journal_with_an_impossible_count_costs_changes_only() {
    damage_journal(Log::ColdData, "the SIT journal of the last checkpoint", "SitJournalDamaged");
}

#[test]
fn summaries_that_cannot_be_read_cost_changes_only() {
    let (device, _, _) = sound();
    let whole = image(Arc::new(device.fork()));
    let start = whole.layout().pack(whole.pack()).get();
    let map = whole.checkpoint().pack_map();
    for (blocks, logs) in [(map.data_summaries, &Log::DATA), (map.node_summaries, &Log::NODE)] {
        assert!(!blocks.is_empty());
        let faulty = Arc::new(FaultyDevice::new(device.fork()));
        let blocks = start + u64::from(blocks.start)..start + u64::from(blocks.end);
        faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(blocks));
        let refused = mount(&faulty, "").err().expect("mounted for changes");
        assert!(matches!(refused.cause(), Error::Io(_)), "{refused}");
        assert_others_read(&mount(&faulty, "ro").unwrap());
        let report = fsck::check(Arc::clone(&faulty) as Arc<dyn Device>, &CheckOptions::default()).unwrap();
        let damaged = report.issues.iter().filter(|issue| issue.code() == "LogSummaryDamaged");
        assert_eq!(damaged.count(), logs.len(), "{:?}", report.issues);
        assert!(report.counts.is_some(), "the check went on to its end");
    }
}

#[test]
fn an_impossible_address_in_the_nat_costs_one_node() {
    let (device, _, other) = sound();
    let device = Arc::new(device);
    let whole = image(device.clone());
    let (block, index) = whole.layout().nat_place(other);
    change(&device, whole.nat_lba(block).get(), |bytes| bytes[index * 9 + 5..index * 9 + 9].fill(0xFF));
    for options in ["ro", ""] {
        let fs = mount(&device, options).unwrap();
        let root = fs.root().unwrap();
        let lost = fs.lookup(&root, b"file-1").and_then(|file| fs.attr(&file));
        assert!(matches!(&lost, Err(Error::Corrupt(why)) if why.contains("outside the main area")), "{lost:?}");
        let neighbour = fs.lookup(&root, b"file-2").unwrap();
        let mut bytes = [0; 4096];
        assert_eq!((fs.read(&neighbour, 0, &mut bytes).unwrap(), bytes), (4096, [2; 4096]));
        if options.is_empty() {
            // More new nodes than a journal holds: the block with the impossible address is written anew.
            for n in 0..60 {
                let new = NewInode { mode: 0o100_644, ..NewInode::default() };
                fs.create(&root, format!("new-{n}").as_bytes(), &new).unwrap();
            }
            fs.sync().unwrap();
        }
        fs.unmount().unwrap();
    }
    assert!(!image(device.clone()).nat(other).unwrap().is_free(), "the id is not given to another file");
}

#[test]
fn a_block_of_the_nat_that_cannot_be_read_costs_its_nodes_though_the_journal_names_one() {
    let (device, changed, other) = with_files(600, 599);
    let whole = image(Arc::new(device.fork()));
    let (block, _) = whole.layout().nat_place(changed);
    assert!(block > whole.layout().nat_place(other).0, "they are in two blocks");
    let lba = whole.nat_lba(block).get();
    let faulty = Arc::new(FaultyDevice::new(device));
    faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(lba..lba + 1));
    let refused = mount(&faulty, "").err().expect("mounted for changes");
    assert!(matches!(refused.cause(), Error::Io(_)), "{refused}");
    assert_others_read(&mount(&faulty, "ro").unwrap());
}
