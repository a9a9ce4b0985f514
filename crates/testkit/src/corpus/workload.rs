//! Lists of operations with a purpose of their own: what a volume has been through before it is looked at.

use serde::{Deserialize, Serialize};

use super::data::mix;
use super::{CorpusOp, Data, Falloc, Spec};

/// What to do to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// The tree of corner cases.
    Corners(Spec),
    /// Files that are made durable one by one after a checkpoint, by operations for which F2FS writes no further
    /// checkpoint: a crash leaves a chain of nodes to roll forward (format section 12). Some changes are not made
    /// durable.
    FsyncChain,
    /// As [`Workload::FsyncChain`], with what is rarer: names given anew, ranges moved, nodes and attributes freed,
    /// large files, many files.
    FsyncShapes,
    /// As [`Workload::FsyncChain`], with operations that make F2FS write a checkpoint at fsync (format section 12.2).
    FsyncCheckpoint,
    /// Fills a volume with this many MiB, in files that are deleted, overwritten at random and made again, so that
    /// segments are partly valid and logs re-enter them.
    Aged {
        /// Contents in the end.
        mib: u64,
    },
    /// Files in a directory of this name whose contents compress well, badly, in part, or not at all, of sizes around
    /// those of blocks and clusters, written at once and piecemeal (format section 7.4).
    Compressible {
        /// The directory, which is made.
        dir: String,
    },
    /// Files and directories without names that are still open, in a checkpoint (format section 13).
    Orphans {
        /// How many; more than 1020 need a second orphan block.
        count: usize,
    },
}

const BLOCK: u64 = 4096;

impl Workload {
    /// The operations, for an empty directory.
    pub fn ops(&self) -> Vec<CorpusOp> {
        match self {
            Self::Corners(spec) => spec.ops(),
            Self::FsyncChain => fsync_chain(),
            Self::FsyncShapes => fsync_shapes(),
            Self::FsyncCheckpoint => [fsync_chain(), fsync_checkpoint()].concat(),
            Self::Aged { mib } => aged(*mib),
            Self::Compressible { dir } => compressible(dir),
            Self::Orphans { count } => orphans(*count),
        }
    }
}

