//! The steps of a script, done by tasks.
//!
//! An operation that ends otherwise than in the trace is counted (`replay_differs`, and `replay_no_space` of them), and
//! the replay goes on.

use super::Replay;
use super::layout::{content, fill, lay_out};
use super::script::{SET_SIZE, Script, Step, TRUNCATE, WHITEOUT};
use crate::error::{Error, Result};
use crate::stage::{self, Stage, Tally};
use crate::workload::Act;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use steadyfs_core::{
    Error as CoreError, FallocMode, InodeRef, NewInode, RenameFlags, SetAttr, SetTime, Whence, XattrFlags,
};
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, EventCount, LockClass, Mutex, charge, now, sleep};
use steadyfs_trace::{DATA_ONLY, DIRECT, Op};

/// The objects: the lowest rank, nothing is taken under it.
static OBJECTS: LockClass = LockClass::new("lab.replay", 0);
const PAGE: u64 = 4096;
/// The attribute that stands for all that a trace has no names of.
const ATTRIBUTE: &[u8] = b"user.trace";
/// Errors of the trace.
const NO_SPACE: i32 = 28;

/// See the head of the module.
pub(super) struct Player {
    replay: Replay,
    stage: Arc<Stage>,
    field: Option<Arc<Field>>,
}

/// What the tasks share.
struct Field {
    stage: Arc<Stage>,
    script: Arc<Script>,
    speed: f64,
    objects: Mutex<BTreeMap<usize, InodeRef>>,
    ended: Vec<AtomicBool>,
    /// Some step that another waits for has ended.
    step: EventCount,
    /// Whether any step waits for this one.
    awaited: Vec<bool>,
}

impl Player {
    pub(super) fn new(replay: &Replay, stage: &Arc<Stage>) -> Self {
        Player { replay: replay.clone(), stage: Arc::clone(stage), field: None }
    }

    fn field(&self) -> Result<&Arc<Field>> {
        self.field.as_ref().ok_or_else(|| Error::Check("the layout has not been made".into()))
    }
}

impl Act for Player {
    fn lay_out(&mut self) -> Result<()> {
        let script = self.replay.script().map_err(|why| Error::spec("workload.trace", why))?;
        fill(&self.stage, self.replay.fill.bytes())?;
        let objects = lay_out(&self.stage, &script)?;
        let mut awaited = vec![false; script.steps.len()];
        script.steps.iter().flat_map(|step| &step.after).for_each(|other| awaited[*other as usize] = true);
        self.field = Some(Arc::new(Field {
            stage: Arc::clone(&self.stage),
            ended: script.steps.iter().map(|_| AtomicBool::new(false)).collect(),
            script,
            speed: self.replay.speed,
            objects: Mutex::new(&OBJECTS, objects),
            step: EventCount::new(),
            awaited,
        }));
        Ok(())
    }

    fn amount(&self) -> u64 {
        self.field.as_ref().map_or(0, |field| field.script.steps.len() as u64)
    }

    fn work(&mut self) -> Result<Tally> {
        let field = self.field()?;
        let tasks = (0..field.script.lanes.len()).map(|lane| {
            let field = Arc::clone(field);
            self.stage.start("replay", move || Ok(one(&field, lane)))
        });
        let mut tally = stage::join(tasks.collect())?;
        // What is still in memory would have cost nothing.
        let began = now();
        self.stage.fs.sync().map_err(Error::core("syncing what the replay wrote"))?;
        tally.set("replay_sync_s", began.elapsed().as_secs_f64());
        tally.add("replay_differs", 0);
        tally.add("replay_no_space", 0);
        tally.set("replay_recorded_s", field.script.seconds);
        Ok(tally)
    }

    fn verify(&mut self) -> Result<String> {
        // The inodes go before the volume is unmounted.
        let files = self.field()?.objects.lock().len();
        self.field = None;
        Ok(format!("not compared: a trace has none; {files} files and directories were used"))
    }
}

