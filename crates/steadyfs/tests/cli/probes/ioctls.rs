//! Ioctls: those for administrators, flags and projects of one's own files, and those that only other file systems
//! have.

use super::calls::*;
use super::ground::Ground;
use super::{Probe, Where};
use rustix::fs::{IFlags, OFlags};
use rustix::io::Errno;
use std::path::Path;

const FS_IOC_SHUTDOWN: u32 = 0x8004_587d;
const FITRIM: u32 = 0xc018_5879;
const FIFREEZE: u32 = 0xc004_5877;
const FITHAW: u32 = 0xc004_5878;
const FIBMAP: u32 = 1;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;

/// Flags of FSSETXATTR.
const IMMUTABLE: u32 = 0x8;
const APPEND: u32 = 0x10;

/// Asks for the flags and the project of a file, and sets others.
fn sets(ground: &Ground, path: &Path, flags: u32, project: Option<u32>) -> Answer {
    let mut asked = ground.ioctl(path, READ, FS_IOC_FSGETXATTR, &[0; 28])?;
    let had = u32::from_ne_bytes(asked[..4].try_into().unwrap());
    asked[..4].copy_from_slice(&(had | flags).to_ne_bytes());
    if let Some(project) = project {
        asked[12..16].copy_from_slice(&project.to_ne_bytes());
    }
    done(ground.ioctl(path, READ, FS_IOC_FSSETXATTR, &asked))
}

pub(super) fn sets_project(ground: &Ground, path: &Path, project: u32) -> Answer {
    sets(ground, path, 0, Some(project))
}

fn sets_flags(path: &Path, flags: IFlags) -> Answer {
    let file = file(path, READ)?;
    let others = rustix::fs::ioctl_getflags(&file)?;
    done(rustix::fs::ioctl_setflags(&file, others | flags))
}

