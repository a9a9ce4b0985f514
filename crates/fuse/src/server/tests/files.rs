//! Contents, attributes, extended attributes, ioctls.

use super::*;
use crate::options::Cache;
use crate::wire::abi::{
    AttrOut, CopyFileRangeIn, FallocateIn, FsXattr, GetxattrIn, GetxattrOut, IoctlIn, IoctlOut, LseekIn, LseekOut,
    OpenIn, SetattrIn, SetxattrIn, StatfsOut, StatxOut,
};
use crate::wire::flags::linux::{FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, SEEK_DATA, SEEK_HOLE, STATX_BTIME};
use crate::wire::flags::{
    FS_APPEND_FL, FS_IMMUTABLE_FL, OPEN_KILL_SUIDGID, WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER, fattr, fopen,
};

pub(super) const NOTHING_SET: SetattrIn = SetattrIn {
    valid: 0,
    padding: 0,
    fh: 0,
    size: 0,
    lock_owner: 0,
    atime: 0,
    mtime: 0,
    ctime: 0,
    atimensec: 0,
    mtimensec: 0,
    ctimensec: 0,
    mode: 0,
    unused4: 0,
    uid: 0,
    gid: 0,
    unused5: 0,
};

impl Client {
    fn file(&self) -> u64 {
        let (entry, _) = self.create(ROOT, b"file", OFlags::RDWR).unwrap();
        self.ask(Opcode::Release, entry.nodeid, &[1u64, 0, 0], &[]).unwrap();
        entry.nodeid
    }

    fn open(&self, node: u64, flags: OFlags, open_flags: u32) -> Result<OpenOut, Errno> {
        self.ask(Opcode::Open, node, &OpenIn { flags: flags.bits(), open_flags }, &[]).map(|body| one(&body))
    }

    fn chmod(&self, node: u64, mode: u32) {
        self.ask(Opcode::Setattr, node, &SetattrIn { valid: fattr::MODE, mode, ..NOTHING_SET }, &[]).unwrap();
    }

    fn seek(&self, node: u64, offset: u64, whence: u32) -> Result<u64, Errno> {
        self.ask(Opcode::Lseek, node, &LseekIn { fh: 0, offset, whence, padding: 0 }, &[])
            .map(|body| one::<LseekOut>(&body).offset)
    }

    fn ioctl(&self, node: u64, cmd: u32, input: &[u8], out_size: u32) -> Body {
        let fixed = IoctlIn { fh: 0, flags: 0, cmd, arg: 0, in_size: input.len() as u32, out_size };
        let body = [fixed.as_bytes(), input].concat();
        let reply = self.send(&self.message(Opcode::Ioctl as u32, node, &body)).expect("a reply")?;
        assert_eq!(one::<IoctlOut>(&reply).result, 0);
        Ok(reply[size_of::<IoctlOut>()..].to_vec())
    }

    fn set_flags(&self, node: u64, flags: u32) {
        self.ioctl(node, 0x4008_6602, flags.as_bytes(), 0).unwrap();
    }
}

