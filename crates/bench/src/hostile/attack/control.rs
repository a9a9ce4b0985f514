//! Attacks by what makes the server work for everybody: syncs, statistics that anybody may read, flags, locks, handles.

use super::{Plan, Step};
use crate::data::{Buffer, PAGE};
use rustix::fs::{FlockOperation, fcntl_lock, flock, fstatvfs, getxattr, ioctl_getflags, syncfs};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How many fsyncs of one file come before one of a new file.
const SAME: u64 = 16;

/// Writes to a file and has it made durable; now and then a new one.
pub(super) fn fsync(plan: &Plan) -> io::Result<Step> {
    let number = plan.number;
    let file = File::create_new(format!("synced-{number}"))?;
    let (data, mut count) = (Buffer::random(PAGE, number), 0_u64);
    Ok(Box::new(move || {
        count += 1;
        if !count.is_multiple_of(SAME) {
            file.write_all_at(data.bytes(), 0)?;
            return file.sync_all();
        }
        let name = format!("new-{number}");
        let synced = File::create(&name).and_then(|new| {
            new.write_all_at(data.bytes(), 0)?;
            new.sync_all()
        });
        std::fs::remove_file(name)?;
        synced
    }))
}

/// By its number: syncs of the whole file system, its statistics and the map of its segments, flags and free space,
/// handles and locks.
pub(super) fn control(plan: &Plan) -> io::Result<Step> {
    let name = format!("control-{}", plan.number);
    let file = File::create_new(&name)?;
    // Control attributes are those of the root directory, in which this user's directory is.
    let asks = |attribute: &'static str| -> Step {
        let mut value = vec![0_u8; 1 << 16];
        Box::new(move || Ok(getxattr("..", attribute, value.as_mut_slice()).map(drop)?))
    };
    Ok(match plan.number % 8 {
        0 | 1 => Box::new(move || {
            file.write_all_at(b"dirty", 0)?;
            Ok(syncfs(&file)?)
        }),
        2 | 3 => asks(steadyfs_fuse::STATS_ATTRIBUTE),
        4 => asks(steadyfs_fuse::SEGMENTS_ATTRIBUTE),
        5 => Box::new(move || {
            ioctl_getflags(&file)?;
            Ok(fstatvfs(&file).map(drop)?)
        }),
        _ => Box::new(move || {
            let handle = File::options().read(true).write(true).open(&name)?;
            fcntl_lock(&handle, FlockOperation::NonBlockingLockExclusive)?;
            flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
            Ok(flock(&handle, FlockOperation::Unlock)?)
        }),
    })
}