/// What only administrators may ask of the root directory, of a file of root's and of one's own.
const FOR_ROOT: &[(&str, u32, &[u8])] = &[
    ("shut down, all synced", FS_IOC_SHUTDOWN, &[0; 4]),
    ("shut down with a checkpoint", FS_IOC_SHUTDOWN, &[1, 0, 0, 0]),
    ("shut down at once", FS_IOC_SHUTDOWN, &[2, 0, 0, 0]),
    ("trim", FITRIM, &[0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("freeze", FIFREEZE, &[0; 4]),
    ("thaw", FITHAW, &[0; 4]),
];

/// F2FS' own, none of which the kernel's F2FS would answer so.
const F2FS: &[(&str, u32, usize)] = &[
    ("start an atomic write", 0xf501, 0),
    ("commit an atomic write", 0xf502, 0),
    ("start a volatile write", 0xf503, 0),
    ("abort an atomic write", 0xf505, 0),
    ("collect", 0x4004_f506, 4),
    ("write a checkpoint", 0xf507, 0),
    ("defragment", 0xc010_f508, 16),
    ("move a range", 0xc020_f509, 32),
    ("flush a device", 0x4008_f50a, 8),
    ("collect a range", 0x4018_f50b, 24),
    ("features", 0x8004_f50c, 4),
    ("pin", 0x4004_f50d, 4),
    ("is it pinned", 0x8004_f50e, 4),
    ("read extents ahead", 0xf50f, 0),
    ("resize", 0x4008_f510, 8),
    ("trim a file for good", 0x4018_f514, 24),
    ("decompress", 0xf517, 0),
    ("compress", 0xf518, 0),
];

/// Others', where Linux' file systems differ.
const OTHERS: &[(&str, u32, usize)] = &[
    ("encrypt", 0x800c_6613, 12),
    ("make verifiable", 0x4080_6685, 128),
    ("set the label", 0x4100_9432, 256),
    ("set the generation", 0x4008_7602, 8),
    ("swap two files of ext4", 0xc028_660f, 40),
    ("trace nothing known", 0x4004_7aff, 4),
];

type Row = (&'static str, fn(&Ground) -> Answer, Answer);

/// One's own files: flags that bind only their owner.
const OWN: &[Row] = &[
    ("no dumps of one's own", |ground| sets_flags(&ground.mine(), IFlags::NODUMP), OK),
    ("no times of access of one's own", |ground| sets_flags(&ground.mine(), IFlags::NOATIME), OK),
    ("make one's own immutable", |ground| sets_flags(&ground.mine(), IFlags::IMMUTABLE), PERM),
    ("make one's own append-only", |ground| sets_flags(&ground.mine(), IFlags::APPEND), PERM),
    ("make one's own directory immutable", |ground| sets_flags(&ground.at("own"), IFlags::IMMUTABLE), PERM),
    ("make one's own directory append-only", |ground| sets_flags(&ground.at("own"), IFlags::APPEND), PERM),
    ("make one's own immutable, the other way", |ground| sets(ground, &ground.mine(), IMMUTABLE, None), PERM),
    ("make one's own append-only, the other way", |ground| sets(ground, &ground.mine(), APPEND, None), PERM),
    ("map blocks of one's own", |ground| done(ground.ioctl(&ground.mine(), READ, FIBMAP, &[0; 4])), PERM),
    ("generation of another's", |ground| asks_generation(ground, "files/others-644"), OK),
    ("generation of what one may not read", |ground| asks_generation(ground, "files/others-600"), ACCES),
    ("flags of the root directory", |ground| sets_flags(ground.root(), IFlags::NODUMP), PERM),
    ("project of the root directory", |ground| sets_project(ground, ground.root(), 5), PERM),
    ("take immutability away", |ground| takes_flags(&ground.at("own/immutable")), PERM),
    ("take the flag of appending away", |ground| takes_flags(&ground.at("own/append")), PERM),
];

/// What the owner of files that root has marked may do.
const MARKED: &[Row] = &[
    ("read an immutable file", |ground| opens(&ground.at("own/immutable"), READ), OK),
    ("write an immutable file", |ground| opens(&ground.at("own/immutable"), WRITE), PERM),
    ("append to an immutable file", |ground| opens(&ground.at("own/immutable"), WRITE | OFlags::APPEND), PERM),
    ("truncate an immutable file", |ground| opens(&ground.at("own/immutable"), WRITE | OFlags::TRUNC), PERM),
    ("chmod an immutable file", |ground| chmods(&ground.at("own/immutable"), 0o600), PERM),
    ("touch an immutable file", |ground| touches(&ground.at("own/immutable")), PERM),
    ("set times of an immutable file", |ground| sets_times(&ground.at("own/immutable"), 1, 1), PERM),
    ("unlink an immutable file", |ground| unlinks(&ground.at("own/immutable")), PERM),
    ("link an immutable file", |ground| links(&ground.at("own/immutable"), &ground.fresh()), PERM),
    ("rename an immutable file", |ground| renames(&ground.at("own/immutable"), &ground.fresh()), PERM),
    ("rename over an immutable file", |ground| renames(&ground.mine(), &ground.at("own/immutable")), PERM),
    ("exchange an immutable file", |ground| exchanges(&ground.mine(), &ground.at("own/immutable")), PERM),
    ("attributes of an immutable file", |ground| sets_attribute(&ground.at("own/immutable"), "user.a", b"1"), PERM),
    ("ACL of an immutable file", |ground| sets_attribute(&ground.at("own/immutable"), ACL, PLAIN_ACL), PERM),
    ("append", |ground| opens(&ground.at("own/append"), WRITE | OFlags::APPEND), OK),
    ("write an append-only file", |ground| opens(&ground.at("own/append"), WRITE), PERM),
    ("truncate an append-only file", |ground| opens(&ground.at("own/append"), WRITE | OFlags::TRUNC), PERM),
    ("chmod an append-only file", |ground| chmods(&ground.at("own/append"), 0o600), PERM),
    ("set times of an append-only file", |ground| sets_times(&ground.at("own/append"), 1, 1), PERM),
    ("unlink an append-only file", |ground| unlinks(&ground.at("own/append")), PERM),
    ("link an append-only file", |ground| links(&ground.at("own/append"), &ground.fresh()), PERM),
    ("rename an append-only file", |ground| renames(&ground.at("own/append"), &ground.fresh()), PERM),
];

fn asks_generation(ground: &Ground, name: &str) -> Answer {
    done(ground.ioctl(&ground.at(name), READ, FS_IOC_GETVERSION, &[0; 8]))
}

fn takes_flags(path: &Path) -> Answer {
    let file = file(path, READ)?;
    let flags = rustix::fs::ioctl_getflags(&file)?;
    done(rustix::fs::ioctl_setflags(&file, flags - IFlags::IMMUTABLE - IFlags::APPEND))
}

pub(super) fn table() -> Vec<Probe> {
    let mut probes: Vec<Probe> = OWN.iter().chain(MARKED).map(|row| Probe::row(row, Where::Everywhere)).collect();
    for (what, call, argument) in FOR_ROOT {
        let root = move |ground: &Ground| done(ground.ioctl(ground.root(), READ, *call, argument));
        let own = move |ground: &Ground| done(ground.ioctl(&ground.mine(), OFlags::RDWR, *call, argument));
        probes.push(Probe::new(format!("{what}, by the root directory"), root, PERM));
        probes.push(Probe::new(format!("{what}, by one's own file"), own, PERM));
    }
    for (what, call, len) in F2FS.iter().chain(OTHERS) {
        let own = move |ground: &Ground| done(ground.ioctl(&ground.mine(), OFlags::RDWR, *call, &[0; 256][..*len]));
        probes.push(Probe::new(format!("ioctl: {what}"), own, Err(Errno::NOTTY)).valid(Where::Here));
    }
    probes
}
