//! Tells a service manager how a mount is, by the datagrams of sd_notify(3).
//!
//! Kept true: only a mount in the foreground speaks. One that mount(8) or a script of a service starts is not that
//! service, and its words would be taken for the service's.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// Where a service manager listens, if one does: a path, or `@` and an abstract name.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// How long to wait for a manager that has much to do.
const PATIENCE: Duration = Duration::from_secs(1);

/// The manager that started this process as a service, or none.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    socket: Option<OsString>,
}

impl Service {
    /// By the environment of this process.
    pub(crate) fn found() -> Self {
        Service { socket: std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()) }
    }

    /// The volume is mounted: services that wait for it may go on.
    pub(crate) fn ready(&self, image: &Path, dir: &Path) {
        // A newline would begin another assignment.
        let status = format!("serving {} on {}", image.display(), dir.display()).replace('\n', " ");
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// It is being unmounted.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=unmounting");
    }

    fn tell(&self, words: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(e) = send(socket, words) {
            tracing::warn!("cannot tell the service manager at {}: {e}", socket.display());
        }
    }
}

fn send(socket: &OsStr, words: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let from = UnixDatagram::unbound()?;
    from.set_write_timeout(Some(PATIENCE))?;
    from.send_to_addr(words.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("steadyfs-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, listener) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&abstract_name).unwrap()),
        ] {
            listener.set_nonblocking(true).unwrap();
            let heard = || {
                let mut words = [0; 256];
                listener.recv(&mut words).map(|len| String::from_utf8_lossy(&words[..len]).into_owned()).unwrap()
            };
            let service = Service { socket: Some(socket) };
            service.ready(Path::new("an\nimage"), Path::new("/mnt"));
            assert_eq!(heard(), "READY=1\nSTATUS=serving an image on /mnt");
            service.stopping();
            assert_eq!(heard(), "STOPPING=1\nSTATUS=unmounting");
        }
        Service { socket: None }.stopping();
        Service { socket: Some("/nowhere".into()) }.stopping();
    }
}
