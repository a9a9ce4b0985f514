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
use super::{Body, Entry, Job, Kind, Meta, Progress, Sink, Source, copy};

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

/// A pax header with these records, and a member.
fn member(records: &[(&str, &[u8])], change: impl Fn(&mut tar::Header), data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    records.iter().for_each(|(key, value)| super::pax::push(&mut text, key.as_bytes(), value));
    let block = |kind: tar::EntryType, data: &[u8], change: &dyn Fn(&mut tar::Header)| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o664);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(5);
        header.set_path("member").unwrap();
        change(&mut header);
        header.set_cksum();
        let mut bytes = [header.as_bytes(), data].concat();
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    };
    let extended = if text.is_empty() { Vec::new() } else { block(tar::EntryType::XHeader, &text, &|_| ()) };
    [extended, block(tar::EntryType::Regular, data, &change)].concat()
}

/// Unpacks a stream; how many words there were about what was left out.
fn unpack(stream: &[u8], to: &Path) -> Result<u64, String> {
    let mut job = job();
    let sink = &mut HostSink::open(to, Keep::all()).unwrap();
    copy(&mut TarSource::new(stream), sink, &mut job).map_err(|e| e.to_string())?;
    Ok(job.notes.count())
}

#[test]
fn what_no_volume_can_hold_is_left_out_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let plain = |_: &mut tar::Header| ();
    let bad = |change: fn(&mut tar::Header)| move |header: &mut tar::Header| change(header);
    let device = |header: &mut tar::Header| {
        header.set_entry_type(tar::EntryType::Char);
        header.set_device_major(4096).unwrap();
    };
    for (what, stream) in [
        ("a large owner", member(&[("uid", b"1099511627776")], plain, b"x")),
        ("the owner that means none", member(&[("gid", b"4294967295")], plain, b"x")),
        ("a negative owner", member(&[("uid", b"-1")], plain, b"x")),
        ("a large owner of GNU's", member(&[], bad(|h| h.set_uid(1 << 40)), b"x")),
        ("an owner that is no number", member(&[], bad(|h| h.as_old_mut().uid = *b"root    "), b"x")),
        ("a mode that is no number", member(&[], bad(|h| h.as_old_mut().mode = *b"rwxrwxrw"), b"x")),
        ("a time that is no number", member(&[], bad(|h| h.as_old_mut().mtime = *b"now         "), b"x")),
        ("a large device", member(&[], device, b"")),
        ("a large device of star's", member(&[("SCHILY.devminor", b"1048576")], device, b"")),
        ("contents in another form", member(&[("SUN.holesdata", b" 0 1")], plain, b"x")),
    ] {
        let next = member(&[("path", b"next"), ("uid", b"0")], plain, b"y");
        assert_eq!(unpack(&[stream, next].concat(), dir.path()), Ok(1), "{what}");
        assert!(!dir.path().join("member").exists(), "{what}");
        assert_eq!(fs::read(dir.path().join("next")).unwrap(), b"y", "{what}");
        fs::remove_file(dir.path().join("next")).unwrap();
    }
    for (key, value) in [("uid", "many"), ("mtime", "99999999999999999999"), ("atime", "1.x"), ("size", "-1")] {
        let stream = member(&[(key, value.as_bytes())], plain, b"x");
        assert!(unpack(&stream, dir.path()).unwrap_err().contains("damaged"), "{key}={value}");
    }
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 512];
    let length = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn permissions(path: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::mode(&fs::symlink_metadata(path).unwrap()) & 0o7777
}

#[test]
fn lists_of_archives_are_kept_or_give_nobody_more() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("member");
    let access = |at: &Path| attribute(at, "system.posix_acl_access");
    let plain = |_: &mut tar::Header| ();
    let unpacked = |records: &[(&str, &[u8])], words: u64| {
        let _ = fs::remove_file(&at);
        assert_eq!(unpack(&member(records, plain, b"x"), dir.path()), Ok(words), "{records:?}");
        (permissions(&at), access(&at).is_some())
    };
    let list = b"user::rw-\nuser:daemon:rw-\t#effective:r--\ngroup::---\nmask::r--\nother::r--\n";
    assert_eq!(unpacked(&[("SCHILY.acl.access", list)], 0), (0o644, true));
    let id = access(&at).unwrap()[16..20].to_vec();
    assert_eq!(id, 1u32.to_le_bytes(), "daemon is user 1");
    // bsdtar says so of a file without a list.
    assert_eq!(unpacked(&[("SCHILY.acl.access", b"")], 0), (0o664, false));
    // One that says no more than a mode.
    assert_eq!(unpacked(&[("SCHILY.acl.access", b"user::rw-,group::r--,other::---")], 0), (0o640, false));
    assert_eq!(unpacked(&[("SCHILY.acl.access", b"user::rw-,user:1:everything")], 1), (0o604, false));
    let ghost = b"user::rw-,user:nobody of that name:rw-,user:1:r--,group::---,mask::rw-,other::r--";
    assert_eq!(unpacked(&[("SCHILY.acl.access", ghost)], 1), (0o664, true));
    assert_eq!(unpacked(&[("SCHILY.acl.ace", b"owner@:rwx::allow")], 1), (0o664, false));
    assert_eq!(unpacked(&[("SCHILY.xattr.system.posix_acl_access", b"nonsense")], 1), (0o604, false));
    assert_eq!(unpacked(&[("SCHILY.fflags", b"nodump"), ("comment", b"x")], 0), (0o664, false));
}

