//! Failed writes, as FLUSH and FSYNC tell of them.

use super::*;
use crate::wire::abi::{FlushIn, FsyncIn, OpenIn};
use crate::wire::flags::WRITE_CACHE;
use steadyfs_core::MountOptions;
use steadyfs_device::{Fault, FaultyDevice, MemDevice, OpKind};

type Faulty = Arc<FaultyDevice<MemDevice>>;

impl Client {
    fn faulty(options: &str) -> (Client, Faulty) {
        let device = Arc::new(FaultyDevice::new(volume::device()));
        let fs = Fs::mount(Arc::clone(&device) as Arc<_>, MountOptions::default()).unwrap();
        let mut fuse = FuseOptions::new("image");
        assert!(options.is_empty() || fuse.take(options).unwrap());
        (Client::over(fs, &fuse), device)
    }

    fn flush(&self, node: u64, fh: u64) -> Option<Errno> {
        self.ask(Opcode::Flush, node, &FlushIn { fh, unused: 0, padding: 0, lock_owner: 0 }, &[]).err()
    }

    pub(super) fn fsync(&self, node: u64, fh: u64) -> Option<Errno> {
        self.ask(Opcode::Fsync, node, &FsyncIn { fh, fsync_flags: 0, padding: 0 }, &[]).err()
    }

    fn opened(&self, node: u64) -> u64 {
        let open = OpenIn { flags: OFlags::RDONLY.bits(), open_flags: 0 };
        one::<OpenOut>(&self.ask(Opcode::Open, node, &open, &[]).unwrap()).fh
    }
}

#[test]
fn each_open_file_hears_of_a_failed_write_once() {
    let (client, device) = Client::faulty("writethrough");
    let (entry, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let node = entry.nodeid;
    let (writer, reader) = (open.fh, client.opened(node));
    client.write(node, 0, &[1; 50_000], 0).unwrap();
    assert_eq!((client.flush(node, writer), client.flush(node, reader)), (None, None));
    device.add(Fault::fail(28).on(OpKind::Write));
    assert_eq!(client.ask(Opcode::Syncfs, ROOT, &[0u64], &[]), Err(Errno::NOSPC));
    device.heal();
    assert_eq!([0; 2].map(|_| client.flush(node, writer)), [Some(Errno::NOSPC), None]);
    assert_eq!([0; 2].map(|_| client.fsync(node, reader)), [Some(Errno::NOSPC), None]);
    // Opened after somebody was told.
    let late = client.opened(node);
    assert_eq!((client.fsync(node, late), client.fsync(node, writer)), (None, None));
    for fh in [writer, reader, late] {
        client.ask(Opcode::Release, node, &[fh, 0, 0], &[]).unwrap();
        assert_eq!(client.flush(node, fh), None, "the handle is gone");
    }
}

#[test]
fn with_write_back_the_kernel_is_to_ask_at_no_close_and_fsync_tells_each_open_file() {
    let (client, device) = Client::faulty("writeback_cache");
    let (entry, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let (node, files) = (entry.nodeid, [open.fh, client.opened(entry.nodeid)]);
    client.write(node, 0, &[1; 50_000], WRITE_CACHE).unwrap();
    device.add(Fault::fail(5).on(OpKind::Write));
    assert_eq!(client.ask(Opcode::Syncfs, ROOT, &[0u64], &[]), Err(Errno::IO));
    device.heal();
    // Nobody was told by it.
    assert_eq!(files.map(|fh| client.flush(node, fh)), [Some(Errno::NOSYS); 2]);
    assert_eq!(files.map(|fh| client.fsync(node, fh)), [Some(Errno::IO); 2]);
    assert_eq!(files.map(|fh| client.fsync(node, fh)), [None; 2]);
}

#[test]
fn a_device_that_is_gone_is_an_input_error() {
    let (client, device) = Client::faulty("");
    let (entry, open) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    client.write(entry.nodeid, 0, &[1; 50_000], 0).unwrap();
    device.add(Fault::disappear());
    assert_eq!(client.fsync(entry.nodeid, open.fh), Some(Errno::IO));
    assert_eq!(client.read(entry.nodeid, 0, 4096).map(|body| body[0]), Ok(1), "in memory");
    assert_eq!(client.server.finish().map_err(|e| e.errno()), Err(5));
}
