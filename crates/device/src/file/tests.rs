//! Tests of file devices: contents against a model, locks, sizes, discards, on every engine and on both kinds of file
//! system.

use super::*;
use crate::{BLOCK_SIZE, IoResult, Op, OpKind, PageBuf, StreamHint, errno};
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use steadyfs_rt::{Completion, Pending, sleep, spawn};
use tempfile::TempDir;

const ENGINES: [Engine; 3] = [Engine::Uring, Engine::Threads, Engine::Inline];

/// A directory on a disk's file system and, where there is one, a directory in memory.
pub(crate) fn dirs() -> Vec<TempDir> {
    let disk = tempfile::tempdir().expect("a directory in the system's place for temporary files");
    let memory = tempfile::tempdir_in("/dev/shm");
    std::iter::once(disk).chain(memory).collect()
}

/// Every combination of directory, engine and direct I/O that this machine can open.
fn for_each_device(blocks: u64, test: impl Fn(FileDevice, &Path)) {
    let mut engines_seen = 0;
    for dir in dirs() {
        for engine in ENGINES {
            for direct in [Direct::Off, Direct::On] {
                let path = dir.path().join(format!("{engine:?}-{direct:?}"));
                let options = OpenOptions { engine, direct, ..create(blocks << 12) };
                match FileDevice::open(&path, options) {
                    Ok(device) => {
                        assert!(device.engine() == engine || engine == Engine::Uring, "only io_uring may be missing");
                        engines_seen += 1;
                        test(device, &path);
                    }
                    Err(error) => assert!(direct == Direct::On, "{error}"),
                }
            }
        }
    }
    assert!(engines_seen >= ENGINES.len());
}

pub(crate) fn page(byte: u8) -> PageBuf {
    PageBuf::from_slice(&[byte; BLOCK_SIZE])
}

fn create(bytes: u64) -> OpenOptions {
    OpenOptions { create: Some(bytes), ..OpenOptions::default() }
}

/// One step of a random run.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Write { block: u64, pages: Vec<PageBuf>, fua: bool },
    Read { block: u64, count: u64 },
    Discard { block: u64, count: u64 },
    Flush,
}

const BLOCKS: u64 = 40;

fn pages() -> impl Strategy<Value = Vec<PageBuf>> {
    let one = prop_oneof![
        any::<u8>().prop_map(page),
        any::<[u8; 16]>().prop_map(PageBuf::synthetic),
        Just(PageBuf::zeroed()),
        proptest::collection::vec(any::<u8>(), 0..64).prop_map(|bytes| PageBuf::from_slice(&bytes)),
    ];
    proptest::collection::vec(one, 0..8)
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..BLOCKS - 8, pages(), any::<bool>()).prop_map(|(block, pages, fua)| Step::Write { block, pages, fua }),
        3 => (0..BLOCKS - 8, 0u64..8).prop_map(|(block, count)| Step::Read { block, count }),
        1 => (0..BLOCKS - 8, 0u64..8).prop_map(|(block, count)| Step::Discard { block, count }),
        1 => Just(Step::Flush),
    ]
}

/// Reads into memory that begins `skew` bytes behind the start of a page.
fn read_bytes(device: &dyn Device, block: u64, count: u64, skew: usize) -> Result<Vec<PageBuf>, IoError> {
    let len = count as usize * BLOCK_SIZE;
    let mut memory = vec![0xEE; len + 2 * BLOCK_SIZE];
    let start = memory.as_ptr().align_offset(BLOCK_SIZE) + skew;
    let read = device.read_bytes(block, &mut memory[start..start + len]);
    assert!(memory[..start].iter().chain(&memory[start + len..]).all(|byte| *byte == 0xEE), "written beside it");
    read.map(|()| memory[start..start + len].chunks(BLOCK_SIZE).map(PageBuf::from_slice).collect())
}

