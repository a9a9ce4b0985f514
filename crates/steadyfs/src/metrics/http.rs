//! Just enough HTTP/1.1 to answer `GET` of `/metrics`, `/stats.json` and `/`: one request to a connection, then it is
//! closed.
//!
//! Hand-written, because so little of HTTP is needed: the request line and `Host` decide, other headers are read to
//! their end and not understood, a body is never read. Kept true:
//! - One thread serves all connections and waits for none of them.
//! - There are at most [`MOST_CLIENTS`], a new one takes the place of the oldest that has not asked yet.
//! - Each ends after [`TO_ASK`] and [`TO_TAKE`] whatever the other side does. It holds no more than [`LONGEST_REQUEST`]
//!   of the bytes that the other side sends.
//! - A failure of one is nothing to the others and to the volume.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::shutdown;
use rustix::process::umask;

use super::{Endpoint, page};

/// How long a client may take for its request.
const TO_ASK: Duration = Duration::from_secs(2);
/// How long it may then take for the answer.
const TO_TAKE: Duration = Duration::from_secs(5);
/// Longer requests are refused; those of scrapers have some hundred bytes.
const LONGEST_REQUEST: usize = 8 << 10;
/// What may come after a request that was answered: so much is read and thrown away.
const LONGEST_REST: usize = 1 << 20;
/// Most connections at a time.
const MOST_CLIENTS: usize = 256;
/// How long to wait after an error of `accept`, which may last: too many open files, for one.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The form in which numbers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// At `/metrics`: an exposition.
    Exposition,
    /// At `/stats.json`.
    Json,
}

/// What there is to say of the numbers.
pub(super) enum Answer {
    /// The numbers.
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
                listener.set_nonblocking(true)?;
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
                let (listener, file) = (bound?, SocketFile(path.clone()));
                listener.set_nonblocking(true)?;
                Ok(Listening::Unix(listener, file))
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

    /// The next connection, which waits for nothing.
    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Listening::Tcp(listener, _) => {
                let connection = listener.accept()?.0;
                connection.set_nonblocking(true)?;
                Box::new(connection)
            }
            Listening::Unix(listener, _) => {
                let connection = listener.accept()?.0;
                connection.set_nonblocking(true)?;
                Box::new(connection)
            }
        })
    }

    /// Whether it can be reached only by those who may open its socket: names of hosts mean nothing there.
    fn is_private(&self) -> bool {
        matches!(self, Listening::Unix(..))
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

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Tcp(listener, _) => listener.as_fd(),
            Listening::Unix(listener, _) => listener.as_fd(),
        }
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
trait Connection: Read + Write + AsFd + Send {
    /// Says that nothing more will be written.
    fn finish(&self);
}

impl Connection for TcpStream {
    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Connection for UnixStream {
    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A place where requests are answered, until this goes.
pub(crate) struct Serving {
    listening: Arc<Listening>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Answers with what `answer` says at that moment.
    pub(super) fn start(listening: Listening, answer: impl Fn(Numbers) -> Answer + Send + 'static) -> io::Result<Self> {
        let (listening, over) = (Arc::new(listening), Arc::new(AtomicBool::new(false)));
        let (place, end) = (Arc::clone(&listening), Arc::clone(&over));
        let thread = thread::Builder::new()
            .name("steadyfs-metrics".to_owned())
            .spawn(move || Clients { all: Vec::new(), checked: !place.is_private() }.serve(&place, &end, &answer))?;
        Ok(Serving { listening, over, thread: Some(thread) })
    }

    /// What to give to a scraper.
    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.listening.close();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; and nothing is left to be done about it here.
            let _ = thread.join();
        }
    }
}

/// What a connection is at.
enum Stage {
    /// So much of the request has come.
    Asking(Vec<u8>),
    /// This is left of the response.
    Answered(Vec<u8>),
    /// The response is sent. Closing with something unread, or before it has come, would take it back from the other
    /// side, which closes when it has the response. So many bytes came since.
    Leaving(usize),
}

/// A connection.
struct Client {
    connection: Box<dyn Connection>,
    stage: Stage,
    /// When it is given up.
    end: Instant,
}

impl Client {
    fn new(connection: Box<dyn Connection>) -> Self {
        Client { connection, stage: Stage::Asking(Vec::new()), end: Instant::now() + TO_ASK }
    }

