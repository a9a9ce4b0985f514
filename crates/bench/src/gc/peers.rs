//! Who is measured, and how one is mounted, put to work and unmounted.
//!
//! A session is everything between a mount and its unmount: phases, one after the other, by the writer (`write`).
//! Sessions of the real F2FS take place in user-mode Linux, where this very program does the same phases.

use super::posix::{CountedBy, MountedPeer};
use super::write::{self, Outcome, Phase};
use crate::bed::{self, MountPoint};
use crate::library::LibraryTree;
use crate::measure::Stop;
use crate::serve::Server;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions};
use steadyfs_device::{ChunkDevice, OpenOptions};
use steadyfs_testkit::Uml;

/// The name of the hidden command that the guest runs.
pub(crate) const GUEST: &str = "gc-guest";
/// Memory of the guest.
pub(crate) const GUEST_MIB: u32 = 768;
/// The volume's disk in the guest.
const DISK: &str = "ubda";

/// The peers that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Who {
    /// Our mount, `gc=scalelfs`
    FuseScalelfs,
    /// Our mount, `gc=f2fs-lfs`
    FuseF2fsLfs,
    /// Our mount of an IPLFS volume, which collects nothing and gives dead blocks back to the host
    FuseIplfs,
    /// Our mount, `gc=scalelfs`, with the writer and the server on one CPU, which is what the guest has
    #[value(name = "fuse-scalelfs-1cpu")]
    #[serde(rename = "fuse-scalelfs-1cpu")]
    FuseScalelfsOneCpu,
    /// The library, `gc=scalelfs`
    LibraryScalelfs,
    /// The library, `gc=f2fs-lfs`
    LibraryF2fsLfs,
    /// The library, an IPLFS volume
    LibraryIplfs,
    /// The library, `gc=scalelfs`, all on one CPU
    #[value(name = "library-scalelfs-1cpu")]
    #[serde(rename = "library-scalelfs-1cpu")]
    LibraryScalelfsOneCpu,
    /// The real F2FS, `mode=lfs`, in user-mode Linux
    LinuxLfs,
    /// The real F2FS as it is mounted by default, which overwrites in place
    LinuxDefault,
}

/// By what a peer is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Fuse,
    Library,
    Linux,
}

impl Who {
    /// The name that options and reports use.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its meaning, as the help says it, for those who do not know the name.
    pub(crate) fn meaning(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(|help| help.to_string().replace('`', ""))).unwrap_or_default()
    }

    /// By what it is mounted, with which options, and whether on one CPU.
    fn mounted(self) -> (By, &'static str, bool) {
        match self {
            Who::FuseScalelfs => (By::Fuse, "gc=scalelfs", false),
            Who::FuseF2fsLfs => (By::Fuse, "gc=f2fs-lfs", false),
            Who::FuseScalelfsOneCpu => (By::Fuse, "gc=scalelfs", true),
            Who::FuseIplfs => (By::Fuse, "", false),
            Who::LibraryIplfs => (By::Library, "", false),
            Who::LibraryScalelfs => (By::Library, "gc=scalelfs", false),
            Who::LibraryF2fsLfs => (By::Library, "gc=f2fs-lfs", false),
            Who::LibraryScalelfsOneCpu => (By::Library, "gc=scalelfs", true),
            // Ours do not discard unless asked either: punching holes into the image is work of its own.
            Who::LinuxLfs => (By::Linux, "noatime,nodiscard,mode=lfs", false),
            Who::LinuxDefault => (By::Linux, "noatime,nodiscard", false),
        }
    }

    /// Whether its volume is an IPLFS one.
    fn is_iplfs(self) -> bool {
        matches!(self, Who::FuseIplfs | Who::LibraryIplfs)
    }

    /// Whether it needs user-mode Linux.
    pub(crate) fn is_linux(self) -> bool {
        self.mounted().0 == By::Linux
    }

    /// Whether it is a mount of ours.
    pub(crate) fn is_fuse(self) -> bool {
        self.mounted().0 == By::Fuse
    }
}

/// What a session does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// First make the file, of so much (per mille) of what is free.
    pub(crate) fill: Option<u64>,
    /// Then do this.
    pub(crate) phases: Vec<Phase>,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Bytes of the file, if it was made.
    pub(crate) file_bytes: Option<u64>,
    /// One for each phase.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Where sessions take place.
pub(crate) struct Place<'a> {
    pub(crate) image: &'a Path,
    /// A directory to mount on.
    pub(crate) dir: &'a Path,
    /// Mount options of ours beside `gc=`.
    pub(crate) options: &'a str,
    pub(crate) stop: &'a Stop,
}