/// Large reads are answered with pages from where they are: the same bytes as small ones, to the end of the file and
/// not beyond, newest contents and holes included.
#[test]
fn large_reads_are_the_same_bytes() {
    const LARGE: u32 = 1 << 18;
    let client = Client::new();
    let node = client.file();
    let len = 300_077;
    let mut model: Vec<u8> = (0..len).map(|i| (i * 7 + i / 4096) as u8).collect();
    for (at, part) in model.chunks(40_000).enumerate() {
        assert_eq!(client.write(node, at as u64 * 40_000, part, 0), Ok(part.len() as u32));
    }
    client.ask(Opcode::Fsync, node, &[1u64, 0], &[]).unwrap();
    let hole =
        FallocateIn { fh: 1, offset: 8192, length: 16384, mode: FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, padding: 0 };
    client.ask(Opcode::Fallocate, node, &hole, &[]).unwrap();
    model[8192..24576].fill(0);
    client.write(node, 70_000, &[9; 5000], 0).unwrap();
    model[70_000..75_000].fill(9);
    client.server.recorder().start().unwrap();
    for offset in [0, 4096, 65536, 100, 299_008, 300_077, 1 << 30] {
        let from = (offset as usize).min(len);
        let expected = &model[from..(from + LARGE as usize).min(len)];
        assert!(client.read(node, offset, LARGE).unwrap() == expected, "from {offset}");
        let small: Vec<u8> = expected
            .chunks(8192)
            .zip(0..)
            .flat_map(|(part, i)| client.read(node, offset + i * 8192, part.len() as u32).unwrap())
            .collect();
        assert!(small == expected, "from {offset} in small pieces");
    }
    let (mut trace, header) = (Vec::new(), steadyfs_trace::file::Header { cache: 0, began: 0 });
    steadyfs_trace::file::write_header(&mut trace, &header).unwrap();
    loop {
        let part = client.server.recorder().drain(1 << 20);
        trace.extend_from_slice(&part);
        if part.is_empty() {
            break;
        }
    }
    let trace = steadyfs_trace::file::read(&mut trace.as_slice()).unwrap();
    let reads = trace.records.iter().filter(|record| record.size == u64::from(LARGE));
    let done: Vec<u64> = reads.map(|record| record.done).collect();
    assert_eq!(done, [262_144, 262_144, 234_541, 262_144, 1069, 0, 0], "what is recorded of the large ones");
    let (tiny, _) = client.create(ROOT, b"tiny", OFlags::RDWR).unwrap();
    client.write(tiny.nodeid, 0, b"inline", 0).unwrap();
    assert_eq!(client.read(tiny.nodeid, 0, LARGE).unwrap(), b"inline");
}

#[test]
fn what_is_written_is_read() {
    let client = Client::new();
    let node = client.file();
    assert_eq!(client.write(node, 5000, b"abc", 0), Ok(3));
    assert_eq!(client.read(node, 4998, 100).unwrap(), b"\0\0abc");
    assert_eq!(client.read(node, 5003, 100).unwrap(), b"");
    assert_eq!(client.attr(node).unwrap().size, 5003);
    let cut = SetattrIn { valid: fattr::SIZE, size: 5001, ..NOTHING_SET };
    client.ask(Opcode::Setattr, node, &cut, &[]).unwrap();
    assert_eq!(client.read(node, 4999, 100).unwrap(), b"\0a");
    client.open(node, OFlags::RDWR | OFlags::TRUNC, 0).unwrap();
    assert_eq!(client.attr(node).unwrap().size, 0);
    for opcode in [Opcode::Fsync, Opcode::Fsyncdir] {
        client.ask(opcode, node, &[1u64, 0], &[]).unwrap();
    }
    client.ask(Opcode::Syncfs, ROOT, &0u64, &[]).unwrap();
}

/// With write-back nobody knows what the kernel has of a file that is open for writing: it shows a block, and no
/// longer.
#[test]
fn a_file_that_is_written_shows_a_block() {
    let client = Client::new();
    let (entry, open) = client.create(ROOT, b"file", OFlags::WRONLY).unwrap();
    let node = entry.nodeid;
    let statx = || one::<StatxOut>(&client.ask(Opcode::Statx, node, &[0u64; 3], &[]).unwrap()).stat.blocks;
    let looked_up = || client.lookup(ROOT, b"file").unwrap().attr.blocks;
    let told = || [client.attr(node).unwrap().blocks, statx(), looked_up()];
    let forgotten = || std::mem::take(&mut *client.kernel.told.lock().unwrap());
    let release = |fh: u64| client.ask(Opcode::Release, node, &[fh, 0, 0], &[]).unwrap();
    assert_eq!((entry.attr.blocks, told()), (1, [1; 3]));
    assert_eq!(client.create(ROOT, b"read", OFlags::RDONLY).unwrap().0.attr.blocks, 0);
    assert_eq!(client.lookup(ROOT, b"read").unwrap().attr.blocks, 0);
    release(open.fh);
    assert_eq!((forgotten(), told()), (vec![Notice::ForgetAttributes { node }], [0; 3]));
    // The kernel knows that it has none, until somebody may write.
    client.open(node, OFlags::RDONLY | OFlags::NOATIME, 0).unwrap();
    assert_eq!((client.kernel.forgotten.lock().unwrap().len(), told()), (0, [0; 3]));
    let open = client.open(node, OFlags::WRONLY, 0).unwrap();
    assert_eq!((client.kernel.forgotten.lock().unwrap().as_slice(), told()), (&[node][..], [1; 3]));
    client.write(node, 0, &[7; 5000], WRITE_CACHE).unwrap();
    assert_eq!(told(), [16; 3]);
    let cut = SetattrIn { valid: fattr::SIZE, size: 0, ..NOTHING_SET };
    let after = one::<AttrOut>(&client.ask(Opcode::Setattr, node, &cut, &[]).unwrap());
    assert_eq!(after.attr.blocks, 1);
    release(open.fh);
    assert_eq!(forgotten(), [Notice::ForgetAttributes { node }]);
    for cache in [Cache::Through, Cache::Direct] {
        let client = Client::with(|options| options.cache = cache);
        let entry = client.create(ROOT, b"file", OFlags::RDWR).unwrap().0;
        assert_eq!([entry.attr.blocks, client.attr(entry.nodeid).unwrap().blocks], [0; 2], "{cache:?}");
    }
}

