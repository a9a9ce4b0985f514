//! Just enough HTTP/1.1 to answer `GET /metrics`: one request to a connection, then it is closed.
//!
//! Hand-written, because so little of HTTP is needed: the request line decides, headers are read to their end and not
//! understood, a body is never read. Kept true: a connection has a thread, at most [`MOST_READERS`] at a time, and
//! others wait for their turn; it ends after [`PATIENCE`] whatever the other side does, and holds no more than
//! [`LONGEST_REQUEST`] of what that sends; a failure of one is nothing to the others and to the volume.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::net::shutdown;
use rustix::process::umask;

use super::Endpoint;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer requests are refused; those of scrapers have some hundred bytes.
const LONGEST_REQUEST: usize = 8 << 10;
/// What may come after a request that was answered: so much is read and thrown away.
const LONGEST_REST: usize = 1 << 20;
/// More connections than that at a time wait.
const MOST_READERS: usize = 16;
/// How long to wait after an error of `accept`, which may last: too many open files, for one.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// What there is to say at `/metrics`.
pub(super) enum Answer {
    /// An exposition.
    Text(String),
    /// The volume is no longer mounted.
    Gone,
}

/// A place that nobody else can take, where nobody answers yet.
pub(crate) enum Listening {
    /// On an address.
    Tcp(TcpListener, SocketAddr),
    /// On a socket, which is removed in the end.
    Unix(UnixListener, SocketFile),
}

/// A socket's name; removed when this goes.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have been faster.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listening {
    /// Takes the place.
    pub(super) fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Address(address) => {
                let listener = TcpListener::bind(address)?;
                let address = listener.local_addr()?;
                Ok(Listening::Tcp(listener, address))
            }
            Endpoint::Socket(path) => {
                remove_dead_socket(path)?;
                // Who may read the volume's numbers through its root directory is asked there; here only its owner,
                // from the first moment on.
                let mask = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
                let bound = UnixListener::bind(path);
                umask(mask);
                Ok(Listening::Unix(bound?, SocketFile(path.clone())))
            }
        }
    }

    /// What to give to a scraper.
    pub(crate) fn url(&self) -> String {
        match self {
            Listening::Tcp(_, address) => format!("http://{address}/metrics"),
            Listening::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Listening::Tcp(listener, _) => Box::new(listener.accept()?.0),
            Listening::Unix(listener, _) => Box::new(listener.accept()?.0),
        })
    }

    /// Makes `accept` fail, now and from now on, and breaks off connections that wait for it.
    fn close(&self) {
        // It can only fail if it was done before.
        let _ = match self {
            Listening::Tcp(listener, _) => shutdown(listener, rustix::net::Shutdown::Both),
            Listening::Unix(listener, _) => shutdown(listener, rustix::net::Shutdown::Both),
        };
    }
}

/// Removes a socket that a killed process left behind; one that is served, or something else, stays and is in the way.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The other side of a connection.
trait Connection: Read + Write + Send {
    /// Ends reads and writes after so long.
    fn limit(&self, time: Duration) -> io::Result<()>;
    /// Says that nothing more will be written.
    fn finish(&self);
}

impl Connection for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }

    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Connection for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }

    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Who is answered now, and whether anybody still is to be.
struct Desk {
    /// How many readers there are; `None` when it is over.
    readers: Mutex<Option<usize>>,
    left: Condvar,
}

impl Desk {
    fn change(&self, change: impl FnOnce(&mut Option<usize>)) {
        // Whoever panicked with it has left a number all the same.
        change(&mut self.readers.lock().unwrap_or_else(PoisonError::into_inner));
        self.left.notify_all();
    }

    /// Waits for room for one more; false when it is over.
    fn has_room(&self) -> bool {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |readers: &mut Option<usize>| readers.is_some_and(|readers| readers >= MOST_READERS);
        self.left.wait_while(readers, full).unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits so long, or until it is over.
    fn rest(&self, time: Duration) {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.left.wait_timeout_while(readers, time, |readers| readers.is_some()));
    }
}

