//! Tables of sfdisk, and tables that mean harm.

use steadyfs_device::{MemDevice, PageBuf};
use steadyfs_testkit::Rng;

use super::*;

#[path = "made.rs"]
mod made;

const DISK: u64 = 192 << 20;

/// A disk with these bytes.
fn disk(runs: &[(u64, &str)]) -> MemDevice {
    let disk = MemDevice::new(DISK / BLOCK_SIZE as u64);
    for (at, hex) in runs {
        let byte = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).unwrap();
        put(&disk, *at, &(0..hex.len()).step_by(2).map(byte).collect::<Vec<_>>());
    }
    disk
}

/// Changes bytes of one block.
fn put(disk: &MemDevice, at: u64, bytes: &[u8]) {
    let (block, skip) = (at / BLOCK_SIZE as u64, (at % BLOCK_SIZE as u64) as usize);
    let mut page: [u8; BLOCK_SIZE] = *disk.read_one(block).unwrap().to_array();
    page[skip..skip + bytes.len()].copy_from_slice(bytes);
    disk.write(block, vec![PageBuf::from_slice(&page)]).unwrap();
}

fn found(disk: &MemDevice) -> Option<Vec<(u32, u64, u64, String)>> {
    let table = read(disk).unwrap()?;
    Some(table.partitions.into_iter().map(|p| (p.number, p.start / SECTOR, p.bytes / SECTOR, p.label)).collect())
}

#[test]
fn an_mbr_has_its_logical_partitions_from_5_on() {
    let partitions = [
        (1, 2048, 16_384, "type 0x0c".to_owned()),
        (5, 20_480, 131_072, "type 0x83".to_owned()),
        (6, 153_600, 131_072, "type 0x83".to_owned()),
    ];
    assert_eq!(found(&disk(made::MBR)).unwrap(), partitions);
}

#[test]
fn a_gpt_is_read_by_its_second_copy_if_the_first_is_damaged() {
    let partitions = [
        (1, 2048, 16_384, "`boot`".to_owned()),
        (2, 20_480, 131_072, "type 0FC63DAF-8483-4772-8E79-3D69D8477DE4".to_owned()),
    ];
    let disk = disk(made::GPT);
    assert_eq!(found(&disk).unwrap(), partitions);
    // A byte of the first table, then one of the second header.
    put(&disk, 1024 + 32, &[9]);
    assert_eq!(found(&disk).unwrap(), partitions);
    put(&disk, DISK - SECTOR + 40, &[9]);
    assert_eq!(found(&disk), None, "no sum is right");
}

#[test]
fn a_boot_sector_without_partitions_is_no_table() {
    assert_eq!(found(&disk(&[])), None);
    assert_eq!(found(&disk(&[(510, "55aa")])), None);
    assert_eq!(found(&MemDevice::new(0)), None);
}

/// An extended partition that leads to itself, one that leads beyond the disk, and tables that are all partitions.
#[test]
fn tables_that_lead_nowhere_end() {
    let circle = disk(made::MBR);
    let second = 151_552 * SECTOR;
    // The second extended table leads back to the first.
    put(&circle, second + 446 + 16, &[0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(found(&circle).unwrap().len(), 3);
    for beyond in [u32::MAX, DISK as u32 / 512] {
        let disk = disk(made::MBR);
        put(&disk, 446 + 16 + 8, &beyond.to_le_bytes());
        assert_eq!(found(&disk).unwrap().len(), 1);
    }
}

/// Gives the disk a GPT header with right sums and these numbers: entries, bytes of each, and where they are.
fn gpt_with(disk: MemDevice, count: u32, size: u32, at: u64) -> MemDevice {
    put(&disk, DISK - SECTOR, &[0; 512]);
    let mut header = bytes(&disk, SECTOR, 512).unwrap().unwrap();
    header[72..80].copy_from_slice(&at.to_le_bytes());
    header[80..84].copy_from_slice(&count.to_le_bytes());
    header[84..88].copy_from_slice(&size.to_le_bytes());
    let length = (count as usize).saturating_mul(size as usize).min(1 << 21);
    let table = bytes(&disk, at.saturating_mul(SECTOR), length).unwrap().unwrap_or_default();
    header[88..92].copy_from_slice(&crc32fast::hash(&table).to_le_bytes());
    header[16..20].fill(0);
    let sum = crc32fast::hash(&header[..92]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    put(&disk, SECTOR, &header);
    disk
}

#[test]
fn counts_of_a_gpt_are_not_believed() {
    assert_eq!(found(&gpt_with(disk(made::GPT), 128, 128, 2)).unwrap().len(), 2);
    for (count, size, at) in [
        (u32::MAX, 128, 2),
        (u32::MAX, u32::MAX, 2),
        (8193, 128, 2),
        (128, 0, 2),
        (128, 100, 2),
        (128, 8192, 2),
        (128, 128, u64::MAX),
        (128, 128, DISK / SECTOR),
    ] {
        assert_eq!(found(&gpt_with(disk(made::GPT), count, size, at)), None, "{count} of {size} at {at}");
    }
    // More entries than are counted.
    let full = disk(made::GPT);
    for block in 16..272 {
        full.write(block, vec![PageBuf::from_slice(&[1; BLOCK_SIZE])]).unwrap();
    }
    assert_eq!(found(&gpt_with(full, 8192, 128, 128)).unwrap().len(), MOST);
}

#[test]
fn a_partition_that_ends_before_it_begins_has_no_length() {
    let partition = Partition::new(1, (u64::MAX / 4, 1), SECTOR, String::new());
    assert_eq!((partition.bytes, partition.end()), (0, u64::MAX));
    let mut entry = [0; 128];
    entry[32] = 9;
    assert_eq!(gpt_entry(&entry, 1, SECTOR).bytes, 0);
    entry[32] = 0;
    entry[40..48].fill(0xFF);
    assert_eq!(gpt_entry(&entry, 1, SECTOR).bytes, 0);
}

/// Whatever stands there, reading it ends.
#[test]
fn arbitrary_tables_are_read_to_the_end() {
    let mut rng = Rng(7);
    let mut random = move || rng.bits() >> 33;
    for _ in 0..2000 {
        let disk = disk(if random() % 2 == 0 { made::MBR } else { made::GPT });
        for _ in 0..1 + random() % 4 {
            let sectors = [0, 0, 1, 2, 18_432, 151_552];
            let at = sectors[(random() % 6) as usize] * SECTOR + 440 * (random() % 2) + random() % 72;
            put(&disk, at, &[random() as u8]);
        }
        assert!(found(&disk).is_none_or(|all| all.len() <= MOST));
    }
}
