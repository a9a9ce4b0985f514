//! Our mkfs against mkfs.f2fs 1.15, field by field, and against fsck.f2fs, over sizes, geometries and features.
//!
//! Both programs make a volume with the same arguments; both are decoded. Superblocks must be equal but for the version
//! strings and checksums; checkpoints but for version and checksum; tables and first files as well. Where mkfs.f2fs
//! refuses a size, so must we.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use steadyfs_core::mkfs::{MkfsOptions, MkfsReport, format, parse_features};
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, FileDevice, MemDevice, OpenOptions};
use steadyfs_format::block::BlockView;
use steadyfs_format::checkpoint::{CheckpointHeader, LogPosition};
use steadyfs_format::crc::crc_magic;
use steadyfs_format::inode::{Extent, Inode, Time};
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::{Features, Lba, Log, Pack, zeroed_block};
use steadyfs_testkit::{Uml, fsck_f2fs, mkfs_f2fs};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const UUID: [u8; 16] = [0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc];
const UUID_TEXT: &str = "12345678-1234-1234-1234-123456789abc";
const TIME: i64 = 1_700_000_000;

/// A size and the arguments that mkfs.f2fs gets besides uuid and time.
type Case = (u64, &'static [&'static str]);

/// The options that mean the same to us. `-r` only makes mkfs.f2fs reproducible.
fn options(args: &[&str]) -> MkfsOptions {
    let mut options = MkfsOptions::new(UUID, TIME);
    let mut words = args.iter();
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    while let Some(flag) = words.next() {
        let mut value = || *words.next().expect("the flag has a value");
        match *flag {
            "-s" => options.segs_per_sec = value().parse().expect("a number"),
            "-z" => options.secs_per_zone = value().parse().expect("a number"),
            "-o" => options.overprovision = Some(value().parse().expect("a number")),
            "-O" => options.features = options.features | parse_features(value()).expect("features"),
            "-l" => options.label = value().to_owned(),
            "-e" => options.cold_extensions = list(value()),
            "-E" => options.hot_extensions = list(value()),
            "-t" => options.discard = value() == "1",
            "-i" => options.large_nat = true,
            "-C" => {
                let (encoding, flags) = value().split_once(':').map_or(("utf8", ""), |parts| parts);
                assert_eq!(encoding, "utf8", "the only encoding");
                options.strict_encoding = flags == "strict";
                options.features = options.features | Features::CASEFOLD;
            }
            "-a" => options.heap = value() == "1",
            "-R" => {
                let (user, group) = value().split_once(':').expect("user:group");
                options.root_owner = (user.parse().expect("a number"), group.parse().expect("a number"));
            }
            other => panic!("a flag that the test does not know: {other}"),
        }
    }
    options
}

/// Two images in a directory that goes away.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory for images") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(path: &Path) -> Image {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let dev: Arc<dyn Device> = Arc::new(FileDevice::open(path, options).expect("the image can be opened"));
        Image::open(dev).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn theirs(&self, (bytes, args): Case) -> steadyfs_testkit::Result<Image> {
        let path = self.path("theirs");
        let all: Vec<&str> =
            ["-f", "-r", "-U", UUID_TEXT, "-T", "1700000000"].into_iter().chain(args.iter().copied()).collect();
        mkfs_f2fs(&path, bytes, &all)?;
        Ok(Self::open(&path))
    }

    fn ours(&self, (bytes, args): Case) -> steadyfs_core::Result<MkfsReport> {
        let options = OpenOptions { create: Some(bytes), ..OpenOptions::default() };
        let path = self.path("ours");
        let _ = std::fs::remove_file(&path);
        let dev = FileDevice::open(&path, options).expect("the image can be made");
        format(&dev, &self::options(args))
    }
}

