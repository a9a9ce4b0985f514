//! 100,000 random operations on one file of a mount, in every way to cache, buffered and with `O_DIRECT`. The seeds are
//! fixed. What the kernel keeps from mounts, and mapped files, are tried elsewhere: by the core's own test, and by
//! `make suites`.

use crate::harness::Place;
use rustix::fs::{Advice, FallocateFlags, OFlags, copy_file_range, fadvise, fallocate};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use steadyfs_testkit::exerciser::{Exercised, Failure, OpKind, Plan, exercise};

/// A file opened twice, the second time with `O_DIRECT`.
struct Opened {
    path: PathBuf,
    buffered: File,
    direct: File,
}

impl Opened {
    fn at(path: PathBuf) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).custom_flags(flags.bits().cast_signed()).open(&path)
        };
        let (buffered, direct) = (open(OFlags::empty())?, open(OFlags::DIRECT)?);
        Ok(Opened { path, buffered, direct })
    }

    fn file(&self, direct: bool) -> &File {
        if direct { &self.direct } else { &self.buffered }
    }
}

impl Exercised for Opened {
    fn lacks(&self) -> &[OpKind] {
        &[OpKind::Collapse, OpKind::Insert]
    }

    fn read(&mut self, direct: bool, off: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < buf.len() {
            match self.file(direct).read_at(&mut buf[done..], off + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn write(&mut self, direct: bool, off: u64, data: &[u8]) -> Result<(), Failure> {
        Ok(self.file(direct).write_all_at(data, off)?)
    }

    fn copy(&mut self, from: Range<u64>, to: u64) -> Result<(), Failure> {
        let (mut from, mut to, end) = (from.start, to, from.end);
        while from < end {
            let (file, rest) = (&self.buffered, (end - from) as usize);
            let count = copy_file_range(file, Some(&mut from), file, Some(&mut to), rest)?;
            if count == 0 {
                return Err("nothing was copied".into());
            }
        }
        Ok(())
    }

    fn act(&mut self, kind: OpKind, off: u64, len: u64) -> Result<(), Failure> {
        let flags = match kind {
            OpKind::Allocate => FallocateFlags::empty(),
            OpKind::AllocateKeepSize => FallocateFlags::KEEP_SIZE,
            OpKind::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            OpKind::Zero => FallocateFlags::ZERO_RANGE,
            OpKind::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            OpKind::SetSize => return Ok(self.buffered.set_len(off)?),
            OpKind::Sync if len == 0 => return Ok(self.buffered.sync_data()?),
            OpKind::Sync => return Ok(self.buffered.sync_all()?),
            OpKind::Forget => {
                self.buffered.sync_data()?;
                return Ok(fadvise(&self.buffered, 0, None, Advice::DontNeed)?);
            }
            OpKind::Reopen => {
                *self = Opened::at(self.path.clone())?;
                return Ok(());
            }
            OpKind::Read | OpKind::Write | OpKind::Copy | OpKind::Collapse | OpKind::Insert => {
                return Err("not asked for".into());
            }
        };
        Ok(fallocate(&self.buffered, flags, off, len)?)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.buffered.metadata()?.len())
    }
}

/// Of 100 reads and writes `direct` are made with `O_DIRECT`.
fn run(seed: u64, direct: u64, options: &str) {
    let place = Place::new();
    place.mounted(options, |_| {
        let mut file = Opened::at(place.at("exercised")).unwrap();
        let done = exercise(Plan::new(seed, direct), &mut file);
        assert!(done.iter().all(|(kind, count)| *count > 100 || file.lacks().contains(kind)), "{done:?}");
    });
    place.check();
}

#[test]
fn buffered_with_write_back() {
    run(11, 0, "writeback_cache,cache=1M");
}

#[test]
fn buffered_with_write_through() {
    run(12, 0, "writethrough,cache=1M");
}

#[test]
fn direct() {
    run(13, 100, "cache=1M");
}

#[test]
fn both_with_write_back() {
    run(14, 50, "writeback_cache");
}

#[test]
fn both_on_a_mount_without_a_kernel_cache() {
    run(15, 50, "direct_io");
}
