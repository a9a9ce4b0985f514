//! Space and inodes of a volume, as statfs tells them.

use crate::fs::Fs;
use crate::types::StatFs;
use steadyfs_format::BLOCK_SIZE;

impl Fs {
    /// Space and inodes.
    pub fn statfs(&self) -> StatFs {
        let space = &self.vol.space;
        let now = space.counts();
        let free = space.user_blocks().saturating_sub(now.blocks);
        let files = space.max_nodes.min(space.user_blocks());
        let uuid = self.vol.sb.uuid();
        let (head, tail) = uuid.split_at(8);
        let fold = |half: &[u8]| half.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        StatFs {
            block_size: BLOCK_SIZE as u32,
            blocks: space.user_blocks(),
            blocks_free: free,
            set_aside: space.set_aside(),
            files,
            files_free: space.max_nodes.saturating_sub(now.nodes).min(free.saturating_sub(space.set_aside())),
            name_max: 255,
            fsid: fold(head) ^ fold(tail),
        }
    }
}
