//! `fstrim` on a mount: what is free becomes holes of the image, what is used stays.

use crate::harness::{Place, until};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const MIB: u64 = 1 << 20;

/// What `fstrim` with these arguments says: bytes discarded, or the error.
fn trim(dir: &Path, arguments: &[&str]) -> Result<u64, String> {
    let output = Command::new("fstrim").args(["-v"]).args(arguments).arg(dir).output().expect("fstrim of util-linux");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let bytes = text.rsplit_once('(').and_then(|(_, end)| end.split_once(" bytes")?.0.parse().ok());
    bytes.filter(|_| output.status.success()).ok_or(text)
}

/// Bytes that a file takes on its disk.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).expect("there").blocks() * 512
}

#[test]
fn free_space_becomes_holes_of_the_image() {
    let place = Place::new();
    place.mounted("", |_| {
        fs::write(place.at("stays"), vec![1; 10 << 20]).unwrap();
        let file = fs::File::create(place.at("goes")).unwrap();
        (0..80).for_each(|at| file.write_all_at(&[2; MIB as usize], at * MIB).unwrap());
        file.sync_all().unwrap();
        drop(file);
        let before = taken(&place.source);
        assert!(before > 90 * MIB);
        fs::remove_file(place.at("goes")).unwrap();
        let mut trimmed = 0;
        // The kernel forgets the deleted file a moment later.
        until("what was deleted is a hole", || {
            trimmed = trim(&place.dir(), &[]).unwrap();
            taken(&place.source) < before - 70 * MIB
        });
        assert!((150 * MIB..256 * MIB).contains(&trimmed), "{trimmed}");
        assert!(taken(&place.source) > 10 * MIB);
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        assert_eq!(fs::read(place.at("stays")).unwrap(), vec![1; 10 << 20]);
    });
    place.check();
    place.mounted("", |_| assert_eq!(fs::read(place.at("stays")).unwrap(), vec![1; 10 << 20]));
}

#[test]
fn range_and_minimum_count_and_only_root_may() {
    let place = Place::sized(1 << 30);
    place.open_to_all();
    place.mounted("", |_| {
        let dir = place.dir();
        let all = trim(&dir, &[]).unwrap();
        let part = trim(&dir, &["-o", "100M", "-l", "40M"]).unwrap();
        assert!((36 * MIB..=40 * MIB).contains(&part), "{part} of {all}");
        assert_eq!(trim(&dir, &["-l", "1M"]), Ok(0), "the superblocks are not free");
        let (from, end) = (trim(&dir, &["-o", "100M"]).unwrap(), trim(&dir, &["-o", "100M", "-l", "999G"]).unwrap());
        assert!(from == end && from < all);
        assert_eq!(trim(&dir, &["-m", "2G"]), Ok(0));
        assert_eq!(trim(&dir, &["-o", "100M", "-l", "40M", "-m", "41M"]), Ok(0));
        let long = trim(&dir, &["-m", "100M"]).unwrap();
        assert!(long > all * 3 / 4, "{long} of {all} lie in long stretches, which are not discarded at once");
        // Numbers that overflow 32 bits of blocks, or 64 of bytes: ends are cut, beginnings refused.
        let (huge, largest) = ("1152921504338411520", "18446744073709551615");
        for length in [huge, largest] {
            assert_eq!(trim(&dir, &["-l", length]).unwrap(), all);
            assert_eq!(trim(&dir, &["-o", "100M", "-l", length]).unwrap(), from);
        }
        for beginning in ["2G", huge, largest] {
            let said = trim(&dir, &["-o", beginning, "-l", "10M"]).unwrap_err();
            assert!(said.contains("Invalid argument"), "{beginning}: {said}");
        }
        assert_eq!(trim(&dir, &["-m", largest]), Ok(0));
        for wrong in [["-o", "1G"], ["-o", "18446744073709551615"], ["-l", "100"], ["-l", "0"]] {
            let said = trim(&dir, &wrong).unwrap_err();
            assert!(said.contains("Invalid argument"), "{wrong:?}: {said}");
        }
        let nobody = Command::new("fstrim").arg(&dir).uid(65_534).gid(65_534).output().unwrap();
        assert!(String::from_utf8_lossy(&nobody.stderr).contains("not permitted"), "{nobody:?}");
    });
    let served = place.mount("ro");
    let said = trim(&place.dir(), &[]).unwrap_err();
    assert!(said.contains("not supported") || said.contains("Read-only"), "{said}");
    served.stop();
}

/// Files that are written and deleted meanwhile keep their contents.
#[test]
fn trimming_beside_writers_takes_nothing_that_is_used() {
    let place = Place::new();
    let contents = |round: u8| vec![round; 3 << 20];
    let over = AtomicBool::new(false);
    place.mounted("", |_| {
        std::thread::scope(|threads| {
            for thread in 0..2 {
                let (place, over) = (&place, &over);
                threads.spawn(move || {
                    for round in 0..40u8 {
                        let path = place.at(&format!("{thread}-{}", round % 8));
                        let _ = fs::remove_file(&path);
                        fs::write(&path, contents(round)).unwrap();
                        fs::File::open(&path).unwrap().sync_all().unwrap();
                    }
                    over.store(true, SeqCst);
                });
            }
            while !over.load(SeqCst) {
                trim(&place.dir(), &[]).unwrap();
            }
        });
    });
    place.check();
    place.mounted("", |_| {
        for (thread, round) in (0..2).flat_map(|thread| (32..40u8).map(move |round| (thread, round))) {
            let path = place.at(&format!("{thread}-{}", round % 8));
            assert!(fs::read(&path).unwrap() == contents(round), "{}", path.display());
        }
    });
}