fn path(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn create(file: &str) -> CorpusOp {
    CorpusOp::Create { path: path(file), mode: 0o644 }
}

fn write(file: &str, seed: u64, offset: u64, len: u64) -> CorpusOp {
    CorpusOp::Write { path: path(file), offset, data: Data::Text { seed, len } }
}

fn fsync(file: &str) -> CorpusOp {
    CorpusOp::Fsync { path: path(file) }
}

fn xattr(file: &str, name: &str, len: usize) -> CorpusOp {
    CorpusOp::SetXattr { path: path(file), name: path(name), value: vec![b'x'; len] }
}

fn fallocate(file: &str, how: Falloc, offset: u64, len: u64) -> CorpusOp {
    CorpusOp::Fallocate { path: path(file), how, offset, len }
}

/// Existing files, checkpointed; then changes to them and new files, each made durable unless its name says `lost`.
fn fsync_chain() -> Vec<CorpusOp> {
    let mut ops = vec![CorpusOp::Mkdir { path: path("f"), mode: 0o755 }];
    let existing =
        ["overwritten", "appended", "cut", "grown", "punched", "reserved", "attributes", "mode", "lost-change", "gone"];
    for name in existing {
        ops.extend([create(&format!("f/{name}")), write(&format!("f/{name}"), 1, 0, 10 * BLOCK)]);
    }
    for name in ["inline", "inline-leaves", "inline-attributes"] {
        ops.extend([create(&format!("f/{name}")), write(&format!("f/{name}"), 1, 0, 500)]);
    }
    ops.push(CorpusOp::Sync);
    let truncate = |file: &str, size| CorpusOp::Truncate { path: path(file), size };
    let changes: Vec<(&str, Vec<CorpusOp>)> = vec![
        ("f/overwritten", vec![write("f/overwritten", 2, 3 * BLOCK, 4 * BLOCK)]),
        ("f/appended", vec![write("f/appended", 2, 10 * BLOCK, 1500 * BLOCK)]),
        ("f/cut", vec![truncate("f/cut", 5000)]),
        ("f/grown", vec![truncate("f/grown", 1 << 20)]),
        ("f/punched", vec![fallocate("f/punched", Falloc::PunchHole, 2 * BLOCK, 5 * BLOCK)]),
        ("f/reserved", vec![fallocate("f/reserved", Falloc::KeepSize, 10 * BLOCK, 20 * BLOCK)]),
        ("f/attributes", vec![xattr("f/attributes", "user.a", 50), xattr("f/attributes", "user.b", 1000)]),
        ("f/mode", vec![CorpusOp::Chmod { path: path("f/mode"), mode: 0o4711 }]),
        ("f/inline", vec![write("f/inline", 2, 100, 300)]),
        ("f/inline-leaves", vec![write("f/inline-leaves", 2, 500, 9000)]),
        ("f/inline-attributes", vec![xattr("f/inline-attributes", "user.a", 30)]),
        ("f/new", vec![create("f/new"), write("f/new", 3, 0, 6 * BLOCK + 7)]),
        ("f/new-empty", vec![create("f/new-empty")]),
        ("f/new-inline", vec![create("f/new-inline"), write("f/new-inline", 3, 0, 100)]),
        ("f/new-sparse", vec![create("f/new-sparse"), write("f/new-sparse", 3, 3000 * BLOCK, 2 * BLOCK)]),
        ("f/new-attributes", vec![create("f/new-attributes"), xattr("f/new-attributes", "user.a", 2000)]),
    ];
    for (file, change) in changes {
        ops.extend(change);
        ops.push(fsync(file));
        // The same file again: later blocks of the chain replace earlier ones.
        if file.starts_with("f/o") || file.starts_with("f/new-s") {
            ops.extend([write(file, 4, BLOCK, BLOCK), fsync(file)]);
        }
    }
    // Not durable: what becomes of these is decided by what else F2FS has written.
    ops.extend([create("f/lost-new"), write("f/lost-new", 5, 0, 5000), write("f/lost-change", 5, 0, 5000)]);
    ops.push(CorpusOp::Unlink { path: path("f/gone") });
    ops
}

fn fsync_shapes() -> Vec<CorpusOp> {
    let file = |name: &str| format!("s/{name}");
    let mut ops = vec![CorpusOp::Mkdir { path: path("s"), mode: 0o755 }];
    for (name, blocks) in [
        ("replaced", 10),
        ("replaced-inline", 10),
        ("zeroed", 20),
        ("collapsed", 20),
        ("inserted", 20),
        ("emptied", 20),
        ("regrown", 20),
        ("unlabelled", 1),
        ("relabelled", 1),
        ("large", 3000),
        ("large-cut", 3000),
        ("log", 1),
    ] {
        ops.extend([create(&file(name)), write(&file(name), 1, 0, blocks * BLOCK)]);
    }
    ops.extend([xattr("s/unlabelled", "user.a", 2000), xattr("s/relabelled", "user.a", 2000), CorpusOp::Sync]);
    let truncate = |name: &str, size| CorpusOp::Truncate { path: path(&file(name)), size };
    let unlink = |name: &str| CorpusOp::Unlink { path: path(&file(name)) };
    let range = |name: &str, how, first: u64, blocks: u64| fallocate(&file(name), how, first * BLOCK, blocks * BLOCK);
    let changes: Vec<(&str, Vec<CorpusOp>)> = vec![
        ("replaced", vec![unlink("replaced"), create("s/replaced"), write("s/replaced", 2, 0, 30_000)]),
        (
            "replaced-inline",
            vec![unlink("replaced-inline"), create("s/replaced-inline"), write("s/replaced-inline", 2, 0, 9)],
        ),
        ("replaced", vec![unlink("replaced"), create("s/replaced"), write("s/replaced", 3, 0, 5000)]),
        ("zeroed", vec![range("zeroed", Falloc::Zero, 3, 5)]),
        ("collapsed", vec![write("s/collapsed", 2, 8 * BLOCK, 4 * BLOCK), range("collapsed", Falloc::Collapse, 2, 4)]),
        ("inserted", vec![write("s/inserted", 2, 8 * BLOCK, 4 * BLOCK), range("inserted", Falloc::Insert, 5, 7)]),
        ("emptied", vec![truncate("emptied", 0)]),
        (
            "regrown",
            vec![truncate("regrown", 0), truncate("regrown", 70_000), write("s/regrown", 2, 5 * BLOCK, 3 * BLOCK)],
        ),
        ("unlabelled", vec![CorpusOp::RemoveXattr { path: path("s/unlabelled"), name: path("user.a") }]),
        ("relabelled", vec![xattr("s/relabelled", "user.a", 2100), xattr("s/relabelled", "user.b", 20)]),
        ("large", vec![write("s/large", 2, 900 * BLOCK, 1800 * BLOCK), range("large", Falloc::PunchHole, 1200, 900)]),
        ("large", vec![write("s/large", 3, 2990 * BLOCK, 1500 * BLOCK)]),
        ("large-cut", vec![truncate("large-cut", 1500 * BLOCK + 100)]),
        ("new-large", vec![create("s/new-large"), write("s/new-large", 2, 100, 2100 * BLOCK)]),
    ];
    for (name, change) in changes {
        ops.extend(change);
        ops.push(fsync(&file(name)));
    }
    for n in 0..40 {
        ops.extend([write("s/log", n, BLOCK + n * 700, 700), fsync("s/log")]);
    }
    for n in 0..250 {
        let many = format!("s/many-{n}");
        ops.extend([create(&many), write(&many, n, 0, n * 50), fsync(&many)]);
    }
    ops
}

fn fsync_checkpoint() -> Vec<CorpusOp> {
    vec![
        create("f/linked"),
        CorpusOp::Link { existing: path("f/linked"), new: path("f/linked-again") },
        fsync("f/linked"),
        create("f/renamed-from"),
        write("f/renamed-from", 6, 0, 9000),
        fsync("f/renamed-from"),
        CorpusOp::Rename { from: path("f/renamed-from"), to: path("f/renamed") },
        fsync("f/renamed"),
        CorpusOp::Mkdir { path: path("f/new-dir"), mode: 0o755 },
        create("f/new-dir/file"),
        write("f/new-dir/file", 6, 0, 9000),
        fsync("f/new-dir/file"),
        // After the last checkpoint again a chain.
        write("f/renamed", 7, 9000, 9000),
        fsync("f/renamed"),
        create("f/last"),
        write("f/last", 7, 0, 100),
        fsync("f/last"),
        create("f/lost-last"),
    ]
}

/// Three rounds: fill with files of 128 KiB, delete every second, overwrite single blocks in the rest, fill the gaps
/// with files of 12 KiB.
fn aged(mib: u64) -> Vec<CorpusOp> {
    const LARGE: u64 = 32;
    const SMALL: u64 = 3;
    let blocks = (mib << 20) / BLOCK;
    let mut ops = vec![CorpusOp::Mkdir { path: path("aged"), mode: 0o755 }];
    let large = |n: u64| format!("aged/large-{n}");
    let count = blocks / LARGE;
    for n in 0..count {
        ops.extend([create(&large(n)), write(&large(n), n, 0, LARGE * BLOCK)]);
    }
    ops.push(CorpusOp::Sync);
    for n in (0..count).filter(|n| n % 2 == 1) {
        ops.push(CorpusOp::Unlink { path: path(&large(n)) });
    }
    ops.push(CorpusOp::Sync);
    for round in 0..3 {
        for k in 0..count * 3 {
            let n = mix(k, round) % count;
            if n.is_multiple_of(2) {
                ops.push(write(&large(n), k, mix(n, k) % LARGE * BLOCK, BLOCK));
            }
        }
        ops.push(CorpusOp::Sync);
        // A node block for each file, too.
        for n in 0..count * LARGE / (SMALL + 1) / 8 {
            let file = format!("aged/small-{round}-{n}");
            ops.extend([create(&file), write(&file, n, 0, SMALL * BLOCK)]);
        }
        ops.push(CorpusOp::Sync);
    }
    ops
}

fn compressible(dir: &str) -> Vec<CorpusOp> {
    let mut ops = vec![CorpusOp::Mkdir { path: path(dir), mode: 0o755 }];
    let noise = |len| Data::Noise { seed: 1, len };
    for size in [1, 100, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_536, 65_537, 300_000] {
        let file = format!("{dir}/text-{size}");
        ops.extend([create(&file), write(&file, size, 0, size)]);
    }
    let file = |name: &str| format!("{dir}/{name}");
    let all = ["noise", "mixed", "sparse", "overwritten", "appended", "cut", "zeros"];
    ops.extend(all.map(|name| create(&file(name))));
    let text = |name: &str, offset, len| write(&file(name), 9, offset, len);
    let put = |name: &str, offset, data| CorpusOp::Write { path: path(&file(name)), offset, data };
    ops.extend([
        put("noise", 0, noise(20_000)),
        text("mixed", 0, 100_000),
        put("mixed", 16_384, noise(16_384)),
        put("mixed", 50_000, noise(3000)),
        text("sparse", 5 * 16_384 + 3 * BLOCK, BLOCK),
        text("sparse", 1024 * BLOCK, 100_000),
        text("overwritten", 0, 200_000),
        put("zeros", 0, Data::Zeros { len: 100_000 }),
        text("cut", 0, 200_000),
        CorpusOp::Sync,
        write(&file("overwritten"), 10, 70_000, 5000),
        CorpusOp::Truncate { path: path(&file("cut")), size: 70_001 },
    ]);
    for n in 0..10 {
        ops.extend([text("appended", n * 7000, 7000), fsync(&file("appended"))]);
    }
    ops
}

fn orphans(count: usize) -> Vec<CorpusOp> {
    let mut ops = vec![CorpusOp::Mkdir { path: path("o"), mode: 0o755 }, create("o/stays"), CorpusOp::Sync];
    for n in 0..count {
        let file = format!("o/{n}");
        match n % 50 {
            7 => ops.push(CorpusOp::Mkdir { path: path(&file), mode: 0o755 }),
            8 => ops.extend([create(&file), write(&file, 1, 2000 * BLOCK, 3 * BLOCK), xattr(&file, "user.a", 2000)]),
            9 => ops.extend([create(&file), write(&file, 1, 0, 40 * BLOCK)]),
            _ => ops.push(create(&file)),
        }
        ops.push(CorpusOp::Orphan { path: path(&file) });
    }
    ops.push(CorpusOp::Sync);
    ops
}
