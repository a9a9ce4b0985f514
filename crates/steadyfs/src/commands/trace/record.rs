//! `steadyfs trace record`: turns recording on in the process that serves a mount, takes what it records, and turns it
//! off.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use steadyfs_device::{PRIVATE, create_file};
use steadyfs_fuse::{STATS_ATTRIBUTE, TRACE_ATTRIBUTE};
use steadyfs_rt::{now, sleep};
use steadyfs_trace::file::{Header, write_header};

use crate::failure::Failure;

/// The most that the kernel gives of an attribute.
const ROOM: usize = 64 << 10;
/// How long to wait when nothing was recorded.
const LOOK: Duration = Duration::from_millis(10);

/// Record what is done with a mounted volume
///
/// Until COMMAND has ended, or the seconds are over, or Ctrl-C, or the volume is unmounted. Needs to be root or the
/// user who mounted; a mount that can only be read is recorded by `steadyfs mount --trace`. What comes too fast is not
/// waited for but dropped, and counted in the trace.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the volume is mounted
    mountpoint: PathBuf,
    /// The file to write, which only its owner may read; must not lie on the volume itself, nor be a symlink
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Record while this command runs; what it left to be written back is written, and is in the trace
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let what = || format!("cannot record {}", args.mountpoint.display());
    let failed = |e: &dyn std::fmt::Display, hint: &str| Failure::new(what(), e, hint);
    // All that can be wrong before the file is touched: there may be one of this name.
    let mut counters = vec![0; ROOM];
    rustix::fs::getxattr(&args.mountpoint, STATS_ATTRIBUTE, &mut counters[..]).map_err(|e| match e {
        Errno::NODATA | Errno::NOTSUP => {
            failed(&"no SteadyFS volume is mounted there", "name the directory where one is mounted")
        }
        e => failed(&e, "name the directory where a volume is mounted"),
    })?;
    let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
    let parent = args.output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if device(&args.output).or_else(|_| device(parent)) == device(&args.mountpoint) {
        return Err(failed(&"the trace would record its own writing", "write it to a file that is not on the volume"));
    }
    let mut file = create_file(&args.output, PRIVATE)
        .map_err(|e| Failure::new(format!("cannot write {}", args.output.display()), e, "check the directory"))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|e| failed(&e, ""))?;
    }
    control(&args.mountpoint, b"start").map_err(|e| match e {
        Errno::BUSY => failed(&"it is being recorded already", "wait for the other recording to end"),
        Errno::ROFS => failed(&"it can only be read", "record it with `steadyfs mount --trace`"),
        Errno::PERM | Errno::ACCESS => failed(&e, "only root and the user who mounted it may record it"),
        e => failed(&e, ""),
    })?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let recorded = write_header(&mut file, &Header { began, cache: 0 })
        .map_err(Some)
        .and_then(|()| record(args, &stop, &mut file));
    // Also when it failed: nobody reads any more. The volume may be unmounted by now.
    let _ = control(&args.mountpoint, b"stop");
    let rest = |code| match code {
        Some(code) => drain(&args.mountpoint, &mut file).map(|_| code),
        None => Ok(ExitCode::SUCCESS),
    };
    match recorded.and_then(rest) {
        Ok(code) => {
            let trace = super::load(&args.output)?;
            let (count, dropped) = (trace.records.len(), trace.dropped);
            writeln!(io::stderr(), "{}: {count} operations, {dropped} dropped", args.output.display())
                .map_err(|e| Failure::output(&e))?;
            Ok(code)
        }
        Err(e) => {
            let e = e.map_or_else(|| "the volume is gone".to_owned(), |e| e.to_string());
            Err(Failure::new(
                format!("cannot go on recording {}", args.mountpoint.display()),
                e,
                "what was recorded is kept",
            ))
        }
    }
}

/// The error of a file, or none when the mount is gone.
type Trouble = Option<io::Error>;

/// Takes what is recorded until it is time to end; the exit code of the command, `None` if the volume was unmounted.
fn record(args: &Args, stop: &AtomicBool, file: &mut File) -> Result<Option<ExitCode>, Trouble> {
    let began = now();
    let mut command = match args.command.split_first() {
        Some((name, rest)) => Some(Command::new(name).args(rest).spawn().map_err(Some)?),
        None => None,
    };
    loop {
        let ended = match &mut command {
            Some(child) => child.try_wait().map_err(Some)?,
            None => None,
        };
        if let Some(status) = ended {
            write_back(&args.mountpoint);
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            return Ok(Some(ExitCode::from(code)));
        }
        let late = args.seconds.is_some_and(|seconds| began.elapsed().as_secs() >= seconds.into());
        if late || (stop.load(SeqCst) && command.is_none()) {
            write_back(&args.mountpoint);
            return Ok(Some(ExitCode::SUCCESS));
        }
        match drain(&args.mountpoint, file) {
            Ok(0) => sleep(LOOK),
            Ok(_) => {}
            // Somebody unmounted it: that is an end too, and what the last moments brought is not known.
            Err(None) if command.is_none() => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}

/// Makes the kernel write back what it has, so that it is in the trace.
fn write_back(dir: &Path) {
    let root = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    // What cannot be written is told to whoever wrote it.
    let _ = root.and_then(rustix::fs::syncfs);
}

/// Takes all that is recorded now; how many bytes.
fn drain(dir: &Path, file: &mut File) -> Result<usize, Trouble> {
    let mut part = vec![0; ROOM];
    let mut all = 0;
    loop {
        let length = match rustix::fs::getxattr(dir, TRACE_ATTRIBUTE, &mut part[..]) {
            Ok(0) | Err(Errno::INTR) => return Ok(all),
            Ok(length) => length,
            // There is no such attribute on what is there now, or nothing at all.
            Err(_) => return Err(None),
        };
        file.write_all(&part[..length]).map_err(Some)?;
        all += length;
    }
}

fn control(dir: &Path, what: &[u8]) -> Result<(), Errno> {
    rustix::fs::setxattr(dir, TRACE_ATTRIBUTE, what, XattrFlags::empty())
}