/// Pages of a large and of a small piece in the file system's own cache, after the kernel has written them back and
/// after it has read them.
fn cached_pages(cache: Cache) -> [u64; 4] {
    let client = Client::with(|options| options.cache = cache);
    let (large, small) = (vec![7; 256 << 10], vec![8; 64 << 10]);
    let data = client.file();
    let step = |act: &dyn Fn()| {
        let before = client.fs.cache_stats().cached;
        act();
        client.fs.cache_stats().cached - before
    };
    let write = |at: u64, data_of: &[u8]| {
        assert_eq!(client.write(data, at, data_of, WRITE_CACHE), Ok(data_of.len() as u32));
    };
    let written = [step(&|| write(0, &large)), step(&|| write(1 << 20, &small))];
    // Another file, of which nothing is cached yet.
    let other = client.create(ROOT, b"other", OFlags::RDWR).unwrap().0.nodeid;
    let inode = client.fs.inode(steadyfs_format::Ino::new(other as u32)).unwrap();
    for (at, data) in [(0, &large), (1 << 20, &small)] {
        assert_eq!(client.fs.write_direct(&inode, at, data).unwrap(), data.len());
    }
    let read = |at: u64, wanted: &[u8]| assert_eq!(client.read(other, at, wanted.len() as u32).unwrap(), wanted);
    let read = [step(&|| read(0, &large)), step(&|| read(1 << 20, &small))];
    assert_eq!(client.read(data, 0, 300 << 10).unwrap(), [&large[..], &[0; 44 << 10]].concat());
    [written[0], written[1], read[0], read[1]]
}

#[test]
fn what_the_kernel_keeps_is_not_kept_twice() {
    for cache in [Cache::Writeback, Cache::Through] {
        let [large_written, small_written, large_read, small_read] = cached_pages(cache);
        assert_eq!([large_written, small_written, large_read], [0, 16, 0], "{cache:?}");
        assert!(small_read >= 16, "{cache:?}");
    }
    assert!(cached_pages(Cache::Direct)[2] >= 64, "nobody else keeps it");
}

#[test]
fn times_of_all_ages_are_kept() {
    let client = Client::new();
    let node = client.file();
    let set = SetattrIn {
        valid: fattr::ATIME | fattr::MTIME | fattr::CTIME,
        atime: (-5i64).cast_unsigned(),
        atimensec: 999_999_999,
        mtime: 1 << 33,
        ctime: 77,
        ctimensec: 8,
        ..NOTHING_SET
    };
    client.ask(Opcode::Setattr, node, &set, &[]).unwrap();
    let attr = client.attr(node).unwrap();
    assert_eq!((attr.atime.cast_signed(), attr.atimensec, attr.mtime), (-5, 999_999_999, 1 << 33));
    assert_eq!((attr.ctime, attr.ctimensec), (77, 8));
    let now = SetattrIn { valid: fattr::MTIME | fattr::MTIME_NOW, ..NOTHING_SET };
    client.ask(Opcode::Setattr, node, &now, &[]).unwrap();
    let attr = client.attr(node).unwrap();
    assert!(attr.mtime < 1 << 33 && attr.mtime > 1 << 30 && attr.ctime > 77);
    assert_eq!(attr.atime.cast_signed(), -5);
}

