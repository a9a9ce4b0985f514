//! Contents that the kernel wrote back in vain: no fsync succeeds while some are missing.

use super::*;
use crate::wire::abi::{FallocateIn, SetattrIn};
use crate::wire::flags::linux::{FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE};
use crate::wire::flags::{WRITE_CACHE, fattr};

const PAGE: u64 = 4096;
/// Behind the largest file.
const TOO_FAR: u64 = 4 << 40;

impl Client {
    fn cut(&self, node: u64, size: u64) {
        let set = SetattrIn { valid: fattr::SIZE, size, ..super::files::NOTHING_SET };
        self.ask(Opcode::Setattr, node, &set, &[]).unwrap();
    }

    fn punch(&self, node: u64, offset: u64, length: u64) {
        let mode = FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE;
        self.ask(Opcode::Fallocate, node, &FallocateIn { fh: 1, offset, length, mode, padding: 0 }, &[]).unwrap();
    }

    /// Fills the volume with another file, which is removed by [`Client::make_room`].
    fn fill(&self) {
        let (entry, open) = self.create(ROOT, b"ballast", OFlags::RDWR).unwrap();
        let page = [7; PAGE as usize];
        let refused = (0..).find_map(|at| self.write(entry.nodeid, at * PAGE, &page, 0).err());
        assert_eq!(refused, Some(Errno::NOSPC));
        self.ask(Opcode::Release, entry.nodeid, &[open.fh, 0, 0], &[]).unwrap();
        self.forget(entry.nodeid, 1);
    }

    fn make_room(&self) {
        self.unlink(ROOT, b"ballast").unwrap();
    }
}

#[test]
fn an_fsync_fails_until_what_was_refused_is_cut_off() {
    let client = Client::new();
    let (entry, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let node = entry.nodeid;
    client.write(node, 0, b"fits", WRITE_CACHE).unwrap();
    assert_eq!(client.fsync(node, 1), None);
    // Who waits for a write hears of it, and that is all.
    assert_eq!(client.write(node, TOO_FAR, b"x", 0), Err(Errno::FBIG));
    assert_eq!(client.fsync(node, 1), None);
    assert_eq!(client.write(node, TOO_FAR, b"x", WRITE_CACHE), Err(Errno::FBIG));
    assert_eq!([0; 2].map(|_| client.fsync(node, 1)), [Some(Errno::FBIG); 2]);
    let other = client.create(ROOT, b"other", OFlags::RDWR).unwrap().0.nodeid;
    assert_eq!(client.fsync(other, 1), None);
    client.cut(node, PAGE);
    assert_eq!(client.fsync(node, 1), None);
    assert_eq!(client.write(node, TOO_FAR, b"x", WRITE_CACHE), Err(Errno::FBIG));
    client.ask(Opcode::Release, node, &[open.fh, 0, 0], &[]).unwrap();
    client.forget(node, 1);
    assert_eq!(client.lookup(ROOT, b"file").map(|entry| entry.nodeid), Ok(node));
    assert_eq!([0; 2].map(|_| client.fsync(node, 1)), [Some(Errno::FBIG), None], "it lay behind the end: told once");
}

#[test]
fn an_fsync_fails_until_what_was_refused_is_written_or_zeroed() {
    let client = Client::new();
    let node = client.create(ROOT, b"file", OFlags::RDWR).unwrap().0.nodeid;
    client.fill();
    let pages = vec![3; 8 * PAGE as usize];
    assert_eq!(client.write(node, 0, &pages, WRITE_CACHE), Err(Errno::NOSPC));
    client.make_room();
    assert_eq!(client.fsync(node, 1), Some(Errno::NOSPC));
    // Zeros behind the end do not bring the end back.
    client.punch(node, 0, 8 * PAGE);
    assert_eq!(client.fsync(node, 1), Some(Errno::NOSPC));
    client.write(node, 2 * PAGE, &pages[..6 * PAGE as usize], WRITE_CACHE).unwrap();
    assert_eq!(client.fsync(node, 1), Some(Errno::NOSPC));
    client.punch(node, 0, PAGE);
    assert_eq!(client.fsync(node, 1), Some(Errno::NOSPC));
    client.write(node, PAGE, &pages[..PAGE as usize], 0).unwrap();
    assert_eq!(client.fsync(node, 1), None);
}

#[test]
fn a_file_that_lost_contents_replaces_no_other() {
    let client = Client::new();
    let old = client.create(ROOT, b"old", OFlags::RDWR).unwrap().0.nodeid;
    client.write(old, 0, b"old", 0).unwrap();
    let (entry, open) = client.create(ROOT, b"new", OFlags::RDWR).unwrap();
    let rename = |to: &[u8]| client.ask(Opcode::Rename, ROOT, &ROOT, &[b"new", to]).map(drop);
    client.fill();
    let pages = vec![3; 8 * PAGE as usize];
    assert_eq!(client.write(entry.nodeid, 0, &pages, WRITE_CACHE), Err(Errno::NOSPC));
    client.make_room();
    assert_eq!([0; 2].map(|_| rename(b"old")), [Err(Errno::NOSPC); 2]);
    assert_eq!(client.read(old, 0, 10).unwrap(), b"old");
    rename(b"other").unwrap();
    client.ask(Opcode::Rename, ROOT, &ROOT, &[b"other", b"new"]).unwrap();
    client.write(entry.nodeid, 0, &pages, WRITE_CACHE).unwrap();
    client.ask(Opcode::Release, entry.nodeid, &[open.fh, 0, 0], &[]).unwrap();
    rename(b"old").unwrap();
    assert_eq!(client.lookup(ROOT, b"old").map(|entry| entry.nodeid), Ok(entry.nodeid));
}
