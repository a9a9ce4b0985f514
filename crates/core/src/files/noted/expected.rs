//! Names that recovery was promised room for since the last freeze, in parts by their hashes.

use crate::locks;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use steadyfs_format::Ino;
use steadyfs_rt::Mutex;

/// Places that names are spread over.
const SHARDS: usize = 64;

/// These names, by hash: two with one hash count once.
pub(super) struct ExpectedNames(Box<[Mutex<HashSet<u64>>]>);

impl ExpectedNames {
    pub(super) fn new() -> Self {
        let shard = || Mutex::new(&locks::JOURNAL_NAMES, HashSet::new());
        ExpectedNames(std::iter::repeat_with(shard).take(SHARDS).collect())
    }

    /// Notes a name; true if it is the first time.
    pub(super) fn add(&self, dir: Ino, name: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        (dir, name).hash(&mut hasher);
        let hash = hasher.finish();
        self.0[hash as usize % SHARDS].lock().insert(hash)
    }

    pub(super) fn forget(&self) {
        self.0.iter().for_each(|shard| *shard.lock() = HashSet::new());
    }
}
