//! What may be chosen: features that can be made, what they need, and the lists of hot and cold extensions.

use super::MkfsOptions;
use crate::error::{Error, Result};
use steadyfs_format::mkfs_layout::MkfsChoices;
use steadyfs_format::superblock::RawSuperBlock;
use steadyfs_format::{BLOCK_SIZE, Features, FormatError};

/// Features that a new volume can have. Of some only the bit is set, for Linux to use; a mount of ours is then
/// read-only.
pub const MAKEABLE: Features = Features::from_bits(
    Features::ENCRYPT.bits()
        | Features::EXTRA_ATTR.bits()
        | Features::PROJECT_QUOTA.bits()
        | Features::INODE_CHECKSUM.bits()
        | Features::FLEXIBLE_INLINE_XATTR.bits()
        | Features::QUOTA.bits()
        | Features::INODE_CRTIME.bits()
        | Features::LOST_FOUND.bits()
        | Features::VERITY.bits()
        | Features::SB_CHECKSUM.bits()
        | Features::CASEFOLD.bits()
        | Features::COMPRESSION.bits(),
);

/// Features whose fields lie in the extra attributes of inodes.
const NEED_EXTRA_ATTR: Features = Features::from_bits(
    Features::PROJECT_QUOTA.bits()
        | Features::INODE_CHECKSUM.bits()
        | Features::FLEXIBLE_INLINE_XATTR.bits()
        | Features::INODE_CRTIME.bits()
        | Features::COMPRESSION.bits(),
);

/// Extensions of files that are cold without being named: the list of mkfs.f2fs 1.15. Linux compares the beginning of
/// an extension with those of two letters.
pub const DEFAULT_COLD_EXTENSIONS: &[&str] = &[
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus", "flac", "gif",
    "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc", "ttc", "ttf", "exe", "apk", "cnt",
    "exo", "odex", "vdex", "so",
];

/// Extensions of files that are hot without being named: the list of mkfs.f2fs 1.15.
pub const DEFAULT_HOT_EXTENSIONS: &[&str] = &["db", "vmdk", "vdi", "qcow2"];

/// The features of a list as given to `mkfs -O`, checked by `check_features`.
///
/// # Errors
/// [`Error::Usage`] with the name of a feature that is unknown, cannot be made, or lacks another one.
pub fn parse_features(list: &str) -> Result<Features> {
    let features = Features::from_names(list).map_err(usage)?;
    check_features(features)?;
    Ok(features)
}

/// Checks that a volume with these features can be made.
pub(super) fn check_features(features: Features) -> Result<()> {
    let refused = features.difference(MAKEABLE);
    if !refused.is_empty() {
        return Err(Error::Usage(format!("a volume with the feature {refused} cannot be made")));
    }
    let dependent = Features::from_bits(features.bits() & NEED_EXTRA_ATTR.bits());
    if !dependent.is_empty() && !features.contains(Features::EXTRA_ATTR) {
        return Err(Error::Usage(format!("{dependent} needs the feature extra_attr too")));
    }
    Ok(())
}

/// Checks what belongs to a feature that the volume is to have.
pub(super) fn check_encoding(options: &MkfsOptions) -> Result<()> {
    if options.strict_encoding && !options.features.contains(Features::CASEFOLD) {
        return Err(Error::Usage("a strict encoding needs the feature casefold".to_owned()));
    }
    Ok(())
}

/// The bits that go into the superblock: a project quota is a quota, even where no user or group quota is kept.
pub(super) fn effective(features: Features) -> Features {
    if features.contains(Features::PROJECT_QUOTA) { features | Features::QUOTA } else { features }
}

/// Stores the default extensions and those given; one that is in the lists already is not stored again.
pub(super) fn set_extensions(raw: &mut RawSuperBlock, cold: &[String], hot: &[String]) -> Result<()> {
    let mut colds = DEFAULT_COLD_EXTENSIONS.to_vec();
    let mut hots = DEFAULT_HOT_EXTENSIONS.to_vec();
    for (list, added) in [(&mut colds, cold), (&mut hots, hot)] {
        for name in added.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    }
    if let Some(name) = hots.iter().find(|name| colds.contains(name)) {
        return Err(Error::Usage(format!("the extension '{name}' cannot be both hot and cold")));
    }
    raw.set_extensions(&colds, &hots).map_err(usage)
}

/// A choice that the format cannot express is a wrong choice, not a damaged volume.
pub(super) fn usage(error: FormatError) -> Error {
    Error::Usage(error.to_string())
}

/// The choices that the layout of a device of `blocks` blocks depends on.
pub(super) fn geometry(options: &MkfsOptions, blocks: u64) -> MkfsChoices {
    MkfsChoices {
        device_bytes: blocks * BLOCK_SIZE as u64,
        start_sector: options.start_sector,
        log_sector_size: options.log_sector_size,
        segs_per_sec: options.segs_per_sec,
        secs_per_zone: options.secs_per_zone,
        overprovision: options.overprovision,
        features: effective(options.features) | if options.zoned { Features::BLKZONED } else { Features::NONE },
        large_nat: options.large_nat,
        heap: options.heap,
    }
}
