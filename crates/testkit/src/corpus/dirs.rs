//! The subjects that are about directories: names, depth, size, deletion, renaming.

use super::data::mix;
use super::tree::Tree;
use super::{CorpusOp, Special};

impl Tree<'_> {
    pub(super) fn names(&mut self) {
        self.dir("names");
        for len in [1, 7, 8, 9, 15, 16, 17, 24, 25, 254, 255] {
            self.empty([b"names/".as_slice(), &vec![b'n'; len]].concat());
        }
        // Every byte that a name may have, in names of 32 bytes; most of them are not UTF-8.
        let bytes: Vec<u8> = (1..=255).filter(|&b| b != b'/').collect();
        for chunk in bytes.chunks(32) {
            self.empty([b"names/".as_slice(), chunk].concat());
        }
        let long_utf8 = "\u{e9}".repeat(127);
        let names = [
            "...",
            " ",
            "-rf",
            "*",
            "a b",
            "A",
            "a",
            "\u{e9}",
            "e\u{301}",
            "\u{6587}\u{4ef6}",
            "\u{1f4be}",
            &long_utf8,
        ];
        for name in names {
            self.empty(format!("names/{name}"));
        }
        for name in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"line\nbreak", b"tab\tand\\backslash"] {
            self.empty([b"names/", name].concat());
        }
        self.dir([b"names/dir-\xfe\xff".as_slice(), &[b'd'; 245]].concat());
    }

    pub(super) fn deep(&mut self) {
        let mut path = "deep".to_owned();
        for _ in 0..self.spec.depth {
            self.dir(&path);
            path.push_str("/d");
        }
        self.file(&path, 5);
        let mut long = "deep-long".to_owned();
        for _ in 0..12 {
            self.dir(&long);
            long = format!("{long}/{}", "L".repeat(255));
        }
        self.file(&long, 5);
    }

    /// Directories around the limit of inline dentries, large ones, and such that were larger once.
    pub(super) fn dirs(&mut self) {
        self.dir("dirs");
        self.dir("dirs/empty");
        // 180 and 182 slots for dentries inline, of which "." and ".." take two; 214 in a block.
        for count in [1, 177, 178, 179, 180, 181, 212, 213] {
            if count > 1 && self.spec.big_dir < 700 && ![178, 180].contains(&count) {
                continue;
            }
            self.many(&format!("dirs/of-{count}"), count, |n| format!("{n:03}").into_bytes());
        }
        let long_names = if self.spec.big_dir < 700 { 10 } else { 60 };
        self.many("dirs/long-names", long_names, |n| format!("{n:03}{}", "x".repeat(252)).into_bytes());
        self.many("dirs/of-dirs", 0, |_| Vec::new());
        for n in 0..20 {
            self.dir(format!("dirs/of-dirs/{n}"));
        }
        let size = self.spec.big_dir;
        self.many("dirs/big", size, big_name);
        for (name, keep) in [("half-deleted", 2), ("nearly-all-deleted", usize::MAX), ("refilled", usize::MAX)] {
            let path = format!("dirs/{name}");
            let size = size.min(3000) / 2;
            self.many(&path, size, big_name);
            self.ops.push(CorpusOp::Sync);
            for n in (0..size).filter(|n| keep > size || n % keep == 0) {
                self.unlink([path.as_bytes(), b"/", &big_name(n)].concat());
            }
        }
        for n in 0..50 {
            self.empty(format!("dirs/refilled/again-{n}"));
        }
        self.many("dirs/all-gone", 300.min(size), big_name);
        for n in 0..300.min(size) {
            self.unlink([b"dirs/all-gone/", big_name(n).as_slice()].concat());
        }
        self.dir("dirs/removed");
        self.rmdir("dirs/removed");
    }

    /// A directory with `count` entries: files, and now and then something else.
    fn many(&mut self, dir: &str, count: usize, name: impl Fn(usize) -> Vec<u8>) {
        self.dir(dir);
        for n in 0..count {
            let path = [dir.as_bytes(), b"/", &name(n)].concat();
            match n % 1000 {
                500 => self.symlink(path, "target"),
                700 => self.mknod(path, Special::Fifo),
                _ => self.empty(path),
            }
        }
    }

    pub(super) fn renamed(&mut self) {
        self.dir("renamed");
        self.dir("renamed/a");
        self.dir("renamed/b");
        self.file("renamed/a/file", 5000);
        self.rename("renamed/a/file", "renamed/a/same-directory");
        self.file("renamed/a/moving", 5000);
        self.rename("renamed/a/moving", "renamed/b/moved");
        self.dir("renamed/a/dir");
        self.file("renamed/a/dir/inside", 10);
        self.rename("renamed/a/dir", "renamed/b/dir");
        self.file("renamed/old", 10);
        self.file("renamed/replaced", 9000);
        self.gone(b"renamed/replaced");
        self.rename("renamed/old", "renamed/replaced");
        self.dir("renamed/empty-target");
        self.dir("renamed/onto-empty");
        self.file("renamed/onto-empty/x", 1);
        self.gone(b"renamed/empty-target");
        self.rename("renamed/onto-empty", "renamed/empty-target");
        self.file("renamed/x1", 100);
        self.dir("renamed/b/x2");
        self.ops.push(CorpusOp::Exchange { a: b"renamed/x1".to_vec(), b: b"renamed/b/x2".to_vec() });
        let unicode = "\u{e9}".repeat(127);
        self.file("renamed/long", 10);
        self.rename("renamed/long", &format!("renamed/{unicode}"));
    }
}

/// Names of different lengths, so that slots of every number are needed.
fn big_name(n: usize) -> Vec<u8> {
    let fill = (mix(n as u64, 0) % 30) as usize;
    format!("{n:06}{}", "-abcdefghijklmnopqrstuvwxyz0123".get(..fill).unwrap_or("")).into_bytes()
}