/// Runs the steps on a device, from block `first` on, and on a vector of pages; a discarded block may read as it was or
/// as zero.
pub(crate) fn agree_with_model(device: &dyn Device, first: u64, steps: &[Step]) {
    let mut model = vec![PageBuf::zeroed(); BLOCKS as usize];
    for step in steps.iter().cloned().chain([Step::Read { block: 0, count: BLOCKS }]) {
        match step {
            Step::Write { block, pages, fua } => {
                model[block as usize..][..pages.len()].clone_from_slice(&pages);
                let hint = StreamHint::NodeHot;
                device.run(Op::Write { block: first + block, pages, hint, fua }).expect("in range");
            }
            Step::Read { block, count } => {
                let expected = &model[block as usize..][..count as usize];
                assert_eq!(device.read(first + block, count).expect("in range"), expected);
                // Where it lies in memory makes no difference.
                for skew in [0, 8] {
                    assert_eq!(read_bytes(device, first + block, count, skew).expect("in range"), expected);
                }
            }
            Step::Discard { block, count } => {
                if device.discard(first + block, count).is_ok() {
                    let left = device.read(first + block, count).expect("in range");
                    let range = &mut model[block as usize..][..count as usize];
                    assert!(left.iter().zip(&*range).all(|(new, old)| new == old || *new == PageBuf::zeroed()));
                    range.clone_from_slice(&left);
                }
            }
            Step::Flush => device.flush().expect("flushes"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_engine_agrees_with_the_model(steps in proptest::collection::vec(step(), 1..40)) {
        for_each_device(BLOCKS, |device, path| {
            agree_with_model(&device, 0, &steps);
            let before = device.read(0, BLOCKS).expect("in range");
            drop(device);
            let again = FileDevice::open(path, OpenOptions { read_only: true, ..OpenOptions::default() }).expect("opens");
            assert_eq!(again.read(0, BLOCKS).expect("in range"), before, "what was written is in the file");
        });
        agree_with_model(&crate::MemDevice::new(BLOCKS), 0, &steps);
    }
}

#[test]
fn large_requests_are_cut_and_put_together() {
    for_each_device(5000, |device, _| {
        let pages: Vec<PageBuf> = (0..4000u64).map(|i| PageBuf::from_slice(&i.to_le_bytes())).collect();
        device.write(500, pages.clone()).expect("in range");
        assert!(device.read(500, 4000).expect("in range") == pages);
        device
            .run(Op::Write { block: 0, pages: pages.clone(), hint: StreamHint::DataCold, fua: true })
            .expect("in range");
        assert!(device.read(0, 4000).expect("in range") == pages);
    });
}

#[test]
fn many_threads_and_more_requests_than_slots() {
    for_each_device(4096, |device, _| {
        let (device, pending, failed) = (Arc::new(device), Arc::new(Pending::new()), Arc::new(AtomicU64::new(0)));
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (device, pending, failed) = (Arc::clone(&device), Arc::clone(&pending), Arc::clone(&failed));
                spawn("writer", move || {
                    let request = |block: u64| {
                        let (pending, failed) = (Arc::clone(&pending), Arc::clone(&failed));
                        let op = Op::Write { block, pages: vec![tag(block)], hint: StreamHint::DataHot, fua: false };
                        Request::new(op, move |result| {
                            failed.fetch_add(u64::from(result.is_err()), Ordering::SeqCst);
                            pending.done(1);
                        })
                    };
                    pending.add(1024);
                    device.submit((0..1024).map(|i| request(writer * 1024 + i)).collect());
                    // The thread ends while its requests are in flight.
                })
            })
            .collect();
        assert!(writers.into_iter().all(|writer| writer.join().is_ok()));
        pending.wait_zero();
        assert_eq!(failed.load(Ordering::SeqCst), 0);
        let read = device.read(0, 4096).expect("in range");
        assert!(read.iter().enumerate().all(|(block, page)| *page == tag(block as u64)));
    });
}

fn tag(block: u64) -> PageBuf {
    PageBuf::from_slice(&(block ^ 0x5a5a).to_le_bytes())
}

#[test]
fn completions_may_submit_and_may_drop_the_device() {
    for_each_device(64, |device, path| {
        let (device, end) = (Arc::new(device), Completion::<IoResult>::new());
        chain(Arc::clone(&device), 0, end.clone());
        drop(device); // the chain holds the last reference and drops it in a completion
        assert!(end.wait().is_ok());
        // The lock goes with the device, which its last completion may still be dropping.
        let again = (0..200).find_map(|_| {
            sleep(Duration::from_millis(5));
            FileDevice::open(path, OpenOptions::default()).ok()
        });
        assert_eq!(again.expect("the lock is released").read_one(63).expect("in range"), tag(63));
    });
}

/// Writes block after block, each from the completion of the one before.
fn chain(device: Arc<FileDevice>, block: u64, end: Completion<IoResult>) {
    let op = Op::Write { block, pages: vec![tag(block)], hint: StreamHint::DataHot, fua: false };
    let next = Arc::clone(&device);
    let request = Request::new(op, move |result| match result {
        Ok(_) if block < 63 => chain(next, block + 1, end),
        result => {
            drop(next);
            end.complete(result);
        }
    });
    device.submit(vec![request]);
}

#[test]
fn one_writer_or_many_readers() {
    for dir in dirs() {
        let path = dir.path().join("image");
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        let writer = FileDevice::open(&path, create(1 << 20)).expect("creates");
        for options in [OpenOptions::default(), read_only] {
            let error = FileDevice::open(&path, options).map(drop).expect_err("locked");
            assert!(error.to_string().ends_with("is in use by another process"), "{error}");
            assert_eq!(error.errno(), errno::EBUSY);
        }
        drop(writer);
        let readers = [(); 2].map(|()| FileDevice::open(&path, read_only).expect("readers share"));
        assert!(FileDevice::open(&path, OpenOptions::default()).is_err(), "a writer does not join readers");
        let error = readers[0].write(0, vec![page(1)]).expect_err("read-only");
        assert_eq!((error.errno(), error.op), (errno::EROFS, OpKind::Write));
        drop(readers);
        assert!(FileDevice::open(&path, OpenOptions::default()).is_ok());
    }
}

#[test]
fn offsets_and_sizes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let open = |options| FileDevice::open(&path, options);
    let whole = open(create(10 << 12)).expect("creates");
    whole.write(0, (0..10).map(tag).collect()).expect("in range");
    drop(whole);
    let part = OpenOptions { offset_bytes: 2 << 12, size: Some(3 << 12), ..OpenOptions::default() };
    let device = open(part).expect("opens");
    assert_eq!(device.info().blocks, 3);
    assert_eq!(device.read(0, 3).expect("in range"), [tag(2), tag(3), tag(4)]);
    assert_eq!(device.read(3, 1).expect_err("outside").errno(), errno::EINVAL);
    device.write(2, vec![tag(99)]).expect("in range");
    drop(device);
    let longer = OpenOptions { size: Some(12 << 12), ..OpenOptions::default() };
    let device = open(longer).expect("a file may be shorter than the device");
    let zero = PageBuf::zeroed();
    assert_eq!(device.read(8, 4).expect("in range"), [tag(8), tag(9), zero.clone(), zero.clone()]);
    device.write(11, vec![tag(11)]).expect("extends the file");
    assert_eq!(device.read(10, 2).expect("in range"), [zero, tag(11)]);
    assert_eq!(device.read_one(4).expect("in range"), tag(99));
    drop(device);
    let beyond = OpenOptions { offset_bytes: 12 << 12, ..OpenOptions::default() };
    assert!(matches!(open(beyond).map(drop), Err(OpenError::TooSmall { have: 0, .. })));
    let absurd = OpenOptions { offset_bytes: u64::MAX - 4096, size: Some(1 << 20), ..OpenOptions::default() };
    assert!(matches!(open(absurd).map(drop), Err(OpenError::Unsupported { .. })));
    assert_eq!(open(create(1 << 30)).expect("opens").info().blocks, 12, "an existing file keeps its size");
}

