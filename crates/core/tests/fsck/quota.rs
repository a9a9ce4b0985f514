//! Quota files: fsck.f2fs and we say the same of them, and a volume that we changed is put right by fsck.f2fs.

use crate::editor::Editor;
use crate::images::{featured, run};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use steadyfs_core::fsck::{Issue, Report, Severity};
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{Device, MemDevice};
use steadyfs_format::superblock::QuotaKind;
use steadyfs_testkit::images::{Ending, Recipe};

/// Owners that come and go, so that entries are freed and used again; projects; attributes in a node of their own.
const OWNERS: &str = "
    cd $MNT
    for id in 1 1000 70000 4000000000; do head -c 300000 /dev/urandom >of-$id; chown $id:$id of-$id; done
    perl -e '
        for (100..180) { open F, \">s-$_\"; print F \"x\\n\"; close F; chown $_, $_, \"s-$_\" }
        chown 0, 0, map { \"s-$_\" } 105..160;
        chown $_, -1, \"s-\" . ($_ - 190) for 300..310'
    mkdir project; chattr -p 4242 project; chattr +P project; echo hi >project/f; ln -s f project/l; mkfifo project/p
    dd if=/dev/zero of=sparse bs=4k count=1 seek=3000000 2>/dev/null; chown 55:66 sparse
    setfattr -n user.a -v $(head -c 3000 /dev/zero | tr '\\0' a) sparse
    sync
    cd /
";

/// A file that stays open without a name.
const ORPHAN: &str = "exec 5>$MNT/open; head -c 40000 /dev/urandom >&5; chown 77:78 $MNT/open; rm $MNT/open";

const MKFS: &str = "-O extra_attr,quota,project_quota";

fn complaints(report: &Report) -> Vec<String> {
    let worse = report.issues.iter().filter(|issue| issue.severity() > Severity::Note);
    worse.map(|issue| format!("{}: {issue}", issue.code())).collect()
}

/// Writes the volume where fsck.f2fs can read it.
fn save(dev: &MemDevice, path: &Path) {
    let file = std::fs::File::create(path).expect("room");
    file.set_len(dev.info().blocks * 4096).expect("room");
    for block in dev.written_blocks() {
        let bytes = dev.read_one(block).expect("in range").to_array();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[..], block * 4096).expect("room");
    }
}

/// Whether fsck.f2fs finds the quota files wrong.
fn fsck_f2fs_complains(dev: &MemDevice) -> bool {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("volume.img");
    save(dev, &path);
    let out = Command::new("fsck.f2fs").args(["-f", "--dry-run"]).arg(&path).output().expect("f2fs-tools");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("other corrupted bugs"), "it came to the end: {text}");
    text.contains("Fixing Quota file")
}

#[test]
fn what_linux_keeps_is_right() {
    let recipe = Recipe { mkfs: MKFS, after: OWNERS, ..Recipe::new("fsck-quota") };
    for (ending, before) in [(Ending::Unmounted, ""), (Ending::PowerOff, ORPHAN)] {
        let recipe = Recipe { ending, before, ..recipe.clone() };
        let dev = crate::common::load(&recipe.image().expect("Linux makes the volume").path);
        let editor = Editor::new(dev.fork());
        let users: Vec<u32> = editor.quota(QuotaKind::User).1.into_iter().map(|entry| entry.id).collect();
        assert!(users.len() > 40 && users.contains(&4_000_000_000), "{users:?}");
        let report = run(dev.fork());
        assert_eq!(complaints(&report), [""; 0], "{ending:?}");
        assert!(!report.issues.iter().any(|issue| matches!(issue, Issue::QuotaStale { .. })), "it was compared");
        assert!(!fsck_f2fs_complains(&dev));
        // Who was deleted while open is charged until it is closed.
        let orphans = report.counts.expect("walked").orphans;
        assert_eq!((orphans, users.contains(&77)), (u64::from(!before.is_empty()), !before.is_empty()));
    }
}

#[test]
fn fsck_f2fs_agrees_on_what_is_wrong() {
    type Change = (&'static str, fn(&Editor));
    let changes: [Change; 6] = [
        ("nothing", |_| ()),
        // (The magic number and the way down the tree, by which Linux goes, fsck.f2fs does not look at.)
        ("version", |e| e.quota_words(QuotaKind::User, &[(0, 1, 0)])),
        ("space", |e| {
            let (_, mut entries) = e.quota(QuotaKind::Project);
            entries[0].usage.space += 4096;
            e.set_quota(QuotaKind::Project, &entries);
        }),
        ("inodes", |e| {
            let (_, mut entries) = e.quota(QuotaKind::Group);
            entries[1].usage.inodes += 1;
            e.set_quota(QuotaKind::Group, &entries);
        }),
        ("missing", |e| {
            let (_, mut entries) = e.quota(QuotaKind::User);
            entries.remove(1);
            e.set_quota(QuotaKind::User, &entries);
        }),
        ("limits only", |e| {
            let (_, mut entries) = e.quota(QuotaKind::User);
            entries[1].space.hard = 1 << 30;
            e.set_quota(QuotaKind::User, &entries);
        }),
    ];
    for (what, change) in changes {
        let editor = Editor::new(featured());
        change(&editor);
        let dev = editor.dev.fork();
        let ours = !complaints(&run(dev.fork())).is_empty();
        assert_eq!(ours, fsck_f2fs_complains(&dev), "{what}");
        assert_eq!(ours, !matches!(what, "nothing" | "limits only"), "{what}");
    }
}

/// We do not keep quota, and say so in the checkpoint: nobody complains, and fsck.f2fs makes the files anew.
#[test]
fn a_volume_that_we_changed_is_put_right() {
    let shared: Arc<MemDevice> = Arc::new(featured());
    let fs = Fs::mount(Arc::clone(&shared) as Arc<dyn Device>, MountOptions::default()).expect("mounts");
    let root = fs.root().expect("a root");
    let new = NewInode { mode: 0o100_644, uid: 4711, gid: 4712, ..NewInode::default() };
    let file = fs.create(&root, b"ours", &new).expect("room");
    fs.write(&file, 0, &[7; 50_000]).expect("room");
    drop((file, root));
    fs.unmount().expect("a good device");

    let report = run(shared.fork());
    assert!(matches!(report.issues[..], [Issue::QuotaStale { .. }]), "{:?}", report.issues);

    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("volume.img");
    save(&shared, &path);
    let out = Command::new("fsck.f2fs").arg("-a").arg(&path).output().expect("f2fs-tools");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let repaired = crate::common::load(&path);
    let report = run(repaired.fork());
    assert_eq!(report.issues, [], "the flag is gone, and the files are right");
    let (_, users) = Editor::new(repaired).quota(QuotaKind::User);
    assert!(users.iter().any(|entry| entry.id == 4711 && entry.usage.space >= 50_000));
}