#[test]
fn what_the_kernel_held_back_leaves_times_alone() {
    // Inline, in a page, beyond the end; what the kernel's cache holds back with write-through was never noted by it.
    for (cache, kept) in [(Cache::Writeback, true), (Cache::Through, false)] {
        let client = Client::with(|options| options.cache = cache);
        let node = client.file();
        for (offset, bytes) in [(0, 100), (0, 9000), (100, 4000), (20_000, 4096)] {
            let set = SetattrIn { valid: fattr::MTIME, mtime: 1000, ..NOTHING_SET };
            client.ask(Opcode::Setattr, node, &set, &[]).unwrap();
            assert_eq!(client.write(node, offset, &vec![7; bytes], WRITE_CACHE), Ok(bytes as u32));
            assert_eq!(client.attr(node).unwrap().mtime == 1000, kept, "{cache:?} {offset} {bytes}");
        }
        client.write(node, 0, b"not held back", 0).unwrap();
        assert!(client.attr(node).unwrap().mtime > 1000);
    }
}

#[test]
fn statx_has_the_time_of_creation() {
    let client = Client::new();
    let node = client.file();
    client.set_flags(node, FS_IMMUTABLE_FL);
    let out: StatxOut = one(&client.ask(Opcode::Statx, node, &[0u64; 3], &[]).unwrap());
    assert_eq!((out.stat.mask & STATX_BTIME, out.stat.ino), (STATX_BTIME, node));
    assert!(out.stat.btime.tv_sec > 1 << 30);
    assert_eq!(out.stat.attributes, u64::from(FS_IMMUTABLE_FL));
    let stat: StatfsOut = one(&client.ask(Opcode::Statfs, ROOT, &(), &[]).unwrap());
    assert!(stat.blocks > stat.bfree && stat.bfree > 0 && stat.ffree > 0);
    assert_eq!((stat.bsize, stat.namelen), (4096, 255));
}

#[test]
fn set_id_bits_go_when_the_kernel_says_so() {
    let client = Client::new();
    let node = client.file();
    let mode = || client.attr(node).unwrap().mode & 0o7777;
    client.chmod(node, 0o6755);
    let told = || client.kernel.forgotten.lock().unwrap().len();
    client.write(node, 0, b"by root", 0).unwrap();
    client.write(node, 0, b"by the cache", WRITE_CACHE).unwrap();
    assert_eq!((mode(), told()), (0o6755, 0));
    client.write(node, 0, b"by a user", WRITE_KILL_SUIDGID).unwrap();
    assert_eq!((mode(), told()), (0o755, 1));
    client.write(node, 0, b"once is enough", WRITE_KILL_SUIDGID).unwrap();
    assert_eq!(told(), 1);
    // Without execution for the group the bit means mandatory locking, and stays.
    client.chmod(node, 0o6745);
    client.open(node, OFlags::RDWR | OFlags::TRUNC, OPEN_KILL_SUIDGID).unwrap();
    assert_eq!(mode(), 0o2745);
    client.chmod(node, 0o4755);
    let cut = SetattrIn { valid: fattr::SIZE | fattr::KILL_SUIDGID, ..NOTHING_SET };
    client.ask(Opcode::Setattr, node, &cut, &[]).unwrap();
    assert_eq!(mode(), 0o755);
    client.chmod(node, 0o4755);
    client.ask(Opcode::Setattr, node, &SetattrIn { valid: fattr::UID, uid: 5, ..NOTHING_SET }, &[]).unwrap();
    assert_eq!(mode(), 0o755);
}

#[test]
fn flags_are_the_owners_and_those_that_bind_him_are_roots() {
    let mut client = Client::new();
    let node = client.file();
    client.ask(Opcode::Setattr, node, &SetattrIn { valid: fattr::UID, uid: 5, ..NOTHING_SET }, &[]).unwrap();
    let set = |client: &Client, flags: u32| client.ioctl(node, 0x4008_6602, flags.as_bytes(), 0).map(drop);
    let no_atime = 0x80;
    for (uid, flags, expected) in [
        (6, no_atime, Err(Errno::PERM)),
        (5, no_atime, Ok(())),
        (5, no_atime | FS_APPEND_FL, Err(Errno::PERM)),
        (0, FS_APPEND_FL, Ok(())),
        (5, 0, Err(Errno::PERM)),
    ] {
        client.uid = uid;
        assert_eq!(set(&client, flags), expected, "user {uid}, flags {flags:#x}");
    }
}

