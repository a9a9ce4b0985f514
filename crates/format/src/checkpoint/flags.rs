//! The flags of a checkpoint. Format section 3.2.

use crate::bitset::bitset;

bitset! {
    /// A set of checkpoint flags.
    CpFlags {
        /// Written by an unmount; node summaries are present. Does not mean that there is nothing to roll forward.
        UMOUNT = 0x1, "umount";
        /// The pack has orphan blocks.
        ORPHAN = 0x2, "orphan";
        /// Data summaries are in the compact form.
        COMPACT_SUM = 0x4, "compact_sum";
        /// The volume is broken; Linux refuses to mount it.
        ERROR = 0x8, "error";
        /// A check is wanted; kept by later checkpoints.
        FSCK = 0x10, "fsck";
        /// Node summaries are present.
        FASTBOOT = 0x20, "fastboot";
        /// Node footers carry the checkpoint's checksum beside its version.
        CRC_RECOVERY = 0x40, "crc_recovery";
        /// `nat_bits` blocks may be at the end of the segment (possibly stale).
        NAT_BITS = 0x80, "nat_bits";
        /// Free space was discarded.
        TRIMMED = 0x100, "trimmed";
        /// Written by fsck: only the lower halves of the footers' versions count.
        NOCRC_RECOVERY = 0x200, "nocrc_recovery";
        /// The NAT bitmap comes first and may run on into the payload.
        LARGE_NAT_BITMAP = 0x400, "large_nat_bitmap";
        /// The quota files are out of date.
        QUOTA_NEED_FSCK = 0x800, "quota_need_fsck";
        /// Mounted with checkpointing disabled.
        DISABLED = 0x1000, "disabled";
        /// The same, quickly.
        DISABLED_QUICK = 0x2000, "disabled_quick";
        /// A resize was interrupted.
        RESIZEFS = 0x4000, "resizefs";
    }
}
