//! The golden images are small, sound, and what their manifests say: as far as user-mode Linux and fsck.f2fs can tell.

use std::time::Duration;

use steadyfs_testkit::corpus::{HostTarget, Workload, apply};
use steadyfs_testkit::golden::{self, Golden};
use steadyfs_testkit::images::MANIFEST_OPTIONS;
use steadyfs_testkit::manifest::{Fields, Manifest, Options};
use steadyfs_testkit::{fsck_f2fs, linux_manifest};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn they_are_small_and_sound() {
    let mut total = 0;
    for golden in golden::list() {
        let image = golden.unpack().unwrap();
        fsck_f2fs(image.path()).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
        assert!(!golden.manifest().unwrap().entries.is_empty(), "{}", golden.name);
    }
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")).unwrap() {
        let size = file.as_ref().unwrap().metadata().unwrap().len();
        assert!(size < 200_000, "{file:?}: {size}");
        total += size;
    }
    assert!(total < 1_500_000, "{total}");
}

/// What user-mode Linux can read, it sees as when the image was made.
#[test]
fn linux_sees_what_the_manifest_says() {
    let unreadable = ["linux-compressed", "linux-casefold", "linux-verity", "linux-encrypted"];
    let readable = |golden: &Golden| !unreadable.contains(&golden.name);
    let all: Vec<Golden> = golden::list().into_iter().filter(readable).collect();
    assert_eq!(all.len() + unreadable.len(), golden::list().len());
    std::thread::scope(|scope| {
        for half in all.chunks(all.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(linux_agrees));
        }
    });
}

fn linux_agrees(golden: &Golden) {
    let image = golden.unpack().unwrap();
    let seen = linux_manifest(image.path(), "", &MANIFEST_OPTIONS, LIMIT).unwrap();
    let fields = Fields { dir_times: golden.name != "linux-crashed", ..Fields::all() };
    let diff = golden.manifest().unwrap().diff(&seen, &fields);
    assert!(diff.is_empty(), "{}: {diff}", golden.name);
    if golden.name == "linux-crashed" {
        let at_checkpoint = golden.at_checkpoint().unwrap().unwrap();
        assert!(!at_checkpoint.diff(&seen, &Fields::portable()).is_empty());
    }
}

/// The files of the compressed image have the contents that the same workload has elsewhere, whichever algorithm packed
/// them.
#[test]
fn compressed_files_have_their_contents() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut target = HostTarget::open(dir.path()).unwrap();
    apply(Workload::Compressible { dir: "here".to_owned() }.ops(), &mut target).unwrap();
    let here = Manifest::of(dir.path(), &Options::default()).unwrap();
    for name in ["linux-compressed", "linux-verity"] {
        let golden = golden::find(name).unwrap().manifest().unwrap();
        let directories = match name {
            "linux-verity" => &["v"][..],
            _ => &["lz4", "lz4hc", "lzo", "lzo-rle", "zstd", "zstd-15", "by-flag/default"],
        };
        for directory in directories {
            let mut compared = 0;
            for (path, entry) in &here.entries {
                let Some(file) = path.strip_prefix("here/") else { continue };
                let there = &golden.entries[&format!("{directory}/{file}")];
                assert_eq!((&entry.digest, entry.size), (&there.digest, there.size), "{directory}/{file}");
                compared += 1;
            }
            assert!(compared > 15, "{directory}: {compared}");
        }
    }
}
