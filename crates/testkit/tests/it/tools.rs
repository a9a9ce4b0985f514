//! fsck.f2fs' verdict is understood: a sound volume passes, a fault of a few bytes does not, and nothing is written
//! either way.

use std::os::unix::fs::FileExt;

use steadyfs_testkit::tools::{dump_f2fs, fsck_faults};
use steadyfs_testkit::{Error, TempImage, fsck_f2fs, mkfs_f2fs};

/// The root inode of a fresh 64 MiB volume: the first block of the main area.
const ROOT_INODE: u64 = 4096 * 4096;

#[test]
fn single_faults_are_found_and_left_alone() {
    // Of the root inode: links, flags for inline data, block count, the first block's address.
    let faults: [(&str, u64, &[u8]); 4] =
        [("links", 12, &[9]), ("inline", 3, &[2]), ("blocks", 24, &[77]), ("address", 360, &[1, 2])];
    for (name, offset, bytes) in faults {
        let image = TempImage::new().unwrap();
        mkfs_f2fs(image.path(), 64 << 20, &["-q"]).unwrap();
        let report = fsck_f2fs(image.path()).unwrap();
        assert!(report.contains("other corrupted bugs"), "{report}");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(image.path()).unwrap();
        file.write_all_at(bytes, ROOT_INODE + offset).unwrap();
        let before = std::fs::read(image.path()).unwrap();
        match fsck_f2fs(image.path()) {
            Err(Error::Tool { verdict, .. }) => assert!(!verdict.is_empty()),
            other => panic!("{name}: {other:?}"),
        }
        assert!(std::fs::read(image.path()).unwrap() == before, "{name}: fsck.f2fs wrote");
    }
}

#[test]
fn fault_lines_are_told_from_others() {
    let image = TempImage::new().unwrap();
    mkfs_f2fs(image.path(), 64 << 20, &["-q"]).unwrap();
    let sound = fsck_f2fs(image.path()).unwrap();
    assert_eq!(fsck_faults(&sound), Vec::<String>::new());
    for line in [
        "[ASSERT] (fsck_chk_inode_blk:1234)  --> ino: 0x3 has wrong i_blocks",
        "[FIX] (fsck_verify:3321)  --> Fixed",
        "[FSCK] SIT valid block bitmap checking                [Fail]",
        "[update_superblock: 765] Info: Done to update superblock",
        "\tError: nat entry[ino 3 block_addr 0x0] is in valid",
    ] {
        assert_eq!(fsck_faults(&format!("{sound}{line}\n")), [line]);
    }
    let half: String = sound.lines().take(20).map(|l| format!("{l}\n")).collect();
    assert!(fsck_faults(&half).len() > 3, "an incomplete run passes for a whole one");
}

#[test]
fn failures_of_tools_are_errors() {
    let image = TempImage::new().unwrap();
    assert!(mkfs_f2fs(image.path(), 1 << 20, &["-q"]).is_err(), "1 MiB is too small");
    mkfs_f2fs(image.path(), 64 << 20, &["-q"]).unwrap();
    assert!(dump_f2fs(image.path(), &["-i", "3"]).unwrap().contains("i_links"));
    assert!(fsck_f2fs(image.path().with_file_name("missing")).is_err());
}
