//! Faults of the device and of the superblocks: what keeps a check from beginning, and what it says when it cannot.

use crate::common::mkfs;
use crate::editor::Editor;
use crate::images::{fresh, plain, run, run_with};
use std::sync::Arc;
use steadyfs_core::fsck::{CheckOptions, Issue, Severity};
use steadyfs_device::{Device, DeviceInfo, IoError, MemDevice, OpKind, Request, errno};
use steadyfs_format::block::BlockView;
use steadyfs_format::node::{NodeBlock, NodeFooter, NodeOfs};
use steadyfs_format::{Lba, Log, ROOT_INO, SuperBlock};
use steadyfs_fuzzing::volumes::verdict;

/// Codes that the tests of this module plant.
pub(crate) const CODES: [&str; 13] = [
    "ReadFailed",
    "NoSuperblock",
    "NotRead",
    "DeviceTooSmall",
    "SuperblockBad",
    "SuperblocksDiffer",
    "TooFewSections",
    "StopRecorded",
    "ErrorsRecorded",
    "UnknownFeatures",
    "FreeSegmentTail",
    "RootBad",
    "MountRefused",
];

#[track_caller]
fn expect(dev: MemDevice, expected: &[Issue], exit: u8) {
    verdict::judge(&dev);
    let report = run(dev);
    assert_eq!((report.issues.as_slice(), report.exit_code()), (expected, exit));
}

/// A device on which some blocks cannot be read.
struct Scratched(Arc<MemDevice>, Vec<u64>);

impl Device for Scratched {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            let (first, count) = request.op.range();
            if self.1.iter().any(|bad| (first..first + count).contains(bad)) {
                request.fail(errno::EIO);
            } else {
                self.0.submit(vec![request]);
            }
        }
    }
}

fn failed(lba: Lba, count: u64) -> String {
    IoError::from_errno(OpKind::Read, lba.get(), count, errno::EIO).to_string()
}

#[test]
fn blocks_that_cannot_be_read_are_named_and_the_rest_is_checked() {
    let editor = Editor::new(plain());
    let ino = editor.ino("p/inline");
    let lba = editor.lba(ino.nid());
    let report = run(Scratched(Arc::clone(&editor.dev), vec![lba.get()]));
    assert_eq!(report.issues, [Issue::ReadFailed { lba, reason: failed(lba, 1) }]);
    assert_eq!(report.exit_code(), 8);
    let whole = run(plain()).counts.expect("walked");
    assert_eq!(report.counts.expect("walked").files, whole.files - 1);
}

#[test]
fn without_a_superblock_nothing_is_checked() {
    let editor = Editor::new(fresh());
    editor.edit(Lba(0), |block| block[1024] ^= 1);
    editor.edit(Lba(1), |block| block[1024 + 24] = 0);
    let report = run(editor.dev.fork());
    let [Issue::NoSuperblock { first, second }] = &report.issues[..] else { panic!("{:?}", report.issues) };
    assert!(first.contains("no F2FS magic") && second.contains("segs_per_sec"), "{first}; {second}");
    assert_eq!((report.exit_code(), report.counts), (8, None));
}

#[test]
fn an_image_cut_short_is_not_checked() {
    let whole = plain();
    let cut = MemDevice::new(40_000);
    for lba in whole.written_blocks().into_iter().filter(|lba| *lba < 40_000) {
        cut.write(lba, whole.read(lba, 1).expect("in range")).expect("in range");
    }
    expect(cut, &[Issue::DeviceTooSmall { blocks: 40_000, need: 256 * 256 }], 8);
}

/// As Android 15 makes it on pages of 16 KiB. The second copy lies elsewhere there.
#[test]
fn a_volume_with_other_blocks_is_not_called_damaged() {
    let editor = Editor::new(fresh());
    editor.edit(Lba(0), |block| (block[1024 + 12], block[1024 + 16]) = (5, 14));
    editor.edit(Lba(1), |block| block.fill(0));
    let reason = "it has blocks of 16 KiB, and only blocks of 4 KiB are read".to_owned();
    expect(editor.dev.fork(), &[Issue::NotRead { reason }], 8);
}

#[test]
fn one_of_several_devices_is_not_called_cut() {
    let editor = Editor::new(fresh());
    for lba in [0, 1] {
        editor.edit(Lba(lba), |block| {
            let mut superblock = SuperBlock::parse(block).unwrap().raw().clone();
            let segments = superblock.segment_count.get();
            for (device, segments) in superblock.devs.iter_mut().zip([20, segments - 20]) {
                device.path[..6].copy_from_slice(b"/dev/x");
                device.total_segments = segments.into();
            }
            SuperBlock::new(superblock).unwrap().encode_into(block);
        });
    }
    let cut = MemDevice::new(20 * 512);
    for lba in editor.dev.written_blocks().into_iter().filter(|lba| *lba < 20 * 512) {
        cut.write(lba, editor.dev.read(lba, 1).expect("in range")).expect("in range");
    }
    let names = "the volume lies on 2 devices (/dev/x, /dev/x), and only volumes on one are read";
    expect(cut, &[Issue::NotRead { reason: names.to_owned() }], 8);
}