/// Makes both volumes and compares them; fsck.f2fs must find nothing in ours.
fn compare(case: Case) {
    let bench = Bench::new();
    let theirs = bench.theirs(case).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let report = bench.ours(case).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let ours = Bench::open(&bench.path("ours"));
    assert_eq!(&report.superblock, ours.superblock(), "{case:?}");
    assert_eq!(superblock(&ours), superblock(&theirs), "{case:?}");
    assert_eq!(ours.superblocks().copy(1).expect("good"), ours.superblock(), "{case:?}: the second superblock");
    assert_eq!(header(&ours, 0), header(&theirs, miscount(&theirs)), "{case:?}");
    assert_eq!(ours.pack(), Pack::One, "{case:?}");
    assert_eq!(ours.packs().version(Pack::Two).expect("whole"), 0, "{case:?}");
    assert_eq!(ours.nat_journal(), theirs.nat_journal(), "{case:?}");
    assert_eq!(ours.sit_journal(), theirs.sit_journal(), "{case:?}");
    for log in Log::ALL {
        assert_eq!(ours.pack_summary(log), theirs.pack_summary(log), "{case:?}: {log} summary");
    }
    assert_eq!(ours.nat_bits().expect("readable"), theirs.nat_bits().expect("readable"), "{case:?}");
    let nodes = first_blocks(&ours, Log::HotNode);
    for ((lba, ours), (_, theirs)) in nodes.iter().zip(first_blocks(&theirs, Log::HotNode)) {
        assert_eq!(inode(ours), inode(&theirs), "{case:?}: node at {lba}");
        let (features, seed) = (report.superblock.features(), report.superblock.inode_checksum_seed());
        let checked = ours.verify_checksum(features, seed).and_then(|()| ours.validate(features));
        assert!(checked.is_ok(), "{case:?}: node at {lba}: {checked:?}");
    }
    drop((ours, theirs));
    fsck_f2fs(bench.path("ours")).unwrap_or_else(|error| panic!("{case:?}: {error}"));
}

