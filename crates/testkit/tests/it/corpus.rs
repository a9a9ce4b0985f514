//! The kernel's own F2FS holds the tree of corner cases, before and after a remount, as any other file system does.

use std::path::Path;
use std::time::Duration;

use steadyfs_testkit::corpus::{HostTarget, Spec, Workload, apply};
use steadyfs_testkit::images::MANIFEST_OPTIONS;
use steadyfs_testkit::linux::{corpus_command, manifest_command, mount_command};
use steadyfs_testkit::manifest::{Fields, Options};
use steadyfs_testkit::{Manifest, Uml, fsck_f2fs, linux_manifest, mkfs_f2fs};

const ALL: Options = Options { atime: true, ..MANIFEST_OPTIONS };

/// The tree as a file system in memory has it. It knows only some kinds of fallocate.
fn on_tmpfs(spec: &Spec) -> Manifest {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    apply(spec.ops(), &mut HostTarget::open(dir.path()).unwrap()).unwrap();
    Manifest::of(dir.path(), &Options::default()).unwrap()
}

/// Writes the tree through the kernel into a new volume; the manifests before the unmount and after a remount.
fn through_linux(image: &Path, mkfs: &[&str], mount: &str, spec: &Spec) -> (Manifest, Manifest) {
    mkfs_f2fs(image, 512 << 20, mkfs).unwrap();
    let out = Uml::new()
        .disk(image)
        .timeout(Duration::from_secs(900))
        .script(mount_command("/dev/ubda", mount))
        .script(corpus_command("$MNT", &Workload::Corners(spec.clone())).unwrap())
        .script(manifest_command("$MNT", "first.json", &ALL).unwrap())
        .run()
        .unwrap();
    fsck_f2fs(image).unwrap();
    let first = Manifest::load(out.file("first.json")).unwrap();
    let second = linux_manifest(image, mount, &ALL, Duration::from_secs(600)).unwrap();
    fsck_f2fs(image).unwrap();
    (first, second)
}

#[test]
fn linux_keeps_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    let spec = Spec { falloc: false, ..Spec::small() };
    let (first, second) = through_linux(&dir.path().join("image"), &["-q"], "", &spec);
    assert!(first.entries.len() > 2000, "{}", first.entries.len());
    first.assert_same(&second, &Fields::all());
    on_tmpfs(&spec).assert_same(&second, &Fields::portable());
}

/// Every operation and every feature that changes the layout of inodes, so that the limits of inline data and
/// attributes move.
#[test]
fn linux_keeps_the_tree_with_all_features() {
    let dir = tempfile::tempdir().unwrap();
    let features = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,project_quota";
    let (first, second) = through_linux(&dir.path().join("image"), &["-q", "-O", features], "mode=lfs", &Spec::small());
    first.assert_same(&second, &Fields::all());
    assert!(first.entries["inline"].crtime.is_some());
    assert!(first.entries.contains_key("lost+found"));
}

/// A list of operations always means the same tree.
#[test]
fn the_tree_is_deterministic() {
    let spec = Spec { falloc: false, ..Spec::tiny() };
    assert_eq!(spec.ops(), spec.ops());
    let (a, b) = (on_tmpfs(&spec), on_tmpfs(&spec));
    a.assert_same(&b, &Fields::portable());
    assert_ne!(spec.ops(), Spec { links: 6, ..spec }.ops());
}
