//! The ioctl that shuts a volume down: a power cut by request. What was promised is there at the next mount, and
//! nothing is written in between.

use crate::harness::{CACHES, Place, umount};
use rustix::io::Errno;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FULL_SYNC: u32 = 0;
const META_SYNC: u32 = 1;
const NO_SYNC: u32 = 2;

/// Waits for the end of its input, then calls the ioctl; its exit code is the error number.
const SCRIPT: &str = "open F, '<', $ARGV[0] or die $!; $a = pack 'L', $ARGV[1]; $| = 1; print 'r'; <STDIN>; ioctl F, 0x8004587d, $a or exit $! + 0";

/// Calls the ioctl on a directory with this argument, as this user; what it says.
fn shut_down(dir: &Path, how: u32, user: u32) -> Result<(), Errno> {
    Caller::new(dir, how, user).call()
}

/// A process that is ready to call the ioctl. To start one has the kernel write back what it has of files that are open
/// here: the copies of their descriptors are closed.
struct Caller(Child);

impl Caller {
    fn new(dir: &Path, how: u32, user: u32) -> Self {
        Self::by(&["perl"], dir, how, user)
    }

    /// As root that lacks something, by way of the program that takes it.
    fn lacking(program: &[&str], dir: &Path) -> Self {
        Self::by(&[program, &["perl"]].concat(), dir, NO_SYNC, 0)
    }

    fn by(program: &[&str], dir: &Path, how: u32, user: u32) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["-e", SCRIPT]).arg(dir).arg(how.to_string()).uid(user);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("perl");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("ready");
        Caller(child)
    }

    fn call(mut self) -> Result<(), Errno> {
        drop(self.0.stdin.take());
        match self.0.wait().expect("perl ends").code().expect("no signal") {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }
}

/// What the image holds.
fn fingerprint(image: &Path) -> u64 {
    let (mut file, mut hasher) = (fs::File::open(image).unwrap(), DefaultHasher::new());
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part).unwrap() {
            0 => return hasher.finish(),
            len => part[..len].hash(&mut hasher),
        }
    }
}

fn is_refused<T>(result: std::io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(Errno::IO.raw_os_error()))
}

#[test]
fn a_volume_that_was_shut_down_is_as_after_a_power_cut() {
    for cache in CACHES {
        let place = Place::new();
        let mut served = place.mount(cache);
        fs::create_dir(place.at("dir")).unwrap();
        fs::write(place.at("old"), vec![3; 50_000]).unwrap();
        fs::File::open(place.at("old")).unwrap().sync_all().unwrap();
        let mut synced = fs::File::create(place.at("dir/a")).unwrap();
        synced.write_all(&vec![1; 300_000]).unwrap();
        synced.sync_all().unwrap();
        let mut open = fs::File::create(place.at("b")).unwrap();
        open.write_all(&vec![2; 300_000]).unwrap();
        fs::remove_file(place.at("old")).unwrap();
        assert_eq!(shut_down(&place.dir(), NO_SYNC, 0), Ok(()));
        let at_once = fingerprint(&place.source);

        assert!(is_refused(fs::write(place.at("new"), b"new")), "{cache}");
        assert!(is_refused(fs::rename(place.at("b"), place.at("c"))));
        assert!(is_refused(fs::remove_file(place.at("b"))));
        assert!(is_refused(fs::read_dir(place.at("dir")).and_then(|mut dir| dir.next().unwrap())));
        assert!(is_refused(open.write_all(&[2; 100_000]).and_then(|()| open.sync_all())), "{cache}");
        assert!(is_refused(synced.sync_all()));
        assert_eq!(shut_down(&place.dir(), FULL_SYNC, 0), Err(Errno::IO));
        assert!(rustix::fs::statvfs(place.dir()).is_ok());
        drop((open, synced));
        umount(&place.dir());
        assert_eq!(served.end(), 0, "{}", served.log());
        assert!(served.log().contains("was shut down") && !served.log().contains("ERROR"), "{}", served.log());
        assert!(fingerprint(&place.source) == at_once, "{cache}: something was written afterwards");

        place.mounted(cache, |_| {
            assert_eq!(fs::read(place.at("dir/a")).unwrap(), vec![1; 300_000], "{cache}");
            assert_eq!(fs::read(place.at("old")).unwrap(), vec![3; 50_000], "nobody synced its removal");
            let later = fs::read(place.at("b")).unwrap_or_default();
            assert!(later.iter().all(|byte| *byte == 2), "{cache}");
            fs::write(place.at("new"), b"new").unwrap();
        });
        place.check();
    }
}

/// What the file system does by itself, it does no more: checkpoints each second, write-back, collection.
#[test]
fn a_volume_that_was_shut_down_does_nothing_by_itself() {
    let place = Place::new();
    let mut served = place.mount("commit=1,gc=scalelfs");
    for round in 0..20 {
        fs::write(place.at(&format!("file{}", round % 4)), vec![round; 4 << 20]).unwrap();
    }
    assert_eq!(shut_down(&place.dir(), NO_SYNC, 0), Ok(()));
    let at_once = fingerprint(&place.source);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(fingerprint(&place.source) == at_once, "something was written afterwards");
    umount(&place.dir());
    assert_eq!(served.end(), 0, "{}", served.log());
    place.check();
}

/// With a checkpoint first, names are there that nobody synced; with a sync first all is, also what only the kernel
/// had.
#[test]
fn what_is_asked_for_is_made_durable_before() {
    let place = Place::new();
    for (how, len) in [(META_SYNC, None), (FULL_SYNC, Some(300_000))] {
        let mut served = place.mount("");
        let caller = Caller::new(&place.dir(), how, 0);
        let mut file = fs::File::create(place.at("file")).unwrap();
        file.write_all(&vec![7; 300_000]).unwrap();
        assert_eq!(caller.call(), Ok(()));
        let at_once = fingerprint(&place.source);
        drop(file);
        umount(&place.dir());
        assert_eq!(served.end(), 0, "{}", served.log());
        assert!(fingerprint(&place.source) == at_once, "something was written afterwards");
        place.check();
        place.mounted("", |_| {
            let contents = fs::read(place.at("file")).unwrap();
            assert!(contents.iter().all(|byte| *byte == 7));
            assert_eq!(contents.len(), len.unwrap_or(contents.len()));
            fs::remove_file(place.at("file")).unwrap();
        });
    }
}

#[test]
fn only_root_shuts_down_and_only_as_is_known() {
    let place = Place::new();
    place.open_to_all();
    place.mounted("", |_| {
        assert_eq!(shut_down(&place.dir(), NO_SYNC, 65_534), Err(Errno::PERM));
        // Root of a container, and root of a user namespace of its own.
        for program in [&["setpriv", "--bounding-set=-sys_admin"][..], &["unshare", "--user", "--map-root-user"]] {
            assert_eq!(Caller::lacking(program, &place.dir()).call(), Err(Errno::PERM), "{program:?}");
        }
        assert_eq!(shut_down(&place.dir(), 99, 0), Err(Errno::INVAL));
        assert_eq!(shut_down(&place.dir(), 4, 0), Err(Errno::OPNOTSUPP));
        fs::write(place.at("file"), b"it goes on").unwrap();
    });
    let mut served = place.mount("ro");
    assert_eq!(shut_down(&place.dir(), NO_SYNC, 0), Ok(()));
    assert!(is_refused(fs::read(place.at("file"))));
    umount(&place.dir());
    assert_eq!(served.end(), 0, "{}", served.log());
}
