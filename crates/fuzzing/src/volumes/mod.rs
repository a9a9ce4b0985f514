//! The targets that read whole volumes, the sound volumes they start from, and the changes that make those unsound.

pub mod base;
pub mod check;
pub mod fields;
pub mod image;
pub mod infinite;
pub mod mount;
mod operations;
pub mod overlay;
pub mod replay;
mod tree;
pub mod verdict;

use crate::input::Input;
use base::Base;
use std::collections::BTreeSet;
use std::sync::Arc;
use steadyfs_device::MemDevice;
use steadyfs_format::Ino;

/// Bytes that reading a volume may hold beyond its input: tables, caches and copies of blocks, for the largest base.
pub(crate) const VOLUME_MEMORY: usize = 64 << 20;

/// A bad volume.
pub(crate) struct Volume {
    /// The volume that it was made from.
    pub(crate) base: &'static Base,
    /// Its blocks.
    pub(crate) device: Arc<MemDevice>,
    /// Which of them are not the base's.
    pub(crate) changed: BTreeSet<u64>,
}

impl Volume {
    /// The base that the input chooses, with the changes that the input lists.
    pub(crate) fn read(input: &mut Input<'_>) -> Self {
        Self::choose(input, false)
    }

    /// The same, of the bases that may be changed.
    pub(crate) fn read_writable(input: &mut Input<'_>) -> Self {
        Self::choose(input, true)
    }

    fn choose(input: &mut Input<'_>, writable: bool) -> Self {
        let base = base::choose(input, writable);
        let device = base.device.fork();
        let changed = overlay::apply(base, &device, input);
        Volume { base, device: Arc::new(device), changed }
    }

    /// The inodes that own the nodes, and the blocks of files, that were changed.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Ino> + Clone {
        let nodes = self.base.nodes.iter().filter(|node| self.changed.contains(&node.lba)).map(|node| node.ino);
        nodes.chain(self.changed.iter().filter_map(|lba| self.base.data.get(lba).copied()))
    }
}

/// One input per base, without changes. Makes the bases, so that no input has to wait for one.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seed = |number| {
        let seed = vec![base::choice_of(number)];
        base::choose(&mut Input::new(&seed), false);
        seed
    };
    (0..base::COUNT as u8).map(seed).collect()
}
