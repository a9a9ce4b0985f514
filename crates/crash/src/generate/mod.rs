//! Workloads made by rule:
//! - every short one ([`exhaustive`], after ACE of CrashMonkey);
//! - long ones at random ([`random`]);
//! - ones that keep collectors at work ([`collecting`]);
//! - ones on volumes without room ([`nearly_full`]);
//! - ones with files that have no name ([`nameless`]);
//! - ones that come to the limits of infinite logs ([`leaping`]).
//!
//! Keeps true: the model allows every step of every workload made here.

mod ace;
mod collecting;
mod full;
mod leaping;
mod nameless;
mod random;

pub use ace::{exhaustive, sampled};
pub use collecting::collecting;
pub use full::{filled, nearly_full};
pub use leaping::leaping;
pub use nameless::nameless;
pub use random::{random, scheduled};

use crate::lang::{Op, Schedule, VolumeKind, Workload};

/// Every workload of one operation, and then without end:
/// - workloads of two operations, each once, and sampled ones of three;
/// - one in ten at random, of one to three writers. One in four of these is on a volume so small that it collects all
///   the time, and one in four on one with larger sections;
/// - one in ten on a nearly full volume.
///
/// Half of the devices end requests late. The volumes have each of `FEATURES` in turn, and are mounted with each of
/// these options in turn. All is in virtual time where order matters. On IPLFS volumes, which collect nothing, one in
/// four of the random ones is [`leaping`]; with a journal one in four is [`nameless`].
pub fn everything(mounts: &[&str], kind: VolumeKind, seed: u64) -> impl Iterator<Item = Workload> + Send + use<> {
    let mounts: Vec<String> = mounts.iter().map(|mount| (*mount).to_owned()).collect();
    let mut short: Vec<_> = mounts.iter().map(|mount| exhaustive(1, mount, seed)).collect();
    let mut pairs: Vec<_> = mounts.iter().map(|mount| exhaustive(2, mount, seed)).collect();
    let mut triples: Vec<_> = mounts.iter().map(|mount| sampled(3, mount, seed)).collect();
    let mut number = 0u64;
    std::iter::from_fn(move || {
        if let Some(workload) = short.iter_mut().find_map(Iterator::next) {
            return Some(workload.on(kind));
        }
        number += 1;
        let turn = (number / 10) as usize % mounts.len();
        let chosen = match number % 10 {
            0 => {
                let writers = 1 + (number / 10 % 3) as u8;
                let workload =
                    random(writers, 20 * usize::from(writers) + 10, &mounts[turn], seed.wrapping_add(number));
                Some(match number / 10 % 4 {
                    3 if kind == VolumeKind::Iplfs => leaping(&mounts[turn], seed.wrapping_add(number)),
                    2 if crate::legal::has_journal(&mounts[turn]) => nameless(&mounts[turn], seed.wrapping_add(number)),
                    3 => Workload { mib: SMALLEST_MIB, ..workload },
                    1 => Workload { mib: 96, segs_per_sec: 2, ..workload },
                    _ => workload,
                })
            }
            1 | 2 => triples[turn].next(),
            3 => Some(nearly_full(&mounts[turn], seed.wrapping_add(number))),
            _ => pairs[turn].next(),
        };
        // The pairs come to an end; the samples do not.
        let chosen = chosen.or_else(|| triples[turn].next());
        let late = number.is_multiple_of(2).then_some(seed.wrapping_add(number));
        let features = FEATURES[(number / 2) as usize % FEATURES.len()];
        let schedule = Some(Schedule { cores: 1 + (number / 10 % 4) as usize, seed: seed.wrapping_add(number) });
        chosen.map(|workload| {
            let schedule = schedule.filter(|_| late.is_some() || workload.writers().len() > 1);
            Workload { late, schedule, features: features.to_owned(), ..workload }.on(kind)
        })
    })
}

/// A random workload in a schedule of its own, on a volume of this kind. On IPLFS volumes one seed in four meets the
/// limits of the logs.
pub fn scheduled_on(kind: VolumeKind, mount: &str, seed: u64) -> Workload {
    match kind {
        VolumeKind::Iplfs if seed.is_multiple_of(4) => leaping(mount, seed),
        _ => scheduled(mount, seed),
    }
    .on(kind)
}

/// Whether names become durable by time, with these options, so soon that workloads wait for it.
fn commits_by_time(mount: &str) -> bool {
    mount.split(',').any(|option| option == "journal.commit=1")
}

/// A wait in which they do.
const LONG_ENOUGH: Op = Op::Wait { seconds: 2 };

/// Features of the volumes: checksums of inodes on a quarter, inodes of another shape on another.
const FEATURES: [&str; 4] =
    ["extra_attr,inode_checksum", "", "extra_attr,flexible_inline_xattr,inode_crtime,sb_checksum", ""];

/// The smallest volume there is, in MiB.
const SMALLEST_MIB: u32 = 52;
