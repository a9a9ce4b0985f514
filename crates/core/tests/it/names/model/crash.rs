//! Crashes: after one the volume is what it was between two operations, none older than the last sync that had
//! returned.

use super::ops::{self, Op};
use super::run::{Moment, run_and_record};
use super::tree::{Id, Node, ROOT, Tree};
use super::{VOLUMES, config};
use crate::names::support::{Volume, fsck};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use steadyfs_core::{Fs, InodeRef};
use steadyfs_device::{CrashImage, MemDevice};
use steadyfs_format::dir::FileType;

/// A tree by its paths: what each inode is, and the first path of the same inode.
type Paths = BTreeMap<Vec<u8>, (Node, Vec<u8>)>;

/// What both sides know of an inode, apart from its place.
fn plain(node: &Node) -> Node {
    Node { entries: BTreeMap::new(), parent: ROOT, unnamed: false, xattr_room: 0, ..node.clone() }
}

fn paths_of_tree(tree: &Tree) -> Paths {
    let (mut paths, mut first) = (Paths::new(), HashMap::new());
    let mut todo: Vec<(Vec<u8>, Id)> = vec![(Vec::new(), ROOT)];
    while let Some((path, id)) = todo.pop() {
        let node = &tree.nodes[id];
        // In the same order as the volume's paths are visited below: sorted, last first.
        todo.extend(node.entries.iter().map(|(name, child)| ([&path[..], b"/", name].concat(), *child)));
        let same = first.entry(id).or_insert_with(|| path.clone()).clone();
        paths.insert(path, (plain(node), same));
    }
    paths
}

fn paths_of_volume(fs: &Fs) -> Paths {
    let (mut paths, mut first) = (Paths::new(), HashMap::new());
    let mut todo: Vec<(Vec<u8>, InodeRef)> = vec![(Vec::new(), fs.root().unwrap())];
    while let Some((path, inode)) = todo.pop() {
        let mut names = Vec::new();
        if inode.kind() == FileType::Dir {
            fs.readdir(&inode, 2, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })
            .unwrap();
        }
        names.sort();
        let child = |name: &Vec<u8>| ([&path[..], b"/", name].concat(), fs.lookup(&inode, name).unwrap());
        todo.extend(names.iter().map(child));
        let same = first.entry(inode.ino()).or_insert_with(|| path.clone()).clone();
        let node = super::run::describe(fs, &inode).unwrap();
        paths.insert(path, (plain(&node), same));
    }
    paths
}

/// The moments that a crash at `tick` may lead back to.
fn candidates(moments: &[Moment], tick: u64) -> &[Moment] {
    let oldest = moments.iter().rposition(|m| m.durable && m.tick <= tick).unwrap_or(0);
    let newest = moments.iter().position(|m| m.tick > tick).unwrap_or(moments.len() - 1);
    &moments[oldest..=newest]
}

fn check(crashed: MemDevice, moments: &[Moment], tick: u64) -> std::result::Result<(), TestCaseError> {
    let volume = Volume::on(crashed, "");
    let found = paths_of_volume(&volume.fs);
    let known = candidates(moments, tick);
    prop_assert!(
        known.iter().any(|moment| paths_of_tree(&moment.tree) == found),
        "the volume is none of the {} states that it may be: {:?}",
        known.len(),
        found.keys().map(|path| String::from_utf8_lossy(path)).collect::<Vec<_>>()
    );
    volume.fs.unmount().unwrap();
    fsck(&volume.dev);
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: config().cases / 5, ..config() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_crash_leads_back_to_a_moment_between_operations(
        which in 0..VOLUMES.len(),
        ops in prop::collection::vec(prop_oneof![9 => ops::any_op(), 1 => Just(Op::Sync)], 1..120),
        crashes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 3),
    ) {
        let (device, options) = &VOLUMES[which];
        let (records, moments) = run_and_record(device.fork(), options, &ops)?;
        let (start, end) = (moments[0].tick, moments[moments.len() - 1].tick);
        for (at, seed) in crashes {
            let tick = start + at.index((end - start) as usize + 1) as u64;
            // Any half of what was not yet durable.
            let keep = move |index: usize| (index as u64).wrapping_mul(seed | 1).rotate_left(17) & 1 == 1;
            let crashed = CrashImage::new(device, &records).at(tick).keep_if(keep).build();
            check(crashed, &moments, tick)?;
        }
    }
}