#[test]
fn protected_files_open_only_as_they_may() {
    let client = Client::new();
    let node = client.file();
    client.set_flags(node, FS_IMMUTABLE_FL);
    assert!(client.open(node, OFlags::RDONLY, 0).is_ok());
    for flags in [OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR | OFlags::APPEND, OFlags::RDONLY | OFlags::TRUNC] {
        assert_eq!(client.open(node, flags, 0).unwrap_err(), Errno::PERM, "{flags:?}");
    }
    client.set_flags(node, FS_APPEND_FL);
    assert!(client.open(node, OFlags::WRONLY | OFlags::APPEND, 0).is_ok());
    for flags in [OFlags::WRONLY, OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC] {
        assert_eq!(client.open(node, flags, 0).unwrap_err(), Errno::PERM, "{flags:?}");
    }
}

#[test]
fn the_cache_option_decides_how_files_open() {
    let direct = fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES;
    let flags = [OFlags::RDWR, OFlags::RDWR | OFlags::DIRECT, OFlags::RDONLY];
    let quiet = fopen::NOFLUSH;
    for (cache, expected) in [
        (Cache::Writeback, [fopen::KEEP_CACHE, fopen::KEEP_CACHE, fopen::KEEP_CACHE | quiet]),
        (Cache::Through, [fopen::KEEP_CACHE, direct, fopen::KEEP_CACHE | quiet]),
        (Cache::Direct, [direct, direct, direct | quiet]),
    ] {
        let client = Client::with(|options| options.cache = cache);
        let node = client.file();
        assert_eq!(flags.map(|flags| client.open(node, flags, 0).unwrap().open_flags), expected, "{cache:?}");
    }
}

#[test]
fn seeking_makes_the_kernel_write_back_if_it_can_have_anything() {
    let client = Client::new();
    let node = client.file();
    client.write(node, 1 << 20, &[1; 4096], 0).unwrap();
    assert_eq!(client.seek(node, 0, SEEK_DATA), Ok(1 << 20));
    assert!(client.kernel.invalidated.lock().unwrap().is_empty());
    let open = client.open(node, OFlags::WRONLY, 0).unwrap();
    assert_eq!(client.seek(node, 0, SEEK_HOLE), Ok(0));
    assert_eq!(*client.kernel.invalidated.lock().unwrap(), [node]);
    client.ask(Opcode::Release, node, &[open.fh, 0, 0], &[]).unwrap();
    assert_eq!(client.seek(node, 1 << 20, SEEK_HOLE), Ok((1 << 20) + 4096));
    assert_eq!(client.seek(node, 1 << 30, SEEK_DATA), Err(Errno::NXIO));
    assert_eq!(client.seek(node, 0, 0), Err(Errno::INVAL));
    assert_eq!(client.kernel.invalidated.lock().unwrap().len(), 1);
}

#[test]
fn ranges_are_allocated_punched_and_copied() {
    let client = Client::new();
    let node = client.file();
    let fallocate = |mode, offset, length| {
        client.ask(Opcode::Fallocate, node, &FallocateIn { fh: 1, offset, length, mode, padding: 0 }, &[])
    };
    fallocate(0, 0, 1 << 16).unwrap();
    assert_eq!(client.attr(node).unwrap().size, 1 << 16);
    client.write(node, 0, &[7; 3 << 12], 0).unwrap();
    fallocate(FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 4096, 4096).unwrap();
    assert_eq!(client.read(node, 4000, 4300).unwrap(), [&[7; 96][..], &[0; 4096], &[7; 108]].concat());
    assert_eq!(fallocate(FALLOC_PUNCH_HOLE, 0, 4096).unwrap_err(), Errno::OPNOTSUPP);
    assert_eq!(fallocate(0x8000, 0, 4096).unwrap_err(), Errno::OPNOTSUPP);

    let (to, _) = client.create(ROOT, b"copy", OFlags::RDWR).unwrap();
    let copy = |opcode, off_in, off_out, len| {
        let fixed = CopyFileRangeIn { fh_in: 0, off_in, nodeid_out: to.nodeid, fh_out: 1, off_out, len, flags: 0 };
        match opcode {
            Opcode::CopyFileRange => u64::from(one::<WriteOut>(&client.ask(opcode, node, &fixed, &[]).unwrap()).size),
            _ => one::<u64>(&client.ask(opcode, node, &fixed, &[]).unwrap()),
        }
    };
    // More than one buffer, to the end of the source, and past it.
    assert_eq!(copy(Opcode::CopyFileRange, 0, 10, 1 << 40), 1 << 16);
    assert_eq!(copy(Opcode::CopyFileRange64, 5, 0, 10), 10);
    assert_eq!(copy(Opcode::CopyFileRange64, 1 << 20, 0, 10), 0);
    let copied = client.read(to.nodeid, 0, 1 << 16).unwrap();
    let source = client.read(node, 0, 1 << 16).unwrap();
    assert_eq!((&copied[..10], &copied[10..]), (&source[5..15], &source[..(1 << 16) - 10]));
}