/// Mounts, works, unmounts.
pub(crate) fn session(who: Who, place: &Place<'_>, session: &Session) -> Result<Done> {
    let (by, options, one_cpu) = who.mounted();
    let _pinned = if one_cpu { Some(Pinned::to_one()?) } else { None };
    let all = [options, place.options].iter().filter(|o| !o.is_empty()).copied().collect::<Vec<_>>().join(",");
    match by {
        By::Library => {
            let library = LibraryTree::mount(place.image, &all)?;
            let done = work(&library, session, place.stop)?;
            library.unmount()?;
            Ok(done)
        }
        By::Fuse => {
            let server = Server::start(place.image, place.dir, &all)?;
            let mut point = MountPoint::mounted_at(place.dir);
            let counted = CountedBy::Mount(server.pid());
            let done = work(&MountedPeer::new(place.dir, counted)?, session, place.stop)?;
            point.unmount()?;
            server.wait()?;
            Ok(done)
        }
        By::Linux => in_guest(place, options, session),
    }
}

fn work(peer: &dyn write::Peer, session: &Session, stop: &Stop) -> Result<Done> {
    let mut done = Done::default();
    if let Some(part) = session.fill {
        done.file_bytes = Some(write::fill(peer, part)?);
    }
    for phase in &session.phases {
        let outcome = write::run(peer, phase, &|| stop.check());
        done.outcomes.push(outcome.with_context(|| phase.name.clone())?);
    }
    Ok(done)
}

/// The session in user-mode Linux, which sees the host's files and so runs this program.
fn in_guest(place: &Place<'_>, options: &str, session: &Session) -> Result<Done> {
    let program = std::env::current_exe().context("where is this program?")?;
    let program = program.to_str().filter(|path| !path.contains('\''));
    let program = program.context("this program's path cannot be written in a script")?;
    let words = serde_json::to_string(session)?;
    ensure!(!words.contains('\''), "a phase's name has a quote");
    let seconds: f64 = session.phases.iter().map(|phase| phase.seconds).sum();
    let machine = Uml::new()
        .disk(place.image)
        .mem_mib(GUEST_MIB)
        // The time beside the phases' own: the boot, filling, and writing out what is cached.
        .timeout(Duration::from_secs_f64(2.0 * seconds + 180.0))
        .script(format!("mount -t f2fs -o {options} /dev/{DISK} $MNT"))
        .script(format!("'{program}' {GUEST} $MNT '{words}' >$HOST/done.json"));
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("guest".to_owned()).spawn(move || {
        let done = machine.run().map(|out| std::fs::read_to_string(out.file("done.json")));
        // Nobody listens any more when a signal has ended this program's work.
        let _ = sender.send(done);
    })?;
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(done) => return serde_json::from_str(&done??).context("what the guest said"),
            Err(RecvTimeoutError::Timeout) => place.stop.check()?,
            Err(RecvTimeoutError::Disconnected) => bail!("the guest's thread panicked"),
        }
    }
}

/// What the guest runs: the session on a mounted file system.
pub(crate) fn guest(dir: &Path, session: &str) -> Result<()> {
    let session: Session = serde_json::from_str(session).context("what is to be done")?;
    let done = work(&MountedPeer::new(dir, CountedBy::Kernel(DISK))?, &session, &Stop::default())?;
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}

/// While it lives, this thread and what it starts have one CPU.
struct Pinned(CpuSet);

impl Pinned {
    fn to_one() -> Result<Self> {
        let all = rustix::thread::sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).context("there is no CPU")?;
        let mut one = CpuSet::new();
        one.set(first);
        rustix::thread::sched_setaffinity(None, &one)?;
        Ok(Pinned(all))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = rustix::thread::sched_setaffinity(None, &self.0) {
            eprintln!("steadyfs-bench: cannot go back to all CPUs: {error}");
        }
    }
}

/// An image for each peer, made alike by mkfs.f2fs; that of an IPLFS volume may hold as much.
pub(crate) fn make_image(path: &Path, who: Who, mib: u64, stop: &Stop) -> Result<()> {
    if who.is_iplfs() {
        return make_infinite(path, mib << 8);
    }
    crate::comparison::write_image(path, mib << 20, stop)?;
    crate::bed::tool(std::process::Command::new("mkfs.f2fs").args(["-q", "-f", "-t", "0"]).arg(path))
}

/// An IPLFS volume that may hold `capacity` blocks: in a file where the host's files are long enough, or else in a
/// directory of chunks.
pub(crate) fn make_infinite(path: &Path, capacity: u64) -> Result<()> {
    let chosen = Infinite::new(capacity);
    let blocks = chosen.device_blocks();
    if std::fs::File::create(path)?.set_len(blocks << 12).is_err() {
        std::fs::remove_file(path)?;
        ChunkDevice::create(path, blocks)?;
    }
    let mut options = MkfsOptions::new(*b"steadyfs-bench-v", 1_704_067_200);
    options.infinite = Some(chosen);
    mkfs::format(&*bed::open(path, OpenOptions::default())?, &options)?;
    Ok(())
}

/// The image of a peer in a directory.
pub(crate) fn image_of(dir: &Path, who: Who) -> PathBuf {
    dir.join(format!("{}.img", who.name()))
}
