//! Compressed files, laid out by hand: no Linux that the tests can start writes them, and neither do we.

use super::*;
use crate::files::mapping::LeafOrGap;
use crate::gate::Want;
use crate::volume::nodes::slots::Area;
use crate::{Error, Whence};
use steadyfs_format::inode::{CompressAlgorithm, CompressInfo, flags};
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::{Features, Slot, SuperBlock};

/// Pages in a cluster.
const CLUSTER: u64 = 4;
/// Slots of an inode with 36 bytes of extra attributes and 50 words of inline attributes: a whole number of clusters.
const INODE_SLOTS: u64 = 864;

fn text(n: u64) -> Vec<u8> {
    let mut text = format!("cluster {n} holds this line and then again ").repeat(500).into_bytes();
    text.truncate((CLUSTER * 4096) as usize);
    text
}

fn compressed(n: u64) -> Vec<u8> {
    let data = lz4_flex::block::compress(&text(n));
    let mut head = [0; 24];
    head[..4].copy_from_slice(&(data.len() as u32).to_le_bytes());
    head[4..8].copy_from_slice(&steadyfs_format::crc::crc_magic(&data).to_le_bytes());
    [&head[..], &data].concat()
}

/// Puts a compressed cluster into four slots, which a plain file has at these pages.
fn put_cluster(fs: &Fs, file: &InodeRef, first: u64, bytes: &[u8]) {
    let data: Vec<u8> =
        bytes.iter().copied().chain(std::iter::repeat(0)).take(bytes.len().next_multiple_of(4096)).collect();
    fs.fallocate(file, crate::FallocMode::Allocate { keep_size: false }, first * 4096, CLUSTER * 4096).unwrap();
    fs.write_direct(file, (first + 1) * 4096, &data).unwrap();
    let _change = fs.files.gate.begin(Want::default()).unwrap();
    let LeafOrGap::Leaf(leaf) = fs.vol.leaf(&file.inode, PageIndex(first)).unwrap() else { panic!("no node") };
    let mut guard = leaf.node.write(&fs.vol.nodes);
    let area = Area::of(guard.bytes(), fs.vol.sb.features()).unwrap();
    area.set(guard.edit(), leaf.slot_of(PageIndex(first)), Slot::Compress);
}

/// Marks the volume as one that has compressed files.
fn add_feature(device: &MemDevice) {
    for copy in [0, 1] {
        let mut block = *device.read_one(copy).unwrap().to_array();
        let mut raw = RawSuperBlock::read(&block);
        raw.feature = (raw.feature.get() | Features::COMPRESSION.bits()).into();
        SuperBlock::new(raw).unwrap().encode_into(&mut block);
        device.write(copy, vec![PageBuf::from_slice(&block)]).unwrap();
    }
}

/// A volume with a file that has, from its first page on: a compressed cluster, a plain one, a hole, a compressed
/// cluster, and compressed ones at the beginning of both direct nodes.
fn prepared() -> Arc<MemDevice> {
    let device = fresh();
    let fs = mount(&device, "");
    let file = create_with(&fs, "compressed", inline::XATTR);
    put_cluster(&fs, &file, 0, &compressed(0));
    fs.write_direct(&file, CLUSTER * 4096, &text(1)).unwrap();
    put_cluster(&fs, &file, 3 * CLUSTER, &compressed(3));
    put_cluster(&fs, &file, INODE_SLOTS, &compressed(4));
    // A direct node of a compressed file leaves its last two slots unused, so its second node begins two pages earlier.
    put_cluster(&fs, &file, INODE_SLOTS + 1018, &compressed(5));
    {
        let change = fs.files.gate.begin(Want::default()).unwrap();
        let features = fs.vol.sb.features() | Features::COMPRESSION;
        fs.vol
            .edit_inode(&change, &file.inode, |raw| {
                raw.set_flags(flags::COMPR);
                raw.set_size((INODE_SLOTS + 1016 + CLUSTER) * 4096 - 100);
                let algorithm = CompressAlgorithm::Lz4;
                let info = CompressInfo { saved_blocks: 4 * 3, algorithm, log_cluster: 2, checksum: true, level: 0 };
                assert!(raw.set_compress_info(features, info));
            })
            .unwrap();
    }
    fs.unmount().unwrap();
    add_feature(&device);
    device
}

#[test]
fn clusters_are_expanded_wherever_their_slots_are() {
    let device = prepared();
    check(&device);
    let fs = mount(&device, "ro,cache=1M");
    let file = open(&fs, "compressed");
    let clusters = [(0, Some(0)), (1, Some(1)), (2, None), (3, Some(3)), (216, Some(4)), (470, Some(5))];
    for (at, n) in clusters {
        let expected = n.map_or(vec![0; 16384], text);
        for (from, len) in [(0, 16384 - 100), (5000, 3000), (4096, 4096), (16000, 100)] {
            for direct in [true, false, false] {
                let mut back = vec![0xEE; len];
                let off = at * CLUSTER * 4096 + from as u64;
                let n = if direct { fs.read_direct(&file, off, &mut back) } else { fs.read(&file, off, &mut back) };
                assert_eq!(n.unwrap(), len);
                assert!(back == expected[from..from + len], "cluster {at} from {from}");
            }
        }
    }
    let whole = read_all(&fs, &file);
    assert_eq!(whole[3 * 16384..4 * 16384], text(3));
    assert_eq!(whole[470 * 16384..], text(5)[..16384 - 100]);
    assert_eq!(fs.seek(&file, 5, Whence::Data).unwrap(), 5);
    assert!(matches!(fs.write(&file, 0, b"x"), Err(Error::ReadOnly(_))));
}

#[test]
fn a_damaged_cluster_is_an_error() {
    let device = prepared();
    let fs = mount(&device, "ro");
    let file = open(&fs, "compressed");
    let Slot::At(block) = fs.vol.extents(&file.inode, PageIndex(1)..PageIndex(2)).unwrap()[0].slot else {
        panic!("no block")
    };
    let mut page = device.read_one(block.get()).unwrap();
    page.make_mut()[100] ^= 1;
    device.write(block.get(), vec![page]).unwrap();
    assert!(matches!(fs.read(&file, 0, &mut [0; 10]), Err(Error::Format(_))), "the checksum tells");
    assert_eq!(fs.read(&file, 16384, &mut [0; 10]).unwrap(), 10, "other clusters can be read");
}
