//! What the kernel makes of answers to its questions for ACLs: why ours asks once for each file, and may not answer
//! otherwise. A server that knows nothing else gives one of the answers that there are.
//!
//! It speaks the protocol by itself, in numbers of Linux' `fuse.h`, for ours gives one answer only.

use crate::harness::{Place, as_nobody, umount};
use rustix::fs::{OFlags, lgetxattr, stat};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

const ACL: &str = "system.posix_acl_access";

/// Operations.
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const GETXATTR: u32 = 22;
const INIT: u32 = 26;
/// Operations without an answer: FORGET, INTERRUPT, BATCH_FORGET.
const SILENT: [u32; 3] = [2, 36, 42];

/// The kernel is to go by ACLs.
const POSIX_ACL: u32 = 1 << 20;

/// Attributes are good for so many seconds.
const HOUR: u64 = 3600;

/// An ACL that lets the owner and the group read, and nobody else.
const NOT_OTHERS: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 6, 0, 255, 255, 255, 255, // owner
    4, 0, 4, 0, 255, 255, 255, 255, // group
    32, 0, 0, 0, 255, 255, 255, 255, // others
];

type Answer = Result<&'static [u8], Errno>;

/// A mount whose server answers each GETXATTR alike. Any name leads to a file that all may read.
struct Answering {
    place: Place,
    asked: Arc<AtomicU64>,
    server: Option<JoinHandle<()>>,
}

/// The attributes of the root, or of a file.
fn attributes(node: u64) -> Vec<u8> {
    let mode: u32 = if node == 1 { 0o040_755 } else { 0o100_644 };
    let long = [node, 0, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
    let short = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].map(u32::to_ne_bytes).concat();
    [long, short].concat()
}

/// What is answered to one request, after its header.
fn answer(operation: u32, node: u64, body: &[u8], flags: u32, attribute: Answer) -> Result<Vec<u8>, Errno> {
    match operation {
        INIT => {
            let mut out = [0; 64];
            let words = [(0, 7_u32), (4, 31), (12, flags), (20, 1 << 17)];
            words.iter().for_each(|(at, word)| out[*at..at + 4].copy_from_slice(&word.to_ne_bytes()));
            Ok(out.to_vec())
        }
        LOOKUP => {
            let node = 2 + u64::from(body[0]);
            let head = [node, 0, HOUR, HOUR, 0].map(u64::to_ne_bytes).concat();
            Ok([head, attributes(node)].concat())
        }
        GETATTR => Ok([[HOUR, 0].map(u64::to_ne_bytes).concat(), attributes(node)].concat()),
        GETXATTR => attribute.map(<[u8]>::to_vec),
        _ => Err(Errno::NOSYS),
    }
}

/// Serves until the mount is gone.
fn serve(fuse: &OwnedFd, flags: u32, attribute: Answer, asked: &AtomicU64) {
    let mut request = vec![0; 1 << 18];
    loop {
        let len = match read(fuse, &mut request[..]) {
            Ok(len) => len,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(_) => return,
        };
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four bytes"));
        let node = u64::from_ne_bytes(request[16..24].try_into().expect("eight bytes"));
        let operation = word(4);
        if SILENT.contains(&operation) {
            continue;
        }
        asked.fetch_add(u64::from(operation == GETXATTR), SeqCst);
        let (error, body) = match answer(operation, node, &request[40..len], flags, attribute) {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };
        let head = [(16 + body.len() as u32).to_ne_bytes(), i32::to_ne_bytes(error)].concat();
        // Who asked may be gone.
        let _ = write(fuse, &[&head, &request[8..16], &body].concat());
    }
}

impl Answering {
    fn new(flags: u32, attribute: Answer) -> Self {
        let place = Place::empty();
        place.open_to_all();
        let fuse = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        let fuse = fuse.expect("/dev/fuse");
        let how =
            format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions\0", fuse.as_raw_fd());
        let how = std::ffi::CString::from_vec_with_nul(how.into_bytes()).expect("no zero");
        let none = rustix::mount::MountFlags::empty();
        rustix::mount::mount("answering", place.dir(), "fuse.answering", none, Some(how.as_c_str())).expect("mounted");
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        let server = Some(std::thread::spawn(move || serve(&fuse, flags, attribute, &counted)));
        Answering { place, asked, server }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.at(name)
    }

    /// Questions for attributes so far.
    fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        umount(&self.place.dir());
        self.server.take().map(JoinHandle::join);
    }
}

fn attribute(path: &Path, name: &str) -> Result<usize, Errno> {
    lgetxattr(path, name, &mut [0; 255])
}

#[test]
fn a_file_without_an_acl_is_asked_for_once_each() {
    let mount = Answering::new(POSIX_ACL, Err(Errno::NODATA));
    for (name, asked) in [("a", 1), ("a", 1), ("b", 2), ("b", 2)] {
        assert_eq!((attribute(&mount.file(name), ACL), mount.asked()), (Err(Errno::NODATA), asked));
    }
}

#[test]
fn after_nosys_the_kernel_asks_for_no_attribute_of_any_kind() {
    let mount = Answering::new(POSIX_ACL, Err(Errno::NOSYS));
    assert_eq!((attribute(&mount.file("a"), ACL), mount.asked()), (Err(Errno::NODATA), 1));
    assert_eq!((attribute(&mount.file("b"), ACL), mount.asked()), (Err(Errno::NODATA), 1));
    assert_eq!((attribute(&mount.file("b"), "user.x"), mount.asked()), (Err(Errno::OPNOTSUPP), 1));
}

#[test]
fn opnotsupp_forbids_what_the_mode_allows() {
    let look = |mount: &Answering| as_nobody(|| stat(mount.file("a")).map(|_| ()));
    let allowed = Answering::new(POSIX_ACL, Err(Errno::NODATA));
    assert_eq!(look(&allowed), Ok(()));
    let refused = Answering::new(POSIX_ACL, Err(Errno::OPNOTSUPP));
    assert_eq!(look(&refused), Err(Errno::OPNOTSUPP));
}

#[test]
fn without_acls_of_the_kernel_each_question_is_asked_again_and_no_acl_holds() {
    let open = |mount: &Answering| {
        as_nobody(|| {
            std::fs::metadata(mount.file("a"))
                .and_then(|_| rustix::fs::access(mount.file("a"), rustix::fs::Access::READ_OK).map_err(Into::into))
        })
    };
    let without = Answering::new(0, Ok(NOT_OTHERS));
    for asked in 1..4 {
        assert_eq!((attribute(&without.file("a"), ACL), without.asked()), (Ok(NOT_OTHERS.len()), asked));
    }
    assert!(open(&without).is_ok(), "an ACL holds: {:?}", open(&without));
    let with = Answering::new(POSIX_ACL, Ok(NOT_OTHERS));
    assert!(open(&with).is_err(), "no ACL holds");
}