#[test]
fn either_superblock_may_be_damaged() {
    for (lba, offset, reason) in [
        (Lba(0), 0, "superblock: no F2FS magic (found 0xf2f520ef)"),
        (Lba(1), 20, "superblock: log_blocks_per_seg = 246 breaks the rule: is 9 (2 MiB segments)"),
    ] {
        let editor = Editor::new(plain());
        editor.edit(lba, |block| block[1024 + offset] = !block[1024 + offset]);
        expect(editor.dev.fork(), &[Issue::SuperblockBad { lba, reason: reason.to_owned() }], 4);
    }
}

#[test]
fn superblocks_that_differ_are_warned_of() {
    let editor = Editor::new(fresh());
    editor.edit(Lba(1), |block| block[1024 + 124] = b'x');
    expect(editor.dev.fork(), &[Issue::SuperblocksDiffer { offset: 124 }], 0);
}

#[test]
fn what_a_kernel_recorded_is_shown() {
    let editor = Editor::new(fresh());
    editor.superblock(|raw| {
        raw.s_stop_reason[3] = 2;
        raw.s_stop_reason[5] = 1;
    });
    expect(editor.dev.fork(), &[Issue::StopRecorded { reasons: "3 x2, 5 x1".to_owned() }], 0);
    let editor = Editor::new(fresh());
    editor.superblock(|raw| raw.s_errors[1] = 0b101);
    expect(editor.dev.fork(), &[Issue::ErrorsRecorded { bits: "8, 10".to_owned() }], 0);
    let editor = Editor::new(fresh());
    editor.superblock(|raw| raw.feature = (1 << 31).into());
    expect(editor.dev.fork(), &[Issue::UnknownFeatures { bits: 1 << 31 }], 0);
}

#[test]
fn a_volume_of_few_sections_is_warned_of() {
    let editor = Editor::new(fresh());
    editor.superblock(|raw| {
        raw.segs_per_sec = 4.into();
        raw.section_count = 6.into();
    });
    expect(editor.dev.fork(), &[Issue::TooFewSections { sections: 6 }], 0);
}

#[test]
fn the_count_of_mkfs_is_noted() {
    expect(mkfs(300, &["-s", "4"]), &[Issue::FreeSegmentTail { stored: 132, found: 130 }], 0);
}

#[test]
fn the_root_must_be_a_directory() {
    let editor = Editor::new(fresh());
    editor.inode(ROOT_INO, |inode| inode.set_mode(0o120_755));
    let (ino, nid) = (ROOT_INO, ROOT_INO.nid());
    let bad = Issue::RootBad { ino, reason: "it is not a directory".to_owned() };
    // Its other marks are those of a directory.
    let mark = Issue::NodeColdMark { ino, nid, found: 0 };
    let links = Issue::InodeLinks { ino, stored: 2, found: 0 };
    let target = Issue::SymlinkTarget { ino, reason: "4096 bytes, 1 to 4095 can be".to_owned() };
    expect(editor.dev.fork(), &[mark, links, bad, target], 4);
}

/// A chain that contradicts the volume is found by trying to recover it, and only where somebody wants that.
#[test]
fn what_recovery_refuses_is_an_error() {
    let editor = Editor::new(plain());
    let image = editor.image();
    let at = image.log_position(Log::WarmNode);
    let lba = image.layout().lba_of(at.segment, at.next);
    let ino = editor.ino("p/inline");
    let mut footer = NodeFooter::new(ino.nid(), ino, NodeOfs::XATTR, true);
    footer.set_fsync(true);
    footer.set_chain(image.checkpoint().header().footer_version(), lba + 1);
    editor.edit(lba, |block| NodeBlock::view_mut(block).footer = footer);
    let pending = Issue::RollForwardPending { nodes: 1, files: 1 };
    expect(editor.dev.fork(), std::slice::from_ref(&pending), 0);
    let reason = format!("node {ino} of inode {ino} says that its place in the file is {}", NodeOfs::XATTR);
    let options = CheckOptions { threads: 1, rehearse: true, ..CheckOptions::default() };
    let report = run_with(editor.dev.fork(), &options);
    assert_eq!(report.issues, [pending, Issue::MountRefused { reason }]);
    // A volume without a fault is not refused.
    assert!(run_with(plain(), &options).worst() < Some(Severity::Warning));
}
