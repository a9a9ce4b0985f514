//! The file system of the image runs full under a mount: a real one, a tmpfs. Nothing that was synced is lost, whatever
//! the options say.

use crate::harness::{Place, Served, until};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;

/// A place whose image of 256 MiB lies on a tmpfs with less room.
struct Cramped {
    place: Place,
    store: PathBuf,
}

impl Cramped {
    fn new() -> Self {
        let mut place = Place::empty();
        let store = place.source.with_file_name("store");
        fs::create_dir(&store).expect("a directory");
        mount("tmpfs", &store, "tmpfs", MountFlags::empty(), Some(c"size=40m")).expect("a tmpfs");
        place.source = store.join("image");
        crate::harness::make_volume(&place.source, 256 << 20);
        Cramped { place, store }
    }

    /// Gives the image room.
    fn grow(&self) {
        mount_remount(&self.store, MountFlags::empty(), "size=400m").expect("more room");
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.at(name)
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        let _ = unmount(self.place.dir(), UnmountFlags::DETACH);
        let _ = unmount(&self.store, UnmountFlags::DETACH);
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn write_synced(path: &Path, byte: u8, len: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![byte; len])?;
    file.sync_all()
}

/// Writes and syncs files of 1 MiB until that fails; how many were synced, and the failure.
fn fill(cramped: &Cramped) -> (u8, io::Error) {
    for n in 0..100 {
        if let Err(error) = write_synced(&cramped.at(&format!("file{n}")), n, MIB) {
            return (n, error);
        }
    }
    panic!("100 MiB do not fit into 40 MiB");
}

fn check(cramped: &Cramped, files: u8) {
    for n in 0..files {
        assert!(fs::read(cramped.at(&format!("file{n}"))).unwrap() == vec![n; MIB], "file {n} of {files}");
    }
}

#[test]
fn a_full_backing_file_is_enospc_and_nothing_is_lost_when_there_is_room_again() {
    let cramped = Cramped::new();
    let served = cramped.place.mount("errors=continue");
    let (synced, error) = fill(&cramped);
    assert!(is(&error, Errno::NOSPC), "{error}");
    assert!(synced > 5, "{synced}");
    check(&cramped, synced + 1); // the one that could not be synced can be read
    let mut late = File::create(cramped.at("late")).unwrap();
    late.write_all(&[7; 100_000]).unwrap();
    assert!(is(&late.sync_all().unwrap_err(), Errno::NOSPC));
    cramped.grow();
    // A failure of the background may still have to be told.
    until("synced", || late.sync_all().is_ok());
    until("all is synced", || File::open(cramped.at(&format!("file{synced}"))).unwrap().sync_all().is_ok());
    drop(late);
    let mut served = served;
    served.kill();
    cramped.place.check_copy();
    drop(served);
    cramped.place.mounted("", |_| {
        check(&cramped, synced + 1);
        assert_eq!(fs::read(cramped.at("late")).unwrap(), vec![7; 100_000]);
    });
    cramped.place.check();
}

/// Ends a mount that has failed and looks at what it has left.
fn afterwards(cramped: &Cramped, served: Served, synced: u8) {
    drop(served);
    cramped.grow();
    cramped.place.check();
    cramped.place.mounted("", |_| check(cramped, synced));
}

#[test]
fn errors_remount_ro_goes_on_for_reading() {
    let cramped = Cramped::new();
    let mut served = cramped.place.mount("errors=remount-ro");
    let (synced, error) = fill(&cramped);
    assert!(is(&error, Errno::NOSPC), "{error}");
    // Contents that cannot be written are no matter of the volume; metadata is. Another name each time: the one before
    // cannot be removed if the volume stopped in between, and then "it exists" would hide that it stopped.
    let mut names = (0..).map(|n| cramped.at(&format!("dir{n}")));
    until("metadata cannot be written", || {
        let dir = names.next().expect("one more name");
        let made = fs::create_dir(&dir).and_then(|()| File::open(cramped.place.dir())?.sync_all());
        let _ = fs::remove_dir(&dir);
        made.is_err_and(|e| is(&e, Errno::ROFS))
    });
    check(&cramped, synced);
    served.signal(rustix::process::Signal::TERM);
    assert_ne!(served.end(), 0, "a mount that lost something does not end well");
    assert!(served.log().contains("stopped after an error"), "{}", served.log());
    afterwards(&cramped, served, synced);
}

#[test]
fn errors_panic_ends_the_process() {
    let cramped = Cramped::new();
    let mut served = cramped.place.mount("errors=panic");
    let (synced, _) = fill(&cramped);
    until("ended", || served.has_ended() || File::open(cramped.place.dir()).and_then(|dir| dir.sync_all()).is_err());
    assert_eq!(served.end(), 5, "{}", served.log());
    let log = served.log();
    assert!(log.lines().last().is_some_and(|line| line.contains("as errors=panic asks")), "{log}");
    afterwards(&cramped, served, synced);
}

/// Much is kept in memory that the image did not take, and no more may come: but what is there can be removed, and then
/// other files have that room.
#[test]
fn a_file_can_be_removed_though_the_image_takes_nothing() {
    let cramped = Cramped::new();
    let mut served = cramped.place.mount("errors=continue,commit=1");
    let kept = vec![1; MIB];
    write_synced(&cramped.at("kept"), 1, MIB).unwrap();
    // More than is kept in memory of what was refused, whoever is told of that.
    let big = File::create(cramped.at("big")).and_then(|mut file| file.write_all(&vec![2; 120 * MIB]));
    drop(big);
    until("no more can be made", || {
        let made = File::create(cramped.at("another"));
        let _ = fs::remove_file(cramped.at("another"));
        made.is_err_and(|error| is(&error, Errno::NOSPC))
    });
    fs::remove_file(cramped.at("big")).unwrap();
    until("its memory is there for others", || fs::write(cramped.at("small"), b"small").is_ok());
    cramped.grow();
    until("written", || write_synced(&cramped.at("later"), 3, 10 * MIB).is_ok());
    let look = || {
        assert!(
            fs::read(cramped.at("kept")).unwrap() == kept
                && fs::read(cramped.at("later")).unwrap() == vec![3; 10 * MIB]
        );
        assert_eq!(fs::read(cramped.at("small")).unwrap(), b"small");
    };
    look();
    served.signal(rustix::process::Signal::TERM);
    assert_eq!(served.end(), 0, "{}", served.log());
    cramped.place.check();
    cramped.place.mounted("", |_| look());
}