#[test]
fn unaligned_offsets_work_through_the_cache_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    std::fs::write(&path, [[0u8; 100].as_slice(), &[7; 8192], &[9; 50]].concat()).expect("writes");
    let options = OpenOptions { offset_bytes: 100, ..OpenOptions::default() };
    let device = FileDevice::open(&path, options).expect("opens");
    assert_eq!(device.info().blocks, 2, "a piece of a block at the end is not used");
    assert_eq!(device.read(0, 2).expect("in range"), [page(7), page(7)]);
    drop(device);
    if FileDevice::open(&path, OpenOptions { direct: Direct::On, ..OpenOptions::default() }).is_ok() {
        let direct = FileDevice::open(&path, OpenOptions { direct: Direct::On, ..options });
        if let Ok(device) = direct {
            assert_eq!(device.read(0, 2).expect("where the offset is accepted"), [page(7), page(7)]);
        }
    }
}

#[test]
fn what_is_not_a_device_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = |path: &Path| FileDevice::open(path, OpenOptions::default()).map(drop).expect_err("no device");
    let error = open(dir.path());
    assert!(error.to_string().ends_with("is a directory, not a file or block device"), "{error}");
    assert!(open(Path::new("/dev/null")).to_string().contains("a character device"));
    let missing = open(&dir.path().join("missing"));
    assert!(matches!(&missing, OpenError::System { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").expect("writes");
    assert!(matches!(open(&empty), OpenError::TooSmall { have: 0, want: 4096, .. }));
    let new = dir.path().join("new");
    let read_only = OpenOptions { read_only: true, ..create(1 << 20) };
    assert!(FileDevice::open(&new, read_only).is_err() && !new.exists());
    let too_small = FileDevice::open(&new, create(100));
    assert!(too_small.is_err() && !new.exists(), "a file that could not be used is not left behind");
}

#[test]
fn discards_punch_holes() {
    for_each_device(1024, |device, path| {
        device.write(0, (0..1024).map(|_| page(1)).collect()).expect("in range");
        device.flush().expect("flushes");
        let full = std::fs::metadata(path).expect("there").blocks();
        assert!(device.info().discard);
        device.discard(128, 512).expect("punches");
        device.flush().expect("flushes");
        let meta = std::fs::metadata(path).expect("there");
        assert!(meta.blocks() <= full - 512 * 8 + 64, "{} of {full} sectors left", meta.blocks());
        assert_eq!(meta.len(), 4 << 20, "the size stays");
        let read = device.read(127, 3).expect("in range");
        assert_eq!(read, [page(1), PageBuf::zeroed(), PageBuf::zeroed()]);
        assert_eq!(device.read_one(640).expect("in range"), page(1));
    });
}

#[test]
fn a_file_that_shrinks_gives_errors_with_their_address() {
    for_each_device(16, |device, path| {
        std::fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(4 << 12)).expect("truncates");
        assert!(device.read(0, 4).is_ok());
        let error = device.read(2, 4).expect_err("beyond the end");
        assert_eq!((error.op, error.block, error.count, error.errno()), (OpKind::Read, 2, 4, errno::EIO));
    });
}

/// A loop device over a file, taken apart when dropped. `None` where this user or machine has no loop devices.
struct Loop {
    path: String,
    backing: tempfile::NamedTempFile,
}

impl Loop {
    fn new(bytes: u64) -> Option<Self> {
        let backing = tempfile::NamedTempFile::new().expect("a file");
        backing.as_file().set_len(bytes).expect("grows");
        let made = std::process::Command::new("losetup").args(["-f", "--show"]).arg(backing.path()).output().ok()?;
        let path = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        (made.status.success() && !path.is_empty()).then_some(Loop { path, backing })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["-d", &self.path]).status();
    }
}