#[test]
fn extended_attributes_say_their_size_first() {
    let mut client = Client::new();
    let node = client.file();
    let set = |client: &Client, name: &[u8], value: &[u8], flags| {
        let fixed = SetxattrIn { size: value.len() as u32, flags, setxattr_flags: 0, padding: 0 };
        let body = [fixed.as_bytes(), name, &[0], value].concat();
        client.send(&client.message(Opcode::Setxattr as u32, node, &body)).expect("a reply")
    };
    set(&client, b"user.a", b"value", 0).unwrap();
    set(&client, b"trusted.b", b"", 0).unwrap();
    assert_eq!(set(&client, b"user.a", b"x", 1).unwrap_err(), Errno::EXIST);
    assert_eq!(set(&client, b"user.c", b"x", 2).unwrap_err(), Errno::NODATA);
    let get = |client: &Client, opcode, size, names: &[&[u8]]| {
        client.ask(opcode, node, &GetxattrIn { size, padding: 0 }, names)
    };
    assert_eq!(one::<GetxattrOut>(&get(&client, Opcode::Getxattr, 0, &[b"user.a"]).unwrap()).size, 5);
    assert_eq!(get(&client, Opcode::Getxattr, 5, &[b"user.a"]).unwrap(), b"value");
    assert_eq!(get(&client, Opcode::Getxattr, 4, &[b"user.a"]).unwrap_err(), Errno::RANGE);
    assert_eq!(get(&client, Opcode::Getxattr, 0, &[b"user.c"]).unwrap_err(), Errno::NODATA);
    let names = |client: &Client| {
        let mut names: Vec<Vec<u8>> = get(client, Opcode::Listxattr, 100, &[])
            .unwrap()
            .split_inclusive(|byte| *byte == 0)
            .map(<[u8]>::to_vec)
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&client), [&b"trusted.b\0"[..], b"user.a\0"]);
    client.uid = 1000;
    assert_eq!(names(&client), [&b"user.a\0"[..]]);
    client.ask(Opcode::Removexattr, node, &(), &[b"user.a"]).unwrap();
    assert_eq!(one::<GetxattrOut>(&get(&client, Opcode::Listxattr, 0, &[]).unwrap()).size, 0);
}

#[test]
fn inode_flags_have_two_doors() {
    let client = Client::new();
    let node = client.file();
    client.set_flags(node, FS_APPEND_FL);
    assert_eq!(client.ioctl(node, 0x8008_6601, &[], 4).unwrap(), FS_APPEND_FL.as_bytes());
    let mut attr: FsXattr = one(&client.ioctl(node, 0x801c_581f, &[], 28).unwrap());
    assert_eq!(attr.xflags, 0x10);
    attr.xflags = 0x8;
    client.ioctl(node, 0x401c_5820, attr.as_bytes(), 0).unwrap();
    assert_eq!(client.ioctl(node, 0x8008_6601, &[], 4).unwrap(), FS_IMMUTABLE_FL.as_bytes());
    attr.extsize = 1;
    assert_eq!(client.ioctl(node, 0x401c_5820, attr.as_bytes(), 0).unwrap_err(), Errno::OPNOTSUPP);
    assert_eq!(client.ioctl(node, 0x4008_6602, &[], 0).unwrap_err(), Errno::INVAL);
    assert_eq!(client.ioctl(node, 0x1234, &[], 0).unwrap_err(), Errno::NOTTY);
}

