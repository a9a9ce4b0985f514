//! How many requests the kernel sends for what programs do: each is a round trip between two processes.
//!
//! The numbers are those of Linux 6.18. None of these requests can go:
//! - The kernel asks for the attributes of a directory before each change of it after another.
//! - It asks once for a capability of each file that is written, for it remembers none that is not there.
//! - It brings the times of an inode that was changed (SETATTR) before it forgets it.
//!
//! With write-back it asks at one close (FLUSH), and never again.

use crate::harness::Place;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use steadyfs_core::stats::VolumeStats;
use steadyfs_fuse::STATS_ATTRIBUTE;

/// How long what the kernel sends after an operation (RELEASE, FORGET) may take.
const BEHIND: Duration = Duration::from_millis(60);

/// The attribute that holds the label of SELinux.
const LABEL: &str = "security.selinux";

/// Requests by operation.
type Counts = BTreeMap<String, u64>;

fn stats(dir: &Path) -> VolumeStats {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).expect("statistics");
    serde_json::from_slice(&value[..len]).expect("statistics")
}

/// What was sent so far.
fn sent(dir: &Path) -> Counts {
    stats(dir).serving.requests
}

/// What `work` costs; the question itself is left out.
fn cost(dir: &Path, work: impl FnOnce()) -> Counts {
    let before = sent(dir);
    work();
    std::thread::sleep(BEHIND);
    let mut after = sent(dir);
    *after.entry("getxattr".into()).or_default() -= 1;
    let more = |(name, count): (String, u64)| (name.clone(), count - before.get(&name).copied().unwrap_or(0));
    after.into_iter().map(more).filter(|(_, count)| *count > 0).collect()
}

/// What `work` costs at the least. The kernel may send something of its own beside it, such as the times of a file that
/// was written before, but not each time.
fn least(dir: &Path, work: impl Fn(usize)) -> Counts {
    let costs = (0..4).map(|n| cost(dir, || work(n)));
    costs.min_by_key(|counts| counts.values().sum::<u64>()).expect("four of them")
}

/// Compares with `name count, ...`.
#[track_caller]
fn assert_sent(counts: &Counts, expected: &str) {
    let shown: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    assert_eq!(shown.join(", "), expected);
}

fn make(path: &Path, contents: &[u8]) {
    let mut file = fs::File::create_new(path).expect("made");
    file.write_all(contents).expect("written");
}

