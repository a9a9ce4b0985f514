//! Test beds: one image in memory, made into each target in turn.
//!
//! All targets use the same bytes of memory: one image file, filled once, so that nobody pays for allocating it; making
//! a file system discards nothing. Kept true: whatever was mounted, attached or started is taken down again when its
//! guard is dropped, in the order mount, server, loop device, directory, also after an error or a signal that asks to
//! end.

use crate::library::LibraryTree;
use crate::memfuse;
use crate::posix::{PosixTree, RawTree};
use crate::serve::{NO_SANDBOX, PeerProcess, Server};
use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::mount::{MountFlags, UnmountFlags};
use serde::Serialize;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::mkfs::{MkfsOptions, format};
use steadyfs_device::{ChunkDevice, Device, FileDevice, OpenOptions};

/// The targets of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    /// ext4 on a loop device
    Ext4,
    /// XFS on a loop device
    Xfs,
    /// The peer: a FUSE file system in memory, on the crate fuser
    Memfuse,
    /// The peer with the kernel's write-back cache, which our mount uses
    MemfuseWb,
    /// The same, and the kernel checks permissions, as it does for our mount
    MemfusePerm,
    /// The same with extended attributes and ACLs, as ours has them; no file has one
    MemfuseAcl,
    /// Our mount of the image file
    Fuse,
    /// The same with `-o writethrough`: the kernel keeps no dirty pages
    FuseThrough,
    /// Our mount of the image file, whose server keeps all rights (`-o nosandbox`)
    FuseNosandbox,
    /// Our mount of a loop device
    FuseLoop,
    /// The library on the image file
    Library,
    /// The library on a loop device
    LibraryLoop,
    /// The image file, written without a file system
    Raw,
    /// The loop device, written without a file system
    RawLoop,
}

impl Target {
    /// The name that options and reports use.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it has no files.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Target::Raw | Target::RawLoop)
    }

    /// Whether programs find it in the tree of files.
    pub(crate) fn is_mounted(self) -> bool {
        !self.is_raw() && !matches!(self, Target::Library | Target::LibraryLoop)
    }

    /// Whether it is the peer, one way or the other.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Target::Memfuse | Target::MemfuseWb | Target::MemfusePerm | Target::MemfuseAcl)
    }

    fn on_loop(self) -> bool {
        matches!(self, Target::Ext4 | Target::Xfs | Target::FuseLoop | Target::LibraryLoop | Target::RawLoop)
    }
}

/// A target on the image, from attaching the device to detaching it.
pub(crate) struct Bed {
    target: Target,
    device: PathBuf,
    dir: PathBuf,
    options: String,
    /// The peer's process, which holds its files.
    peer: Option<RefCell<PeerProcess>>,
    /// Detached last.
    _attached: Option<Loop>,
}

impl Bed {
    /// Makes the target's file system on the image. `options` are mount options of our own file system.
    pub(crate) fn make(target: Target, image: &Path, dir: &Path, options: &str) -> Result<Self> {
        let attached = if target.on_loop() { Some(Loop::attach(image)?) } else { None };
        let device = attached.as_ref().map_or_else(|| image.to_owned(), |l| l.device.clone());
        match target {
            Target::Ext4 => tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&device))?,
            Target::Xfs => tool(Command::new("mkfs.xfs").args(["-q", "-f", "-K"]).arg(&device))?,
            Target::Raw | Target::RawLoop => {}
            peer if peer.is_peer() => {}
            _ => make_steadyfs(&device)?,
        }
        let peer = match target {
            Target::Memfuse => Some(PeerProcess::start(dir, memfuse::THROUGH)?),
            Target::MemfuseWb => Some(PeerProcess::start(dir, memfuse::WRITEBACK)?),
            Target::MemfusePerm => Some(PeerProcess::start(dir, memfuse::CHECKED)?),
            Target::MemfuseAcl => Some(PeerProcess::start(dir, memfuse::ATTRIBUTES)?),
            _ => None,
        };
        let (dir, options, peer) = (dir.to_owned(), options.to_owned(), peer.map(RefCell::new));
        Ok(Bed { target, device, dir, options, peer, _attached: attached })
    }

    /// Mounts it.
    pub(crate) fn mount(&self) -> Result<Mounted<'_>> {
        if let Some(peer) = &self.peer {
            peer.borrow_mut().mount()?;
            let point = MountPoint::mounted_at(&self.dir);
            if self.target != Target::Memfuse {
                memfuse::lift_limits(&self.dir)?;
            }
            return Ok(Mounted::Peer(PosixTree::open(&self.dir)?, point, peer));
        }
        match self.target {
            Target::Ext4 | Target::Xfs => {
                let point = MountPoint::mount_kernel(&self.device, &self.dir, &self.target.name())?;
                Ok(Mounted::Kernel(PosixTree::open(&self.dir)?, point))
            }
            Target::Fuse | Target::FuseThrough | Target::FuseNosandbox | Target::FuseLoop => {
                let other = match self.target {
                    Target::FuseThrough => "writethrough",
                    Target::FuseNosandbox => NO_SANDBOX,
                    _ => "",
                };
                let server = Server::start(&self.device, &self.dir, &format!("{},{other}", self.options))?;
                let point = MountPoint::mounted_at(&self.dir);
                Ok(Mounted::Fuse(PosixTree::open(&self.dir)?, point, server))
            }
            Target::Library | Target::LibraryLoop => {
                Ok(Mounted::Library(LibraryTree::mount(&self.device, &self.options)?))
            }
            Target::Raw | Target::RawLoop => Ok(Mounted::Raw(RawTree { device: &self.device })),
            Target::Memfuse | Target::MemfuseWb | Target::MemfusePerm | Target::MemfuseAcl => {
                bail!("the peer was not started")
            }
        }
    }
}