    /// What it waits for.
    fn waits_for(&self) -> PollFlags {
        if matches!(self.stage, Stage::Answered(_)) { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Goes on for as long as nothing has to be waited for; false when the connection is at its end.
    fn goes_on(&mut self, checked: bool, answer: &dyn Fn(Numbers) -> Answer) -> bool {
        loop {
            match self.step(checked, answer) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    fn step(&mut self, checked: bool, answer: &dyn Fn(Numbers) -> Answer) -> io::Result<bool> {
        let mut piece = [0; 4096];
        match &mut self.stage {
            Stage::Asking(request) => {
                let n = self.connection.read(&mut piece)?;
                request.extend_from_slice(&piece[..n]);
                let whole = ends(request);
                if whole || n == 0 || request.len() >= LONGEST_REQUEST {
                    let response = respond(whole.then_some(&**request), checked, answer);
                    (self.stage, self.end) = (Stage::Answered(response.into_bytes()), Instant::now() + TO_TAKE);
                }
            }
            Stage::Answered(response) => {
                let n = self.connection.write(response)?;
                response.drain(..n);
                if response.is_empty() {
                    self.connection.finish();
                    self.stage = Stage::Leaving(0);
                }
            }
            Stage::Leaving(came) => {
                let n = self.connection.read(&mut piece)?;
                *came += n;
                return Ok(n > 0 && *came < LONGEST_REST);
            }
        }
        Ok(true)
    }
}

/// Whether an empty line ends the request.
fn ends(request: &[u8]) -> bool {
    request.windows(4).any(|four| four == b"\r\n\r\n") || request.windows(2).any(|two| two == b"\n\n")
}

/// All connections, in the order of their coming.
struct Clients {
    all: Vec<Client>,
    /// Names of hosts are looked at.
    checked: bool,
}

impl Clients {
    fn serve(&mut self, listening: &Listening, over: &AtomicBool, answer: &dyn Fn(Numbers) -> Answer) {
        let mut not_before = Instant::now();
        while !over.load(Ordering::Acquire) {
            let now = Instant::now();
            self.all.retain(|client| client.end > now);
            let listens = not_before <= now;
            let mut fds: Vec<_> =
                self.all.iter().map(|client| PollFd::new(&client.connection, client.waits_for())).collect();
            fds.extend(listens.then(|| PollFd::new(listening, PollFlags::IN)));
            let ends = self.all.iter().map(|client| client.end);
            let next = ends.chain((!listens).then_some(not_before)).min();
            let time = next.and_then(|next| Timespec::try_from(next.saturating_duration_since(now)).ok());
            if poll(&mut fds, time.as_ref()).is_err() {
                thread::sleep(AFTER_ERROR);
                continue;
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
            let checked = self.checked;
            self.all.retain_mut(|client| ready.next() != Some(true) || client.goes_on(checked, answer));
            if ready.next() == Some(true) && !self.let_in(listening, answer) {
                not_before = Instant::now() + AFTER_ERROR;
            }
        }
    }

    /// Takes those who wait to be let in; false if that fails.
    fn let_in(&mut self, listening: &Listening, answer: &dyn Fn(Numbers) -> Answer) -> bool {
        for _ in 0..MOST_CLIENTS {
            let connection = match listening.accept() {
                Ok(connection) => connection,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            // As a rule the request is there with the connection: whoever asks has an answer before it could be in
            // anybody's way.
            let mut client = Client::new(connection);
            if !client.goes_on(self.checked, answer) {
                continue;
            }
            if self.all.len() >= MOST_CLIENTS {
                let slow = self.all.iter().position(|client| matches!(client.stage, Stage::Asking(_)));
                self.all.remove(slow.unwrap_or(0));
            }
            self.all.push(client);
        }
        true
    }
}

/// The response to a request; where it is `checked`, only to one that names this host.
fn respond(request: Option<&[u8]>, checked: bool, answer: &dyn Fn(Numbers) -> Answer) -> String {
    let plain = "text/plain; charset=utf-8";
    let wanted = request.map(wanted);
    let (status, kind, body) = match wanted {
        None => ("431 Request Header Fields Too Large", plain, "the request is too long or was cut\n".to_owned()),
        Some(Wanted::Nonsense) => ("400 Bad Request", plain, "this is no HTTP request\n".to_owned()),
        Some(Wanted::Other) => ("405 Method Not Allowed\r\nAllow: GET, HEAD", plain, "only GET\n".to_owned()),
        // A page of another site, whose name leads here (DNS rebinding), would read the numbers by a visitor's browser.
        Some(_) if checked && !request.is_some_and(names_this_host) => {
            ("421 Misdirected Request", plain, "ask for an address, localhost or this host's own name\n".to_owned())
        }
        Some(Wanted::Elsewhere) => ("404 Not Found", plain, "the numbers are at /metrics, a page at /\n".to_owned()),
        Some(Wanted::Page { head }) => {
            let (text, policy) = page::page();
            let more = format!("Content-Security-Policy: {policy}\r\nReferrer-Policy: no-referrer\r\n");
            return response("200 OK", "text/html; charset=utf-8", &more, &text, head);
        }
        Some(Wanted::Numbers { numbers, .. }) => match (answer(numbers), numbers) {
            (Answer::Text(text), Numbers::Exposition) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            (Answer::Text(text), Numbers::Json) => ("200 OK", "application/json", text),
            (Answer::Gone, _) => ("503 Service Unavailable", plain, "the volume is no longer mounted\n".to_owned()),
        },
    };
    response(status, kind, "", &body, matches!(wanted, Some(Wanted::Numbers { head: true, .. })))
}

/// A response; one to HEAD has everything but the body.
fn response(status: &str, kind: &str, more: &str, body: &str, head: bool) -> String {
    let length = body.len();
    let body = if head { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\n{more}Connection: close\r\n\r\n{body}"
    )
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Numbers { numbers: Numbers, head: bool },
    Page { head: bool },
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
    let head = method == "HEAD";
    match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => Wanted::Numbers { numbers: Numbers::Exposition, head },
        ("GET" | "HEAD", Some("/stats.json")) => Wanted::Numbers { numbers: Numbers::Json, head },
        ("GET" | "HEAD", Some("/")) => Wanted::Page { head },
        ("GET" | "HEAD", _) => Wanted::Elsewhere,
        _ => Wanted::Other,
    }
}

/// Whether each `Host` of a request is an address, `localhost` or the name of this host. Programs that send none are no
/// browsers.
fn names_this_host(request: &[u8]) -> bool {
    let hosts = request.split(|byte| *byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        name.trim_ascii().eq_ignore_ascii_case(b"host").then(|| value[1..].trim_ascii())
    });
    hosts.into_iter().all(|host| std::str::from_utf8(host).is_ok_and(is_this_host))
}

fn is_this_host(host: &str) -> bool {
    let port = |text: &str| text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) && port(rest);
    }
    let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
    let own = rustix::system::uname();
    let is_own =
        |name: &str| own.nodename().to_str().is_ok_and(|own| !own.is_empty() && own.eq_ignore_ascii_case(name));
    let is_address = name.parse::<IpAddr>().is_ok();
    port(rest) && (is_address || name.eq_ignore_ascii_case("localhost") || is_own(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn requests_are_told_apart() {
        let metrics = |head| Wanted::Numbers { numbers: Numbers::Exposition, head };
        for (line, what) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", metrics(false)),
            ("GET /metrics?x=/y HTTP/1.0\n\n", metrics(false)),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", metrics(true)),
            ("GET /stats.json HTTP/1.1\r\n\r\n", Wanted::Numbers { numbers: Numbers::Json, head: false }),
            ("GET / HTTP/1.1\r\n\r\n", Wanted::Page { head: false }),
            ("HEAD /?x HTTP/1.1\r\n\r\n", Wanted::Page { head: true }),
            ("GET /page.html HTTP/1.1\r\n\r\n", Wanted::Elsewhere),
            ("GET /stats HTTP/1.1\r\n\r\n", Wanted::Elsewhere),
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
            let serving = Serving::start(listening, |_| Answer::Gone).unwrap();
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
            assert!(start.elapsed() < TO_ASK / 2, "{endpoint}: {:?}", start.elapsed());
            many.into_iter().for_each(|one| drop(one.join().unwrap()));
        }
    }

    #[test]
    fn only_requests_to_this_host_are_answered_where_names_count() {
        let own = rustix::system::uname().nodename().to_str().unwrap().to_uppercase();
        let own = format!("{own}:9100");
        let asked = |head: &str, checked| {
            let request = format!("GET /metrics HTTP/1.1\r\n{head}\r\n\r\n");
            respond(Some(request.as_bytes()), checked, &|_| Answer::Text("x\n".to_owned()))
        };
        for good in ["127.0.0.1:9100", "localhost", "LOCALHOST:1", "[::1]:80", "[fe80::1]", "192.168.7.1", &own] {
            let head = format!("Accept: */*\r\nhost:{good} ");
            assert!(asked(&head, true).starts_with("HTTP/1.1 200 "), "{good}");
        }
        assert!(asked("X: y", true).starts_with("HTTP/1.1 200 "), "no browser");
        for bad in [
            "evil.example",
            "evil.example:9100",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
            "[::1",
            ":80",
            "127.0.0.1:x",
            "[evil]:80",
            "localhost@evil.example",
            "[127.0.0.1]",
        ] {
            let head = format!("Host: {bad}");
            assert!(asked(&head, true).starts_with("HTTP/1.1 421 "), "{bad}");
            assert!(asked(&format!("Host: localhost\r\nHOST : {bad}"), true).starts_with("HTTP/1.1 421 "), "{bad}");
            assert!(asked(&head, false).starts_with("HTTP/1.1 200 "), "{bad}");
        }
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let text = |_| Answer::Text("abc\n".to_owned());
        let get = respond(Some(b"GET /metrics HTTP/1.1\r\n\r\n"), false, &text);
        let head = respond(Some(b"HEAD /metrics HTTP/1.1\r\n\r\n"), false, &text);
        assert!(get.ends_with("\r\n\r\nabc\n") && head.ends_with("\r\n\r\n"), "{get}{head}");
        assert!(get.contains("Content-Length: 4\r\n") && head.contains("Content-Length: 4\r\n"));
        assert!(respond(Some(b"GET /metrics HTTP/1.1\r\n\r\n"), false, &|_| Answer::Gone).starts_with("HTTP/1.1 503 "));
        assert!(respond(None, false, &text).starts_with("HTTP/1.1 431 "));
    }
}