#[test]
fn what_a_directory_gives_to_its_files_no_copy_gets() {
    let pair = Pair::new();
    let set = ["-d", "-m", "u:1:rwx,g:7:rwx", pair.b().to_str().unwrap()].map(str::to_owned);
    assert!(Command::new("setfacl").args(set).status().unwrap().success());
    copy(&mut pair.source(), &mut HostSink::open(&pair.b(), Keep::all()).unwrap(), &mut job()).unwrap();
    for name in ["plain", "dir", "dir/sub", "fifo"] {
        for list in ["system.posix_acl_access", "system.posix_acl_default"] {
            assert_eq!(attribute(&pair.b().join(name), list), None, "{name}");
        }
    }
}

#[test]
fn labels_of_selinux_have_a_key_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let plain = |_: &mut tar::Header| ();
    let label = b"system_u:object_r:etc_t:s0";
    unpack(&member(&[("RHT.security.selinux", label)], plain, b"x"), dir.path()).unwrap();
    let set = attribute(&dir.path().join("member"), "security.selinux").unwrap();
    assert_eq!(set, [&label[..], b"\0"].concat());
    let mut stream = Vec::new();
    let mut source = HostSource::new(vec![Root { path: dir.path().to_owned(), to: Vec::new() }]);
    copy(&mut source, &mut TarSink::new(&mut stream), &mut job()).unwrap();
    let records = String::from_utf8_lossy(&stream).into_owned();
    let of_selinux = format!("SCHILY.xattr.security.selinux={}\0\n", String::from_utf8_lossy(label));
    assert!(records.contains(&of_selinux), "{records}");
    assert!(records.contains(&format!("RHT.security.selinux={}\n", String::from_utf8_lossy(label))), "{records}");
}

#[test]
fn headers_for_all_members() {
    let dir = tempfile::tempdir().unwrap();
    let global = |records: &[(&str, &[u8])]| {
        let mut text = Vec::new();
        records.iter().for_each(|(key, value)| super::pax::push(&mut text, key.as_bytes(), value));
        member(&[], |h| h.set_entry_type(tar::EntryType::XGlobalHeader), &text)
    };
    let plain = |_: &mut tar::Header| ();
    let stream = [
        global(&[("mtime", b"77"), ("comment", b"a commit")]),
        member(&[("path", b"one")], plain, b"1"),
        member(&[("path", b"two"), ("mtime", b"")], plain, b"2"),
        member(&[("path", b"three"), ("mtime", b"9")], plain, b"3"),
    ]
    .concat();
    assert_eq!(unpack(&stream, dir.path()), Ok(0));
    let seconds = |name: &str| std::os::unix::fs::MetadataExt::mtime(&fs::metadata(dir.path().join(name)).unwrap());
    assert_eq!((seconds("one"), seconds("two"), seconds("three")), (77, 5, 9));
}

#[test]
fn a_link_to_itself_leaves_the_file() {
    let pair = Pair::new();
    let path = pair.a();
    let a = path.to_str().unwrap();
    let stream = pair.gnu_tar(&["-c", "-C", a, "plain", "plain", "z hard link", "plain"], &[]);
    pair.untar(&stream);
    assert_eq!(fs::read_to_string(pair.b().join("plain")).unwrap(), "hello");
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&fs::metadata(pair.b().join("plain")).unwrap()), 2);
}

/// Sends entries one by one, with something between.
struct Steps<'a> {
    entries: Vec<(&'a str, Meta)>,
    between: Box<dyn FnMut(usize) + 'a>,
}

impl Source for Steps<'_> {
    fn send(&mut self, sink: &mut dyn Sink, job: &mut Job) -> Result<(), crate::failure::Failure> {
        for (at, (path, meta)) in self.entries.iter().enumerate() {
            let body = if meta.kind == Kind::Dir { Body::Directory } else { Body::Special };
            sink.entry(Entry { path: path.as_bytes(), meta, body }, job)?;
            (self.between)(at + 1);
        }
        Ok(())
    }
}