/// A reader's place; given back when this goes.
struct Seat(Arc<Desk>);

impl Seat {
    fn take(desk: &Arc<Desk>) -> Self {
        desk.change(|readers| *readers = readers.map(|readers| readers + 1));
        Seat(Arc::clone(desk))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.change(|readers| *readers = readers.map(|readers| readers - 1));
    }
}

/// A place where requests are answered, until this goes.
pub(crate) struct Serving {
    listening: Arc<Listening>,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Answers with what `answer` says at that moment.
    pub(super) fn start(listening: Listening, answer: impl Fn() -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        let desk = Arc::new(Desk { readers: Mutex::new(Some(0)), left: Condvar::new() });
        let (listening, answer) = (Arc::new(listening), Arc::new(answer));
        let (place, open) = (Arc::clone(&listening), Arc::clone(&desk));
        let thread = thread::Builder::new()
            .name("steadyfs-metrics".to_owned())
            .spawn(move || accept_all(&place, &open, &answer))?;
        Ok(Serving { listening, desk, thread: Some(thread) })
    }

    /// What to give to a scraper.
    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.desk.change(|readers| *readers = None);
        self.listening.close();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; and nothing is left to be done about it here.
            let _ = thread.join();
        }
    }
}

fn accept_all<A>(listening: &Listening, desk: &Arc<Desk>, answer: &Arc<A>)
where
    A: Fn() -> Answer + Send + Sync + 'static,
{
    // Who is not accepted yet waits in the listener's queue: to close a connection with a request unread would break it
    // off.
    while desk.has_room() {
        let Ok(connection) = listening.accept() else {
            desk.rest(AFTER_ERROR);
            continue;
        };
        let (answer, seat) = (Arc::clone(answer), Seat::take(desk));
        // Without a thread nobody is answered now, and the place is given back.
        let _ = thread::Builder::new().name("steadyfs-metrics-reader".to_owned()).spawn(move || {
            let _seat = seat;
            // Whoever does not listen to the answer does not get it.
            let _ = converse(connection, &*answer);
        });
    }
}

