//! A manifest holds what a tree is, and a difference in any property is found.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use steadyfs_testkit::Manifest;
use steadyfs_testkit::manifest::{Entry, Fields, Options};

fn take(root: &Path) -> Manifest {
    let options = Options { blocks: true, data: true, ..Options::default() };
    Manifest::of(root, &options).unwrap()
}

fn small_tree(root: &Path) {
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/file"), "abc").unwrap();
    fs::hard_link(root.join("dir/file"), root.join("a link")).unwrap();
    symlink("nowhere/\u{e9}", root.join("symlink")).unwrap();
    fs::write(root.join("caf\u{e9}\\"), "").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(30 << 30).unwrap();
    sparse.write_all_at(b"far away", 25 << 30).unwrap();
    rustix::fs::setxattr(root.join("dir"), "user.name", &[7; 100], rustix::fs::XattrFlags::empty()).unwrap();
}

#[test]
fn a_tree_is_written_down_and_read_back() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    small_tree(dir.path());
    let manifest = take(dir.path());
    let names: Vec<_> = manifest.entries.keys().map(String::as_str).collect();
    assert_eq!(names, [".", "a link", "caf\\xc3\\xa9\\\\", "dir", "dir/file", "sparse", "symlink"]);
    let file = &manifest.entries["dir/file"];
    assert_eq!((file.nlink, file.size, file.same_as.as_deref()), (2, 3, Some("a link")));
    assert_eq!(file.digest.as_deref(), Some("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    assert_eq!(manifest.entries["symlink"].target.as_deref(), Some("nowhere/\\xc3\\xa9"));
    assert!(manifest.entries["dir"].xattrs["user.name"].starts_with("100 bytes sha256:"));
    let data = manifest.entries["sparse"].data.as_ref().unwrap();
    assert_eq!(data.len(), 1, "one block of 30 GiB is data: {data:?}");
    let saved = dir.path().join("manifest");
    manifest.save(&saved).unwrap();
    assert_eq!(Manifest::load(&saved).unwrap(), manifest);
}

/// Each change to the tree shows as a difference of the named property.
#[test]
fn every_change_is_found() {
    type Change = (&'static str, fn(&Path));
    let changes: [Change; 10] = [
        ("digest", |r| fs::write(r.join("dir/file"), "abd").unwrap()),
        ("mode", |r| fs::set_permissions(r.join("dir"), fs::Permissions::from_mode(0o1700)).unwrap()),
        ("only on the right", |r| fs::write(r.join("new"), "").unwrap()),
        ("only on the left", |r| fs::remove_file(r.join("symlink")).unwrap()),
        ("same_as", |r| {
            fs::remove_file(r.join("a link")).unwrap();
            fs::write(r.join("a link"), "abc").unwrap();
        }),
        ("size", |r| fs::File::options().write(true).open(r.join("sparse")).unwrap().set_len(29 << 30).unwrap()),
        ("mtime", |r| {
            let time = SystemTime::UNIX_EPOCH + Duration::new(5, 7);
            fs::File::open(r.join("dir/file")).unwrap().set_modified(time).unwrap();
        }),
        ("xattr user.name", |r| {
            let value = [8; 100];
            rustix::fs::setxattr(r.join("dir"), "user.name", &value, rustix::fs::XattrFlags::empty()).unwrap();
        }),
        ("target", |r| {
            fs::remove_file(r.join("symlink")).unwrap();
            symlink("elsewhere", r.join("symlink")).unwrap();
        }),
        ("blocks", |r| {
            let file = fs::File::options().write(true).open(r.join("sparse")).unwrap();
            file.write_all_at(&[0; 4096], 4096).unwrap();
        }),
    ];
    for (property, change) in changes {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        small_tree(dir.path());
        let before = take(dir.path());
        assert!(before.diff(&take(dir.path()), &Fields::all()).is_empty(), "{property}");
        change(dir.path());
        let diff = before.diff(&take(dir.path()), &Fields::all());
        assert!(diff.lines.iter().any(|l| l.contains(property)), "{property}: {diff}");
    }
}

#[test]
fn fields_that_do_not_count_are_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let left = take(dir.path());
    let mut right = left.clone();
    let entry: &mut Entry = right.entries.get_mut("d").unwrap();
    (entry.size, entry.nlink, entry.blocks) = (entry.size + 1, 9, Some(77));
    entry.xattrs.insert("security.selinux".to_owned(), "label".to_owned());
    entry.mtime.sec += 1;
    assert_eq!(left.diff(&right, &Fields::all()).lines.len(), 5);
    let fields = Fields { ignored_xattrs: vec!["security.selinux".to_owned()], dir_times: false, ..Fields::portable() };
    assert!(left.diff(&right, &fields).is_empty());
}
