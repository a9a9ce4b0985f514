//! What holds for every request: greeting, who may come in, panics, the end, messages that make no sense.

use super::*;
use crate::options::{Allow, Cache};
use crate::wire::abi::{IoctlIn, LseekIn};
use crate::wire::flags::linux::SEEK_DATA;
use crate::wire::flags::{WRITE_CACHE, init};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn greetings_are_answered_by_version() {
    let client = Client::new();
    let (greeting, out) = client.greet(7, 31, u64::MAX);
    assert_eq!((greeting, out.unwrap().minor), (Ok(Greeting::Agreed), 31));
    let (greeting, out) = client.greet(7, 99, u64::MAX);
    assert_eq!((greeting, out.unwrap().minor), (Ok(Greeting::Agreed), MINOR));
    let (greeting, out) = client.greet(8, 1, u64::MAX);
    assert_eq!((greeting, out.unwrap().major), (Ok(Greeting::Again), 7));
    assert_eq!(client.greet(7, 30, u64::MAX).0, Ok(Greeting::TooOld(7, 30)));
    assert_eq!(client.greet(6, 40, u64::MAX).0, Ok(Greeting::TooOld(6, 40)));
    let mut reply = Reply::new(4096);
    assert!(client.server.greet(&client.message(Opcode::Lookup as u32, 1, b"x\0"), &mut reply).is_err());
    assert!(client.server.greet(b"short", &mut reply).is_err());
}

#[test]
fn only_what_is_offered_is_used() {
    let used = |cache, offered| {
        let client = Client::with(|options| options.cache = cache);
        let out = client.greet(7, MINOR, offered).1.unwrap();
        u64::from(out.flags) | u64::from(out.flags2) << 32
    };
    let offered = init::ASYNC_READ | init::WRITEBACK_CACHE;
    assert_eq!(used(Cache::Writeback, offered), offered);
    assert_eq!(used(Cache::Through, offered), init::ASYNC_READ);
    assert_eq!(used(Cache::Writeback, 0), 0);
    // Without INIT_EXT the upper half means nothing.
    assert_eq!(used(Cache::Writeback, init::HAS_SYNCFS), 0);
    assert_eq!(used(Cache::Writeback, init::HAS_SYNCFS | init::INIT_EXT), init::HAS_SYNCFS | init::INIT_EXT);
    for cache in [Cache::Through, Cache::Direct] {
        assert_ne!(used(cache, u64::MAX) & init::DIRECT_IO_ALLOW_MMAP, 0, "{cache:?}");
    }
}

#[test]
fn allow_root_keeps_the_others_out() {
    let mut client = Client::with(|options| options.allow = Some(Allow::OwnerAndRoot));
    let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    for (uid, admitted) in [(0, true), (OWNER, true), (OWNER + 1, false)] {
        client.uid = uid;
        assert_eq!(client.lookup(ROOT, b"file").is_ok(), admitted, "user {uid}");
        // What was opened before, the kernel does on its own account.
        assert!(client.read(file.nodeid, 0, 10).is_ok());
    }
    assert_eq!(client.lookup(ROOT, b"file").unwrap_err(), Errno::ACCESS);
    client.forget(file.nodeid, 3);
}

#[test]
fn a_panic_fails_one_request() {
    let client = Client::new();
    let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    *client.kernel.act.lock().unwrap() = Some(Box::new(|| panic!("a planted defect")));
    let seek = LseekIn { fh: 0, offset: 0, whence: SEEK_DATA, padding: 0 };
    assert_eq!(client.ask(Opcode::Lseek, file.nodeid, &seek, &[]).unwrap_err(), Errno::IO);
    *client.kernel.act.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    assert_eq!(client.write(file.nodeid, 0, b"goes on", 0), Ok(7));
    assert_eq!(client.read(file.nodeid, 0, 7).unwrap(), b"goes on");
    assert!(client.server.finish().is_ok());
}

#[test]
fn destroy_ends_the_file_system_before_it_is_answered() {
    let client = Client::new();
    let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    client.unlink(ROOT, b"file").unwrap();
    let held = Arc::strong_count(&client.fs);
    assert_eq!(client.ask(Opcode::Destroy, 0, &(), &[]), Ok(vec![]));
    assert_eq!(Arc::strong_count(&client.fs), held - 1, "the server let go of the file system");
    assert_eq!(client.counts(), (0, 0));
    assert_eq!(client.read(file.nodeid, 0, 1), Err(Errno::NODEV));
    client.forget(file.nodeid, 1);
    assert_eq!(client.ask(Opcode::Destroy, 0, &(), &[]), Ok(vec![]));
    assert!(client.server.finish().is_ok());
}

/// What is written at the end, a trace for one, is there before the device is free, and no request waits for it.
#[test]
fn the_device_is_closed_when_the_work_at_the_end_is_done() {
    let client = Client::new();
    let (served, kept) = (Arc::strong_count(&client.fs), Arc::new(AtomicUsize::new(0)));
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel::<()>();
    let (fs, seen) = (Arc::clone(&client.fs), Arc::clone(&kept));
    client.server.at_end(Box::new(move || {
        begun.send(()).unwrap();
        goes_on.recv().unwrap();
        // Less this one.
        seen.store(Arc::strong_count(&fs) - 1, SeqCst);
    }));
    std::thread::scope(|scope| {
        let ends: Vec<_> = (0..2).map(|_| scope.spawn(|| client.server.finish())).collect();
        begins.recv().unwrap();
        assert_eq!(client.read(ROOT, 0, 1), Err(Errno::NODEV));
        std::thread::sleep(Duration::from_millis(50));
        assert!(ends.iter().all(|end| !end.is_finished()), "an end did not wait");
        go_on.send(()).unwrap();
        ends.into_iter().for_each(|end| assert!(end.join().unwrap().is_ok()));
    });
    assert_eq!(kept.load(SeqCst), served, "the file system was let go too early");
    assert_eq!(Arc::strong_count(&client.fs), served - 1);
}

