//! One row: a fresh volume, its mount, the victim, and who is beside him.

use super::attack::{Kind, Tally};
use super::party::Party;
use super::report::VictimRow;
use super::victim::{self, Suffered};
use super::{Args, VolumeKind};
use crate::bed::{Loop, MountPoint, make_steadyfs, tool};
use crate::comparison::Site;
use crate::measure::peak_memory;
use crate::serve::Server;
use anyhow::{Context, Result};
use rustix::mount::MountFlags;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Who they are. Neither may be anybody else, nor has a group.
const VICTIM: u32 = 65_533;
const ATTACKER: u32 = 65_534;
/// How long a party may prepare, be silent beyond its time, and take to end.
const PREPARES: Duration = Duration::from_secs(300);
const OVERDUE: Duration = Duration::from_secs(60);
const ENDS: Duration = Duration::from_secs(20);

/// Who serves the victim.
enum Host {
    Server(Server),
    /// The kernel, from this device.
    Kernel(Loop),
}

impl Host {
    /// The most memory that a server has had so far, in bytes.
    fn peak_memory(&self) -> Result<Option<u64>> {
        match self {
            Host::Server(server) => Ok(Some(peak_memory(server.pid()).context("the server of the mount is gone")?)),
            Host::Kernel(_) => Ok(None),
        }
    }

    /// The volume was unmounted.
    fn end(self) -> Result<()> {
        match self {
            Host::Server(server) => server.wait(),
            Host::Kernel(device) => {
                drop(device);
                Ok(())
            }
        }
    }
}

/// Where rows take place.
pub(super) struct Ground<'a> {
    pub(super) args: &'a Args,
    pub(super) site: &'a Site,
    /// All mount options.
    pub(super) options: &'a str,
}

impl Ground<'_> {
    /// Measures the victim beside `processes` processes of a kind.
    pub(super) fn row(&self, name: &str, kind: Option<&Kind>, processes: u64) -> Result<VictimRow> {
        self.site.stop.check()?;
        eprintln!("{name}");
        self.make_volume()?;
        // Dropped, and so taken down, in this order from the bottom: attackers, victim, mount, server or loop device.
        let host = self.mount()?;
        let mut point = MountPoint::mounted_at(&self.site.dir);
        let (home, lair) = (self.home("victim", VICTIM)?, self.home("attacker", ATTACKER)?);
        let mut victim = Party::start(VICTIM, &home, &[victim::ROLE, &self.args.seconds.to_string()])?;
        victim.ready(PREPARES, &self.site.stop)?;
        let mut attackers = self.attackers(kind, processes, &lair)?;
        let before = host.peak_memory()?;
        attackers.iter_mut().try_for_each(Party::go)?;
        victim.go()?;
        let within = Duration::from_secs_f64(self.args.seconds) + OVERDUE;
        let victim: Suffered = victim.told(within, &self.site.stop).with_context(|| name.to_owned())?;
        let memory = host.peak_memory()?;
        attackers.iter().for_each(Party::end);
        let mut attacks = Tally::default();
        for attacker in attackers {
            attacks += attacker.told(ENDS, &self.site.stop).with_context(|| name.to_owned())?;
        }
        point.unmount()?;
        host.end()?;
        Ok(VictimRow { name: name.to_owned(), processes, victim, attacks, memory_before: before, memory })
    }

    fn make_volume(&self) -> Result<()> {
        match self.args.kind {
            VolumeKind::F2fs => make_steadyfs(&self.site.image),
            VolumeKind::Iplfs => {
                if self.site.image.is_dir() {
                    std::fs::remove_dir_all(&self.site.image)?;
                } else if self.site.image.exists() {
                    std::fs::remove_file(&self.site.image)?;
                }
                crate::gc::make_infinite(&self.site.image, self.args.size << 8)
            }
            VolumeKind::Ext4 => {
                tool(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&self.site.image))
            }
        }
    }

    fn mount(&self) -> Result<Host> {
        match self.args.kind {
            VolumeKind::F2fs | VolumeKind::Iplfs => {
                Ok(Host::Server(Server::start(&self.site.image, &self.site.dir, self.options)?))
            }
            VolumeKind::Ext4 => {
                let device = Loop::attach(&self.site.image)?;
                rustix::mount::mount(device.device(), &self.site.dir, "ext4", MountFlags::empty(), None)?;
                Ok(Host::Kernel(device))
            }
        }
    }

    /// Starts attackers, and waits until all have prepared what they need. They do so at the same time.
    fn attackers(&self, kind: Option<&Kind>, processes: u64, lair: &Path) -> Result<Vec<Party>> {
        let mut attackers = Vec::new();
        for number in 0..kind.map_or(0, |_| processes) {
            let words = [kind.map_or("", |kind| kind.name), &number.to_string(), &self.args.amount.to_string()];
            attackers.push(Party::start(ATTACKER, lair, &words)?);
        }
        attackers.iter_mut().try_for_each(|attacker| attacker.ready(PREPARES, &self.site.stop))?;
        Ok(attackers)
    }

    /// A directory that only this user may enter.
    fn home(&self, name: &str, uid: u32) -> Result<PathBuf> {
        let home = self.site.dir.join(name);
        std::fs::create_dir(&home)?;
        chown(&home, Some(uid), Some(uid))?;
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700))?;
        Ok(home)
    }
}
