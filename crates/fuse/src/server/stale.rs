//! Direct writes beside the kernel's cache.
//!
//! Before a direct write the kernel drops what it caches of the range. Who reads while the write is under way brings
//! old contents back, and after a write that was queued (AIO) the kernel does not drop them again: they would be shown
//! until they are evicted. So it is told to, right behind the reply. Not before: what it caches may be locked for a
//! read that waits until one of the writes that are under way is answered.
//!
//! That costs a message for each direct write, and the kernel asks for the file's attributes again. It is spared where
//! nothing can be cached: where the kernel has read nothing for its cache since all of it was dropped, and where the
//! mount has no cache.

use super::{Call, handles::Opened};
use crate::options::Cache;
use crate::wire::Notice;
use crate::wire::abi::WriteIn;
use crate::wire::flags::linux::O_DIRECT;
use crate::wire::flags::{WRITE_CACHE, WRITE_LOCKOWNER};
use std::ops::Range;

impl Call<'_> {
    /// How a file is opened with these flags.
    pub(super) fn opened(&self, flags: u32) -> Opened {
        Opened {
            writes: super::files::writes(flags),
            caches: self.server.policy.cache != Cache::Direct && flags & O_DIRECT == 0,
            entitled: false,
        }
    }

    /// These bytes were written.
    pub(super) fn drop_stale(&mut self, ino: u32, asked: &WriteIn, written: Range<u64>) {
        // Only direct writes name an owner of locks; pages that are written through do not, and are locked.
        let is_direct = asked.write_flags & (WRITE_CACHE | WRITE_LOCKOWNER) == WRITE_LOCKOWNER;
        if is_direct
            && !steadyfs_rt::mutated("direct-writes-drop-what-is-cached")
            && !written.is_empty()
            && let Some(range) = self.server.nodes.cached_beside(ino, written)
        {
            self.reply.then(Notice::DropContents { node: self.header.nodeid, range });
        }
    }
}
