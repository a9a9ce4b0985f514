//! How the file system ended, for whoever unmounts it.
//!
//! The kernel tells nobody who unmounts what became of the last checkpoint. So whoever unmounts asks before, by an
//! attribute of the root directory whose name ends with the number of a pipe of its own. The word comes through the
//! pipe when the file system has ended; without a word, the process has died.
//!
//! Kept true: a word is sent when the device is closed, and says how the one end went; nobody waits for a pipe; of what
//! others have open, nothing but a pipe is opened.

use super::{Answer, Server};
use crate::wire::abi::InHeader;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::fs::read_link;
use std::path::PathBuf;
use steadyfs_rt::{LockClass, Mutex};

static FAREWELL: LockClass = LockClass::new("fuse_farewell_lock", 8);

/// The name of the attribute, but for the number of the descriptor. Its value is empty. Root and the user who mounted
/// may read it. What comes through the pipe is a JSON string that says why the file system did not end as it should,
/// or `null`.
pub(crate) const END_ATTRIBUTE: &str = "steadyfs.end.";

/// Those who wait for the end.
pub(super) struct Farewell {
    waiting: Mutex<Vec<Waiting>>,
}

/// Whoever waits for the end.
struct Waiting {
    /// The end to write into of a pipe.
    pipe: OwnedFd,
    /// Where it has the other end, and what is there.
    place: PathBuf,
    is: PathBuf,
}

impl Waiting {
    /// Opens a pipe that a process has open to read.
    ///
    /// # Errors
    /// `ENODATA` if it is no pipe.
    fn at(number: i32, process: &str) -> Result<Self, Errno> {
        let place = PathBuf::from(format!("/proc/{process}/fd/{number}"));
        // First without opening it: what the process has open may be a device.
        let it = open(&place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&it)?.st_mode) != FileType::Fifo {
            return Err(Errno::NODATA);
        }
        let ours = PathBuf::from(format!("/proc/self/fd/{}", it.as_raw_fd()));
        let is = read_link(&ours).map_err(|_| Errno::NODATA)?;
        let pipe = open(ours, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Waiting { pipe, place, is })
    }

    /// Whether it still has the pipe: whoever could not unmount has not.
    fn is_there(&self) -> bool {
        read_link(&self.place).is_ok_and(|is| is == self.is)
    }
}

impl Farewell {
    pub(super) fn new() -> Self {
        Farewell { waiting: Mutex::new(&FAREWELL, Vec::new()) }
    }

    fn add(&self, new: Waiting) {
        let mut waiting = self.waiting.lock();
        waiting.retain(Waiting::is_there);
        waiting.push(new);
    }

    /// The file system has ended.
    pub(super) fn say(&self, ended: &steadyfs_core::Result<()>) {
        let failed = ended.as_ref().err().filter(|_| !steadyfs_rt::mutated("who-unmounts-hears-of-a-failed-end"));
        let why = failed.map(ToString::to_string);
        let word = serde_json::to_vec(&why).unwrap_or_default();
        for Waiting { pipe, .. } in std::mem::take(&mut *self.waiting.lock()) {
            if let Err(errno) = rustix::io::write(&pipe, &word) {
                tracing::debug!("whoever unmounts is not told how it ended: {errno}");
            }
        }
    }
}

impl Server {
    /// Notes that whoever asks is to hear of the end through the pipe that the attribute's name ends with.
    pub(super) fn tell_end(&self, header: &InHeader, number: &[u8]) -> Answer {
        self.may_control(header.uid)?;
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).ok_or(Errno::NODATA)?;
        self.farewell.add(Waiting::at(number, &header.pid.to_string())?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read};

    #[test]
    fn whoever_still_reads_a_pipe_hears_of_the_end() {
        let there = |reader: &PipeReader| Waiting::at(reader.as_raw_fd(), "self").unwrap();
        let refused = |number| Waiting::at(number, "self").map(|_| ()).unwrap_err();
        let file = tempfile::tempfile().unwrap();
        assert_eq!([refused(file.as_raw_fd()), refused(-1)], [Errno::NODATA, Errno::NOENT]);
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let (gone, _writer) = std::io::pipe().unwrap();
        let farewell = Farewell::new();
        farewell.add(there(&reader));
        farewell.add(there(&gone));
        drop(gone);
        farewell.add(there(&reader));
        assert_eq!(farewell.waiting.lock().len(), 2, "nobody reads one of them");
        farewell.say(&Err(steadyfs_core::Error::NoSpace));
        let mut words = String::new();
        reader.read_to_string(&mut words).unwrap();
        let word = serde_json::to_string(&steadyfs_core::Error::NoSpace.to_string()).unwrap();
        assert_eq!(words, word.repeat(2));
    }
}