#[test]
fn nobody_leads_a_copy_to_other_directories() {
    let wide = Meta { uid: 65534, ..Meta::plain(Kind::Dir, 0o4777) };
    let top = tempfile::tempdir().unwrap();
    let (to, victim) = (top.path().join("to"), top.path().join("victim"));
    fs::create_dir(&to).unwrap();
    fs::create_dir(&victim).unwrap();
    fs::set_permissions(&victim, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let before = manifest(&victim);
    let put_away = |name: &str| fs::rename(to.join(name), top.path().join(format!("{name} away"))).unwrap();
    // A symlink, another directory, a file, nothing.
    for (name, replace) in [
        ("link", (&|at: &Path| symlink(&victim, at).unwrap()) as &dyn Fn(&Path)),
        ("directory", &|at: &Path| fs::rename(&victim, at).unwrap()),
        ("file", &|at: &Path| fs::write(at, "").unwrap()),
        ("nothing", &|_: &Path| ()),
    ] {
        let entries = vec![(name, wide.clone()), ("last", wide.clone())];
        let between = Box::new(|step| {
            if step == 1 {
                put_away(name);
                replace(&to.join(name));
            }
        });
        let mut job = job();
        let sink = &mut HostSink::open(&to, Keep::all()).unwrap();
        copy(&mut Steps { entries, between }, sink, &mut job).unwrap();
        assert_eq!(job.notes.count(), 1, "{name}");
        assert_eq!(permissions(&to.join("last")), 0o4777, "{name}: the rest goes on");
        if name == "directory" {
            fs::rename(to.join(name), &victim).unwrap();
        }
        manifest(&victim).assert_same(&before, &Fields::all());
    }
}

#[test]
fn nobody_leads_what_is_made_below_elsewhere() {
    let dir = || Meta::plain(Kind::Dir, 0o755);
    let top = tempfile::tempdir().unwrap();
    let (to, victim) = (top.path().join("to"), top.path().join("victim"));
    fs::create_dir_all(victim.join("b")).unwrap();
    fs::create_dir(&to).unwrap();
    let entries = vec![("a", dir()), ("a/b", dir()), ("c", dir()), ("a/b/pipe", Meta::plain(Kind::Fifo, 0o666))];
    let between = Box::new(|step| {
        if step == 3 {
            fs::rename(to.join("a"), to.join("away")).unwrap();
            symlink(&victim, to.join("a")).unwrap();
        }
    });
    let sink = &mut HostSink::open(&to, Keep::all()).unwrap();
    assert!(copy(&mut Steps { entries, between }, sink, &mut job()).is_err());
    assert_eq!(fs::read_dir(victim.join("b")).unwrap().count(), 0);
}

#[test]
fn a_chain_costs_as_many_calls_as_it_is_deep() {
    let top = tempfile::tempdir().unwrap();
    let mut host = super::host_dir::HostDir::open(top.path()).unwrap();
    let (deep, mut path) = (300, Vec::new());
    for _ in 0..deep {
        rustix::fs::mkdirat(host.dir(&path).unwrap(), "d", Mode::RWXU).unwrap();
        path = super::join(&path, b"d");
    }
    // Up, as the modes of directories are set, and to a neighbour of each.
    while !path.is_empty() {
        let (dir, _) = host.parent(&path).unwrap();
        rustix::fs::mkdirat(dir, "e", Mode::RWXU).unwrap();
        let neighbour = super::join(super::split(&path).0, b"e");
        host.dir(&neighbour).unwrap();
        path = super::split(&path).0.to_vec();
    }
    assert!(host.opened <= 6 * deep, "{} calls for {deep} levels", host.opened);
}

#[test]
fn a_way_up_that_leads_elsewhere_is_not_taken() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir_all(top.path().join("top/a/b/c/d")).unwrap();
    fs::create_dir(top.path().join("elsewhere")).unwrap();
    let mut host = super::host_dir::HostDir::open(&top.path().join("top")).unwrap();
    host.dir(b"a/b/c/d").unwrap();
    fs::rename(top.path().join("top/a/b/c/d"), top.path().join("elsewhere/d")).unwrap();
    let stat = rustix::fs::fstat(host.dir(b"a/b/c").unwrap()).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(top.path().join("top/a/b/c")).unwrap());
    assert_eq!(stat.st_ino, inode);
    host.dir(b"a/b/c").unwrap();
    fs::rename(top.path().join("top/a/b"), top.path().join("top/a/x")).unwrap();
    assert!(host.dir(b"a/b/c").is_ok(), "it is open");
    assert!(host.dir(b"a/bb").is_err() && host.dir(b"a/b/c").is_err());
    assert!(host.dir(b"a/x/c").is_ok() && host.dir(b"a/x").is_ok() && host.dir(b"").is_ok());
}