/// Reads a request and answers it.
fn converse(mut connection: Box<dyn Connection>, answer: &dyn Fn() -> Answer) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let request = read_request(&mut *connection, end)?;
    let response = respond(request.as_deref(), answer);
    connection.limit(left(end)?)?;
    connection.write_all(response.as_bytes())?;
    connection.finish();
    // Closing with something unread, or before it has come, would take the answer back from the other side. That closes
    // when it has the answer.
    let mut rest = [0; 1024];
    for _ in 0..LONGEST_REST / rest.len() {
        connection.limit(left(end)?)?;
        if connection.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The request up to the empty line that ends it; `None` if that does not come.
fn read_request(connection: &mut dyn Connection, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < LONGEST_REQUEST {
        connection.limit(left(end)?)?;
        let n = match connection.read(&mut piece) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        request.extend_from_slice(&piece[..n]);
        if request.windows(4).any(|four| four == b"\r\n\r\n") || request.windows(2).any(|two| two == b"\n\n") {
            return Ok(Some(request));
        }
        if n == 0 {
            break;
        }
    }
    Ok(None)
}

/// The response to a request.
fn respond(request: Option<&[u8]>, answer: &dyn Fn() -> Answer) -> String {
    let plain = "text/plain; charset=utf-8";
    let wanted = request.map(wanted);
    let (status, kind, body) = match wanted {
        None => ("431 Request Header Fields Too Large", plain, "the request is too long or was cut\n".to_owned()),
        Some(Wanted::Nonsense) => ("400 Bad Request", plain, "this is no HTTP request\n".to_owned()),
        Some(Wanted::Other) => ("405 Method Not Allowed\r\nAllow: GET, HEAD", plain, "only GET\n".to_owned()),
        Some(Wanted::Elsewhere) => ("404 Not Found", plain, "the numbers are at /metrics\n".to_owned()),
        Some(Wanted::Metrics { .. }) => match answer() {
            Answer::Text(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            Answer::Gone => ("503 Service Unavailable", plain, "the volume is no longer mounted\n".to_owned()),
        },
    };
    let length = body.len();
    let body = if wanted == Some(Wanted::Metrics { head: true }) { "" } else { &body };
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Metrics { head: bool },
    Elsewhere,
    Other,
    Nonsense,
}

fn wanted(request: &[u8]) -> Wanted {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) else { return Wanted::Nonsense };
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.0" | "HTTP/1.1"] = words[..] else { return Wanted::Nonsense };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || !target.starts_with(['/', '*']) {
        return Wanted::Nonsense;
    }
    match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => Wanted::Metrics { head: method == "HEAD" },
        ("GET" | "HEAD", _) => Wanted::Elsewhere,
        _ => Wanted::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn requests_are_told_apart() {
        for (line, what) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Wanted::Metrics { head: false }),
            ("GET /metrics?x=/y HTTP/1.0\n\n", Wanted::Metrics { head: false }),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Wanted::Metrics { head: true }),
            ("GET / HTTP/1.1\r\n\r\n", Wanted::Elsewhere),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Wanted::Elsewhere),
            ("POST /metrics HTTP/1.1\r\n\r\n", Wanted::Other),
            ("OPTIONS * HTTP/1.1\r\n\r\n", Wanted::Other),
            ("GET /metrics\r\n\r\n", Wanted::Nonsense),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Wanted::Nonsense),
            ("GET /metrics HTTP/2\r\n\r\n", Wanted::Nonsense),
            ("get /metrics HTTP/1.1\r\n\r\n", Wanted::Nonsense),
            ("\r\n\r\n", Wanted::Nonsense),
            ("\u{16}\u{3}\u{1}\n\n", Wanted::Nonsense),
        ] {
            assert_eq!(wanted(line.as_bytes()), what, "{line:?}");
        }
        assert_eq!(wanted(b"GET /\xff HTTP/1.1\r\n\r\n"), Wanted::Nonsense);
    }

    /// However many wait, on either kind of place, and whether or not they say anything.
    #[test]
    fn the_end_waits_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        for endpoint in [Endpoint::Address(([127, 0, 0, 1], 0).into()), Endpoint::Socket(path.clone())] {
            let listening = Listening::bind(&endpoint).unwrap();
            let address = if let Listening::Tcp(_, address) = &listening { Some(*address) } else { None };
            let serving = Serving::start(listening, || Answer::Gone).unwrap();
            // More than are answered at once and wait in the system together; those in vain wait for the end.
            let many: Vec<_> = (0..200)
                .map(|_| {
                    let path = path.clone();
                    thread::spawn(move || match address {
                        Some(address) => {
                            TcpStream::connect_timeout(&address, Duration::from_millis(500)).map(OwnedFd::from)
                        }
                        None => UnixStream::connect(path).map(OwnedFd::from),
                    })
                })
                .collect();
            thread::sleep(AFTER_ERROR);
            let start = Instant::now();
            drop(serving);
            assert!(start.elapsed() < PATIENCE / 2, "{endpoint}: {:?}", start.elapsed());
            many.into_iter().for_each(|one| drop(one.join().unwrap()));
        }
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let text = || Answer::Text("abc\n".to_owned());
        let get = respond(Some(b"GET /metrics HTTP/1.1\r\n\r\n"), &text);
        let head = respond(Some(b"HEAD /metrics HTTP/1.1\r\n\r\n"), &text);
        assert!(get.ends_with("\r\n\r\nabc\n") && head.ends_with("\r\n\r\n"), "{get}{head}");
        assert!(get.contains("Content-Length: 4\r\n") && head.contains("Content-Length: 4\r\n"));
        assert!(respond(Some(b"GET /metrics HTTP/1.1\r\n\r\n"), &|| Answer::Gone).starts_with("HTTP/1.1 503 "));
        assert!(respond(None, &text).starts_with("HTTP/1.1 431 "));
    }
}
