//! Where messages go: to standard error; those of a mount in the background, which has none, to the system log.
//!
//! As syslog(3) does it: one datagram per message to `/dev/log`, `<PRIORITY>steadyfs[PID]: TEXT`, which syslogd and
//! journald both read. Where nobody listens there (a small container, early boot) it goes to the log of the kernel, if
//! we may write to that. Nothing waits for long: a logger may live on the very volume that is served here. One that has
//! taken nothing for a while is given messages only as far as it takes them at once; the others are lost.

mod limit;

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use limit::{Limit, Shown};
use steadyfs_format::quote::quote;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, fmt, registry};

/// Names another socket than [`SOCKET`], and with it no log of the kernel.
const SOCKET_VARIABLE: &str = "STEADYFS_SYSLOG";
const SOCKET: &str = "/dev/log";
const KERNEL_LOG: &str = "/dev/kmsg";
/// The facility `daemon` of syslog(3).
const DAEMON: u8 = 3 << 3;

/// How long to wait for a logger that has much to do.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the logger has not taken a message for that long.
static STUCK: AtomicBool = AtomicBool::new(false);
/// Which messages are too many.
static LIMIT: LazyLock<Limit> = LazyLock::new(Limit::default);
/// Whether messages on standard error begin with the name of the program, as its other lines do.
static NAMED: AtomicBool = AtomicBool::new(false);
/// Whether this process has let go of its standard error.
static IN_BACKGROUND: AtomicBool = AtomicBool::new(false);

/// Shows what the crates below have to say from the usual level on; `STEADYFS_LOG` asks for another, such as `debug`.
/// `lasts`: whether the command serves or runs for long.
pub(crate) fn init(usual: &str, lasts: bool) {
    let filter = EnvFilter::try_from_env("STEADYFS_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let in_front = dynamic_filter_fn(|_, _| !IN_BACKGROUND.load(SeqCst));
    let behind = dynamic_filter_fn(|_, _| IN_BACKGROUND.load(SeqCst));
    let to_stderr = fmt::layer().with_writer(StandardError).with_ansi(false).with_target(false);
    // What ends in a moment says it as all its lines are: `steadyfs: ...`. What goes on tells the time.
    NAMED.store(!lasts, SeqCst);
    let to_stderr = match lasts {
        true => to_stderr.boxed(),
        false => to_stderr.without_time().with_level(false).boxed(),
    };
    let to_stderr = to_stderr.with_filter(in_front);
    let to_system = fmt::layer().with_writer(SystemLog).with_target(false).with_ansi(false).without_time();
    registry().with(filter).with(to_stderr).with(to_system.with_level(false).with_filter(behind)).init();
}

/// From here on messages go to the system log, those of panics too. To be called when standard error goes.
pub(crate) fn to_system_log() {
    IN_BACKGROUND.store(true, SeqCst);
    std::panic::set_hook(Box::new(|info| tracing::error!("{info}")));
}

/// Makes writers to standard error.
struct StandardError;

/// One message, quoted: names in it may hold anything. The layer above hands over whole messages, each with a newline
/// at its end.
struct Quoted {
    /// `None` if there are too many like it.
    shown: Option<Shown>,
}

impl<'a> MakeWriter<'a> for StandardError {
    type Writer = Quoted;

    fn make_writer(&'a self) -> Quoted {
        Quoted { shown: Some(Shown { left_out: 0 }) }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Quoted {
        Quoted { shown: LIMIT.admit(meta) }
    }
}

impl Write for Quoted {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Some(shown) = self.shown {
            let message = text.strip_suffix(b"\n").unwrap_or(text);
            let name = if NAMED.load(SeqCst) { "steadyfs: " } else { "" };
            io::stderr().write_all(format!("{name}{}{}\n", quote(message), shown.note()).as_bytes())?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Makes writers to the system log.
struct SystemLog;

/// One message.
struct Message {
    priority: u8,
    /// `None` if there are too many like it.
    shown: Option<Shown>,
}

impl<'a> MakeWriter<'a> for SystemLog {
    type Writer = Message;

    fn make_writer(&'a self) -> Message {
        Message { priority: DAEMON | severity(tracing::Level::INFO), shown: Some(Shown { left_out: 0 }) }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Message {
        Message { priority: DAEMON | severity(*meta.level()), shown: LIMIT.admit(meta) }
    }
}

/// The severity of syslog(3).
fn severity(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        _ => 7,
    }
}

impl Write for Message {
    /// Takes a whole message, as the layer above hands it over. What cannot be logged is lost: there is nowhere to say
    /// so.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let Some(shown) = self.shown else {
            return Ok(text.len());
        };
        let line = String::from_utf8_lossy(text).trim().replace('\n', " ");
        let line = format!("<{}>steadyfs[{}]: {}{}", self.priority, std::process::id(), quote(&line), shown.note());
        let named = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from);
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(STUCK.load(SeqCst))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to(line.as_bytes(), named.as_deref().unwrap_or(SOCKET.as_ref()))
        });
        STUCK.store(sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock), SeqCst);
        if sent.is_err() && named.is_none() {
            let kernel = std::fs::File::options().write(true).open(KERNEL_LOG);
            let _ = kernel.and_then(|mut kernel| kernel.write_all(line.as_bytes()));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
