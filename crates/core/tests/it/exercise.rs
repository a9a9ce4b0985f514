//! 100,000 random operations of every kind on one file, through the library, with a cache too small for it: buffered,
//! past the cache, and both mixed. The seeds are fixed.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use steadyfs_core::{FallocMode, Fs, InodeRef, MountOptions, NewInode, SetAttr};
use steadyfs_device::{Device, FileDevice, OpenOptions};
use steadyfs_testkit::exerciser::{Exercised, Failure, OpKind, Plan, exercise};
use steadyfs_testkit::{fsck_f2fs, mkfs_f2fs};

const NAME: &[u8] = b"exercised";

/// A file of a mounted volume.
struct Open {
    inode: InodeRef,
    fs: Arc<Fs>,
}

/// Where the volume lies.
enum Image {
    File(PathBuf),
    /// With the mount options.
    Memory(Arc<dyn Device>, &'static str),
}

/// The file as the exerciser has it: to reopen it the volume is mounted anew.
struct File {
    image: Image,
    open: Option<Open>,
}

impl File {
    fn make(image: Image) -> Result<Self, Failure> {
        let fs = Self::mount(&image)?;
        let inode = fs.create(&fs.root()?, NAME, &NewInode { mode: 0o100_644, ..NewInode::default() })?;
        Ok(File { image, open: Some(Open { inode, fs }) })
    }

    fn mount(image: &Image) -> Result<Arc<Fs>, Failure> {
        let (device, more): (Arc<dyn Device>, _) = match image {
            Image::File(path) => (Arc::new(FileDevice::open(path, OpenOptions::default())?), ""),
            Image::Memory(device, options) => (Arc::clone(device), *options),
        };
        Ok(Fs::mount(device, MountOptions::parse(&format!("cache=256K,commit=1,{more}"))?)?)
    }

    fn open(&self) -> Result<&Open, Failure> {
        self.open.as_ref().ok_or_else(|| "it could not be opened again".into())
    }

    fn close(&mut self) -> Result<(), Failure> {
        if let Some(Open { inode, fs }) = self.open.take() {
            drop(inode);
            fs.unmount()?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Failure> {
        self.close()?;
        let fs = Self::mount(&self.image)?;
        let inode = fs.lookup(&fs.root()?, NAME)?;
        self.open = Some(Open { inode, fs });
        Ok(())
    }
}

impl Exercised for File {
    fn lacks(&self) -> &[OpKind] {
        &[]
    }

    fn read(&mut self, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        let Open { inode, fs } = self.open()?;
        Ok(if direct { fs.read_direct(inode, off, buf)? } else { fs.read(inode, off, buf)? })
    }

    fn write(&mut self, direct: bool, off: u64, data: &[u8]) -> Result<(), Failure> {
        let Open { inode, fs } = self.open()?;
        let count = if direct { fs.write_direct(inode, off, data)? } else { fs.write(inode, off, data)? };
        if count == data.len() { Ok(()) } else { Err(format!("{count} bytes written").into()) }
    }

    fn copy(&mut self, from: Range<u64>, to: u64) -> Result<(), Failure> {
        let mut data = vec![0; (from.end - from.start) as usize];
        let count = self.read(false, from.start, &mut data)?;
        self.write(false, to, &data[..count])
    }

    fn act(&mut self, kind: OpKind, off: u64, len: u64) -> Result<(), Failure> {
        let Open { inode, fs } = self.open()?;
        let mode = match kind {
            OpKind::Allocate => FallocMode::Allocate { keep_size: false },
            OpKind::AllocateKeepSize => FallocMode::Allocate { keep_size: true },
            OpKind::Punch => FallocMode::PunchHole,
            OpKind::Zero => FallocMode::ZeroRange { keep_size: false },
            OpKind::ZeroKeepSize => FallocMode::ZeroRange { keep_size: true },
            OpKind::Collapse => FallocMode::CollapseRange,
            OpKind::Insert => FallocMode::InsertRange,
            OpKind::SetSize => {
                fs.setattr(inode, &SetAttr { size: Some(off), ..SetAttr::default() })?;
                return Ok(());
            }
            OpKind::Sync => return Ok(fs.fsync(inode, len == 0)?),
            OpKind::Forget => return Ok(fs.sync()?),
            OpKind::Reopen => return self.reopen(),
            OpKind::Read | OpKind::Write | OpKind::Copy => return Err("asked for otherwise".into()),
        };
        Ok(fs.fallocate(inode, mode, off, len)?)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        let Open { inode, fs } = self.open()?;
        Ok(fs.attr(inode)?.size)
    }
}

/// Of 100 reads and writes `direct` go past the cache.
fn run(seed: u64, direct: u64) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let image = dir.path().join("volume.img");
    mkfs_f2fs(&image, 64 << 20, &["-O", "extra_attr,inode_checksum,inode_crtime"]).unwrap();
    let mut file = File::make(Image::File(image.clone())).unwrap();
    let done = exercise(Plan::new(seed, direct), &mut file);
    file.close().unwrap();
    println!("{done:?}");
    assert!(done.iter().all(|(_, count)| *count > 100), "{done:?}");
    fsck_f2fs(&image).unwrap();
}

#[test]
fn buffered() {
    run(1, 0);
}

#[test]
fn direct() {
    run(2, 100);
}

#[test]
fn both() {
    run(3, 50);
}

/// Discarded blocks read as bytes that nobody wrote.
#[test]
fn with_discards_of_single_blocks() {
    let device = Arc::new(crate::common::mkfs(64, &[]).poisoning_discards());
    let mut file = File::make(Image::Memory(Arc::clone(&device) as _, "discard=blocks")).unwrap();
    exercise(Plan::new(4, 30), &mut file);
    let discarded = file.open().unwrap().fs.stats().io.discarded;
    file.close().unwrap();
    assert!(discarded > 0, "since the last mount");
    crate::names::support::fsck(&device);
}

/// Over a device that panics on a second write of a block, and on reads of what was discarded.
#[test]
fn in_infinite_logs() {
    let volume = crate::infinite::Volume::of(1 << 14);
    let mut file = File::make(Image::Memory(Arc::clone(&volume.strict) as _, "")).unwrap();
    let done = exercise(Plan::new(5, 30), &mut file);
    file.close().unwrap();
    assert!(done.iter().all(|(_, count)| *count > 100), "{done:?}");
    volume.assert_no_leak();
}
