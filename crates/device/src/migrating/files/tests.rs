//! Its files: what is left of a journal, and what room is taken.

use super::MigratingDevice;
use crate::migrating::{MigrationGeometry, Migrations};
use crate::{BLOCK_SIZE, Device, Op, OpenError, OpenOptions, PageBuf, StreamHint, errno};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use tempfile::TempDir;

const ZONE: u64 = 64;

fn geometry() -> MigrationGeometry {
    let (regular, gc) = (ZONE + 20 * ZONE, ZONE + 40 * ZONE);
    MigrationGeometry { zone: ZONE, meta: 0..ZONE, regular: ZONE..regular, gc: regular..gc, capacity: 8 * ZONE }
}

/// A directory in memory, if there is memory for files: a disk takes its time for each flush.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn made() -> TempDir {
    let dir = scratch();
    MigratingDevice::create(dir.path(), &geometry()).unwrap();
    dir
}

fn open(path: &Path) -> MigratingDevice {
    MigratingDevice::open(path, OpenOptions::default()).unwrap()
}

fn page(byte: u8) -> PageBuf {
    PageBuf::from_slice(&[byte; BLOCK_SIZE])
}

/// A device with three flushed zones, of which every second page is dead, and two of them moved.
fn used() -> TempDir {
    let dir = made();
    let device = open(dir.path());
    assert_eq!(device.resume(0), 0);
    device.complete(0);
    for block in ZONE..4 * ZONE {
        device.write(block, vec![page(block as u8)]).unwrap();
        if block % 16 == 0 {
            device.flush().unwrap();
        }
    }
    for block in (ZONE..4 * ZONE).step_by(2) {
        device.discard(block, 1).unwrap();
    }
    device.press();
    let upcall = device.try_next().unwrap();
    assert_eq!((upcall.first, upcall.moves.len()), (1, ZONE as usize), "two zones with half of their pages");
    device.flush().unwrap();
    dir
}

/// Pages that are there, each with its contents.
fn look(device: &MigratingDevice) -> usize {
    let there = (ZONE..4 * ZONE).filter(|block| device.state.lock().ledger.resolve(*block).is_some());
    there.inspect(|block| assert_eq!(device.read_one(*block).unwrap(), page(*block as u8), "block {block}")).count()
}

#[test]
fn pages_are_found_at_old_addresses_after_it_was_opened_anew() {
    let dir = used();
    for _ in 0..2 {
        let device = open(dir.path());
        assert_eq!((device.outstanding(), look(&device)), (ZONE as usize, 3 * ZONE as usize / 2));
        assert_eq!(device.resume(0), ZONE, "they are delivered again");
    }
    let device = open(dir.path());
    device.resume(0);
    while device.try_next().is_some() {}
    device.complete(ZONE);
    device.close();
    drop(device);
    assert_eq!(open(dir.path()).outstanding(), 0, "what was completed is over");
}

#[test]
fn two_cannot_have_it_open() {
    let dir = made();
    let first = open(dir.path());
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    assert!(matches!(MigratingDevice::open(dir.path(), options), Err(OpenError::InUse { .. })));
    drop(first);
    let reader = MigratingDevice::open(dir.path(), options).unwrap();
    assert_eq!(reader.write(0, vec![page(1)]).unwrap_err().errno(), errno::EROFS);
    assert!(MigratingDevice::create(dir.path(), &geometry()).is_err(), "it is there already");
}

#[test]
fn a_torn_journal_ends_with_its_last_whole_frame_and_a_damaged_one_is_refused() {
    let dir = used();
    let place = dir.path().join("journal");
    let whole = std::fs::read(&place).unwrap();
    let mut seen = Vec::new();
    for len in 0..whole.len() {
        std::fs::write(&place, &whole[..len]).unwrap();
        match MigratingDevice::open(dir.path(), OpenOptions::default()) {
            Ok(device) => seen.push(device.held().len()),
            Err(error) => assert!(seen.is_empty() && error.to_string().contains("damaged"), "{len}: {error}"),
        }
    }
    assert_eq!(seen.first(), Some(&0), "the first frame holds nothing");
    assert!(
        seen.is_sorted() || seen.windows(2).filter(|two| two[0] > two[1]).count() == 1,
        "frames of discards are one"
    );
    let first = 16 + u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&place, &bytes).unwrap();
        match MigratingDevice::open(dir.path(), OpenOptions::default()) {
            Ok(device) => assert!(at >= first && device.held().len() <= 3 * ZONE as usize, "byte {at}"),
            Err(error) => assert!(error.to_string().contains("damaged"), "byte {at}: {error}"),
        }
    }
}

