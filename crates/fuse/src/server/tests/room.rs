//! Cached writes on a volume that runs full: what the kernel may hold, and when it has to ask before it takes more.

use super::*;
use crate::wire::abi::{AttrOut, GetattrIn};
use crate::wire::flags::{GETATTR_FH, WRITE_CACHE};

const MIB: u64 = 1 << 20;

impl Client {
    /// Asks for attributes as before a write to an open file.
    fn ask_to_write(&self, node: u64, fh: u64) -> Result<u64, Errno> {
        let asked = GetattrIn { flags: GETATTR_FH, dummy: 0, fh };
        self.ask(Opcode::Getattr, node, &asked, &[]).map(|body| one::<AttrOut>(&body).attr.size)
    }

    fn release(&self, node: u64, fh: u64) {
        self.ask(Opcode::Release, node, &[fh, 0, 0], &[]).unwrap();
    }

    fn take_forgotten(&self) -> Vec<u64> {
        std::mem::take(&mut *self.kernel.forgotten.lock().unwrap())
    }

    fn take_told(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.kernel.told.lock().unwrap())
    }
}

#[test]
fn what_the_kernel_may_hold_follows_the_free_space() {
    let client = Client::over(volume::sized(256 << 20), &FuseOptions::new("image"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let told = || std::mem::take(&mut *told.lock().unwrap());
    client.server.limit_dirty(Box::new(move |bytes| teller.lock().unwrap().push(bytes)));
    let free = || client.fs.statfs().blocks_free * 4096;
    let first = told();
    assert!(first.len() == 1 && first[0] <= free() / 2 && first[0] > free() / 4, "{first:?} of {}", free());
    let (file, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let piece = vec![1; MIB as usize / 4];
    let mut at = 0;
    while client.write(file.nodeid, at, &piece, WRITE_CACHE).is_ok() {
        at += piece.len() as u64;
        for limit in told() {
            assert!(limit == 8 * MIB || limit <= free() / 2 && limit > free() / 4, "{limit} of {}", free());
        }
    }
    assert_eq!(client.server.room.allowed(), 8 * MIB);
    client.release(file.nodeid, open.fh);
    client.forget(file.nodeid, 1);
    client.unlink(ROOT, b"file").unwrap();
    let (file, _) = client.create(ROOT, b"other", OFlags::RDWR).unwrap();
    client.write(file.nodeid, 0, &piece, WRITE_CACHE).unwrap();
    assert_eq!(told(), first, "as at first");
}

#[test]
fn where_pages_are_overwritten_the_kernel_may_hold_as_much_as_of_any_file_system() {
    let client = Client::over(volume::sized(256 << 20), &FuseOptions::new("image"));
    client.server.limit_dirty(Box::new(|_| ()));
    let (file, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let write = |page: u64| assert!(client.write(file.nodeid, page * 4096, &[1; 4096], WRITE_CACHE).is_ok());
    let has_limit = || client.server.room.allowed() != u64::MAX;
    let overwrite_for = |millis| {
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(millis) {
            (0..100).for_each(write);
        }
    };
    (0..100).for_each(write);
    overwrite_for(500);
    assert!(has_limit(), "files grew just now");
    overwrite_for(700);
    assert!(!has_limit());
    write(100);
    assert!(has_limit(), "the file grows");
    overwrite_for(1200);
    assert!(!has_limit());
    let reader: OpenOut = one(&client.ask(Opcode::Open, file.nodeid, &[0u32; 2], &[]).unwrap());
    assert!(!has_limit(), "who reads writes nothing");
    let (other, open_too) = client.create(ROOT, b"other", OFlags::RDWR).unwrap();
    assert!(has_limit(), "another file may grow");
    for (node, fh) in [(file.nodeid, open.fh), (file.nodeid, reader.fh), (other.nodeid, open_too.fh)] {
        client.release(node, fh);
    }
}

#[test]
fn a_file_that_lost_contents_for_want_of_room_is_asked_about_before_each_write() {
    let client = Client::new();
    let (ballast, _) = client.create(ROOT, b"ballast", OFlags::RDWR).unwrap();
    let (file, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let (node, fh) = (file.nodeid, open.fh);
    let reader: OpenOut = one(&client.ask(Opcode::Open, node, &[0u32; 2], &[]).unwrap());
    // The access time has changed.
    client.take_forgotten();
    let piece = vec![1; MIB as usize / 4];
    let full = (0..).find_map(|n| client.write(ballast.nodeid, n * piece.len() as u64, &piece, 0).err());
    assert_eq!(full, Some(Errno::NOSPC));
    assert_eq!((client.ask_to_write(node, fh), client.take_told()), (Ok(0), vec![]), "it lost nothing");
    assert_eq!(client.write(node, 0, &piece, WRITE_CACHE), Err(Errno::NOSPC));
    let ask = vec![Notice::ForgetAttributes { node }];
    assert_eq!(client.take_told(), ask);
    assert_eq!((client.ask_to_write(node, fh), client.take_told()), (Err(Errno::NOSPC), vec![]));
    // Others get their reply, but the kernel does not go by it.
    assert_eq!((client.ask_to_write(node, reader.fh), client.take_forgotten()), (Ok(0), vec![node]));
    assert!(client.attr(node).is_ok() && client.take_forgotten() == [node]);
    assert!(client.lookup(ROOT, b"file").is_ok() && client.take_told() == ask);
    client.unlink(ROOT, b"ballast").unwrap();
    client.forget(ballast.nodeid, 1);
    client.release(ballast.nodeid, 1);
    assert_eq!((client.ask_to_write(node, fh), client.take_told()), (Ok(0), vec![]), "there is room");
    // What was lost lies behind the end: when nobody writes any more, nobody waits for it.
    assert_eq!(client.fsync(node, fh), Some(Errno::NOSPC));
    client.release(node, fh);
    let name = b"file".to_vec();
    assert_eq!(client.take_told(), [ask, vec![Notice::ForgetName { parent: ROOT, name }]].concat());
    assert_eq!(client.fsync(node, reader.fh), Some(Errno::NOSPC), "who wrote was told; who syncs is told once");
    assert_eq!(client.fsync(node, reader.fh), None);
}

#[test]
fn what_a_file_lost_within_its_end_outlives_the_kernels_inode_but_not_the_file() {
    let client = Client::new();
    let (ballast, _) = client.create(ROOT, b"ballast", OFlags::RDWR).unwrap();
    let (file, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let node = file.nodeid;
    client.write(node, MIB, b"end", 0).unwrap();
    let piece = vec![1; MIB as usize / 4];
    let full = (0..).find_map(|n| client.write(ballast.nodeid, n * piece.len() as u64, &piece, 0).err());
    assert_eq!(full, Some(Errno::NOSPC));
    assert_eq!(client.write(node, 0, &piece, WRITE_CACHE), Err(Errno::NOSPC));
    client.release(node, open.fh);
    client.forget(node, 1);
    client.lookup(ROOT, b"file").unwrap();
    assert_eq!(client.fsync(node, 1), Some(Errno::NOSPC));
    client.unlink(ROOT, b"file").unwrap();
    client.forget(node, 1);
    assert!(client.server.nodes.lost(u32::try_from(node).unwrap()).is_none());
}