/// Through `/dev/fuse` and, where tests are told to take it, through io_uring.
#[test]
fn each_request_is_timed_once() {
    let place = Place::new();
    place.mounted("", |_| {
        let dir = place.dir();
        (0..20).for_each(|n| make(&dir.join(format!("file{n}")), b"contents"));
        (0..20).for_each(|n| fs::remove_file(dir.join(format!("file{n}"))).expect("removed"));
        // A request has ended a moment after its reply.
        let start = std::time::Instant::now();
        let serving = loop {
            let serving = stats(&dir).serving;
            let others = serving.requests.iter().find(|(operation, came)| {
                let timed = serving.latency.get(*operation).map_or(0, |latency| latency.count);
                // This very question is in service.
                timed + u64::from(*operation == "getxattr") != **came
            });
            match others {
                None => break serving,
                Some(other) => assert!(start.elapsed() < Duration::from_secs(10), "{other:?}: {serving:?}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let latency = serving.latency["create"];
        assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.longest && latency.longest > Duration::ZERO);
    });
}

#[test]
fn each_operation_sends_what_it_has_to_and_no_more() {
    let place = Place::new();
    place.mounted("", |_| {
        let dir = place.dir();
        let at = |name: &str, n: usize| dir.join(format!("{name}{n}"));
        make(&at("first", 0), b"");
        let empty = least(&dir, |n| make(&at("empty", n), b""));
        assert_sent(&empty, "create 1, getattr 1, lookup 1, release 1");
        let mut written = least(&dir, |n| make(&at("file", n), b"contents"));
        // On some mounts the kernel writes back at once, and then sends the times of each file apart.
        written.remove("setattr");
        assert_sent(&written, "create 1, getattr 1, getxattr 1, lookup 1, release 1, write 1");
        // Blocks are the file system's to tell after a close; a second question is the kernel's to answer.
        let stat = |n| assert_eq!(rustix::fs::stat(at("file", n)).expect("there").st_size, 8);
        assert_sent(&least(&dir, stat), "getattr 1");
        assert_sent(&least(&dir, stat), "");
        let read = |n| {
            let mut text = [0; 16];
            let read = fs::File::open(at("file", n)).and_then(|mut file| file.read(&mut text)).expect("read");
            assert_eq!(text[..read], *b"contents");
        };
        assert_sent(&least(&dir, read), "open 1, release 1");
        assert_sent(&least(&dir, |_| assert!(!dir.join("nobody").exists())), "");
        assert_sent(&least(&dir, |n| fs::create_dir(at("dir", n)).expect("made")), "getattr 1, lookup 1, mkdir 1");
        let linked = least(&dir, |n| symlink("file0", at("link", n)).expect("made"));
        assert_sent(&linked, "getattr 1, lookup 1, symlink 1");
        // The first reads the target, and later ones have it.
        assert_sent(&least(&dir, |_| drop(fs::read_link(at("link", 0)))), "");
        let renamed = least(&dir, |n| fs::rename(at("empty", n), at("moved", n)).expect("renamed"));
        assert_sent(&renamed, "getattr 1, lookup 1, rename 1, setattr 1");
        let removed = least(&dir, |n| fs::remove_file(at("moved", n)).expect("removed"));
        assert_sent(&removed, "forget 1, getattr 1, setattr 1, unlink 1");
        assert_eq!(sent(&dir)["flush"], 1, "of all closes");
        // The first lists it, and later ones have the list.
        assert_sent(&least(&dir, |_| assert!(fs::read_dir(&dir).expect("listed").count() > 8)), "");
    });
}

/// What `ls -l` asks of each file: the label of SELinux, until it hears that there are none, and whether there is an
/// ACL, which the kernel remembers.
#[test]
fn listing_files_again_sends_nothing() {
    const FILES: usize = 20;
    let place = Place::new();
    place.mounted("", |_| {
        let dir = place.dir().join("dir");
        fs::create_dir(&dir).expect("made");
        (0..FILES).for_each(|n| make(&dir.join(n.to_string()), b""));
        let ask = |path: &Path, name: &str| rustix::fs::lgetxattr(path, name, &mut [0; 255]);
        let list = |_| {
            let mut labels = true;
            for entry in fs::read_dir(&dir).expect("listed") {
                let path = entry.expect("listed").path();
                fs::symlink_metadata(&path).expect("there");
                labels = labels && ask(&path, LABEL) != Err(Errno::OPNOTSUPP);
                assert_eq!(ask(&path, "system.posix_acl_access"), Err(Errno::NODATA));
            }
            assert!(!labels, "a program would go on asking");
        };
        assert_eq!(cost(&place.dir(), || list(0))["getxattr"], FILES as u64 + 1);
        assert_sent(&least(&place.dir(), list), "getxattr 1");
    });
}

/// What is said of labels that are not there takes none away that are.
#[test]
fn labels_that_are_set_are_there_and_missing_ones_are_missing_only() {
    let place = Place::new();
    place.mounted("", |_| {
        let (labelled, plain) = (place.at("labelled"), place.at("plain"));
        make(&labelled, b"");
        make(&plain, b"");
        let ask = |path: &Path| {
            let mut value = [0; 255];
            rustix::fs::lgetxattr(path, LABEL, &mut value).map(|len| value[..len].to_vec())
        };
        assert_eq!(ask(&place.dir()), Err(Errno::NODATA), "a kernel looks there for whether there can be labels");
        assert_eq!(ask(&plain), Err(Errno::OPNOTSUPP));
        rustix::fs::lsetxattr(&labelled, LABEL, b"label", XattrFlags::empty()).expect("root may");
        assert_eq!((ask(&labelled), ask(&plain)), (Ok(b"label".to_vec()), Err(Errno::NODATA)));
    });
    place.mounted("", |_| {
        let len = |name| rustix::fs::lgetxattr(place.at(name), LABEL, &mut [0; 255]);
        assert_eq!((len("plain"), len("labelled"), len("plain")), (Err(Errno::OPNOTSUPP), Ok(5), Err(Errno::NODATA)));
    });
}

/// Outside write-back the kernel takes our word for it that nobody is told anything by the close of a file that was
/// only read.
#[test]
fn without_write_back_reading_a_file_again_is_two_requests() {
    for cache in ["writethrough", "direct_io"] {
        let place = Place::new();
        place.mounted(cache, |_| {
            let dir = place.dir();
            make(&dir.join("file"), b"");
            let opened = least(&dir, |_| drop(fs::File::open(dir.join("file")).expect("opened")));
            assert_sent(&opened, "open 1, release 1");
            let written =
                least(&dir, |_| drop(fs::File::options().write(true).open(dir.join("file")).expect("opened")));
            assert_sent(&written, "flush 1, open 1, release 1");
        });
    }
}
