//! Asking a mounted volume for its numbers: the attributes of its root directory that `steadyfs_fuse` answers with
//! JSON.

use std::path::Path;

use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The most that the value of an attribute can be.
const ROOM: usize = 64 << 10;

/// Reads one of the attributes of the volume mounted at `dir`.
pub(crate) fn read<T: DeserializeOwned>(dir: &Path, attribute: &str) -> Result<T, Failure> {
    let what = || format!("cannot show {}", dir.display());
    let mut value = vec![0; ROOM];
    let got = rustix::fs::getxattr(dir, attribute, &mut value[..]);
    let length = got.map_err(|e| match e {
        Errno::NODATA | Errno::NOTSUP => Failure::new(
            what(),
            "it is a directory where no SteadyFS volume is mounted",
            "name an image, a device, or the directory that a volume is mounted on",
        ),
        Errno::ACCESS | Errno::PERM => Failure::new(
            what(),
            "whoever mounted it lets no other user in",
            "run as that user, or have it mounted with `-o allow_other`",
        ),
        e => Failure::new(what(), e, "check that the process that serves the mount still runs"),
    })?;
    serde_json::from_slice(&value[..length])
        .map_err(|e| Failure::new(what(), e, "use the version that serves this mount"))
}