#[test]
fn block_devices() {
    let Some(device) = Loop::new(8 << 20) else {
        eprintln!("no loop devices here: block devices are not tested");
        return;
    };
    for engine in ENGINES {
        let options = OpenOptions { engine, ..OpenOptions::default() };
        let opened = FileDevice::open(&device.path, options).expect("opens");
        assert_eq!(opened.info().blocks, 2048);
        let error = FileDevice::open(&device.path, OpenOptions::default()).map(drop).expect_err("in use");
        assert!(matches!(error, OpenError::InUse { .. }), "{error}");
        let pages: Vec<PageBuf> = (0..2048).map(tag).collect();
        opened.write(0, pages.clone()).expect("in range");
        opened.flush().expect("flushes");
        assert!(opened.read(0, 2048).expect("in range") == pages);
        let full = device.backing.as_file().metadata().expect("there").blocks();
        if opened.info().discard {
            opened.discard(512, 1024).expect("discards");
            opened.flush().expect("flushes");
            let left = device.backing.as_file().metadata().expect("there").blocks();
            assert!(left <= full - 1024 * 8 + 64, "{left} of {full} sectors left");
        }
        assert_eq!(opened.read_one(511).expect("in range"), tag(511));
        assert_eq!(opened.read_one(1536).expect("in range"), tag(1536));
    }
    let too_large = OpenOptions { size: Some(16 << 20), ..OpenOptions::default() };
    assert!(matches!(FileDevice::open(&device.path, too_large), Err(OpenError::TooSmall { .. })));
    let automatic = FileDevice::open(&device.path, OpenOptions::default()).expect("opens");
    assert_ne!(automatic.engine(), Engine::Inline);
}

