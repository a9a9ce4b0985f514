//! What a name is looked for by: its bytes, its folded form, or the ciphertext it stands for.

use super::{DirHead, fold, proxy};
use proxy::Proxy;
use steadyfs_format::dir::{Dentries, DirEntry, name_hash};
use steadyfs_rt::{Cost, charge_n};

/// A name to look for in one directory.
pub(super) enum Query<'a> {
    /// Exactly these bytes.
    Exact { hash: u32, name: &'a [u8] },
    /// These letters in any case. The hash is known for ASCII names only: it depends on Unicode tables otherwise.
    Folded { hash: Option<u32>, name: &'a [u8] },
    /// The entry behind a stand-in. The hash is unknown in directories that also ignore case: it depends on the key
    /// there.
    Encrypted { hash: Option<u32>, proxy: Proxy },
}

impl<'a> Query<'a> {
    /// How to look for `name` in such a directory; `None` if nothing there can have that name.
    pub(super) fn new(head: DirHead, name: &'a [u8]) -> Option<Self> {
        let dots = name == b"." || name == b"..";
        if head.encrypted && !dots {
            let proxy = proxy::decode(name)?;
            return Some(Query::Encrypted { hash: (!head.folded).then(|| proxy.hash()), proxy });
        }
        if head.folded && !dots {
            return Some(Query::Folded { hash: fold::ascii(name).map(|folded| name_hash(&folded)), name });
        }
        Some(Query::Exact { hash: name_hash(name), name })
    }

    /// The hash of the entry, if it can be told; otherwise every page has to be looked at.
    pub(super) fn hash(&self) -> Option<u32> {
        match self {
            Query::Exact { hash, .. } => Some(*hash),
            Query::Folded { hash, .. } | Query::Encrypted { hash, .. } => *hash,
        }
    }

    /// The entry among these.
    pub(super) fn find<'d>(&self, entries: Dentries<'d>) -> Option<DirEntry<'d>> {
        let hit = self.look(entries);
        charge_scan(entries, hit.as_ref());
        hit
    }

    fn look<'d>(&self, entries: Dentries<'d>) -> Option<DirEntry<'d>> {
        match self {
            Query::Exact { hash, name } => entries.find(*hash, name),
            Query::Folded { name, .. } => entries.iter().flatten().find(|e| !e.is_dot() && fold::same(e.name, name)),
            Query::Encrypted { proxy, .. } => {
                entries.iter().flatten().find(|e| !e.is_dot() && proxy.matches(e.hash, e.name))
            }
        }
    }
}

/// All slots have been looked at up to the entry, or up to the last. No search but these two looks at slots.
pub(super) fn charge_scan(entries: Dentries<'_>, hit: Option<&DirEntry<'_>>) {
    let slots = entries.layout().slots();
    let looked_at = hit.map_or(slots, |entry| entry.slot + 1);
    assert!(looked_at <= slots, "an entry lies in the slots that were searched");
    charge_n(Cost::DentryScan, u64::from(looked_at));
}
