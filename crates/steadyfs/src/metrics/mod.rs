//! `mount --metrics`: the numbers of a mounted volume over HTTP, on an address or a socket: for Prometheus, as JSON,
//! and as a page for people.
//!
//! Kept true: the volume is held only while a snapshot is taken, so a reader, however slow, keeps no mount from ending;
//! a request can take so much memory and so much time and no more (`http`).

mod exposition;
mod http;
mod page;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use steadyfs_core::Fs;
use steadyfs_core::stats::{MAP_CELLS, SegmentMap, VolumeStats};

use crate::failure::Failure;
use crate::text::warn;
use http::{Answer, Numbers};
pub(crate) use http::{Listening, Serving};

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// An address and port.
    Address(SocketAddr),
    /// A socket in the file system, for the owner of the mount.
    Socket(PathBuf),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') {
            return Ok(Endpoint::Socket(text.into()));
        }
        if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>() {
            return Ok(Endpoint::Address(([127, 0, 0, 1], port).into()));
        }
        let wanted = "want 127.0.0.1:PORT, another address with a port, or the path of a socket, which has a slash";
        text.parse().map(Endpoint::Address).map_err(|_| wanted.to_owned())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Address(address) => write!(f, "{address}"),
            Endpoint::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Takes the address or makes the socket, before anything is mounted: what is wrong with it is known then.
pub(crate) fn bind(endpoint: &Endpoint) -> Result<Listening, Failure> {
    if let Endpoint::Address(address) = endpoint
        && !address.ip().to_canonical().is_loopback()
    {
        warn(&format!(
            "whoever reaches {address} may read the volume's numbers; `--metrics 127.0.0.1:{}`, or a socket, keeps them on \
             this host",
            address.port()
        ));
    }
    Listening::bind(endpoint).map_err(|e| {
        Failure::new(
            format!("cannot serve metrics at {endpoint}"),
            e,
            "give --metrics an address or a path that is free",
        )
    })
}

/// The volume that is served now.
#[derive(Clone)]
pub(crate) struct Served(Arc<Mutex<Weak<Fs>>>);

impl Served {
    pub(crate) fn new(fs: &Arc<Fs>) -> Self {
        Served(Arc::new(Mutex::new(Arc::downgrade(fs))))
    }

    /// From now on it is this one.
    pub(crate) fn set(&self, fs: &Arc<Fs>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(fs);
    }

    fn get(&self) -> Option<Arc<Fs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

/// What `/stats.json` says: as `top --json`, without the name of the directory.
#[derive(Serialize)]
struct Now {
    mounted: bool,
    stats: VolumeStats,
    segments: SegmentMap,
}

/// Answers requests about the volume until what this returns goes.
pub(crate) fn serve(listening: Listening, served: Served) -> Result<Serving, Failure> {
    let answer = move |numbers| match (served.get(), numbers) {
        (Some(fs), Numbers::Exposition) => Answer::Text(exposition::render(&fs.stats(), &fs.segment_map(MAP_CELLS))),
        (Some(fs), Numbers::Json) => {
            let now = Now { mounted: true, stats: fs.stats(), segments: fs.segment_map(MAP_CELLS) };
            serde_json::to_string(&now).map_or(Answer::Gone, Answer::Text)
        }
        (None, _) => Answer::Gone,
    };
    Serving::start(listening, answer)
        .map_err(|e| Failure::new("cannot start the thread that serves metrics", e, "mount without --metrics"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_understood_and_others_refused() {
        let address = |text: &str| Ok(Endpoint::Address(text.parse().unwrap()));
        assert_eq!("9100".parse::<Endpoint>(), address("127.0.0.1:9100"));
        assert_eq!("localhost:0".parse::<Endpoint>(), address("127.0.0.1:0"));
        assert_eq!("[::1]:80".parse::<Endpoint>(), address("[::1]:80"));
        assert_eq!("./m".parse::<Endpoint>(), Ok(Endpoint::Socket("./m".into())));
        for wrong in ["", "metrics.sock", "127.0.0.1", "example.org:80", "1.2.3.4:65536"] {
            assert!(wrong.parse::<Endpoint>().unwrap_err().contains("PORT"), "{wrong}");
        }
    }
}
