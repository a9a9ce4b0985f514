//! Blocks of files that programs write: the kernel's cache may hold contents that nothing here counts.
//!
//! Programs such as `tar -S` take a file that has a size and no block for one hole, and do not read it. So with
//! write-back a regular file that is open for writing never shows none: where the file system counts none, one sector
//! stands for what may come.
//!
//! Kept true: the kernel goes by no zero that it learnt before the file was opened to write, nor by the sector when the
//! last writer has gone. (What the reply to a creation says it forgets by itself when the file is closed.)

use super::Call;
use crate::options::Cache;
use crate::wire::flags::linux::{O_TRUNC, S_IFMT, S_IFREG};
use steadyfs_core::{Attr, InodeRef};

/// Sectors of a file whose contents may all be in the kernel's cache.
const UNKNOWN: u64 = 1;

impl Call<'_> {
    /// The sectors that the kernel is told of a file.
    pub(super) fn blocks(&self, attr: &Attr) -> u64 {
        match self.may_lack(attr) && self.server.nodes.guess_blocks(attr.ino.get()) {
            true => UNKNOWN,
            false => attr.blocks,
        }
    }

    /// The sectors of a file that is opened with its creation: more than none, if it is opened to write.
    pub(super) fn blocks_when_open(&self, blocks: u64, flags: u32) -> u64 {
        match self.server.policy.cache == Cache::Writeback && super::files::writes(flags) {
            true => blocks.max(UNKNOWN),
            false => blocks,
        }
    }

    /// A file was opened: takes from the kernel the knowledge that it has no block.
    pub(super) fn forget_no_blocks(&self, inode: &InodeRef, flags: u32) -> super::Answer {
        // Of what an opening truncates the kernel knows no attribute any more.
        if super::files::writes(flags) && flags & O_TRUNC == 0 && self.may_lack(&self.fs.attr(inode)?) {
            self.kernel.forget_attributes(self.header.nodeid);
        }
        Ok(())
    }

    /// Whether contents in the kernel's cache may be all that this file has.
    fn may_lack(&self, attr: &Attr) -> bool {
        !steadyfs_rt::mutated("a-file-that-is-written-shows-a-block")
            && attr.blocks == 0
            && self.server.policy.cache == Cache::Writeback
            && attr.mode & S_IFMT == S_IFREG
    }
}