#[test]
fn waiting_callers_do_their_own_operations() {
    for dir in dirs() {
        let device = FileDevice::open(dir.path().join("image"), create(64 << 12)).expect("opens");
        assert!(device.at_once);
        device.write(7, vec![page(1), page(2)]).expect("in range");
        device.flush().expect("flushes");
        assert_eq!(device.read(6, 4).expect("in range"), [PageBuf::zeroed(), page(1), page(2), PageBuf::zeroed()]);
        device.discard(7, 1).expect("discards");
        assert_eq!(device.read_one(8).expect("in range"), page(2));
        for skew in [0, 8] {
            assert_eq!(read_bytes(&device, 7, 2, skew).expect("in range"), [PageBuf::zeroed(), page(2)]);
            let error = read_bytes(&device, 63, 2, skew).expect_err("out of range");
            assert_eq!((error.op, error.block, error.count, error.errno()), (OpKind::Read, 63, 2, errno::EINVAL));
        }
        std::fs::OpenOptions::new()
            .write(true)
            .open(dir.path().join("image"))
            .and_then(|f| f.set_len(9 << 12))
            .expect("cut");
        let error = read_bytes(&device, 8, 2, 0).expect_err("beyond the end");
        assert_eq!((error.op, error.block, error.count, error.errno()), (OpKind::Read, 8, 2, errno::EIO));
        device.write(63, vec![page(0)]).expect("in range");
        assert_eq!(device.read(63, 2).expect_err("out of range").op, OpKind::Read);
        assert_eq!(device.write(64, vec![page(3)]).expect_err("out of range").op, OpKind::Write);
    }
}

/// What mount(2) of a block device does first: claims it for itself.
fn claim(path: &str) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::EXCL.bits().cast_signed();
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[test]
fn a_device_can_be_left_to_be_mounted() {
    let Some(device) = Loop::new(8 << 20) else {
        eprintln!("no loop devices here: block devices are not tested");
        return;
    };
    let mountable = OpenOptions { leave_mountable: true, ..OpenOptions::default() };
    let kept = FileDevice::open(&device.path, OpenOptions::default()).expect("opens");
    assert!(claim(&device.path).is_err(), "the device was not claimed");
    drop(kept);
    let opened = FileDevice::open(&device.path, mountable).expect("opens");
    let claimed = claim(&device.path).expect("it was left to be claimed");
    opened.write(3, vec![tag(3)]).expect("still ours to write");
    drop(claimed);
    let refused = |options| matches!(FileDevice::open(&device.path, options).map(drop), Err(OpenError::InUse { .. }));
    assert!(refused(OpenOptions::default()) && refused(mountable), "two have the device open for writing");
    drop(opened);
    // Mounted: not even then.
    let _claimed = claim(&device.path).expect("free");
    assert!(refused(mountable), "a mounted device was opened for writing");
}