/// The kernel writes back what a request waits for, and the file system ends at that moment: all three are answered.
#[test]
fn an_end_does_not_wait_for_what_waits_for_the_kernel() {
    for opcode in [Opcode::Lseek, Opcode::Rename] {
        let client = Client::new();
        let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
        client.create(ROOT, b"other", OFlags::RDWR).unwrap();
        let (asked, is_asked) = channel();
        let (written, is_written) = channel();
        *client.kernel.act.lock().unwrap() = Some(Box::new(move || {
            asked.send(()).unwrap();
            is_written.recv_timeout(Duration::from_secs(10)).expect("the kernel's write is answered");
        }));
        let seek = LseekIn { fh: 0, offset: 0, whence: SEEK_DATA, padding: 0 };
        std::thread::scope(|scope| {
            let request = scope.spawn(|| match opcode {
                Opcode::Lseek => client.ask(opcode, file.nodeid, &seek, &[]),
                _ => client.ask(opcode, ROOT, &ROOT, &[b"file", b"other"]),
            });
            is_asked.recv().unwrap();
            let end = scope.spawn(|| client.server.finish());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!end.is_finished(), "the process would end, and nobody would answer the kernel");
            assert_eq!(client.write(file.nodeid, 0, b"late", WRITE_CACHE), Err(Errno::NODEV), "{opcode:?}");
            written.send(()).unwrap();
            assert_eq!(request.join().unwrap(), Err(Errno::NODEV), "{opcode:?}");
            assert!(end.join().unwrap().is_ok());
        });
    }
}

/// The argument of the ioctl that shuts down may lie in a file of this mount, and the file system end while it is read.
#[test]
fn an_end_does_not_wait_for_the_memory_of_who_shuts_down() {
    let client = Client::new();
    let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let (asked, is_asked) = channel();
    let (read, is_read) = channel();
    *client.kernel.memory.lock().unwrap() = Some(Box::new(move || {
        asked.send(()).unwrap();
        is_read.recv_timeout(Duration::from_secs(10)).expect("the page is read");
        2u32.to_ne_bytes()
    }));
    let ioctl = IoctlIn { fh: 0, flags: 0, cmd: 0x8004_587d, arg: 4096, in_size: 0, out_size: 4 };
    let mut message = client.message(Opcode::Ioctl as u32, ROOT, ioctl.as_bytes());
    let pid = std::mem::offset_of!(InHeader, pid);
    message[pid..pid + 4].copy_from_slice(&std::process::id().to_ne_bytes());
    std::thread::scope(|scope| {
        let request = scope.spawn(|| client.send(&message).expect("a reply"));
        is_asked.recv().expect("root asks");
        let end = scope.spawn(|| client.server.finish());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!end.is_finished(), "the process would end, and nobody would serve the page");
        assert_eq!(client.read(file.nodeid, 0, 1), Err(Errno::NODEV));
        read.send(()).unwrap();
        assert_eq!(request.join().unwrap(), Err(Errno::NODEV));
        assert!(end.join().unwrap().is_ok());
    });
}

#[test]
fn what_the_kernel_can_do_without_is_refused_for_good() {
    let client = Client::new();
    for opcode in [27, 29, 34, 36, 31, 40, 54, 4096] {
        assert_eq!(client.send(&client.message(opcode, ROOT, &[0; 64])), Some(Err(Errno::NOSYS)), "opcode {opcode}");
    }
    assert_eq!(client.send(&client.message(Opcode::NotifyReply as u32, ROOT, &[])), None);
}

/// A small generator: the test must give the same messages each time.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn messages_that_make_no_sense_are_answered_with_errors() {
    let client = Client::new();
    let dir = client.lookup(ROOT, b".").unwrap().nodeid;
    let (file, _) = client.create(ROOT, b"file", OFlags::RDWR).unwrap();
    let mut state = 1;
    for round in 0..20_000u64 {
        let node = [dir, file.nodeid, 0, 77, u64::MAX][(next(&mut state) % 5) as usize];
        // DESTROY would end it.
        let opcode = [(round % 60) as u32, 4096][usize::from(round % 60 == 38)];
        let len = (next(&mut state) % 96) as usize;
        let small = next(&mut state).is_multiple_of(2);
        let body: Vec<u8> =
            (0..len).map(|_| if small { (next(&mut state) % 3) as u8 } else { next(&mut state) as u8 }).collect();
        let mut message = client.message(opcode, node, &body);
        if next(&mut state).is_multiple_of(8) {
            let cut = (next(&mut state) as usize) % message.len();
            message.truncate(cut);
        }
        let mut reply = Reply::new(1 << 16);
        client.server.handle(&message, &mut reply, &client.kernel);
    }
    // Whatever they did, the volume works.
    let (after, _) = client.create(ROOT, b"after", OFlags::RDWR).unwrap();
    assert_eq!(client.write(after.nodeid, 0, b"x", 0), Ok(1));
}
