//! The thread that writes a trace of the mount into a file.
//!
//! Kept true: no request waits for the file; when the image or device is free again, the file is complete, with all
//! that was recorded in it or counted as dropped.

use crate::error::{Error, Result};
use crate::options::{Cache, FuseOptions};
use crate::server::Server;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use steadyfs_device::{PRIVATE, create_file};
use steadyfs_rt::{sleep, try_spawn};
use steadyfs_trace::file::{Header, write_header};

/// How often it looks for records.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that it takes at a time.
const PART: usize = 1 << 20;

/// Begins to record into the file that the options name, if they do, until the server ends.
pub(super) fn start(server: &Arc<Server>, options: &FuseOptions) -> Result<()> {
    let Some(path) = options.trace.clone() else { return Ok(()) };
    let failed = |source| Error::Trace { path: path.clone(), source };
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let cache = match options.cache() {
        Cache::Writeback => 0,
        Cache::Through => 1,
        Cache::Direct => 2,
    };
    let mut file = create_file(&path, PRIVATE).map_err(failed)?;
    write_header(&mut file, &Header { began, cache }).map_err(failed)?;
    server.record().map_err(|busy| failed(std::io::Error::other(busy)))?;
    let (source, whose) = (Arc::clone(server), path.clone());
    let thread = try_spawn("fuse-trace", move || write(&source, file, &whose)).map_err(failed)?;
    server.at_end(Box::new(move || {
        if thread.join().is_err() {
            tracing::error!("the thread that writes the trace failed");
        }
    }));
    Ok(())
}

fn write(server: &Server, mut file: File, path: &Path) {
    loop {
        // Asked before looking: what is recorded until it is off is found by the look after.
        let over = !server.recorder().is_on();
        let bytes = server.recorder().drain(PART);
        if bytes.is_empty() {
            if over {
                return;
            }
            sleep(LOOK);
            continue;
        }
        if let Err(source) = file.write_all(&bytes) {
            tracing::error!("{}; nothing more is recorded", Error::Trace { path: PathBuf::from(path), source });
            server.recorder().stop();
            return;
        }
    }
}
