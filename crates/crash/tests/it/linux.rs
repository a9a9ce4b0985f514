//! A sample of crash states before fsck.f2fs and the real kernel: both must find them sound, and the kernel's own
//! recovery must come to the tree that ours comes to, unless the block that ends a checkpoint was torn.

use std::sync::Arc;
use std::time::Duration;
use steadyfs_crash::{Effort, Exploration, VolumeKind, Volumes, Workload, generate};
use steadyfs_device::{Device, FileDevice, MemDevice, OpenOptions};
use steadyfs_testkit::linux::mount_command;
use steadyfs_testkit::{TempImage, Uml, fsck_f2fs};

/// States that are shown to Linux, unless STEADYFS_ORACLE_SAMPLE says how many.
const SAMPLE: usize = 60;
/// One state of so many is in the sample.
const STRIDE: usize = 20;
/// Workloads left out: with one operation there is little to disagree about.
const SKIPPED: usize = 500;
/// Disks in one machine.
const BATCH: usize = 12;

/// One state in a file.
struct Sample {
    exploration: Arc<Exploration>,
    number: usize,
    image: TempImage,
}

/// So many states of these workloads.
fn sample(workloads: impl Iterator<Item = Workload>, count: usize) -> Vec<Sample> {
    let volumes = Volumes::default();
    let mut samples = Vec::new();
    let mut turn = 0;
    for (workload, seed) in workloads.zip(1..) {
        let exploration = Exploration::new(&workload, Effort::USUAL, seed, &volumes).expect("the workload runs");
        let exploration = Arc::new(exploration);
        for number in 0..exploration.states() {
            turn += 1;
            if samples.len() == count {
                return samples;
            }
            if turn % STRIDE == 0 {
                let image = TempImage::new().expect("a place for an image");
                store(&exploration.state(number), &image);
                samples.push(Sample { exploration: Arc::clone(&exploration), number, image });
            }
        }
    }
    samples
}

/// Writes a volume to a file, leaving holes.
fn store(device: &MemDevice, image: &TempImage) {
    let size = device.info().blocks * 4096;
    steadyfs_testkit::sparse::create_sparse(&image.path(), size).expect("a file");
    let file = FileDevice::open(image.path(), OpenOptions::default()).expect("opens");
    for block in device.written_blocks() {
        file.write(block, vec![device.read_one(block).expect("in range")]).expect("writes");
    }
    file.flush().expect("flushes");
}

/// Lets the kernel recover every sample, a machine for each batch.
fn let_linux_recover(samples: &[Sample]) {
    for batch in samples.chunks(BATCH) {
        // A checkpoint pack that was not finished is no news after a crash.
        let mut machine = Uml::new().timeout(Duration::from_secs(120)).expect("invalid crc");
        for (sample, letter) in batch.iter().zip('a'..) {
            machine = machine.disk(sample.image.path());
            machine = machine.script(mount_command(&format!("/dev/ubd{letter}"), "")).script("umount $MNT");
        }
        machine.run().unwrap_or_else(|e| {
            let states: Vec<String> = batch.iter().map(|s| s.exploration.describe(s.number)).collect();
            panic!("{e}\nwith one of\n{}", states.join("\n"))
        });
    }
}

#[test]
fn fsck_and_the_kernel_agree() {
    agree(&["", "fsync_mode=strict"]);
}

#[test]
fn fsck_and_the_kernel_agree_on_logs_that_fill_holes() {
    agree(&["mode=adaptive,ssr=eager"]);
}

fn agree(mounts: &[&str]) {
    let count = std::env::var("STEADYFS_ORACLE_SAMPLE").map_or(SAMPLE, |count| count.parse().expect("a number"));
    let samples = sample(generate::everything(mounts, VolumeKind::F2fs, 11).skip(SKIPPED), count);
    assert_eq!(samples.len(), count);
    let mut faults = Vec::new();
    for sample in &samples {
        if let Err(e) = fsck_f2fs(sample.image.path()) {
            faults.push(format!("fsck.f2fs: {e}\nafter {}", sample.exploration.describe(sample.number)));
        }
    }
    let_linux_recover(&samples);
    for sample in &samples {
        if sample.exploration.tears_a_pack(sample.number) {
            continue;
        }
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let device = FileDevice::open(sample.image.path(), options).expect("opens");
        if let Err(why) = sample.exploration.compare(sample.number, Arc::new(device)) {
            faults.push(format!("after Linux' recovery: {why}\nafter {}", sample.exploration.describe(sample.number)));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), samples.len(), faults.join("\n"));
}