/// A frame amid others that is damaged is no frame that a power cut has torn.
#[test]
fn a_damaged_frame_amid_others_is_refused() {
    let dir = used();
    let place = dir.path().join("journal");
    let mut bytes = std::fs::read(&place).unwrap();
    let len = |at: usize| 16 + u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let second = len(0);
    assert!(second + len(second) < bytes.len(), "it is not the last");
    bytes[second + 20] ^= 1;
    std::fs::write(&place, &bytes).unwrap();
    let error = MigratingDevice::open(dir.path(), OpenOptions::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn damaged_steps_with_a_right_checksum_end_in_an_error() {
    for kind in 0..12 {
        for numbers in [[0, 0], [ZONE, 1], [ZONE, u64::MAX], [22 * ZONE, 23 * ZONE], [u64::MAX, 2], [1, 1]] {
            let dir = made();
            let mut payload = Vec::new();
            crate::migrating::put(&mut payload, &[kind, numbers[0], numbers[1]]);
            open(dir.path()).state.lock().journal.append_frame(&payload).unwrap();
            // Whatever comes of it, it is no panic, and no endless work.
            let _ = MigratingDevice::open(dir.path(), OpenOptions::default());
        }
    }
}

#[test]
fn room_is_given_back_and_the_journal_stays_short() {
    let dir = made();
    let device = open(dir.path());
    device.resume(0);
    device.complete(0);
    let zones: Vec<u64> = (1..5).map(|zone| zone * ZONE).collect();
    for round in 0..20 {
        for start in &zones {
            let pages: Vec<PageBuf> = (0..ZONE).map(|_| page(round as u8)).collect();
            let op = Op::Write { block: *start, pages, hint: StreamHint::DataWarm, fua: false };
            device.run(op).unwrap();
            // One by one from the end on: steps that are no run.
            for block in (*start..*start + ZONE).rev() {
                device.discard(block, 1).unwrap();
            }
        }
        device.flush().unwrap();
    }
    let taken = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().blocks() * 512;
    assert!(taken("journal") < 1 << 18, "{} bytes of steps", taken("journal"));
    assert_eq!(taken("blocks"), 0, "nobody needs a block");
    assert!(device.state.lock().journal.begun_anew() > 0, "the journal never became too long");
}

#[test]
fn a_promise_that_the_host_breaks_ends_all_io() {
    let dir = made();
    let device = open(dir.path());
    device.write(ZONE, vec![page(1)]).unwrap();
    let error = device.write(ZONE + 2, vec![page(1)]).unwrap_err();
    assert!(error.errno() == errno::EIO && error.to_string().contains("takes no more"), "{error}");
    assert_eq!(device.read_one(ZONE).unwrap_err().errno(), errno::EIO);
    assert_eq!(device.flush().unwrap_err().errno(), errno::EIO);
    drop(device);
    assert!(open(dir.path()).read_one(ZONE).is_ok(), "opened anew it works");
}

/// What another process would find there now.
fn copied(from: &Path) -> TempDir {
    let to = scratch();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

/// A page moves to a zone, is flushed there, and moves on. Its record waits, so both moves become one record, and none
/// has an end in that zone.
#[test]
fn a_zone_that_pages_have_left_is_not_filled_before_their_moves_are_durable() {
    let own = |block: u64| PageBuf::from_slice(&block.to_le_bytes().repeat(BLOCK_SIZE / 8));
    let dir = made();
    let device = open(dir.path());
    device.resume(0);
    device.complete(0);
    // Writes a zone, and discards all but its first pages.
    let write = |zone: u64, keep: u64| {
        let end = (zone + 1) * ZONE;
        (zone * ZONE..end).for_each(|block| device.write(block, vec![own(block)]).unwrap());
        (zone * ZONE + keep..end).for_each(|block| device.discard(block, 1).unwrap());
    };
    (1..=4).for_each(|zone| write(zone, 16));
    device.empty_cheapest();
    device.flush().unwrap();
    let place = |device: &MigratingDevice| device.state.lock().ledger.resolve(ZONE).unwrap();
    let first = place(&device);
    assert!(geometry().gc.contains(&first), "the pages have not moved");
    for start in (1..=4).map(|zone| zone * ZONE) {
        (start..start + 16).filter(|block| *block != ZONE).for_each(|block| device.discard(block, 1).unwrap());
    }
    (5..=20).for_each(|zone| write(zone, 20));
    assert_ne!(place(&device), first, "the page has not moved on");
    (2..=4).for_each(|zone| write(zone, 20));
    let killed = open(copied(dir.path()).path());
    assert_eq!(
        (place(&killed), killed.read_one(ZONE).unwrap()),
        (first, own(ZONE)),
        "its journal finds other contents"
    );
    // With the journal's next frame the zone may be filled.
    let zone = geometry().zone_of(first);
    assert!(device.state.lock().left.is_needed(zone));
    device.flush().unwrap();
    let state = device.state.lock();
    assert!(!state.left.is_needed(zone) && state.ledger.is_free(zone), "nobody needs the zone any more");
}

/// The host's file system is full for a moment: the zone takes the blocks later, goes on behind them meanwhile, and
/// what the journal says of it is understood.
#[test]
fn a_full_host_costs_no_zone_and_the_blocks_may_come_later() {
    for errno in [errno::ENOSPC, errno::EDQUOT, errno::ENOMEM] {
        let dir = made();
        let device = open(dir.path());
        device.resume(0);
        device.complete(0);
        let write = |block: u64| device.write(block, vec![page(block as u8)]).map_err(|error| error.errno());
        (ZONE..ZONE + 4).for_each(|block| write(block).unwrap());
        device.faults.write.store(errno, SeqCst);
        assert_eq!([ZONE + 4, ZONE + 5, ZONE + 6, ZONE + 4].map(write), [Err(errno); 4]);
        assert_eq!(write(2 * ZONE), Err(errno), "the first block of a zone");
        device.flush().unwrap();
        device.faults.write.store(0, SeqCst);
        assert_eq!(device.held().len(), 4, "what was refused is nowhere");
        // One that nobody needs any more, which is said; the others in any order.
        device.discard(ZONE + 5, 1).unwrap();
        for block in [ZONE + 6, ZONE + 7, ZONE + 4, 2 * ZONE, 2 * ZONE + 1] {
            write(block).unwrap();
        }
        device.flush().unwrap();
        drop(device);
        let device = open(dir.path());
        let there = [4, 6, 7, ZONE, ZONE + 1].map(|at| ZONE + at);
        there.iter().for_each(|block| assert_eq!(device.read_one(*block).unwrap(), page(*block as u8), "{block}"));
        assert_eq!(device.held().len(), 4 + there.len());
    }
}

/// A bad place costs its zone, as before.
#[test]
fn a_zone_with_a_bad_place_takes_no_more() {
    let dir = made();
    let device = open(dir.path());
    device.resume(0);
    device.faults.write.store(errno::EIO, SeqCst);
    device.write(ZONE, vec![page(1)]).unwrap_err();
    device.faults.write.store(0, SeqCst);
    assert_eq!(device.write(ZONE + 1, vec![page(1)]).unwrap_err().errno(), errno::EIO);
    device.write(2 * ZONE, vec![page(1)]).unwrap();
}

/// What a flush could not write to the journal is written by the next one, with what came since.
#[test]
fn a_frame_that_could_not_be_written_is_written_by_the_next_flush() {
    for errno in [errno::EIO, errno::ENOSPC] {
        let dir = made();
        let device = open(dir.path());
        device.resume(0);
        device.complete(0);
        device.write(ZONE, vec![page(1)]).unwrap();
        device.faults.append.store(errno, SeqCst);
        let error = device.flush().unwrap_err();
        assert_eq!((error.errno(), error.op), (errno, crate::OpKind::Write), "nothing is lost: {error}");
        assert!(error.to_string().contains("journal"), "{error}");
        assert!(open(copied(dir.path()).path()).held().is_empty(), "the journal does not say so yet");
        device.write(ZONE + 1, vec![page(2)]).unwrap();
        device.flush().unwrap();
        assert_eq!(open(copied(dir.path()).path()).held(), [ZONE, ZONE + 1]);
        assert_eq!(device.read_one(ZONE).unwrap(), page(1));
    }
}

#[test]
fn a_flush_fails_when_a_file_was_removed_and_what_is_there_can_be_read() {
    for name in ["blocks", "journal"] {
        let dir = made();
        let device = open(dir.path());
        device.resume(0);
        device.write(ZONE, vec![page(1)]).unwrap();
        device.flush().unwrap();
        std::fs::remove_file(dir.path().join(name)).unwrap();
        for _ in 0..2 {
            let error = device.flush().unwrap_err();
            assert!(error.op == crate::OpKind::Flush && error.to_string().contains(name), "{error}");
        }
        assert_eq!(device.read_one(ZONE).unwrap(), page(1));
    }
}