#[test]
fn opening_can_wait_for_the_one_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let first = FileDevice::open(&path, create(1 << 20)).expect("opens");
    let patience =
        |millis| OpenOptions { patience: std::time::Duration::from_millis(millis), ..OpenOptions::default() };
    let start = steadyfs_rt::now();
    let error = FileDevice::open(&path, patience(50)).map(drop).expect_err("in use all the time");
    assert!(matches!(error, OpenError::InUse { .. }) && start.elapsed().as_millis() >= 50, "{error}");
    let second = steadyfs_rt::spawn("second", move || FileDevice::open(&path, patience(60_000)).map(drop));
    steadyfs_rt::sleep(std::time::Duration::from_millis(30));
    drop(first);
    second.join().expect("no panic").expect("the first let go");
}

/// How many pages of a file the system still has to write, if it can tell (Linux 6.5).
#[expect(unsafe_code, reason = "a system call that nobody has wrapped")]
fn dirty_pages(file: &std::fs::File, pages: usize) -> Option<u64> {
    use std::os::fd::AsRawFd;
    // cachestat(2) on every architecture.
    const CACHESTAT: libc::c_long = 451;
    let (range, mut counts) = ([0, (pages * BLOCK_SIZE) as u64], [0u64; 5]);
    // SAFETY: cachestat reads two u64 and writes five, at addresses that are theirs.
    let failed = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    (failed == 0).then_some(counts[1])
}

#[test]
fn what_collectors_write_does_not_wait_for_a_flush() {
    const PAGES: usize = 64;
    let dir = tempfile::tempdir().expect("a directory in the system's place for temporary files");
    for engine in [Engine::Threads, Engine::Inline] {
        let path = dir.path().join(format!("{engine:?}"));
        let device = FileDevice::open(&path, OpenOptions { engine, ..create(1 << 20) }).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let op = Op::Write { block: 0, pages: vec![page(7); PAGES], hint: StreamHint::DataCold, fua: false };
        device.run(op).unwrap();
        let began = steadyfs_rt::now();
        // The system by itself begins after 30 seconds.
        while let Some(left) = dirty_pages(&file, PAGES)
            && left > 0
        {
            assert!(began.elapsed() < Duration::from_secs(10), "{engine:?}: {left} pages still lie in the cache");
            sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_file_tells_what_it_keeps_room_for() {
    for dir in dirs() {
        let device = FileDevice::open(dir.path().join("sparse"), create(1 << 30)).unwrap();
        assert_eq!(device.held_from(0).unwrap(), None);
        device.write(1000, vec![page(1); 3]).unwrap();
        device.write(200_000, vec![page(2)]).unwrap();
        assert_eq!(device.held_from(0).unwrap(), Some(1000..1003));
        assert_eq!(device.held_from(1001).unwrap(), Some(1001..1003));
        assert_eq!(device.held_from(1003).unwrap(), Some(200_000..200_001));
        device.discard(1000, 2).unwrap();
        assert_eq!(device.held_from(0).unwrap(), Some(1002..1003));
        assert_eq!(device.held_from(200_001).unwrap(), None);
        assert_eq!(device.held_from(1 << 18).unwrap(), None);
    }
}

#[test]
fn what_is_made_is_its_owners_and_never_behind_a_symlink() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (file, loose) = (dir.path().join("file"), dir.path().join("loose"));
    drop(FileDevice::open(&file, create(1 << 20)).unwrap());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    symlink(dir.path().join("nothing"), &loose).unwrap();
    let refused = FileDevice::open(&loose, create(1 << 20)).err().unwrap();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    let only_new = OpenOptions { only_new: true, ..create(1 << 20) };
    for there in [&file, &loose] {
        let refused = FileDevice::open(there, only_new).err().unwrap();
        let OpenError::System { source, .. } = &refused else { panic!("{refused}") };
        assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
    }
    assert!(!dir.path().join("nothing").exists());
    drop(FileDevice::open(dir.path().join("new"), only_new).unwrap());
}
