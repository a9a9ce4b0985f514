//! The table of all issues, in the order in which a report lists them. The macro is in the module above.
//!
//! The number after a group is the rule of format section 17 that its variants watch.

use super::{Field, Location, Severity, Value};
use std::fmt;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::quote::Quoting;
use steadyfs_format::{Ino, Lba, Log, Nid, PageIndex, SegNo};

issues! {
    // Reading.

    /// A block could not be read; what it holds was not checked.
    Fatal ReadFailed { lba: Lba, reason: String }
        "block {lba} cannot be read: {reason}"

    // Superblocks (format section 2; rule 12).

    /// Neither copy can be used: nothing else was checked.
    Fatal NoSuperblock { first: String, second: String }
        "no usable superblock (block 0: {first}; block 1: {second})"
    /// A volume of a variant that this version does not read; as far as that shows, nothing is wrong with it.
    Fatal NotRead { reason: String }
        "{reason}; nothing was checked, and nothing wrong was seen"
    /// The volume does not fit on the device: the image was cut.
    Fatal DeviceTooSmall { blocks: u64, need: u64 }
        "the device has {blocks} blocks, the volume needs {need}: the image is cut short"
    /// One copy is damaged; the other one is in use.
    Error SuperblockBad { lba: Lba, reason: String }
        "the superblock in block {lba} is damaged: {reason}"
    /// Both copies are sound but say different things; the first one is in use.
    Warning SuperblocksDiffer { offset: u32 }
        "the two superblocks differ from byte {offset} on"
    /// Fewer sections than the six logs and a reserve need; fsck.f2fs refuses such a volume.
    Warning TooFewSections { sections: u32 }
        "the volume has only {sections} sections, at least 9 are needed to work"
    /// A kernel has stopped the volume after an error.
    Warning StopRecorded { reasons: String }
        "Linux stopped this volume after an error (stop reason: {reasons})"
    /// A kernel has noted inconsistencies.
    Warning ErrorsRecorded { bits: String }
        "Linux noted inconsistencies on this volume (error bits: {bits})"
    /// A feature bit that this version does not know: what it changes is not checked.
    Warning UnknownFeatures { bits: u32 }
        "the volume uses unknown features (bits {bits:#x}); what they change is not checked"

    // Checkpoint packs (format section 3; rules 5, 11).

    /// Neither pack can be used: nothing else was checked.
    Fatal NoCheckpoint { first: String, second: String }
        "no usable checkpoint (pack 1: {first}; pack 2: {second})"
    /// The pack that is not in use was not written to its end: a crash came in the middle of a checkpoint.
    Note CheckpointPackTorn { pack: u32, reason: String }
        "checkpoint pack {pack} was not written to its end ({reason}); the other one is in use"
    /// The pack that is not in use is damaged, and no crash explains that: the volume rests on a single copy. Counts in
    /// the exit code.
    Warning CheckpointPackLost { pack: u32, reason: String }
        "checkpoint pack {pack} is damaged ({reason}), and the volume rests on the other one; its next checkpoint, after a mount for writing, mends that"
    /// The pack that is not in use holds nothing that a crash leaves: it may have been the newer one.
    Error CheckpointPackGone { pack: u32, reason: String }
        "checkpoint pack {pack} is destroyed ({reason}); if it was the newer one, the volume is shown as it was before, and what that checkpoint made durable is lost"
    /// The first block of the pack in use is damaged; its last block, a copy, says that the pack was written to its
    /// end, and is used. Counts in the exit code.
    Warning CheckpointHeaderDamaged { pack: u32, reason: String }
        "the first block of checkpoint pack {pack} is damaged ({reason}); its last block says the same and is used, and the next mount for writing mends that"
    /// The last block of the pack in use has arrived in part: all else has, or it would not have been written.
    Note CheckpointEndTorn { pack: u32, reason: String }
        "the last block of checkpoint pack {pack} was not written whole ({reason}); its first block says the same and is used, and the next mount for writing mends that"
    /// The pack is whole but breaks a rule that everything else rests on; nothing else was checked. Linux refuses the
    /// volume, too.
    Fatal CheckpointInvalid { pack: u32, reason: String }
        "checkpoint pack {pack} cannot be used: {reason}"
    /// The volume was not unmounted; changes since the checkpoint are lost unless they were fsynced.
    Note NotUnmounted { version: u64 }
        "the volume was not cleanly unmounted (checkpoint {version})"
    /// Fsynced files wait to be recovered by the next mount. Their changes are not checked.
    Note RollForwardPending { nodes: u64, files: u64 }
        "{nodes} nodes of {files} fsynced files wait to be recovered by the next mount"
    /// Batches of the metadata journal wait to be replayed by the next mount. Their changes are not checked.
    Note JournalPending { batches: u64, records: u64 }
        "{batches} batches of the metadata journal with {records} records wait to be replayed by the next mount, or by `steadyfs recover`"
    /// The superblock keeps other programs away, and the journal is empty.
    Note JournalMarked {}
        "the superblock says that there may be a metadata journal, so other programs refuse the volume; there is none, and the next mount, or `steadyfs recover`, says so"
    /// The next mount refuses the journal.
    Error JournalDamaged {}
        "the metadata journal is damaged; mount with -o disable_roll_forward to drop what it made durable"
    /// The journal would leave a tree that is none: the next mount refuses it.
    Error JournalBreaksTree { reason: String }
        "the metadata journal cannot be replayed ({reason}); mount with -o disable_roll_forward to drop what it made durable"
    /// The chain of fsynced nodes does not end where it should.
    Warning RollForwardLoop { lba: Lba }
        "the chain of fsynced nodes comes back to block {lba}"
    /// A mount for writing was tried in memory, and refused the volume.
    Error MountRefused { reason: String }
        "a mount for writing, and `steadyfs recover`, refuse the volume: {reason}"
    /// The volume is marked as inconsistent; Linux refuses to mount it.
    Error MarkedError { flags: u32 }
        "the checkpoint is marked as inconsistent (flags {flags:#x}); Linux refuses to mount the volume"
    /// The writer of the checkpoint asked for a check.
    Warning MarkedFsck { flags: u32 }
        "the checkpoint asks for a check (flags {flags:#x})"
    /// Resizing was interrupted.
    Warning ResizeInterrupted { flags: u32 }
        "resizing the volume was interrupted (checkpoint flags {flags:#x})"
    /// Flags that this version does not know.
    Warning UnknownFlags { flags: u32 }
        "the checkpoint has unknown flags {flags:#x}"
    /// The count of blocks in use is wrong.
    Error ValidBlockCount { stored: u64, found: u64 }
        "the checkpoint counts {stored} blocks in use, {found} were found"
    /// The count of nodes is wrong.
    Error ValidNodeCount { stored: u64, found: u64 }
        "the checkpoint counts {stored} nodes, {found} were found"
    /// The count of inodes is wrong.
    Error ValidInodeCount { stored: u64, found: u64 }
        "the checkpoint counts {stored} inodes, {found} were found"
    /// The count of free segments is wrong.
    Error FreeSegmentCount { stored: u64, found: u64 }
        "the checkpoint counts {stored} free segments, {found} were found"
    /// The count includes the end of the device behind the last whole zone, as mkfs.f2fs leaves it.
    Note FreeSegmentTail { stored: u64, found: u64 }
        "the checkpoint of mkfs counts {stored} free segments, the end of the device included; {found} can be used"
    /// The current segment of a log has another type in the SIT.
    Error LogSegmentType { log: Log, segno: SegNo, found: u8 }
        "segment {segno} is the current one of the {log} log, but the SIT gives it type {found}"
    /// The summary of a log's current segment is of the wrong kind.
    Error LogSummaryKind { log: Log, segno: SegNo, found: u8 }
        "the summary of segment {segno}, the current one of the {log} log, has type {found}"
    /// The summary of a log's current segment, in the checkpoint pack, cannot be read or is none of data.
    Error LogSummaryDamaged { log: Log, segno: SegNo, reason: String }
        "the summary of segment {segno}, the current one of the {log} log, cannot be used: {reason}"
    /// The block that a log takes next is in use.
    Error LogNextUsed { log: Log, segno: SegNo, lba: Lba }
        "the {log} log would write its next block over block {lba}, which is in use"
    /// Blocks beyond the position of a log that writes in order are in use.
    Error LogTailUsed { log: Log, segno: SegNo, blocks: u32 }
        "{blocks} blocks of segment {segno} behind the position of the {log} log are in use"
    /// The hint where to look for a free node id is outside the NAT.
    Warning NextFreeNid { nid: Nid, max: u32 }
        "the checkpoint expects a free node id at {nid}, the volume has {max}"
    /// The journal with the latest changes of the NAT cannot be read, or counts more entries than it holds. The table
    /// was checked without it: nodes that it should place are older there, or missing.
    Error NatJournalDamaged { pack: u32, reason: String }
        "the NAT journal of checkpoint pack {pack} cannot be used ({reason}); nodes that changed last are checked as the table has them"
    /// The same of the SIT: segments that it should describe are checked as they were before.
    Error SitJournalDamaged { pack: u32, reason: String }
        "the SIT journal of checkpoint pack {pack} cannot be used ({reason}); segments that changed last are checked as the table has them"
    /// A NAT journal entry for a node id that does not exist.
    Error NatJournalOutside { nid: Nid }
        "the NAT journal has an entry for node {nid}, which the volume does not have"
    /// Two NAT journal entries for one node id.
    Warning NatJournalTwice { nid: Nid }
        "the NAT journal has more than one entry for node {nid}; the first one counts"
    /// A SIT journal entry for a segment that does not exist.
    Error SitJournalOutside { segno: SegNo }
        "the SIT journal has an entry for segment {segno}, which the volume does not have"
    /// Two SIT journal entries for one segment.
    Warning SitJournalTwice { segno: SegNo }
        "the SIT journal has more than one entry for segment {segno}; the last one counts"
    /// nat_bits are valid for this checkpoint but do not match the NAT; Linux would misjudge free ids.
    Warning NatBitsWrong { block: u32, bitmap: &'static str, stored: u8 }
        "nat_bits: the {bitmap} bit of NAT block {block} is {stored}, which the block contradicts"

    // NAT (format section 4; rule 1).

    /// Node id 0 is used.
    Error NatNullUsed { nid: Nid, lba: Lba }
        "the NAT places the null node {nid} at block {lba}"
    /// The entry of a reserved id is not what mkfs writes.
    Error NatReserved { nid: Nid, owner: u32, block: u64 }
        "the NAT entry of the reserved node {nid} is wrong (owner {owner}, block {block}; expected {nid} and 1)"
    /// A used id has no owner.
    Error NatNoOwner { nid: Nid, lba: Lba }
        "node {nid} at block {lba} has no owner in the NAT"
    /// A node has one of the two addresses that stand for something else wherever else they occur.
    Error NatImpossible { nid: Nid, ino: Ino, address: u64 }
        "the NAT places node {nid} of inode {ino} at the impossible address {address:#x}"
    /// A node lies outside the main area.
    Error NatOutside { nid: Nid, ino: Ino, lba: Lba }
        "the NAT places node {nid} of inode {ino} at block {lba}, outside the main area"
    /// A node's owner is not an inode in use.
    Error NatOwnerMissing { nid: Nid, ino: Ino }
        "node {nid} belongs to inode {ino}, which does not exist"

    // SIT and SSA (format sections 5, 6; rules 3, 4).

    /// A segment type that does not exist.
    Error SitType { segno: SegNo, found: u8 }
        "segment {segno} has type {found} in the SIT, types are 0 to 5"
    /// Count and map disagree.
    Error SitCount { segno: SegNo, stored: u16, found: u32 }
        "the SIT counts {stored} valid blocks in segment {segno}, its map shows {found}"
    /// A block is in use but free in the SIT: it would be overwritten.
    Error BlockNotValid { ino: Ino, nid: Nid, lba: Lba }
        "block {lba}, in use by node {nid} of inode {ino}, is free in the SIT"
    /// Blocks are marked as used but nobody uses them.
    Error BlocksLeaked { segno: SegNo, lba: Lba, blocks: u32 }
        "{blocks} blocks of segment {segno} (the first is {lba}) are marked as used but belong to no file"
    /// Blocks of a zoned device are marked as used but were never written, or are gone with a reset.
    Error BeyondWritePointer { segno: SegNo, lba: Lba, blocks: u32 }
        "{blocks} blocks of segment {segno} (the first is {lba}) are marked as used but lie behind the write pointer of their zone"
    /// A zoned device does not say how far its zones are written.
    Fatal ZonesUnknown { reason: String }
        "how far zones are written was not checked: {reason}"
    /// One block is used twice.
    Error BlockShared { ino: Ino, nid: Nid, lba: Lba }
        "block {lba} of inode {ino} (node {nid}) is in use by something else too"
    /// A segment for data holds nodes, or one for nodes holds data.
    Error SegmentMixed { segno: SegNo, found: u8, holds: &'static str }
        "segment {segno} has type {found} in the SIT but holds {holds}"
    /// The summary of a segment says the wrong kind.
    Error SummaryKind { segno: SegNo, found: u8, holds: &'static str }
        "the summary of segment {segno} has type {found} (0 data, 1 nodes), but the segment holds {holds}"
    /// The summary of a node block names another node.
    Error NodeSummary { nid: Nid, lba: Lba, found: u32 }
        "the summary of block {lba} names node {found}, but node {nid} is there"
    /// The summary of a data block names another owner.
    Error DataSummary { ino: Ino, nid: Nid, lba: Lba, slot: u16, version: u8, found_nid: u32, found_slot: u16, found_version: u8 }
        "the summary of block {lba} says node {found_nid} slot {found_slot} version {found_version}, but it belongs to node {nid} slot {slot} version {version} (inode {ino})"

    // Areas of D2FS volumes (sections 1 and 3 of docs/D2FS-FORMAT.md).

    /// A log stands where only the device writes.
    Error LogInGcArea { log: Log, segno: SegNo }
        "the log {log} stands in segment {segno}, which is in the GC area of the device"
    /// The volume is none of this device: a mount for changes is refused.
    Error DeviceDiffers { what: &'static str, stored: u64, found: u64 }
        "the superblock says that {what} is {stored}, and the device says {found}; restore the whole directory, or read the volume with -o ro"
    /// Volume and device are not of one time: a mount for changes is refused.
    Error RecordsDiffer { served: u64, completed: u64, delivered: u64 }
        "the checkpoint contains {served} records of the device, which has completed {completed} and delivered {delivered}; restore the whole directory, or read the volume with -o ro"
    /// Nobody knows which moves of blocks the checkpoint knows of.
    Error ServedUnknown { pack: u32 }
        "checkpoint pack {pack} does not say which records of the device it contains"

    // Log space of IPLFS volumes (sections 1, 2, 4, 8 of docs/INFINITE-FORMAT.md).

    /// An address that no log has reached, or outside of log space.
    Error AddressBeyondHead { ino: Ino, nid: Nid, lba: Lba }
        "block {lba} of inode {ino} (node {nid}) lies in no log, or behind the head of its log"
    /// A node in a log of data, data in a log of nodes, or either in the meta log.
    Error AddressInWrongLog { ino: Ino, nid: Nid, lba: Lba, log: String, holds: &'static str }
        "block {lba} of inode {ino} (node {nid}) lies in the {log} log but holds {holds}"
    /// The discard log names a block in use: the next mount would discard it.
    Error DiscardReachable { ino: Ino, nid: Nid, lba: Lba }
        "block {lba} of inode {ino} (node {nid}) is in use, and the discard log calls it dead: do not mount the volume for writing"
    /// The discard log cannot be used: a mount for writing refuses the volume.
    Error DiscardLogDamaged { lba: Lba, reason: String }
        "the discard log at block {lba} cannot be used ({reason}); the volume can only be mounted with -o ro"
    /// More is in use than the volume may hold: everything fails for want of space, deletion too.
    Error CapacityExceeded { capacity: u64, valid: u64 }
        "{valid} blocks are in use, the superblock allows {capacity}; `steadyfs resize --capacity` changes that"
    /// A node from the future: valid under a checkpoint that was not yet in force when the node was written.
    Error NodeVersion { ino: Ino, nid: Nid, lba: Lba, found: u64, version: u64 }
        "block {lba}, node {nid} of inode {ino}, was written under checkpoint {found}, the volume is at {version}"
    /// A node is torn, was written for another place, or is of another volume.
    Error NodeChecksum { ino: Ino, nid: Nid, lba: Lba }
        "block {lba} is no whole node {nid} of inode {ino}: its checksum is wrong"

    /// The device holds blocks that nobody needs and nobody will discard.
    Warning HeldInVain { lba: Lba, blocks: u64 }
        "the device holds {blocks} blocks from {lba} on that nobody needs; `steadyfs trim` gives them back"
    /// The device holds blocks where nothing can have been written yet: a mount would write them a second time.
    Error HeldBeyondLimit { lba: Lba, blocks: u64 }
        "the device holds {blocks} blocks from {lba} on, behind the limit of their log or outside of all logs"
    /// Blocks in use for which the device keeps nothing. Contents have no checksum, so nothing else tells of it. Counts
    /// in the exit code.
    Warning HoleInUse { lba: Lba, blocks: u64 }
        "{blocks} blocks in use from {lba} on lie in a hole and read as zeros: a part of the image was removed, cut off or punched out, unless a copy of it made holes of zeros"
    /// The device does not say what it holds.
    Fatal LeaksUnknown { reason: String }
        "what the device holds cannot be compared with what the volume needs: {reason}"

    // Orphans and quota (format sections 13, 14; rule 10).

    /// An orphan that is not an inode in use.
    Error OrphanMissing { ino: Ino }
        "the checkpoint lists inode {ino} as deleted while open, but it does not exist"
    /// An orphan listed twice.
    Error OrphanTwice { ino: Ino }
        "the checkpoint lists inode {ino} as deleted while open more than once"
    /// An orphan that has links.
    Error OrphanLinks { ino: Ino, links: u32 }
        "inode {ino} is listed as deleted while open but has {links} links"
    /// The header of an orphan block contradicts its place.
    Warning OrphanBlock { lba: Lba, index: u16, count: u16 }
        "the orphan block in block {lba} calls itself number {index} of {count}"
    /// An orphan block with more entries than it has room for.
    Error OrphanCount { reason: String }
        "the list of inodes deleted while open cannot be read: {reason}"
    /// A hidden quota file is missing.
    Error QuotaMissing { ino: Ino, quota: &'static str }
        "the file of the {quota} quota, inode {ino}, does not exist"
    /// A hidden quota file is not a regular file.
    Error QuotaType { ino: Ino, quota: &'static str }
        "the file of the {quota} quota, inode {ino}, is not a regular file"
    /// A hidden quota file does not begin as Linux wants it: it does not switch the quota on.
    Error QuotaHeader { ino: Ino, quota: &'static str, reason: String }
        "the file of the {quota} quota, inode {ino}, cannot be used: {reason}"
    /// The tree in a hidden quota file is broken: what it says was not compared.
    Error QuotaTree { ino: Ino, quota: &'static str, block: u32, reason: &'static str }
        "the tree in the file of the {quota} quota, inode {ino}, is broken at its block {block}: {reason}"
    /// A quota file says that somebody uses more or less than is the case.
    Error QuotaUsage { ino: Ino, quota: &'static str, id: u32, stored_space: u64, stored_inodes: u64, found_space: u64, found_inodes: u64 }
        "the {quota} quota says that {quota} {id} uses {stored_space} bytes and {stored_inodes} inodes, {found_space} bytes and {found_inodes} inodes were found"
    /// A quota file does not know somebody who has files.
    Error QuotaEntryMissing { ino: Ino, quota: &'static str, id: u32, found_space: u64, found_inodes: u64 }
        "the {quota} quota has no entry for {quota} {id}, who uses {found_space} bytes and {found_inodes} inodes"
    /// The quota files are known to be out of date; their contents are not compared with the files.
    Note QuotaStale { flags: u32 }
        "the quota files are marked as out of date (checkpoint flags {flags:#x}): their contents are not checked"

    // Nodes (format section 7; rule 2).

    /// A node id that cannot be a node.
    Error NodeIdInvalid { ino: Ino, parent: Nid, ofs: NodeOfs, found: u32 }
        "inode {ino} names node {found} at offset {ofs} (in node {parent}), which cannot exist"
    /// A node that the tree needs is free in the NAT.
    Error NodeMissing { ino: Ino, nid: Nid, ofs: NodeOfs }
        "node {nid} at offset {ofs} of inode {ino} does not exist"
    /// A node belongs to another inode.
    Error NodeForeign { ino: Ino, nid: Nid, ofs: NodeOfs, owner: u32 }
        "node {nid} at offset {ofs} of inode {ino} belongs to inode {owner} in the NAT"
    /// A node is reached on two ways.
    Error NodeShared { ino: Ino, nid: Nid, ofs: NodeOfs }
        "node {nid} at offset {ofs} of inode {ino} is in use elsewhere too"
    /// A node is not reached at all.
    Error NodeUnreferenced { ino: Ino, nid: Nid }
        "node {nid} of inode {ino} is not part of the file"
    /// The block is another node, or none: nothing that it says was checked.
    Error NodeReplaced { ino: Ino, nid: Nid, lba: Lba, found: u32, owner: u32 }
        "block {lba} should be node {nid} of inode {ino}, and is not: its footer says node {found} of inode {owner}"
    /// The footer has another node id.
    Error NodeFooterNid { ino: Ino, nid: Nid, lba: Lba, found: u32 }
        "block {lba} should be node {nid} of inode {ino}, its footer says node {found}"
    /// The footer has another inode number.
    Error NodeFooterIno { ino: Ino, nid: Nid, lba: Lba, found: u32 }
        "block {lba} should be node {nid} of inode {ino}, its footer says inode {found}"
    /// The footer has another place in the file.
    Error NodeFooterOfs { ino: Ino, nid: Nid, expected: NodeOfs, found: NodeOfs }
        "node {nid} is at offset {expected} of inode {ino}, its footer says {found}"
    /// The mark that tells directories' nodes from others is wrong.
    Warning NodeColdMark { ino: Ino, nid: Nid, found: u8 }
        "the cold mark of node {nid} of inode {ino} is {found}; it is 0 for directories only"

    // Inodes (format sections 7.1 to 7.3, 10; rule 6).

    /// No known file type.
    Error InodeMode { ino: Ino, mode: u16 }
        "inode {ino} has mode {mode:o}, which is no known type of file"
    /// The checksum does not match.
    Error InodeChecksum { ino: Ino, stored: u32, computed: u32 }
        "the checksum of inode {ino} is {stored:#010x}, its bytes give {computed:#010x}"
    /// Extra attributes or inline xattrs of an impossible size.
    Error InodeShape { ino: Ino, reason: String }
        "inode {ino} cannot be laid out: {reason}"
    /// The link count is wrong.
    Error InodeLinks { ino: Ino, stored: u32, found: u32 }
        "inode {ino} counts {stored} links, {found} were found"
    /// The block count is wrong.
    Error InodeBlocks { ino: Ino, stored: u64, found: u64 }
        "inode {ino} counts {stored} blocks, {found} were found"
    /// The stored name is too long.
    Error InodeNameLen { ino: Ino, found: u32 }
        "inode {ino} stores a name of {found} bytes, the limit is 255"
    /// The size is beyond what the node tree can hold.
    Error InodeSize { ino: Ino, size: u64, max: u64 }
        "inode {ino} has a size of {size} bytes, the limit is {max}"
    /// Nanoseconds of a time are a second or more.
    Warning InodeTime { ino: Ino, nanos: u32 }
        "a time of inode {ino} has {nanos} nanoseconds"
    /// The cached extent contradicts the address map.
    Error InodeExtent { ino: Ino, page: PageIndex, lba: Lba, blocks: u32, matching: u32 }
        "inode {ino} says that {blocks} pages from page {page} on lie at block {lba}, only {matching} do"
    /// An inode in use that no directory names.
    Error InodeUnreferenced { ino: Ino, links: u32 }
        "inode {ino} ({links} links) has no name in any directory"
    /// A directory that cannot be reached from the root: it lies in a circle.
    Error InodeUnreachable { ino: Ino, parent: Ino }
        "directory {ino} (in directory {parent}) cannot be reached from the root"
    /// There is no root directory.
    Error RootBad { ino: Ino, reason: String }
        "the root directory cannot be used: {reason}"
    /// The root directory has a name somewhere.
    Error RootNamed { ino: Ino, dir: Ino }
        "directory {dir} has an entry for the root directory {ino}"
    /// Flags for inline contents on a type of file that cannot have them, or both kinds at once.
    Error InlineFlags { ino: Ino, flags: u8, mode: u16 }
        "inode {ino} of mode {mode:o} cannot have the inline flags {flags:#04x}"
    /// The first address slot or a node id of an inode with inline contents is not zero.
    Error InlineSlot { ino: Ino, field: &'static str, found: u64 }
        "inode {ino} has inline contents, but {field} is {found} and not 0"
    /// Inline contents larger than their area.
    Error InlineSize { ino: Ino, size: u64, max: u64 }
        "inode {ino} has {size} bytes of inline contents, there is room for {max}"
    /// Bytes in an inline area that is said to be unwritten.
    Error InlineJunk { ino: Ino }
        "inode {ino} has bytes in an inline area that is marked as never written"
    /// Bytes behind the end of inline data.
    Note InlineTail { ino: Ino, size: u64 }
        "inode {ino} has bytes behind the end of its inline data (size {size})"
    /// The casefold flag without the feature, or on something other than a directory.
    Error CasefoldFlag { ino: Ino, mode: u16 }
        "inode {ino} of mode {mode:o} cannot be marked as ignoring case"
    /// A counter that must be 0 on an unpinned file.
    Warning GcFailures { ino: Ino, found: u16 }
        "inode {ino} counts {found} failed moves but is not pinned"
    /// A symbolic link that leads nowhere.
    Error SymlinkEmpty { ino: Ino, blocks: u64 }
        "symbolic link {ino} has no target but {blocks} blocks"
    /// A symbolic link whose target cannot be one: `ls -l` fails, or shows another.
    Error SymlinkTarget { ino: Ino, reason: String }
        "the target of symbolic link {ino} cannot be one: {reason}"
    /// A field that is 0 on IPLFS volumes.
    Error InodeNotZero { ino: Ino, field: &'static str, found: u64 }
        "{field} of inode {ino} is {found}, and is 0 on IPLFS volumes"
    /// A device, FIFO or socket with blocks.
    Error SpecialBlocks { ino: Ino, mode: u16, blocks: u64 }
        "special file {ino} of mode {mode:o} has {blocks} blocks"
    /// A file block outside the main area.
    Error SlotOutside { ino: Ino, nid: Nid, slot: u16, lba: Lba }
        "slot {slot} of node {nid} (inode {ino}) points at block {lba}, outside the main area"
    /// A compression mark where none can be.
    Error CompressMark { ino: Ino, nid: Nid, slot: u16 }
        "slot {slot} of node {nid} has a compression mark, which inode {ino} cannot have there"
    /// Compression parameters that the format does not know.
    Error CompressInfo { ino: Ino, reason: String }
        "inode {ino} cannot be compressed as it says: {reason}"

    // Directories (format section 8; rule 7).

    /// More levels than a directory can have.
    Error DirDepth { ino: Ino, depth: u32 }
        "directory {ino} has {depth} levels, the limit is 63"
    /// The size does not cover the blocks, or is not a number of blocks.
    Warning DirSize { ino: Ino, size: u64, blocks: u64 }
        "directory {ino} has a size of {size} bytes but blocks up to number {blocks}"
    /// `i_pino` of a directory is not the directory that names it.
    Error DirParent { ino: Ino, stored: u32, parent: Ino }
        "directory {ino} calls directory {stored} its parent, but it is in directory {parent}"
    /// A directory with more than one name.
    Error DirNames { ino: Ino, names: u32 }
        "directory {ino} has {names} names"
    /// "." or ".." is missing.
    Error DotMissing { ino: Ino, name: &'static str }
        "directory {ino} has no '{name}'"
    /// "." or ".." is there more than once.
    Error DotTwice { ino: Ino, name: &'static str }
        "directory {ino} has '{name}' more than once"
    /// "." or ".." names the wrong inode.
    Error DotWrong { ino: Ino, name: &'static str, found: u32, expected: u32 }
        "'{name}' of directory {ino} is inode {found}, expected {expected}"
    /// A length that no name has, or a name beyond the end of its block.
    Error DentryNameLen { ino: Ino, page: PageIndex, slot: u16, found: u16 }
        "directory {ino}, page {page}, slot {slot}: a name cannot have {found} bytes there"
    /// Slots of a name that are not marked as used, or that begin a name of their own.
    Error DentrySlots { ino: Ino, page: PageIndex, slot: u16, name: String }
        "directory {ino}, page {page}, slot {slot}: the slots of '{name}' are not all its own"
    /// A name with a slash or a NUL, or "." or ".." by another way.
    Error DentryName { ino: Ino, page: PageIndex, slot: u16, name: String }
        "directory {ino}, page {page}, slot {slot}: '{name}' cannot be a name"
    /// The hash is not that of the name.
    Error DentryHash { ino: Ino, name: String, stored: u32, computed: u32 }
        "directory {ino}: the hash of '{name}' is {stored:#010x}, the name gives {computed:#010x}"
    /// The name is in a bucket where it is not looked for.
    Error DentryBucket { ino: Ino, page: PageIndex, name: String }
        "directory {ino}: '{name}' is in page {page}, where its hash does not belong"
    /// The name is on a level beyond the depth of the directory, where it is not looked for.
    Error DentryLevel { ino: Ino, page: PageIndex, name: String, depth: u32 }
        "directory {ino}: '{name}' is in page {page}, which is beyond the {depth} levels of the directory"
    /// The entry names no inode in use.
    Error DentryIno { ino: Ino, name: String, target: u32 }
        "directory {ino}: '{name}' is inode {target}, which does not exist"
    /// The type is none, or not that of the inode.
    Error DentryType { ino: Ino, name: String, target: u32, stored: u8, expected: u8 }
        "directory {ino}: '{name}' has type {stored}, inode {target} is of type {expected}"
    /// A name is there twice.
    Error DentryTwice { ino: Ino, name: String }
        "directory {ino} has the name '{name}' more than once"

    // Extended attributes (format section 9; rule 8).

    /// The area has contents but does not begin as it must.
    Error XattrMagic { ino: Ino, found: u32 }
        "the extended attributes of inode {ino} begin with {found:#010x}"
    /// An attribute goes beyond the end of the area.
    Error XattrOverrun { ino: Ino, offset: u32 }
        "the extended attribute at byte {offset} of inode {ino} goes beyond the end"
    /// Bytes behind the last attribute.
    Warning XattrTail { ino: Ino, offset: u32 }
        "inode {ino} has bytes behind its last extended attribute, at byte {offset}"
    /// A name that no attribute can have.
    Error XattrName { ino: Ino, offset: u32, index: u8, length: u8 }
        "the extended attribute at byte {offset} of inode {ino} has prefix {index} and a name of {length} bytes"
    /// An access control list that Linux would refuse: reading it gives an error.
    Error XattrAcl { ino: Ino, offset: u32, reason: String }
        "the access control list at byte {offset} of the extended attributes of inode {ino} is not valid: {reason}"
    /// The same name twice.
    Error XattrTwice { ino: Ino, offset: u32, index: u8, name: String }
        "inode {ino} has the extended attribute '{name}' (prefix {index}) more than once"
}
