//! Writes behind the largest file that there can be.

use crate::harness::{CACHES, Place};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The largest size of a file: what two direct nodes, two indirect and one double indirect one hold, in blocks of 4096
/// bytes.
const LARGEST: u64 = (2 * 1018 + 2 * 1018 * 1018 + 1018 * 1018 * 1018) * 4096;

fn errno<T>(result: std::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_raw_os_error(error.raw_os_error().expect("of the system")))
}

#[test]
fn a_write_behind_the_largest_file_fails_as_early_as_the_kernel_lets_it() {
    for cache in CACHES {
        let place = Place::new();
        place.mounted(cache, |_| {
            let path = place.at("file");
            let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all_at(b"kept", 0).unwrap();
            file.write_all_at(b"last", LARGEST - 4096).unwrap();
            file.sync_all().unwrap();
            let len = || fs::metadata(&path).unwrap().len();
            let size = len();
            assert_eq!(errno(file.set_len(LARGEST + 1)), Err(Errno::FBIG), "{cache}");
            let write = errno(file.write_at(b"lost", LARGEST + 4096));
            if cache == "writeback_cache" {
                // The kernel takes it and asks nobody: who syncs is told, and the file is as it was once it is cut.
                assert_eq!(write, Ok(4));
                // Some kernels tell of any failed write by EIO, the first time.
                let told = errno(file.sync_all());
                assert!(matches!(told, Err(Errno::IO | Errno::FBIG)), "{told:?}");
                assert_eq!(errno(file.sync_all()), Err(Errno::FBIG));
                file.set_len(size).unwrap();
            } else {
                assert_eq!(write, Err(Errno::FBIG), "{cache}");
            }
            file.sync_all().unwrap();
            assert_eq!(len(), size, "{cache}");
            let mut bytes = [0; 4];
            file.read_exact_at(&mut bytes, LARGEST - 4096).unwrap();
            assert_eq!(&bytes, b"last", "{cache}");
        });
        place.check();
    }
}
