//! How many requests the kernel sends for what programs do: each is a round trip between two processes.
//!
//! The numbers are those of Linux 6.18. What they consist of, and why none of them can go: with write-back the kernel
//! asks at each close (FLUSH) whatever is answered, and for the attributes of a directory before each change of it
//! after another; it asks once for a capability of each file that is written, for it remembers none that is not there;
//! and it brings the times of an inode that was changed (SETATTR) before it forgets it.

use crate::harness::Place;
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

/// Requests by operation.
type Counts = BTreeMap<String, u64>;

/// What was sent so far.
fn sent(dir: &Path) -> Counts {
    let mut value = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]).expect("statistics");
    let stats: VolumeStats = serde_json::from_slice(&value[..len]).expect("statistics");
    stats.serving.requests
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

#[test]
fn each_operation_sends_what_it_has_to_and_no_more() {
    let place = Place::new();
    place.mounted("", |_| {
        let dir = place.dir();
        let at = |name: &str, n: usize| dir.join(format!("{name}{n}"));
        make(&at("first", 0), b"");
        let empty = least(&dir, |n| make(&at("empty", n), b""));
        assert_sent(&empty, "create 1, flush 1, getattr 1, lookup 1, release 1");
        let written = least(&dir, |n| make(&at("file", n), b"contents"));
        assert_sent(&written, "create 1, flush 1, getattr 1, getxattr 1, lookup 1, release 1, write 1");
        // Blocks are the file system's to tell after a close; a second question is the kernel's to answer.
        let stat = |n| assert_eq!(rustix::fs::stat(at("file", n)).expect("there").st_size, 8);
        assert_sent(&least(&dir, stat), "getattr 1");
        assert_sent(&least(&dir, stat), "");
        let read = |n| {
            let mut text = [0; 16];
            let read = fs::File::open(at("file", n)).and_then(|mut file| file.read(&mut text)).expect("read");
            assert_eq!(text[..read], *b"contents");
        };
        assert_sent(&least(&dir, read), "flush 1, open 1, release 1");
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
        // The first lists it, and later ones have the list.
        assert_sent(&least(&dir, |_| assert!(fs::read_dir(&dir).expect("listed").count() > 8)), "");
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