/// Named values, so that a difference is a line that one can read.
type Fields = Vec<(&'static str, u64)>;

macro_rules! fields {
    ($from:expr, $($field:ident),*) => {
        vec![$((stringify!($field), u64::from($from.$field.get()))),*]
    };
}

/// The superblock's numbers, and the bytes of everything but what says who made the volume.
fn superblock(image: &Image) -> (Fields, u32) {
    let raw = image.superblock().raw();
    let fields = fields!(
        raw,
        major_ver,
        minor_ver,
        log_sectorsize,
        log_sectors_per_block,
        log_blocksize,
        log_blocks_per_seg,
        segs_per_sec,
        secs_per_zone,
        checksum_offset,
        block_count,
        section_count,
        segment_count,
        segment_count_ckpt,
        segment_count_sit,
        segment_count_nat,
        segment_count_ssa,
        segment_count_main,
        segment0_blkaddr,
        cp_blkaddr,
        sit_blkaddr,
        nat_blkaddr,
        ssa_blkaddr,
        main_blkaddr,
        extension_count,
        cp_payload,
        feature,
        s_encoding,
        s_encoding_flags
    );
    let mut rest: RawSuperBlock = raw.clone();
    (rest.version, rest.init_version) = ([0; 256], [0; 256]);
    rest.encrypt_pw_salt = [0; 16];
    rest.crc = 0.into();
    let mut block = zeroed_block();
    rest.write(&mut block);
    (fields, crc_magic(&block))
}

macro_rules! values {
    ($from:expr, $($field:ident),*) => {
        vec![$((stringify!($field), u64::from($from.$field()))),*]
    };
}

/// Segments that mkfs.f2fs counts as free although they lie behind the last whole zone. fsck.f2fs calls that a fault,
/// so we do not.
fn miscount(image: &Image) -> u32 {
    let layout = image.layout();
    let left = layout.block_count - layout.main_end().get();
    assert!(
        left < 512 * u64::from(layout.segs_per_sec * layout.secs_per_zone + 1),
        "less than a zone and a segment is left"
    );
    (left / 512) as u32
}

/// The checkpoint's numbers, log positions, and the bytes of everything but version and checksum. Free segments are
/// counted without `miscount`.
fn header(image: &Image, miscount: u32) -> (Fields, Vec<(Log, LogPosition)>, u32) {
    let mut rest: CheckpointHeader = image.checkpoint().header().clone();
    rest.set_free_segments(rest.free_segments() - miscount);
    rest.set_version(0);
    rest.seal();
    let header = &rest;
    let mut fields = values!(
        header,
        user_blocks,
        valid_blocks,
        reserved_segments,
        overprov_segments,
        free_segments,
        pack_blocks,
        start_sum,
        valid_nodes,
        valid_inodes,
        sit_bitmap_bytes,
        nat_bitmap_bytes,
        elapsed_time
    );
    fields.push(("next_free_nid", header.next_free_nid().get().into()));
    fields.push(("flags", header.flags().bits().into()));
    fields.push(("checksum_offset", header.checksum_offset() as u64));
    let logs = Log::ALL.map(|log| (log, header.log(log))).to_vec();
    (fields, logs, rest.stored_checksum())
}

fn first_blocks(image: &Image, log: Log) -> Vec<(Lba, Inode)> {
    let position = image.log_position(log);
    let lbas = (0..position.next).map(|offset| image.layout().lba_of(position.segment, offset));
    lbas.map(|lba| (lba, image.read_block(lba).expect("readable").with(|block| Inode::view(block).clone()))).collect()
}

/// An inode without what mkfs.f2fs leaves open or gets wrong: the marks and links of the footer, the creation time of
/// quota files, the flag NOATIME that Linux gives them, and the checksum that follows.
fn inode(inode: &Inode) -> Inode {
    let mut inode = inode.clone();
    let all = Features::from_bits(u32::MAX);
    inode.footer.set_cold(false);
    inode.footer.set_chain(0, Lba(0));
    inode.set_crtime(all, Time::default());
    inode.set_flags(inode.flags() & !steadyfs_format::inode::flags::NOATIME);
    inode.set_extent(Extent::default());
    let crc_free = inode.has_checksum(all);
    let mut block = inode.to_block();
    if crc_free {
        block[368..372].fill(0);
    }
    Inode::view(&block).clone()
}

#[test]
fn sizes() {
    let sizes = [52, 54, 56, 60, 64, 72, 96, 100, 128, 200, 256, 500, 512, 530, 540, 777, 1000];
    for mib in sizes {
        compare((mib * MIB, &[]));
    }
    compare((64 * MIB + 12_345 * 512, &[]));
}

#[test]
fn large_sizes() {
    for bytes in [2 * GIB, 10 * GIB, 33 * GIB, 60 * GIB, 100 * GIB, TIB] {
        compare((bytes, &[]));
    }
}

/// The NAT shrinks, then the SIT bitmap moves into the payload.
#[test]
fn huge_sizes() {
    for bytes in [3 * TIB, 7 * TIB / 2] {
        compare((bytes, &[]));
    }
}

#[test]
fn sections_and_zones() {
    let cases: [Case; 19] = [
        (76 * MIB, &["-s", "2"]),
        (128 * MIB, &["-s", "4"]),
        (512 * MIB, &["-s", "2"]),
        (515 * MIB, &["-s", "4"]),
        (GIB, &["-s", "8"]),
        (GIB + 6 * MIB, &["-s", "8"]),
        (4 * GIB, &["-s", "32"]),
        (20 * GIB, &["-s", "128"]),
        (200 * MIB, &["-z", "2"]),
        (513 * MIB, &["-z", "5"]),
        (600 * MIB, &["-s", "2", "-z", "3"]),
        (GIB, &["-s", "4", "-z", "2"]),
        (2 * GIB, &["-s", "3", "-z", "3"]),
        (3 * GIB, &["-s", "7"]),
        (9 * GIB, &["-s", "5", "-z", "2"]),
        (52 * MIB, &["-a", "1"]),
        (256 * MIB, &["-a", "0"]),
        (300 * MIB, &["-a", "1", "-s", "2"]),
        (GIB, &["-a", "1", "-s", "2"]),
    ];
    cases.into_iter().for_each(compare);
}

#[test]
fn overprovisioning_and_node_ids() {
    let cases: [Case; 10] = [
        (256 * MIB, &["-o", "10"]),
        (256 * MIB, &["-o", "33.3"]),
        (512 * MIB, &["-o", "5"]),
        (2 * GIB, &["-o", "7.25"]),
        (20 * GIB, &["-o", "1"]),
        (GIB, &["-s", "2", "-o", "20"]),
        (256 * MIB, &["-i"]),
        (10 * GIB, &["-i"]),
        (300 * GIB, &["-i"]),
        (600 * MIB, &["-o", "60"]),
    ];
    cases.into_iter().for_each(compare);
}

#[test]
fn features() {
    let cases: [Case; 17] = [
        (100 * MIB, &["-O", "extra_attr"]),
        (100 * MIB, &["-O", "sb_checksum"]),
        (100 * MIB, &["-O", "lost_found"]),
        (100 * MIB, &["-O", "extra_attr,inode_checksum"]),
        (100 * MIB, &["-O", "extra_attr,inode_checksum,sb_checksum,inode_crtime,lost_found"]),
        (100 * MIB, &["-O", "extra_attr,flexible_inline_xattr"]),
        (100 * MIB, &["-O", "extra_attr,project_quota"]),
        (100 * MIB, &["-O", "quota"]),
        (100 * MIB, &["-O", "extra_attr,project_quota,quota,lost_found,inode_checksum"]),
        (200 * MIB, &["-O", "extra_attr,quota,lost_found,inode_crtime", "-s", "2"]),
        (100 * MIB, &["-O", "encrypt"]),
        (100 * MIB, &["-O", "verity"]),
        (100 * MIB, &["-O", "extra_attr,compression"]),
        (100 * MIB, &["-C", "utf8"]),
        (100 * MIB, &["-C", "utf8:strict"]),
        (100 * MIB, &["-l", "Ein Name: ✓ 🦀", "-e", "foo,avi,bar", "-E", "baz,db"]),
        (100 * MIB, &["-t", "0", "-R", "1000:100", "-O", "lost_found"]),
    ];
    cases.into_iter().for_each(compare);
}

/// Quota files count what the owner of the root has; fsck.f2fs counts again.
#[test]
fn quota_of_a_root_with_another_owner() {
    let case: Case = (100 * MIB, &["-R", "1000:4000000000", "-O", "extra_attr,quota,project_quota,lost_found"]);
    let bench = Bench::new();
    bench.ours(case).expect("made");
    fsck_f2fs(bench.path("ours")).expect("clean");
}

/// The smallest volume that mkfs.f2fs makes is the smallest that we make.
#[test]
fn sizes_that_are_refused() {
    let bench = Bench::new();
    let geometries: [(&[&str], std::ops::Range<u64>); 5] = [
        (&[], 19..60),
        (&["-s", "2"], 60..110),
        (&["-s", "4"], 96..140),
        (&["-z", "2"], 60..110),
        (&["-o", "20"], 19..90),
    ];
    for (args, sizes) in geometries {
        for mib in sizes.step_by(2) {
            let theirs = bench.theirs((mib * MIB, args)).map(drop).map_err(|error| error.to_string());
            let ours = format(&MemDevice::new(mib * 256), &options(args)).map(drop).map_err(|error| error.to_string());
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{mib} MiB {args:?}\nours: {ours:?}\ntheirs: {theirs:?}");
        }
    }
}

/// The real kernel mounts what we make, writes to it, and fsck.f2fs agrees afterwards.
#[test]
fn linux_mounts_and_fills_new_volumes() {
    let cases: [Case; 3] = [
        (64 * MIB, &[]),
        (
            100 * MIB,
            &[
                "-O",
                "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,quota,project_quota",
            ],
        ),
        (300 * MIB, &["-s", "2", "-z", "2", "-i"]),
    ];
    for case in cases {
        let bench = Bench::new();
        bench.ours(case).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        let script = "mount -t f2fs /dev/ubda $MNT\n\
            mkdir $MNT/d\n\
            for i in $(seq 300); do echo $i >$MNT/d/file-$i; done\n\
            dd if=/dev/zero of=$MNT/big bs=1M count=8 2>/dev/null\n\
            ls $MNT/d | wc -l";
        let out = Uml::new()
            .disk(bench.path("ours"))
            .script(script)
            .run()
            .unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert_eq!(out.stdout, "300\n", "{case:?}");
        fsck_f2fs(bench.path("ours")).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    }
}