#[test]
fn space_of_a_file_that_is_being_forgotten_is_waited_for() {
    let client = Client::new();
    let node = client.file();
    let fill = |node| {
        let mut offset = 0;
        loop {
            match client.write(node, offset, &[3; 60_000], 0) {
                Ok(size) => offset += u64::from(size),
                Err(error) => {
                    assert_eq!(error, Errno::NOSPC);
                    return offset;
                }
            }
        }
    };
    let full = fill(node);
    client.unlink(ROOT, b"file").unwrap();
    let (forgotten, start) = (std::time::Duration::from_millis(50), std::time::Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(forgotten);
            client.forget(node, 1);
        });
        let (next, _) = client.create(ROOT, b"next", OFlags::RDWR).unwrap();
        assert!(fill(next.nodeid) > full / 2);
        assert!(start.elapsed() >= forgotten);
        // Nothing more comes: it ends.
        assert_eq!(client.write(next.nodeid, 1 << 30, &[3; 60_000], 0), Err(Errno::NOSPC));
    });
}

/// The kernel has not forgotten the file yet; one that is open keeps its blocks.
#[test]
fn what_is_about_to_be_freed_counts_as_free() {
    let client = Client::new();
    let free = || one::<StatfsOut>(&client.ask(Opcode::Statfs, ROOT, &(), &[]).unwrap()).bfree;
    let allocated = |name: &[u8]| {
        let (entry, open) = client.create(ROOT, name, OFlags::RDWR).unwrap();
        let asked = FallocateIn { fh: open.fh, offset: 0, length: 1 << 20, mode: 0, padding: 0 };
        client.ask(Opcode::Fallocate, entry.nodeid, &asked, &[]).unwrap();
        (entry.nodeid, open.fh)
    };
    let (_, before) = (allocated(b"other"), free());
    let ((closed, fh), (open, _)) = (allocated(b"closed"), allocated(b"open"));
    assert!(free() <= before - 512);
    client.ask(Opcode::Release, closed, &[fh, 0, 0], &[]).unwrap();
    client.unlink(ROOT, b"closed").unwrap();
    client.unlink(ROOT, b"open").unwrap();
    steadyfs_rt::sleep(2 * crate::server::space::CLOSE_PATIENCE);
    let now = free();
    assert!((before - 260..before - 250).contains(&now), "{now} of {before}");
    client.forget(closed, 1);
    assert!((before - 260..before - 250).contains(&free()), "nothing counts twice: {} of {before}", free());
    assert!(client.server.nodes.is_open(open as u32));
}

/// What an open file takes is memory of the server, which no limit of the user's counts.
#[test]
fn a_user_has_so_many_files_open_and_no_more() {
    let mut client = Client::with(|options| options.open_files = 3);
    let made = |client: &Client, name: &[u8]| client.create(ROOT, name, OFlags::RDWR);
    let many: Vec<_> = (0..5u8).map(|n| made(&client, &[b'r', n + b'0']).unwrap()).collect();
    client.chmod(ROOT, 0o40_777);
    client.uid = OWNER + 1;
    let (entry, first) = made(&client, b"first").unwrap();
    let open = |client: &Client| client.open(entry.nodeid, OFlags::RDONLY, 0).map(|open| open.fh);
    let (second, _third) = (open(&client).unwrap(), open(&client).unwrap());
    assert_eq!(open(&client), Err(Errno::NFILE));
    assert_eq!(made(&client, b"fourth").err(), Some(Errno::NFILE));
    let nameless = CreateIn { flags: 0o20_200_002, mode: 0o100_600, umask: 0, open_flags: 0 };
    assert_eq!(client.ask(Opcode::Tmpfile, ROOT, &nameless, &[]), Err(Errno::NFILE));
    // Nothing was made, and nothing cut, for who may not open it.
    assert_eq!(client.lookup(ROOT, b"fourth").map(|entry| entry.nodeid), Ok(0));
    client.uid = OWNER + 2;
    assert!(open(&client).is_ok(), "each user has his own");
    client.uid = OWNER + 1;
    for (node, fh) in [(entry.nodeid, first.fh), (entry.nodeid, second)] {
        client.ask(Opcode::Release, node, &[fh, 0, 0], &[]).unwrap();
    }
    assert!(open(&client).is_ok() && made(&client, b"fourth").is_ok());
    assert_eq!(open(&client), Err(Errno::NFILE));
    client.uid = 0;
    assert!(many.len() == 5 && open(&client).is_ok(), "who controls the mount is not held to it");
}

