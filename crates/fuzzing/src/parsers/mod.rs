//! The targets that feed one structure: what a parser of the format crate makes of arbitrary bytes, and what its
//! accessors and its writer make of the result. Beside them the readers of sparse images and of foreign traces.

pub mod acl;
pub mod checkpoint;
pub mod cluster;
pub mod dentries;
pub mod import;
pub mod inode;
pub mod nat;
pub mod node;
pub mod quota;
pub mod records;
pub mod sit;
pub mod sparse;
pub mod summary;
pub mod superblock;
pub mod xattr;

use crate::input::Input;
use std::sync::LazyLock;
use steadyfs_format::mkfs_layout::{MkfsChoices, MkfsLayout};
use steadyfs_format::{Features, Layout};

/// Bytes that a parser of one block may hold: some copies of the block, and what it takes apart.
pub(crate) const BLOCK_MEMORY: usize = 128 << 10;

/// Every feature that changes how a structure is read.
pub(crate) const RICH: Features = Features::EXTRA_ATTR
    .union(Features::PROJECT_QUOTA)
    .union(Features::INODE_CHECKSUM)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::INODE_CRTIME)
    .union(Features::COMPRESSION)
    .union(Features::SB_CHECKSUM);

/// Sets of features that inodes are read under.
pub(crate) const FEATURES: [Features; 4] = [
    Features::NONE,
    RICH,
    RICH.difference(Features::FLEXIBLE_INLINE_XATTR),
    Features::EXTRA_ATTR.union(Features::FLEXIBLE_INLINE_XATTR),
];

/// Volumes of different geometry: small, with large sections, with a large NAT bitmap, and large enough for a
/// checkpoint payload.
pub(crate) static VOLUMES: LazyLock<Vec<(MkfsChoices, MkfsLayout)>> = LazyLock::new(|| {
    let small = MkfsChoices { device_bytes: 64 << 20, ..MkfsChoices::default() };
    let choices = [
        small.clone(),
        MkfsChoices { device_bytes: 1 << 30, segs_per_sec: 4, features: RICH, ..small.clone() },
        MkfsChoices { device_bytes: 2 << 30, large_nat: true, ..small.clone() },
        MkfsChoices { device_bytes: 8 << 40, ..small },
    ];
    let plan = |choices: MkfsChoices| {
        let plan = MkfsLayout::plan(&choices).expect("the sizes are sound");
        (choices, plan)
    };
    choices.into_iter().map(plan).collect()
});

/// The geometry that the input chooses.
pub(crate) fn choose_layout(input: &mut Input<'_>) -> Layout {
    VOLUMES[input.below(VOLUMES.len())].1.layout
}

/// The features that the input chooses.
pub(crate) fn choose_features(input: &mut Input<'_>) -> Features {
    FEATURES[input.below(FEATURES.len())]
}
