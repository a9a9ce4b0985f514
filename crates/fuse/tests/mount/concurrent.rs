//! Many users at once, and a kernel that forgets under them.

use crate::harness::Place;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use steadyfs_testkit::Rng;

/// Writes, truncates, renames, links and removes files of its own in a directory that others use too; checks each
/// against a copy in memory.
fn work(dir: &Path, thread: u64, rounds: usize) {
    let mut random = Rng(thread);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for round in 0..rounds {
        let path = |name: &str| dir.join(name);
        match random.below(8) {
            0 | 1 => {
                let name = format!("{thread}-{round}");
                fs::write(path(&name), b"").unwrap();
                files.push((name, Vec::new()));
            }
            kind if !files.is_empty() => {
                let index = random.below(files.len() as u64) as usize;
                let (name, content) = &mut files[index];
                match kind {
                    2 | 3 => {
                        let (at, len) = (random.below(60_000) as usize, random.below(20_000) as usize + 1);
                        let data = vec![round as u8; len];
                        let file = fs::OpenOptions::new().write(true).open(path(name)).unwrap();
                        file.write_all_at(&data, at as u64).unwrap();
                        content.resize(content.len().max(at + len), 0);
                        content[at..at + len].copy_from_slice(&data);
                        if random.below(10) == 0 {
                            file.sync_all().unwrap();
                        }
                    }
                    4 => {
                        let len = random.below(70_000);
                        fs::OpenOptions::new().write(true).open(path(name)).unwrap().set_len(len).unwrap();
                        content.resize(len as usize, 0);
                    }
                    5 => {
                        let new = format!("{thread}-{round}-renamed");
                        fs::rename(path(name), path(&new)).unwrap();
                        *name = new;
                    }
                    6 => {
                        let open = fs::File::open(path(name)).unwrap();
                        fs::remove_file(path(name)).unwrap();
                        let mut read = vec![0; content.len()];
                        open.read_exact_at(&mut read, 0).unwrap();
                        assert!(read == *content, "an unlinked file changed");
                        files.swap_remove(index);
                    }
                    _ => assert!(fs::read(path(name)).unwrap() == *content, "{name} is not what was written"),
                }
            }
            _ => {}
        }
    }
    for (name, content) in &files {
        assert!(fs::read(dir.join(name)).unwrap() == *content, "{name} is not what was written");
        assert_eq!(fs::metadata(dir.join(name)).unwrap().size(), content.len() as u64);
    }
}

#[test]
fn many_threads_work_in_one_directory() {
    for cache in ["writeback_cache", "writethrough"] {
        let place = Place::new();
        place.mounted(cache, |_| {
            let dir = place.dir();
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                let lister = scope.spawn(|| {
                    while !done.load(SeqCst) {
                        for entry in fs::read_dir(&dir).unwrap() {
                            // It may be gone by now; it must not be anything else.
                            if let Err(error) = entry.unwrap().metadata() {
                                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                            }
                        }
                    }
                });
                let workers: Vec<_> = (0..6)
                    .map(|thread| {
                        scope.spawn({
                            let dir = &dir;
                            move || work(dir, thread, 400)
                        })
                    })
                    .collect();
                let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
                done.store(true, SeqCst);
                lister.join().unwrap();
                for worker in ended {
                    worker.unwrap();
                }
            });
        });
        place.check();
    }
}

/// The kernel drops inodes it does not need when told to reclaim those of this file system; what is open and unlinked
/// must not go with them.
#[test]
fn what_is_in_use_survives_when_the_kernel_forgets() {
    let place = Place::new();
    place.mounted("", |served| {
        let open: Vec<_> = (0..20)
            .map(|n| {
                let path = place.at(&format!("open{n}"));
                fs::write(&path, vec![n; 9000]).unwrap();
                let file = fs::File::open(&path).unwrap();
                fs::remove_file(&path).unwrap();
                file
            })
            .collect();
        for n in 0..3000 {
            fs::write(place.at(&format!("file{n}")), n.to_string()).unwrap();
        }
        // A remount of the same file system makes the kernel shrink its caches, of this one file system.
        let flags = rustix::mount::MountFlags::empty();
        for _ in 0..3 {
            rustix::mount::mount_remount(&served.dir, flags, c"").unwrap();
        }
        for (n, file) in open.iter().enumerate() {
            let mut content = vec![0; 9000];
            file.read_exact_at(&mut content, 0).unwrap();
            assert!(content.iter().all(|byte| usize::from(*byte) == n), "file {n}");
        }
        for n in 0..3000 {
            assert_eq!(fs::read(place.at(&format!("file{n}"))).unwrap(), n.to_string().as_bytes());
        }
    });
    place.check();
}
