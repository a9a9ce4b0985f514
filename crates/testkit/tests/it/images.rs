//! Every volume of the matrix is what its recipe promises: Linux and fsck.f2fs are content with it, and it is in the
//! state that it is there for.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadyfs_testkit::fsck_f2fs;
use steadyfs_testkit::images::{LinuxImage, Recipe, crashed, matrix, recipe};
use steadyfs_testkit::manifest::Fields;

// Checkpoint flags (format section 3.2).
const UMOUNT: u32 = 0x1;
const ORPHAN: u32 = 0x2;
const COMPACT_SUM: u32 = 0x4;
const LARGE_NAT: u32 = 0x400;
const DISABLED: u32 = 0x1000;

/// Calls `check` for every image, two at a time.
fn for_each(recipes: Vec<Recipe>, check: impl Fn(&LinuxImage) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(recipe) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let image = recipe.image().unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
                    fsck_f2fs(&image.path).unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
                    check(&image);
                }
            });
        }
    });
}

/// The flags of the newer of the two checkpoints, its allocation types, and the superblock's features.
fn state(image: &Path) -> (u32, [u8; 6], u32) {
    let file = std::fs::File::open(image).unwrap();
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    let word = |at: u64| u32::from_le_bytes(read(at, 4).try_into().unwrap());
    let first = u64::from(word(1024 + 76)) * 4096;
    let version = |pack: u64| u64::from_le_bytes(read(pack, 8).try_into().unwrap());
    let pack = [first, first + 512 * 4096].into_iter().max_by_key(|&pack| version(pack)).unwrap();
    (word(pack + 132), read(pack + 176, 6).try_into().unwrap(), word(1024 + 2180))
}

#[test]
fn unmounted_volumes() {
    for_each(matrix(), |image| {
        let (flags, alloc, features) = state(&image.path);
        let name = image.name.as_str();
        assert!(image.at_checkpoint.is_none(), "{name}");
        assert_eq!(flags & UMOUNT != 0, name != "checkpoint-disabled", "{name}: {flags:#x}");
        assert_eq!(flags & DISABLED != 0, name == "checkpoint-disabled", "{name}: {flags:#x}");
        assert_eq!(flags & LARGE_NAT != 0, name == "large-nat", "{name}: {flags:#x}");
        let has_features = recipe(name).unwrap().mkfs.contains("-O");
        assert_eq!(features != 0, has_features, "{name}: {features:#x}");
        if name == "aged" {
            assert!(alloc.contains(&1), "no log re-entered a segment: {alloc:?}");
            assert_eq!(flags & COMPACT_SUM, 0, "{flags:#x}");
        }
        if name == "checkpoint-disabled" {
            assert!(
                image.manifest.entries.contains_key("dirs/big") && !image.manifest.entries.contains_key("not-there")
            );
        }
    });
}

#[test]
fn crashed_volumes() {
    for_each(crashed(), |image| {
        let (flags, _, _) = state(&image.path);
        let name = image.name.as_str();
        let at_checkpoint = image.at_checkpoint.as_ref().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(flags & UMOUNT, 0, "{name}: {flags:#x}");
        assert_eq!(flags & ORPHAN != 0, name.starts_with("orphans"), "{name}: {flags:#x}");
        let diff = at_checkpoint.diff(&image.manifest, &Fields::portable());
        // Machines that were killed amid fsyncs have a chain or not, as it happens; without fsyncs none has.
        if !name.starts_with("killed-fsync") {
            assert_eq!(!diff.is_empty(), name.starts_with("fsync"), "{name}: {diff}");
        }
        if name.starts_with("fsync-chain") {
            for (path, entry) in &image.manifest.entries {
                assert!(!path.contains("lost-new"), "{name}: {path} was not synced");
                assert!(path != "f/new" || entry.size == 6 * 4096 + 7, "{name}: {entry:?}");
            }
            assert!(image.manifest.entries.contains_key("f/new"), "{name}: {diff}");
            assert!(!at_checkpoint.entries.contains_key("f/new"), "{name}: {diff}");
        }
    });
}

/// A copy can be changed and the original stays; the second time an image comes from the cache.
#[test]
fn images_are_kept() {
    let recipe = recipe("nearly-empty").unwrap();
    let image = recipe.image().unwrap();
    let before = std::fs::metadata(&image.path).unwrap().modified().unwrap();
    let copy = image.copy().unwrap();
    assert_eq!(std::fs::read(copy.path()).unwrap(), std::fs::read(&image.path).unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(copy.path()).unwrap();
    file.write_all_at(&[1; 100], 5000).unwrap();
    assert_eq!(std::fs::metadata(&recipe.image().unwrap().path).unwrap().modified().unwrap(), before);
}
