//! The kind of a volume, and the flags of IPLFS volumes: how much one may hold, and how long its address space is.
//!
//! An IPLFS volume writes no block twice, so its device is far longer than it: of an image file nearly all is a hole.
//! Where the host's file system has no files that long the user may choose a shorter address space, which is used
//! up earlier; one that is used up soon is made only with `-f`.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use steadyfs_core::mkfs::{DEFAULT_LEAP, DEFAULT_LOG_SHIFT, Infinite};
use steadyfs_device::ChunkDevice;
use steadyfs_format::BLOCK_SIZE;
use steadyfs_format::infinite::MAX_LOG_SHIFT;

use crate::failure::Failure;
use crate::size::{Size, human};

/// How often a log must take the capacity before it is used up, unless somebody says `-f`.
const TIMES: u64 = 1000;

/// A flag of D2FS volumes.
pub(super) const REGULAR_RATIO: &str = "--regular-ratio";

/// The kind of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// The format of Linux
    F2fs,
    /// Logs in an address space that is never used twice; nothing is collected
    Iplfs,
    /// In a directory whose device collects by itself and moves blocks
    D2fs,
}

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct InfiniteFlags {
    /// Kind of the volume; iplfs and d2fs need --capacity
    #[arg(long, value_enum, value_name = "KIND", default_value = "f2fs")]
    kind: Kind,
    /// How much an IPLFS volume may hold at one time, which `steadyfs resize` changes; or the device of a D2FS volume
    #[arg(long, value_name = "SIZE")]
    pub(super) capacity: Option<Size>,
    /// To what `steadyfs resize` may raise the capacity of an IPLFS volume: makes node ids for so much [default: the
    /// capacity; any volume has ids for 640 MiB of small files]
    #[arg(long, value_name = "SIZE")]
    grow_to: Option<Size>,
    /// How far a log of an IPLFS volume may run between two checkpoints [default: 1G]
    #[arg(long, value_name = "SIZE")]
    leap: Option<Size>,
}

impl InfiniteFlags {
    /// Whether the volume is of this kind.
    pub(super) fn is_iplfs(&self) -> bool {
        self.kind == Kind::Iplfs
    }

    /// The capacity of a D2FS volume, if it is to be one.
    pub(super) fn of_d2fs(&self) -> Option<Size> {
        self.capacity.filter(|_| self.kind == Kind::D2fs)
    }

    /// Refuses flags of another kind. `others` names those that were given of other kinds only, by the kind.
    pub(super) fn check(&self, others: impl Fn(Kind) -> Vec<&'static str>) -> Result<(), Failure> {
        let usage = |why: String, hint: &str| Err(Failure::usage("cannot make a volume", why, hint));
        let other = others(self.kind);
        match self.kind {
            Kind::F2fs if self.capacity.is_some() => usage(
                "only an IPLFS or a D2FS volume has a --capacity".to_owned(),
                "add --kind iplfs or --kind d2fs, or give a SIZE",
            ),
            Kind::F2fs | Kind::D2fs if self.grow_to.is_some() => {
                usage("only an IPLFS volume can --grow-to".to_owned(), "add --kind iplfs, or leave it out")
            }
            Kind::F2fs | Kind::D2fs if self.leap.is_some() => {
                usage("only an IPLFS volume has a --leap".to_owned(), "add --kind iplfs, or leave it out")
            }
            Kind::F2fs | Kind::Iplfs if other.contains(&REGULAR_RATIO) => {
                usage(format!("only a D2FS volume has a {REGULAR_RATIO}"), "add --kind d2fs, or leave it out")
            }
            Kind::Iplfs if !other.is_empty() => {
                usage(format!("an IPLFS volume has no {}", other.join(", ")), "leave it out")
            }
            Kind::D2fs if !other.is_empty() => {
                usage(format!("a D2FS volume has no {}", other.join(", ")), "leave it out")
            }
            Kind::D2fs if self.capacity.is_none() => {
                usage("a D2FS volume needs a --capacity".to_owned(), "say how much its device holds: --capacity 4G")
            }
            Kind::Iplfs if self.capacity.is_none() => {
                usage("an IPLFS volume needs a --capacity".to_owned(), "say how much it may hold: --capacity 64G")
            }
            _ => Ok(()),
        }
    }

    /// The length of the address space: as asked, or what is there, or the usual one.
    pub(super) fn space(&self, path: &Path, offset: u64, asked: Option<Size>) -> Option<Size> {
        let there = fs::metadata(path).ok();
        let usual = Size(blocks_for(DEFAULT_LOG_SHIFT) * BLOCK_SIZE as u64);
        match there {
            _ if asked.is_some() => asked,
            Some(there) if there.file_type().is_block_device() => None,
            Some(there) if there.is_dir() => (!ChunkDevice::is_complete(path)).then_some(usual),
            Some(there) if there.len() > offset => None,
            _ => Some(usual),
        }
    }

    /// The volume on a device of `blocks` blocks.
    pub(super) fn chosen(&self, path: &Path, blocks: u64, force: bool) -> Result<Infinite, Failure> {
        let what = || format!("cannot make an IPLFS volume on {}", path.display());
        let capacity = self.capacity.map_or(0, |size| size.0 / BLOCK_SIZE as u64);
        let log_shift = (0..=MAX_LOG_SHIFT).rev().find(|shift| blocks >> shift >= blocks_for(0)).unwrap_or_default();
        let log = 1u64 << log_shift;
        if log / TIMES < capacity && !force {
            let bytes = |blocks: u64| human(blocks.saturating_mul(BLOCK_SIZE as u64));
            let why = format!("each log would be used up for good after {} were written to it", bytes(log));
            let enough =
                bytes(capacity.saturating_mul(TIMES).checked_next_power_of_two().unwrap_or(log) * blocks_for(0));
            return Err(Failure::new(
                what(),
                why,
                format!("give a SIZE of {enough} or more, or -f to make it all the same"),
            ));
        }
        let most = self.grow_to.map_or(capacity, |size| size.0 / BLOCK_SIZE as u64);
        let leap = self.leap.map_or(DEFAULT_LEAP.min(log / 4), |size| size.0 / BLOCK_SIZE as u64);
        Ok(Infinite { capacity, most, log_shift, leap })
    }
}

/// Blocks of a device whose logs have 2^shift each.
fn blocks_for(log_shift: u8) -> u64 {
    Infinite { log_shift, ..Infinite::new(0) }.device_blocks()
}
