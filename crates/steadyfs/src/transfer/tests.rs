//! Trees survive the way through tar and through the host, also when GNU tar is the other end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use steadyfs_testkit::Manifest;
use steadyfs_testkit::manifest::{Fields, Options};

use super::host::{HostSource, Root};
use super::host_sink::{HostSink, Keep};
use super::tar_sink::TarSink;
use super::tar_source::TarSource;
use super::{Job, Progress, copy};

#[path = "../../tests/cli/tree.rs"]
mod tree;

use tree::make_tree;

fn job() -> Job {
    Job::new(Progress::hidden())
}

fn manifest(top: &Path) -> Manifest {
    Manifest::of(top, &Options { data: true, ..Options::default() }).unwrap()
}

#[track_caller]
fn assert_same(left: &Path, right: &Path) {
    let fields = Fields { atime: false, ctime: false, crtime: false, dir_size: false, blocks: false, ..Fields::all() };
    manifest(left).assert_same(&manifest(right), &fields);
}

/// Directories `a` and `b`, `a` with the tree in it.
struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        make_tree(&dir.path().join("a"));
        Pair { dir }
    }

    fn a(&self) -> PathBuf {
        self.dir.path().join("a")
    }

    fn b(&self) -> PathBuf {
        self.dir.path().join("b")
    }

    fn source(&self) -> HostSource {
        HostSource::new(vec![Root { path: self.a(), to: Vec::new() }])
    }

    fn tar(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut job = job();
        copy(&mut self.source(), &mut TarSink::new(&mut stream), &mut job).unwrap();
        assert_eq!(job.notes.count(), 0);
        stream
    }

    fn untar(&self, stream: &[u8]) {
        let mut job = job();
        copy(&mut TarSource::new(stream), &mut HostSink::open(&self.b(), Keep::all()).unwrap(), &mut job).unwrap();
        assert_eq!(job.notes.count(), 0);
    }

    fn gnu_tar(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("tar").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut stdin, input).unwrap());
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success(), "tar {args:?}");
        output.stdout
    }
}

#[test]
fn host_to_host() {
    let pair = Pair::new();
    copy(&mut pair.source(), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job()).unwrap();
    assert_same(&pair.a(), &pair.b());
    // Once more over what is there.
    copy(&mut pair.source(), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job()).unwrap();
    assert_same(&pair.a(), &pair.b());
}

#[test]
fn through_tar() {
    let pair = Pair::new();
    let stream = pair.tar();
    assert!(stream.len() < 2 << 20, "holes were written out: {} bytes", stream.len());
    pair.untar(&stream);
    assert_same(&pair.a(), &pair.b());
}

#[test]
fn gnu_tar_reads_what_we_write() {
    let pair = Pair::new();
    let b = pair.b();
    pair.gnu_tar(
        &["-x", "-p", "--same-owner", "--xattrs", "--xattrs-include=*", "-C", b.to_str().unwrap()],
        &pair.tar(),
    );
    assert_same(&pair.a(), &b);
}

#[test]
fn we_read_what_gnu_tar_writes() {
    let pair = Pair::new();
    let a = pair.a();
    let stream = pair.gnu_tar(
        &["-c", "--format=posix", "-S", "--xattrs", "--xattrs-include=*", "-C", a.to_str().unwrap(), "."],
        &[],
    );
    pair.untar(&stream);
    assert_same(&a, &pair.b());
}

#[test]
fn we_read_gnus_own_format() {
    let pair = Pair::new();
    // What that format cannot hold goes first: xattrs, nanoseconds.
    for (path, _) in [("plain", ()), ("dir", ()), ("link", ())] {
        let path = pair.a().join(path);
        for name in ["user.text", "user.odd=%name", "user.on.directory", "trusted.on.link"] {
            let _ = rustix::fs::lremovexattr(&path, name);
        }
    }
    let stream = pair.gnu_tar(&["-c", "--format=gnu", "-S", "-C", pair.a().to_str().unwrap(), "."], &[]);
    pair.untar(&stream);
    let fields = Fields {
        mtime: false,
        atime: false,
        ctime: false,
        crtime: false,
        dir_size: false,
        blocks: false,
        ..Fields::all()
    };
    manifest(&pair.a()).assert_same(&manifest(&pair.b()), &fields);
    let mtime = |top: PathBuf| fs::metadata(top.join("empty")).unwrap().modified().unwrap();
    assert!(mtime(pair.a()).duration_since(mtime(pair.b())).unwrap().as_secs() == 0, "seconds before 1970 survive");
}

#[test]
fn cut_and_changed_streams_fail_in_words() {
    let pair = Pair::new();
    let stream = pair.tar();
    for cut in [1, 511, 513, 1500, stream.len() / 2 + 7] {
        let result =
            copy(&mut TarSource::new(&stream[..cut]), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job());
        let text = result.unwrap_err().to_string();
        assert!(text.contains("tar stream"), "{text}");
    }
    let mut changed = stream.clone();
    changed[100] ^= 1;
    assert!(
        copy(&mut TarSource::new(&changed[..]), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job())
            .is_err()
    );
}

#[test]
fn no_path_leads_out_of_the_destination() {
    let pair = Pair::new();
    let top = pair.dir.path();
    symlink("..", pair.b().join("up")).unwrap();
    fs::write(top.join("file"), "x").unwrap();
    for name in ["../escaped", "x/../../escaped", "up/escaped"] {
        let args = ["-c", "-P", "-C", top.to_str().unwrap(), "--transform", &format!("s,file,{name},"), "file"];
        let stream = pair.gnu_tar(&args, &[]);
        let result =
            copy(&mut TarSource::new(&stream[..]), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job());
        assert!(result.is_err(), "{name}");
        assert!(!top.join("escaped").exists(), "{name}");
    }
}

#[test]
fn trees_deeper_than_a_path_may_be_long() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    // 60 levels of 100 bytes: past PATH_MAX, so it is made part by part.
    let mut host = super::host_dir::HostDir::open(&from).unwrap();
    let mut path = Vec::new();
    for _ in 0..60 {
        let name = [b'd'; 100];
        rustix::fs::mkdirat(host.dir(&path).unwrap(), &name[..], Mode::RWXU).unwrap();
        path = super::join(&path, &name);
    }
    rustix::fs::symlinkat("bottom", host.dir(&path).unwrap(), "end").unwrap();
    let mut source = HostSource::new(vec![Root { path: from, to: Vec::new() }]);
    copy(&mut source, &mut HostSink::open(&to, Keep::all()).unwrap(), &mut job()).unwrap();
    let mut host = super::host_dir::HostDir::open(&to).unwrap();
    let target = rustix::fs::readlinkat(host.dir(&path).unwrap(), "end", Vec::new()).unwrap();
    assert_eq!(target.to_bytes(), b"bottom");
}
