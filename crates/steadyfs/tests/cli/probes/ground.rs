//! What is probed: files of root, of another user and of the one who probes, made by root; and a process of his for
//! system calls that the tests have no safe function for.

use super::calls::{CAPABILITY, GROUP, NOBODY, OTHER, file};
use crate::protected::system;
use rustix::fs::{CWD, FileType, IFlags, OFlags, XattrFlags, ioctl_getflags, ioctl_setflags, makedev, mknodat};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A name that nobody may learn who may not look where it is.
pub(super) const SECRET: &str = "name-of-a-secret";

/// The length of files that are there.
pub(super) const LEN: usize = 8192;

/// Takes lines of words and answers each with the number of the error and some bytes in hexadecimal.
const HELPER: &str = r#"
use strict; $| = 1;
my ($mmap, $munmap, $name_to_handle, $open_by_handle) = map { $_ + 0 } @ARGV;
my %does = (
    ioctl => sub { my ($path, $how, $call, $arg) = @_;
        sysopen(my $f, $path, $how + 0) or return $! + 0;
        $arg = pack 'H*', $arg;
        ioctl($f, $call + 0, $arg) or return $! + 0;
        return 0, $arg },
    truncate => sub { truncate($_[0], $_[1]) or return $! + 0; return 0 },
    handle => sub { my ($path) = @_;
        my ($handle, $mount) = (pack('Ll', 64, 0) . "\0" x 64, pack('q', 0));
        syscall($name_to_handle, -100, $path, $handle, $mount, 0) == 0 or return $! + 0;
        return 0, $handle },
    open => sub { my ($path, $handle) = @_;
        sysopen(my $f, $path, 0) or return $! + 0;
        $handle = pack 'H*', $handle;
        syscall($open_by_handle, fileno($f), $handle, 0) >= 0 or return $! + 0;
        return 0 },
    map => sub { my ($path, $len) = @_;
        sysopen(my $f, $path, 0) or return $! + 0;
        my $at = syscall($mmap, 0, $len + 0, 1, 1, fileno($f), 0);
        $at > 0 or return $! + 0;
        my $bytes = unpack 'P' . $len, pack 'J', $at;
        syscall($munmap, $at, $len + 0);
        return 0, $bytes },
);
while (<STDIN>) {
    chomp; my ($what, @words) = split /\t/;
    my ($error, $bytes) = $does{$what}->(@words);
    print $error, ' ', unpack('H*', $bytes // ''), "\n";
}
"#;

/// Numbers of mmap, munmap, name_to_handle_at and open_by_handle_at.
const CALLS: [&str; 4] =
    if cfg!(target_arch = "x86_64") { ["9", "11", "303", "304"] } else { ["222", "215", "264", "265"] };

/// A process of the user who probes.
struct Helper {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Helper {
    fn start() -> Self {
        let mut perl = Command::new("perl");
        perl.args(["-e", HELPER]).args(CALLS).uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = perl.spawn().expect("perl");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Helper { child, to, from: BufReader::new(from) }
    }

    fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>, Errno> {
        writeln!(self.to, "{}", words.join("\t")).expect("it reads");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it answers");
        let (error, hex) = line.trim_end_matches('\n').split_once(' ').expect("two words");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        match error.parse().expect("a number") {
            0 => Ok((0..hex.len()).step_by(2).map(byte).collect()),
            error => Err(Errno::from_raw_os_error(error)),
        }
    }
}

/// A directory with everything that is probed.
pub(super) struct Ground {
    dir: PathBuf,
    helper: Mutex<Helper>,
    made: AtomicU32,
    /// How many blocks of a deleted file are on the device.
    pub(super) left: u64,
}

impl Ground {
    /// Makes everything below a directory, as root.
    pub(super) fn prepare(dir: &Path) -> Self {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        let mut ground =
            Ground { dir: dir.to_owned(), helper: Mutex::new(Helper::start()), made: AtomicU32::new(0), left: 0 };
        ground.make_dir("own", NOBODY, 0o755);
        ground.make_files();
        ground.make_dirs();
        ground.make_sticky();
        ground.make_special();
        ground.make_with_bits();
        ground.left = ground.leave_traces();
        ground
    }

    /// The directory itself.
    pub(super) fn root(&self) -> &Path {
        &self.dir
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A path of the user who probes where nothing is.
    pub(super) fn fresh(&self) -> PathBuf {
        self.at(&format!("own/{}", self.made.fetch_add(1, Relaxed)))
    }

    /// A new file of his.
    pub(super) fn mine(&self) -> PathBuf {
        self.mine_with(&[b'o'; LEN])
    }

    pub(super) fn mine_with(&self, contents: &[u8]) -> PathBuf {
        let path = self.fresh();
        // Where that fails the probe goes on without it, and tells.
        let _ = fs::write(&path, contents);
        path
    }

    /// An ioctl with an argument, in a process of his; what it wrote there.
    pub(super) fn ioctl(&self, path: &Path, how: OFlags, call: u32, argument: &[u8]) -> Result<Vec<u8>, Errno> {
        let hex: String = argument.iter().map(|byte| format!("{byte:02x}")).collect();
        self.ask(&["ioctl", path.to_str().unwrap(), &how.bits().to_string(), &call.to_string(), &hex])
    }

    pub(super) fn ask(&self, words: &[&str]) -> Result<Vec<u8>, Errno> {
        self.helper.lock().unwrap().ask(words)
    }

    fn make_dir(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.at(name);
        fs::create_dir(&path).unwrap();
        self.give(&path, owner, mode);
        path
    }

    fn make_file(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, [b'x'; LEN]).unwrap();
        self.give(&path, owner, mode);
        path
    }

    fn give(&self, path: &Path, owner: u32, mode: u32) {
        chown(path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn add_attributes(&self, path: &Path) {
        for name in ["user.a", "trusted.t", "security.t"] {
            rustix::fs::setxattr(path, name, b"value", XattrFlags::empty()).unwrap();
        }
    }

    fn make_files(&self) {
        self.make_dir("files", 0, 0o755);
        for (whose, owner) in OWNERS {
            for mode in FILE_MODES {
                let path = self.make_file(&format!("files/{whose}-{mode:o}"), owner, mode);
                self.add_attributes(&path);
            }
        }
        let flags = |path: &Path, flags| {
            let file = File::open(path).unwrap();
            ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | flags).unwrap();
        };
        flags(&self.make_file("own/immutable", NOBODY, 0o666), IFlags::IMMUTABLE);
        flags(&self.make_file("own/append", NOBODY, 0o666), IFlags::APPEND);
    }

    fn make_dirs(&self) {
        self.make_dir("dirs", 0, 0o755);
        for (whose, owner) in OWNERS {
            for mode in DIR_MODES {
                let name = format!("dirs/{whose}-{mode:o}");
                let path = self.make_dir(&name, owner, 0o777);
                self.add_attributes(&path);
                for made in ["file", "going", "leaving", "swapped", "whited", SECRET] {
                    self.make_file(&format!("{name}/{made}"), owner, 0o644);
                }
                for made in ["dir", "empty", "moving"] {
                    self.make_dir(&format!("{name}/{made}"), owner, 0o755);
                }
                self.give(&path, owner, mode);
            }
        }
    }

    fn make_sticky(&self) {
        for (dir, owner) in [("sticky", 0), ("own-sticky", NOBODY)] {
            self.make_dir(dir, owner, 0o1777);
            for (whose, owner) in OWNERS {
                for name in ["file", "gone"] {
                    self.make_file(&format!("{dir}/{whose}-{name}"), owner, 0o644);
                }
                self.make_dir(&format!("{dir}/{whose}-dir"), owner, 0o755);
            }
        }
    }

    fn make_special(&self) {
        self.make_dir("special", 0, 0o755);
        let node = |name: &str, kind, device, mode| {
            let path = self.at("special").join(name);
            mknodat(CWD, &path, kind, super::calls::mode(mode), device).unwrap();
            self.give(&path, 0, mode);
        };
        let null = makedev(1, 3);
        node("null-600", FileType::CharacterDevice, null, 0o600);
        node("null-666", FileType::CharacterDevice, null, 0o666);
        node("block-600", FileType::BlockDevice, makedev(7, 0), 0o600);
        node("pipe-600", FileType::Fifo, 0, 0o600);
        node("pipe-644", FileType::Fifo, 0, 0o644);
        node("pipe-666", FileType::Fifo, 0, 0o666);
        node("socket-666", FileType::Socket, 0, 0o666);
        symlink("../files/roots-600", self.at("special/to-secret")).unwrap();
        symlink("../files/roots-644", self.at("special/to-open")).unwrap();
    }

    fn make_with_bits(&self) {
        self.make_dir("bits", 0, 0o755);
        for name in BITS {
            self.make_file(&format!("bits/both-{name}"), OTHER, 0o6777);
            self.make_file(&format!("bits/group-{name}"), OTHER, 0o2767);
        }
        self.make_file("bits/link-user", 0, 0o4777);
        self.make_file("bits/link-group", 0, 0o2777);
        let capable = self.make_file("bits/capable", OTHER, 0o777);
        rustix::fs::setxattr(&capable, "security.capability", CAPABILITY, XattrFlags::empty()).unwrap();
        let group = self.make_dir("group", 0, 0o2777);
        chown(&group, Some(0), Some(GROUP)).unwrap();
        fs::set_permissions(&group, Permissions::from_mode(0o2777)).unwrap();
        for name in ["bit", "acl", "own"] {
            let path = self.make_file(&format!("group/{name}"), NOBODY, 0o755);
            chown(&path, None, Some(if name == "own" { NOBODY } else { GROUP })).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(if name == "bit" { 0o755 } else { 0o2755 })).unwrap();
        }
    }

    /// Leaves blocks of a pattern behind in most of the room; so many.
    fn leave_traces(&self) -> u64 {
        let room = rustix::fs::statvfs(&self.dir).unwrap();
        let (path, pieces) = (self.at("pattern"), (room.f_bavail * room.f_frsize * 90 / 100) >> 20);
        let mut file = file(&path, OFlags::WRONLY | OFlags::CREATE).unwrap();
        for _ in 0..pieces {
            file.write_all(&[PATTERN; 1 << 20]).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        fs::remove_file(&path).unwrap();
        system("sync", &["-f", self.dir.to_str().unwrap()]);
        pieces * 256
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let helper = self.helper.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = helper.child.kill();
        let _ = helper.child.wait();
    }
}

/// What deleted files held.
pub(super) const PATTERN: u8 = 0xa5;

/// Owners of files that are not his.
pub(super) const OWNERS: [(&str, u32); 2] = [("roots", 0), ("others", OTHER)];
/// Their modes.
pub(super) const FILE_MODES: [u32; 3] = [0o600, 0o644, 0o666];
pub(super) const DIR_MODES: [u32; 3] = [0o700, 0o755, 0o777];
/// Ways to change programs: each has one of its own.
pub(super) const BITS: [&str; 11] =
    ["write", "append", "direct", "ftruncate", "truncate", "trunc", "copy", "allocate", "keep", "punch", "zero"];
