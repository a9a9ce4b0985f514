//! The subjects that are about the contents of files: inline, in blocks at every node level, with holes, reserved, cut.

use super::tree::Tree;
use super::{CorpusOp, Data, Falloc};

/// Blocks of a direct node, and nids of an indirect one (format section 7).
const PER_NODE: u64 = 1018;
const BLOCK: u64 = 4096;
/// The largest file of the format: Linux's limit (format section 7.3).
const MAX_SIZE: u64 = 4_329_687_105_536;
/// Addresses in an inode: without and with extra attributes (9 words), each without and with inline xattrs (50 words).
const INODE_SLOTS: [u64; 4] = [923, 914, 873, 864];
/// Bytes of inline data for the same four layouts.
const INLINE_SIZES: [u64; 4] = [3688, 3652, 3488, 3452];

impl Tree<'_> {
    /// Sizes around every limit of inline data, and files that leave it.
    pub(super) fn inline(&mut self) {
        self.dir("inline");
        let around = |n: u64| [n - 1, n, n + 1];
        let limits = INLINE_SIZES.into_iter().chain([BLOCK, 2 * BLOCK]).flat_map(around);
        for size in [0, 1, 2, 100].into_iter().chain(limits) {
            self.file(format!("inline/size-{size}"), size);
        }
        self.file("inline/grown", 3000);
        self.write("inline/grown", 3000, 3000);
        self.file("inline/grown-by-truncate", 100);
        self.truncate("inline/grown-by-truncate", 10_000);
        self.file("inline/shrunk", 3400);
        self.truncate("inline/shrunk", 10);
        self.truncate("inline/shrunk", 3400);
        self.file("inline/left-and-back", 5000);
        self.truncate("inline/left-and-back", 50);
        self.empty("inline/written-in-the-middle");
        self.write("inline/written-in-the-middle", 1000, 10);
        self.file("inline/with-xattr", 3000);
        self.xattr("inline/with-xattr", "user.a", [1; 120]);
    }

    /// Data at the ends of every node level, and without holes.
    pub(super) fn blocks(&mut self) {
        self.dir("blocks");
        self.file("blocks/dense", self.spec.dense_mib << 20);
        self.write("blocks/dense", 12_345, 100);
        if !self.spec.sparse {
            return;
        }
        for slots in INODE_SLOTS {
            let path = format!("blocks/levels-{slots}");
            self.empty(&path);
            for first in level_starts(slots) {
                self.write(&path, first * BLOCK - 5, 10);
            }
        }
        // Exactly one level each.
        for (level, first) in ["inode", "direct1", "direct2", "indirect1", "indirect2", "double"]
            .iter()
            .zip([0].into_iter().chain(level_starts(864)).map(|first| first + 70))
        {
            let path = format!("blocks/only-{level}");
            self.empty(&path);
            self.write(&path, first * BLOCK, 2 * BLOCK);
        }
        self.empty("blocks/largest");
        self.write("blocks/largest", MAX_SIZE - 1, 1);
        self.empty("blocks/largest-empty");
        self.truncate("blocks/largest-empty", MAX_SIZE);
    }

    pub(super) fn holes(&mut self) {
        self.dir("holes");
        self.empty("holes/leading");
        self.write("holes/leading", 100_000, 10);
        self.file("holes/trailing", 10);
        self.truncate("holes/trailing", 1 << 20);
        self.empty("holes/nothing-else");
        self.truncate("holes/nothing-else", 1 << 30);
        self.empty("holes/every-second-block");
        for n in 0..40 {
            self.write("holes/every-second-block", n * 2 * BLOCK, BLOCK);
        }
        self.empty("holes/written-zeros");
        let path = b"holes/written-zeros".to_vec();
        self.ops.push(CorpusOp::Write { path, offset: BLOCK, data: Data::Zeros { len: 3 * BLOCK } });
        self.file("holes/overwritten", 50_000);
        self.ops.push(CorpusOp::Sync);
        self.write("holes/overwritten", 4095, 2);
        self.write("holes/overwritten", 20_000, 10_000);
    }

    pub(super) fn falloc(&mut self) {
        self.dir("fallocate");
        for (name, how, offset, len) in [
            ("allocated", Falloc::Allocate, 0, 16 * BLOCK),
            ("allocated-odd", Falloc::Allocate, 1000, 50_000),
            ("keep-size", Falloc::KeepSize, 0, 16 * BLOCK),
            ("keep-size-behind", Falloc::KeepSize, 100 * BLOCK, BLOCK),
        ] {
            let path = format!("fallocate/{name}");
            self.file(&path, 5000);
            self.fallocate(&path, how, offset, len);
        }
        self.empty("fallocate/partly-written");
        self.fallocate("fallocate/partly-written", Falloc::Allocate, 0, 32 * BLOCK);
        self.write("fallocate/partly-written", 5 * BLOCK + 7, 3 * BLOCK);
        self.file("fallocate/keep-size-cut", 5000);
        self.fallocate("fallocate/keep-size-cut", Falloc::KeepSize, 0, 16 * BLOCK);
        self.truncate("fallocate/keep-size-cut", 6000);
        let punches = [
            ("blocks", 4 * BLOCK, 8 * BLOCK),
            ("odd", 10_000, 30_000),
            ("inside-one", 100, 200),
            ("end", 60_000, 99_999),
        ];
        for (name, offset, len) in punches {
            let path = format!("fallocate/punched-{name}");
            self.file(&path, 20 * BLOCK);
            self.fallocate(&path, Falloc::PunchHole, offset, len);
        }
        self.file("fallocate/punched-inline", 2000);
        self.fallocate("fallocate/punched-inline", Falloc::PunchHole, 100, 500);
        if !self.spec.falloc {
            return;
        }
        for (name, how, offset, len) in [
            ("zeroed", Falloc::Zero, 5000, 20_000),
            ("zeroed-past-end", Falloc::Zero, 18 * BLOCK, 10 * BLOCK),
            ("zeroed-keep-size", Falloc::ZeroKeepSize, 18 * BLOCK, 10 * BLOCK),
            ("collapsed", Falloc::Collapse, 4 * BLOCK, 3 * BLOCK),
            ("inserted", Falloc::Insert, 4 * BLOCK, 3 * BLOCK),
        ] {
            let path = format!("fallocate/{name}");
            self.file(&path, 20 * BLOCK + 77);
            self.fallocate(&path, how, offset, len);
        }
    }

    /// Files that were larger once: whole subtrees of nodes disappear.
    pub(super) fn truncated(&mut self) {
        self.dir("truncated");
        if self.spec.sparse {
            for (n, keep) in [0, 5000, 864 * BLOCK, 1900 * BLOCK, 2_000_000 * BLOCK + 1].into_iter().enumerate() {
                let path = format!("truncated/sparse-{n}");
                self.empty(&path);
                for first in level_starts(864) {
                    self.write(&path, first * BLOCK - 5, 10);
                }
                self.ops.push(CorpusOp::Sync);
                self.truncate(&path, keep);
            }
        }
        self.file("truncated/odd", 50_000);
        self.truncate("truncated/odd", 33_333);
        self.truncate("truncated/odd", 44_444);
        self.file("truncated/to-nothing", 50_000);
        self.truncate("truncated/to-nothing", 0);
    }
}

/// The first block of each level after the inode, for an inode with `slots` addresses: the two direct nodes, the two
/// indirect ones, the double indirect one, and within that the second indirect node.
fn level_starts(slots: u64) -> impl Iterator<Item = u64> {
    let indirect = PER_NODE * PER_NODE;
    let lengths = [PER_NODE, PER_NODE, indirect, indirect, indirect];
    let mut start = slots;
    std::iter::once(slots).chain(lengths.into_iter().map(move |length| {
        start += length;
        start
    }))
}
