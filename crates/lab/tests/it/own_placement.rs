//! That a policy for placement takes one file: this one, which tells files apart by their numbers.

use std::sync::{Arc, Mutex};
use steadyfs_core::{DataToPlace, Fs, MountOptions, NewInode, Own, PlacementPolicy, mkfs};
use steadyfs_device::{Device, DeviceInfo, MemDevice, Op, Request, StreamHint};
use steadyfs_format::Log;

/// Even inodes are cold, odd ones hot.
#[derive(Debug)]
struct ByNumber;

static BY_NUMBER: ByNumber = ByNumber;

impl PlacementPolicy for ByNumber {
    fn log(&self, data: &DataToPlace) -> Log {
        assert_eq!(data.usual, Log::WarmData, "of plain files");
        if data.ino.get().is_multiple_of(2) { Log::ColdData } else { Log::HotData }
    }
}

/// Remembers the hints of writes whose pages all hold one byte, with that byte.
struct Noting {
    inner: MemDevice,
    seen: Mutex<Vec<(u8, StreamHint)>>,
}

impl Device for Noting {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in &batch {
            if let Op::Write { pages, hint, .. } = &request.op {
                let first = pages[0].to_array();
                if first[0] >= 100 && first.iter().all(|byte| *byte == first[0]) {
                    self.seen.lock().unwrap().push((first[0], *hint));
                }
            }
        }
        self.inner.submit(batch);
    }
}

/// Writes two files, and tells with which hint the data of each came to the device, by the parity of its inode.
fn hints(placed_by: Option<Own<dyn PlacementPolicy>>, direct: bool) -> [StreamHint; 2] {
    let device = Arc::new(Noting { inner: MemDevice::new(16 * 1024), seen: Mutex::default() });
    mkfs::format(&*device, &mkfs::MkfsOptions::new([7; 16], 1_700_000_000)).unwrap();
    let fs = Fs::mount(Arc::clone(&device) as _, MountOptions { placed_by, ..MountOptions::default() }).unwrap();
    let root = fs.root().unwrap();
    for name in ["one", "two"] {
        let file = fs.create(&root, name.as_bytes(), &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        let data = vec![100 + (file.ino().get() % 2) as u8; 64 * 4096];
        let written = if direct { fs.write_back(&file, 0, &data, true) } else { fs.write(&file, 0, &data) };
        assert_eq!(written.unwrap(), data.len());
    }
    fs.sync().unwrap();
    fs.unmount().unwrap();
    let seen = device.seen.lock().unwrap();
    [100, 101].map(|byte| {
        let of: Vec<StreamHint> = seen.iter().filter(|(seen, _)| *seen == byte).map(|(_, hint)| *hint).collect();
        assert!(!of.is_empty() && of.iter().all(|hint| *hint == of[0]), "{byte}: {of:?}");
        of[0]
    })
}

#[test]
fn a_placement_policy_takes_one_file() {
    for direct in [false, true] {
        assert_eq!(hints(None, direct), [StreamHint::DataWarm; 2]);
        assert_eq!(hints(Some(Own(&BY_NUMBER)), direct), [StreamHint::DataCold, StreamHint::DataHot]);
    }
}
