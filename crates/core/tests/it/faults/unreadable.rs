//! Places that cannot be read, under collection: writers go on, and only those who want what lies there are told.

use crate::common::{create, mount};
use crate::faults::bed::{Bed, Ends, fresh, fsck};
use std::sync::Arc;
use steadyfs_core::Error;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, Fault, OpKind, errno};
use steadyfs_format::Lba;
use steadyfs_testkit::Rng;

const PAGE: u64 = 4096;
/// What the pages hold that cannot be read, and no others.
const LOST: u8 = 200;

/// The blocks that hold such a page.
fn places(bed: &Bed) -> Vec<u64> {
    let image = Image::open(Arc::new(bed.faulty.inner().fork()) as Arc<dyn Device>).expect("a volume");
    let lost = |block: &u64| {
        image.read_block(Lba(*block)).expect("in memory").with(|page| page.iter().all(|byte| *byte == LOST))
    };
    (0..bed.info().blocks).filter(lost).collect()
}

/// Three places, a segment apart, in the middle of what the file fills: nobody can read there until the device is
/// mended.
#[test]
fn collection_goes_on_around_what_cannot_be_read() {
    for gc in ["gc=f2fs-lfs", "gc=scalelfs,gc.collectors=2"] {
        let bed = Bed::new(fresh(), Ends::AtOnce);
        let dev = Arc::clone(&bed) as Arc<dyn Device>;
        let fs = mount(dev, &format!("commit=0,{gc}"));
        let file = create(&fs, "file");
        let pages = fs.statfs().blocks_free * 85 / 100;
        let mut held = vec![0u8; pages as usize];
        let lost = [0, 1, 2].map(|n| pages / 2 + n * 512);
        lost.iter().for_each(|page| held[*page as usize] = LOST);
        for (page, byte) in held.iter().enumerate() {
            fs.write_direct(&file, page as u64 * PAGE, &[*byte; PAGE as usize]).unwrap();
        }
        fs.sync().unwrap();
        let blocks = places(&bed);
        assert_eq!(blocks.len(), lost.len());
        for block in blocks {
            bed.faulty.add(Fault::fail(errno::EIO).on(OpKind::Read).in_blocks(block..block + 1));
        }
        let mut random = Rng(1);
        for _ in 0..3 * pages {
            let page = random.below(pages);
            // What lies in the bad places is not written again: it stays there.
            if lost.contains(&page) {
                continue;
            }
            held[page as usize] = (held[page as usize] + 1) % LOST;
            let wrote = fs.write_direct(&file, page * PAGE, &[held[page as usize]; PAGE as usize]);
            wrote.unwrap_or_else(|e| panic!("{gc}: a writer is told: {e}"));
        }
        assert!(fs.gc_totals().victims > 50, "{gc}: {:?}", fs.gc_totals());
        let mut page = [9; PAGE as usize];
        let told = fs.read_direct(&file, lost[0] * PAGE, &mut page);
        assert!(matches!(told, Err(Error::Io(_))), "{gc}: {told:?}");
        bed.faulty.heal();
        for (at, byte) in held.iter().enumerate() {
            assert_eq!(fs.read_direct(&file, at as u64 * PAGE, &mut page).unwrap(), page.len());
            assert!(page.iter().all(|found| found == byte), "{gc}: page {at}");
        }
        fs.unmount().unwrap();
        drop(fs);
        fsck(&bed.after_crash(), gc);
    }
}