/// Does the steps of a lane.
fn one(field: &Field, lane: usize) -> Tally {
    let mut tally = Tally::default();
    for number in &field.script.lanes[lane] {
        let step = &field.script.steps[*number as usize];
        if field.speed > 0.0 && step.think_ns > 0 {
            sleep(Duration::from_nanos((step.think_ns as f64 / field.speed) as u64));
        }
        step.after.iter().for_each(|other| field.wait_for(*other));
        let began = now();
        charge(Cost::SyscallEntry);
        let came = field.perform(step, *number);
        tally.record(step.record.op.name(), began.elapsed());
        let errno = came.err().map_or(0, |e| e.errno());
        if (errno == 0) != (step.record.error == 0) {
            tally.add("replay_differs", 1);
            tally.add("replay_no_space", u64::from(errno == NO_SPACE));
        }
        field.ended[*number as usize].store(true, SeqCst);
        if field.awaited[*number as usize] {
            field.step.notify_all();
        }
        field.stage.progress.advance(1);
    }
    tally
}

type Came = std::result::Result<(), CoreError>;

impl Field {
    fn wait_for(&self, step: u32) {
        loop {
            let key = self.step.listen();
            if self.ended[step as usize].load(SeqCst) {
                return;
            }
            self.step.wait(key);
        }
    }

    /// An object that is there: one that was not made is not found.
    fn object(&self, number: usize) -> std::result::Result<InodeRef, CoreError> {
        self.objects.lock().get(&number).cloned().ok_or(CoreError::NotFound)
    }

    fn made(&self, step: &Step, inode: InodeRef) {
        if let Some(number) = step.makes {
            self.objects.lock().insert(number, inode);
        }
    }

    fn perform(&self, step: &Step, number: u32) -> Came {
        let (fs, r) = (&self.stage.fs, &step.record);
        let file = self.object(step.file)?;
        match r.op {
            Op::Read => {
                let mut buffer = vec![0; r.size.min(64 << 20) as usize];
                let n = match r.flags & DIRECT != 0 {
                    true => fs.read_direct(&file, r.offset, &mut buffer)?,
                    false => fs.read(&file, r.offset, &mut buffer)?,
                };
                self.stage.read(n as u64);
                Ok(())
            }
            Op::Write => self.write(step, &file, step.file, r.offset, r.size, number),
            Op::Fsync | Op::Fsyncdir => fs.fsync(&file, r.flags & DATA_ONLY != 0),
            Op::Syncfs => fs.sync(),
            Op::Copy => {
                let to = step.other.unwrap_or(step.file);
                let mut buffer = vec![0; r.done.min(64 << 20) as usize];
                let n = fs.read(&file, r.offset, &mut buffer)?;
                self.stage.read(n as u64);
                self.write(step, &self.object(to)?, to, r.other_offset, n as u64, number)
            }
            Op::Fallocate => fs.fallocate(&file, falloc_mode(r.flags)?, r.offset, r.size),
            Op::Lseek => {
                let whence = if r.flags == 4 { Whence::Hole } else { Whence::Data };
                fs.seek(&file, r.offset, whence).map(drop)
            }
            Op::Setattr => {
                let size = (r.flags & SET_SIZE != 0).then_some(r.size);
                let mtime = size.is_none().then_some(SetTime::Now);
                fs.setattr(&file, &SetAttr { size, mtime, ..SetAttr::default() }).map(drop)
            }
            Op::Open if r.flags & TRUNCATE != 0 => {
                fs.setattr(&file, &SetAttr { size: Some(0), ..SetAttr::default() }).map(drop)
            }
            Op::Getattr | Op::Open | Op::Ioctl => fs.attr(&file).map(drop),
            Op::Readdir => fs.readdir(&file, 0, &mut |_| true),
            Op::Setxattr => {
                let value = vec![0x5a; r.size.min(60_000) as usize];
                let how = XattrFlags { create: false, replace: false, clear_sgid: false };
                fs.setxattr(&file, ATTRIBUTE, &value, how)
            }
            // Which attributes there were is not known: neither is whether they are there now.
            Op::Getxattr | Op::Removexattr => self.as_recorded(step, fs.getxattr(&file, ATTRIBUTE).map(drop)),
            Op::Listxattr => fs.listxattr(&file).map(drop),
            Op::Readlink => self.as_recorded(step, fs.readlink(&file).map(drop)),
            Op::Statfs => {
                fs.statfs();
                Ok(())
            }
            Op::Release | Op::Flush => Ok(()),
            _ => self.on_names(step, &file),
        }
    }