/// An image, a block device, or a directory of chunks.
pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Arc<dyn Device>> {
    Ok(match ChunkDevice::is_at(path) {
        true => Arc::new(ChunkDevice::open(path, options)?),
        false => Arc::new(FileDevice::open(path, options)?),
    })
}

/// Makes a volume of ours there.
pub(crate) fn make_steadyfs(device: &Path) -> Result<()> {
    let dev = FileDevice::open(device, OpenOptions::default())?;
    let options = MkfsOptions { discard: false, ..MkfsOptions::new(*b"steadyfs-bench\0\0", 1_700_000_000) };
    format(&dev, &options)?;
    Ok(())
}

/// A mounted target; the tree is closed before its mount ends.
pub(crate) enum Mounted<'a> {
    /// By the kernel.
    Kernel(PosixTree, MountPoint),
    /// By a process of ours.
    Fuse(PosixTree, MountPoint, Server),
    /// By the peer's process, which outlives the mount.
    Peer(PosixTree, MountPoint, &'a RefCell<PeerProcess>),
    /// In this process.
    Library(LibraryTree),
    /// Not at all.
    Raw(RawTree<'a>),
}

impl Mounted<'_> {
    /// Where to work.
    pub(crate) fn tree(&self) -> &dyn Tree {
        match self {
            Mounted::Kernel(tree, _) | Mounted::Fuse(tree, ..) | Mounted::Peer(tree, ..) => tree,
            Mounted::Library(tree) => tree,
            Mounted::Raw(tree) => tree,
        }
    }

    /// The process that serves the mount.
    pub(crate) fn server(&self) -> Option<u32> {
        match self {
            Mounted::Fuse(_, _, server) => Some(server.pid()),
            Mounted::Peer(_, _, peer) => Some(peer.borrow().pid()),
            _ => None,
        }
    }

    /// Unmounts, and says if that failed.
    pub(crate) fn unmount(self) -> Result<()> {
        match self {
            Mounted::Kernel(tree, mut point) => {
                drop(tree);
                point.unmount()
            }
            Mounted::Fuse(tree, mut point, server) => {
                drop(tree);
                point.unmount()?;
                server.wait()
            }
            Mounted::Peer(tree, mut point, peer) => {
                drop(tree);
                point.unmount()?;
                peer.borrow_mut().hear("gone")
            }
            Mounted::Library(tree) => tree.unmount(),
            Mounted::Raw(tree) => tree.sync(),
        }
    }
}

/// A directory that something is mounted on.
pub(crate) struct MountPoint {
    dir: PathBuf,
    mounted: bool,
}

impl MountPoint {
    /// Where a server of ours has just mounted.
    pub(crate) fn mounted_at(dir: &Path) -> Self {
        MountPoint { dir: dir.to_owned(), mounted: true }
    }

    pub(crate) fn mount_kernel(device: &Path, dir: &Path, kind: &str) -> Result<Self> {
        rustix::mount::mount(device, dir, kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {kind} from {}", device.display()))?;
        Ok(MountPoint { dir: dir.to_owned(), mounted: true })
    }

    /// Unmounts. Somebody who looks at every new mount may keep it busy for a moment.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        for wait in [0, 50, 200, 1000, 3000] {
            std::thread::sleep(Duration::from_millis(wait));
            match rustix::mount::unmount(&self.dir, UnmountFlags::empty()) {
                Ok(()) => {
                    self.mounted = false;
                    return Ok(());
                }
                Err(rustix::io::Errno::BUSY) => {}
                Err(e) => return Err(e).with_context(|| format!("cannot unmount {}", self.dir.display())),
            }
        }
        bail!("{} stays busy and cannot be unmounted", self.dir.display())
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            // The last resort: out of sight now, gone with its last user.
            let _ = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH);
        }
    }
}

/// A loop device on the image, with direct I/O.
pub(crate) struct Loop {
    device: PathBuf,
}

impl Loop {
    pub(crate) fn attach(image: &Path) -> Result<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(image);
        let device = output(&mut losetup)?;
        Ok(Loop { device: PathBuf::from(device.trim()) })
    }

    /// Its path.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(e) = tool(Command::new("losetup").arg("--detach").arg(&self.device)) {
            eprintln!("{e:#}");
        }
    }
}

/// Runs a program; what it says is the error if it fails.
pub(crate) fn tool(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot run {name}; is it installed?"))?;
    if !out.status.success() {
        bail!("{name} failed ({}): {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