/// A file that is made, closed, removed and forgotten; while an allocation takes what there is, none can be made.
fn comes_and_goes(client: &Client) {
    if let Ok((entry, open)) = client.create(ROOT, b"going", OFlags::RDWR) {
        client.ask(Opcode::Release, entry.nodeid, &[open.fh, 0, 0], &[]).unwrap();
        client.unlink(ROOT, b"going").unwrap();
        client.forget(entry.nodeid, 1);
    }
}

/// All that is free, and so more than there is with the nodes for it.
fn allocate_too_much(client: &Client, node: u64) {
    let stat: StatfsOut = one(&client.ask(Opcode::Statfs, ROOT, &(), &[]).unwrap());
    let length = stat.bfree * u64::from(stat.bsize);
    let too_much = FallocateIn { fh: 1, offset: 0, length, mode: 0, padding: 0 };
    assert_eq!(client.ask(Opcode::Fallocate, node, &too_much, &[]), Err(Errno::NOSPC));
}

#[test]
fn who_deletes_without_end_keeps_no_other_waiting_for_space() {
    let client = Client::new();
    let node = client.file();
    let (began, gone) = (std::time::Instant::now(), std::sync::atomic::AtomicU64::new(0));
    let (limit, ended) = (std::time::Duration::from_secs(5), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while began.elapsed() < limit && !ended.load(SeqCst) {
                comes_and_goes(&client);
                gone.fetch_add(1, SeqCst);
            }
        });
        while gone.load(SeqCst) < 10 {
            std::thread::yield_now();
        }
        allocate_too_much(&client, node);
        ended.store(true, SeqCst);
    });
    assert!(began.elapsed() < limit / 2, "it waited for {:?}", began.elapsed());
}

#[test]
fn nothing_is_awaited_of_a_file_that_is_forgotten() {
    let client = Client::new();
    let node = client.file();
    comes_and_goes(&client);
    let began = std::time::Instant::now();
    allocate_too_much(&client, node);
    assert!(began.elapsed() < std::time::Duration::from_millis(200), "it waited for {:?}", began.elapsed());
}

/// After a direct write the kernel is told to drop what it read of the range, while somebody caches; after the last one
/// has closed, everything, once.
#[test]
fn the_kernel_drops_what_a_direct_write_made_old() {
    for (cache, drops) in [(Cache::Writeback, true), (Cache::Through, true), (Cache::Direct, false)] {
        let client = Client::with(|options| options.cache = cache);
        let write = |node, write_flags| {
            client.write(node, 8192, &[1; 4096], write_flags).unwrap();
            std::mem::take(&mut *client.kernel.told.lock().unwrap())
        };
        let (entry, made) = client.create(ROOT, b"file", OFlags::RDWR | OFlags::DIRECT).unwrap();
        let node = entry.nodeid;
        let open = client.open(node, OFlags::RDONLY, 0).unwrap();
        assert_eq!(write(node, WRITE_LOCKOWNER), [], "{cache:?}: nothing was read");
        let past_cache = ReadIn { flags: OFlags::DIRECT.bits(), ..read_in(8192, 4096) };
        client.ask(Opcode::Read, node, &past_cache, &[]).unwrap();
        client.read(node, 0, 8192).unwrap();
        assert_eq!(write(node, WRITE_LOCKOWNER), [], "{cache:?}: something else was");
        client.read(node, 4096, 6144).unwrap();
        let expect = |range| if drops { vec![Notice::DropContents { node, range }] } else { vec![] };
        for _ in 0..2 {
            assert_eq!(write(node, WRITE_LOCKOWNER), expect(8192..10240));
        }
        assert_eq!(write(node, WRITE_CACHE | WRITE_LOCKOWNER), [], "{cache:?}: written back");
        assert_eq!(write(node, 0), [], "{cache:?}: written through, its pages are locked");
        client.ask(Opcode::Release, node, &[open.fh, 0, 0], &[]).unwrap();
        assert_eq!(write(node, WRITE_LOCKOWNER), expect(0..10240));
        assert_eq!(write(node, WRITE_LOCKOWNER), [], "{cache:?}: nothing is cached any more");
        client.ask(Opcode::Release, node, &[made.fh, 0, 0], &[]).unwrap();
    }
}
