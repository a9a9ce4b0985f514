//! Streams on volumes that our mkfs made.

use super::*;
use crate::fsck::{self, CheckOptions};
use crate::gate::Want;
use crate::mkfs::{self, MkfsOptions};
use crate::{Fs, MountOptions, NewInode};
use std::collections::BTreeSet;
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::Nid;

/// A volume with sections of so many segments and two collectors, which have nothing to do.
fn volume(segs_per_sec: u32) -> (Arc<MemDevice>, Arc<Fs>) {
    let device = Arc::new(MemDevice::new(u64::from(64 + 64 * segs_per_sec) << 8));
    let options = MkfsOptions { segs_per_sec, ..MkfsOptions::new([0x5f; 16], 1_700_000_000) };
    mkfs::format(&*device, &options).unwrap();
    let options = MountOptions::parse("gc.collectors=2,background_gc=off,commit=0").unwrap();
    let fs = Fs::mount(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    (device, fs)
}

fn owners(count: u16) -> Vec<Summary> {
    (0..count).map(|n| Summary { nid: Nid(1000 + u32::from(n)), version: 3, ofs_in_node: n }).collect()
}

/// Takes blocks of the first stream and gives them back; where they were.
fn take_and_give_back(fs: &Fs, count: u16) -> Vec<(SegNo, u32)> {
    let _change = fs.vol.begin_change().unwrap();
    let runs = fs.vol.segments().take_stream_blocks(0, &owners(count)).unwrap();
    let blocks = runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|i| run.lba + i));
    let places: Vec<(SegNo, u32)> = blocks.map(|lba| fs.vol.segments().table.locate(lba).unwrap()).collect();
    for (seg, off) in &places {
        assert!(fs.vol.segments().table.invalidate(*seg, *off, 0));
    }
    places
}

#[test]
fn what_was_moved_before_goes_to_streams_of_its_own() {
    for (collectors, generations) in [(1, 1), (1, 3), (5, 1), (5, 2), (9, 4)] {
        let streams = Streams::new(collectors, generations, 0);
        let mut reached = vec![false; Streams::count(collectors, generations)];
        for (collector, passes) in (0..collectors).flat_map(|c| (0..10).map(move |p| (c, p))) {
            let slot = streams.slot(collector, passes);
            assert_eq!(streams.passes(slot), passes.min(generations - 1) + 1, "{collectors} {generations} {slot}");
            assert_eq!(slot < collectors, passes == 0 || generations == 1, "first moves stay with their collector");
            reached[slot] = true;
        }
        assert!(reached.iter().all(|reached| *reached), "{collectors} {generations}: {reached:?}");
    }
}

#[test]
fn a_stream_fills_its_section_before_it_takes_another() {
    let (_, fs) = volume(4);
    let before = fs.vol.segments().table.free_sections();
    for full in 1..=4 {
        let places = take_and_give_back(&fs, 512);
        let segments: BTreeSet<SegNo> = places.iter().map(|(seg, _)| *seg).collect();
        assert_eq!((segments.len(), fs.vol.segments().table.free_sections()), (1, before - 1), "after {full} segments");
    }
    assert_eq!(fs.open_streams(), 0, "the section is full, and the next one is taken only when it is needed");
    take_and_give_back(&fs, 1);
    assert_eq!((fs.open_streams(), fs.vol.segments().table.free_sections()), (1, before - 2));
}

#[test]
fn the_owners_are_known_when_a_stream_is_closed() {
    let (_, fs) = volume(1);
    let places = take_and_give_back(&fs, 20);
    fs.vol.segments().close_streams(&fs.vol.begin_change().unwrap());
    assert_eq!(fs.open_streams(), 0);
    let summary = fs.vol.segments().stored_summary(places[0].0).unwrap();
    let known: Vec<Summary> = places.iter().map(|(_, off)| summary.get(*off as u16)).collect();
    assert_eq!(known, owners(20));
}

#[test]
fn a_segment_that_a_stream_has_open_without_a_valid_block_counts_as_free_at_a_checkpoint() {
    let (device, fs) = volume(1);
    take_and_give_back(&fs, 20);
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    drop(fs.create(&fs.root().unwrap(), b"file", &new).unwrap());
    fs.sync().unwrap();
    assert_eq!(fs.open_streams(), 1);
    let options = CheckOptions { force: true, ..CheckOptions::default() };
    let found = fsck::check(Arc::new(device.fork()), &options).unwrap();
    assert!(found.is_clean(), "{:?}", found.issues);
}

#[test]
fn a_writer_who_has_to_collect_closes_the_streams_first() {
    let (_, fs) = volume(1);
    take_and_give_back(&fs, 20);
    assert_eq!(fs.open_streams(), 1);
    // Without collectors, and with no room left.
    fs.reclaim.stop();
    let kind = Log::ColdData.number();
    while fs.files.gate.try_admit(0).is_some() {
        fs.vol.segments().table.open(None, kind).unwrap();
    }
    // Whether that gains enough is another question.
    drop(fs.files.gate.admit(&Want::default()));
    assert_eq!(fs.open_streams(), 0);
}
