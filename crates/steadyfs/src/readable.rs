//! Whether others may read what holds a volume.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether every user of the host may read an image file, or a directory with the files of a device: by its own
/// permissions and those of the directories above it. What cannot be looked at is taken to be closed.
pub(crate) fn by_all(path: &Path) -> bool {
    const READ: u32 = 0o004;
    const SEARCH: u32 = 0o001;
    let has = |path: &Path, bits: u32| path.metadata().is_ok_and(|meta| meta.mode() & bits == bits);
    let Ok(path) = path.canonicalize() else { return false };
    let own = match () {
        () if path.is_file() => has(&path, READ),
        () if path.is_dir() => has(&path, READ | SEARCH),
        // Devices are the system's affair.
        () => false,
    };
    own && path.ancestors().skip(1).all(|above| has(above, SEARCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn all_that_leads_to_an_image_has_to_be_open() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        fs::write(&image, "").unwrap();
        let look = |above: u32, own: u32| {
            fs::set_permissions(dir.path(), Permissions::from_mode(above)).unwrap();
            fs::set_permissions(&image, Permissions::from_mode(own)).unwrap();
            by_all(&image)
        };
        assert!(look(0o711, 0o644));
        assert!(!look(0o711, 0o640) && !look(0o700, 0o644));
        assert!(!by_all(Path::new("/dev/null")) && !by_all(&dir.path().join("nothing")));
    }
}