    /// The work is done, and what it came to is taken from the trace.
    fn as_recorded(&self, step: &Step, _came: Came) -> Came {
        if step.record.error == 0 { Ok(()) } else { Err(CoreError::NotFound) }
    }

    fn on_names(&self, step: &Step, dir: &InodeRef) -> Came {
        let (fs, r) = (&self.stage.fs, &step.record);
        let name = r.name.text();
        let name = name.as_bytes();
        let new = |mode| NewInode { mode, ..NewInode::default() };
        match r.op {
            Op::Lookup => fs.lookup(dir, name).map(drop),
            Op::Mkdir => fs.create(dir, name, &new(0o040_755)).map(|made| self.made(step, made)),
            Op::Symlink => {
                let target = vec![b't'; r.size.clamp(1, 4000) as usize];
                fs.symlink(dir, name, &target, &new(0)).map(|made| self.made(step, made))
            }
            Op::Tmpfile => fs.tmpfile(dir, &new(0o100_644)).map(|made| self.made(step, made)),
            Op::Link => fs.link(&self.object(step.other.unwrap_or(step.file))?, dir, name),
            Op::Unlink => fs.unlink(dir, name),
            Op::Rmdir => fs.rmdir(dir, name),
            Op::Rename => {
                let to = self.object(step.other.unwrap_or(step.file))?;
                let how = match r.flags & 3 {
                    0 => RenameFlags::Replace,
                    1 => RenameFlags::NoReplace,
                    _ => RenameFlags::Exchange,
                };
                let new_name = r.other_name.text();
                if r.flags & WHITEOUT == 0 {
                    return fs.rename(dir, name, &to, new_name.as_bytes(), how);
                }
                fs.rename_whiteout(dir, name, &to, new_name.as_bytes(), how, &NewInode::default())?;
                fs.lookup(dir, name).map(|left| self.made(step, left))
            }
            // Of devices, FIFOs and sockets there is nothing that matters here: they are files without contents.
            _ => fs.create(dir, name, &new(0o100_644)).map(|made| self.made(step, made)),
        }
    }

    fn write(&self, step: &Step, file: &InodeRef, object: usize, offset: u64, size: u64, number: u32) -> Came {
        let fs = &self.stage.fs;
        let direct = step.record.flags & DIRECT != 0;
        let whole = if offset.is_multiple_of(PAGE) { size / PAGE } else { 0 };
        let mut done = 0;
        if whole > 0 {
            let first = offset / PAGE;
            let pages: Vec<_> = (first..first + whole).map(|page| content(object, page, number)).collect();
            done = match direct {
                true => fs.write_pages_direct(file, PageIndex(first), &pages)?,
                false => fs.write_pages(file, PageIndex(first), &pages)?,
            } as u64;
        }
        if done == whole * PAGE && done < size {
            done += fs.write(file, offset + done, &vec![0x5a; (size - done) as usize])? as u64;
        }
        self.stage.wrote(done);
        if done < size { Err(CoreError::NoSpace) } else { Ok(()) }
    }
}

/// Bits of fallocate(2): 1 keeps the size, 2 is a hole, 8 collapses, 16 zeroes, 32 inserts.
fn falloc_mode(bits: u64) -> std::result::Result<FallocMode, CoreError> {
    let keep_size = bits & 1 != 0;
    Ok(match bits & !1 {
        0 => FallocMode::Allocate { keep_size },
        2 => FallocMode::PunchHole,
        16 => FallocMode::ZeroRange { keep_size },
        8 => FallocMode::CollapseRange,
        32 => FallocMode::InsertRange,
        _ => return Err(CoreError::NotSupported),
    })
}
