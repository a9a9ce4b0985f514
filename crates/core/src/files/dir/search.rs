//! Finding a name, and the place for a new one, in one walk through its buckets.

use super::names::Known;
use super::query::Query;
use super::{DirHead, FoundEntry, Place};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::Volume;
use std::sync::Arc;
use steadyfs_format::PageIndex;
use steadyfs_format::dir::{Dentries, DirEntry, MAX_DEPTH, bucket_of, slots_for};

/// Where a new entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Into the inode.
    Inline,
    /// The inode is full: the directory has to move to blocks first.
    Convert,
    /// Into this page, which makes the directory `depth` levels deep if it was not yet.
    Page { page: PageIndex, depth: u8 },
}

/// Result of looking for a name that may have to be added.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search {
    /// The name exists.
    Found(FoundEntry),
    /// It does not; a new entry goes here.
    Missing(Room),
}

fn found(page: Option<PageIndex>, entry: DirEntry<'_>) -> FoundEntry {
    FoundEntry { place: Place { page, slot: entry.slot }, ino: entry.ino, file_type: entry.file_type }
}

impl Volume {
    /// Refuses a page that the directory's node tree does not reach (levels 30 and beyond).
    fn reachable(&self, dir: &Inode, room: Room) -> Result<Search> {
        let features = self.sb.features();
        let limit = dir.read(|raw| raw.shape(features))??.addressing().max_pages();
        match room {
            Room::Page { page, .. } if page.0 >= limit => Err(Error::NoSpace),
            room => Ok(Search::Missing(room)),
        }
    }
}

impl Files {
    /// The entry with this name.
    pub(crate) fn dir_find(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Option<FoundEntry>> {
        let head = self.vol.dir_head(dir)?;
        let Some(query) = Query::new(head, name) else { return Ok(None) };
        if head.inline {
            return self.vol.with_inline_entries(dir, |entries| query.find(entries).map(|e| found(None, e)));
        }
        match query.hash() {
            Some(hash) => self.find_hashed(dir, head, hash, &query),
            None => self.find_anywhere(dir, head, &query),
        }
    }

    fn find_hashed(&self, dir: &Arc<Inode>, head: DirHead, hash: u32, query: &Query<'_>) -> Result<Option<FoundEntry>> {
        // Entries that are looked for by more than their hash may have another one.
        let exact = matches!(query, Query::Exact { .. });
        for level in 0..head.depth {
            let bucket = bucket_of(hash, level, head.dir_level);
            for index in (0..u64::from(bucket.pages)).map(|i| bucket.first + i) {
                if index.0 >= head.pages {
                    return Ok(None); // and so are all pages of the levels below
                }
                let known = if exact { dir.names.ask(index, hash) } else { Known::Maybe };
                if matches!(known, Known::Lacks { .. }) {
                    self.check_lack(dir, index, hash);
                    continue;
                }
                let Some(page) = self.page(dir, index)? else { continue };
                let hit = page.with(|bytes| {
                    let entries = Dentries::block(bytes);
                    if known == Known::Nothing {
                        dir.names.learn(index, entries, head.depth);
                    }
                    query.find(entries).map(|e| found(Some(index), e))
                });
                if hit.is_some() {
                    return Ok(hit);
                }
            }
        }
        Ok(None)
    }

    /// In debug builds: the page really lacks the hash.
    fn check_lack(&self, dir: &Arc<Inode>, index: PageIndex, hash: u32) {
        if cfg!(debug_assertions)
            && let Ok(Some(page)) = self.page(dir, index)
        {
            let holds = page.with(|bytes| Dentries::block(bytes).with_hash(hash).next().is_some());
            assert!(!holds, "page {index} of directory {} holds a name that it was said to lack", dir.ino);
        }
    }

    fn find_anywhere(&self, dir: &Arc<Inode>, head: DirHead, query: &Query<'_>) -> Result<Option<FoundEntry>> {
        let mut from = PageIndex(0);
        while let Some((index, page)) = self.dir_next_page(dir, head, from)? {
            let hit = page.with(|bytes| query.find(Dentries::block(bytes)).map(|e| found(Some(index), e)));
            if hit.is_some() {
                return Ok(hit);
            }
            from = index + 1;
        }
        Ok(None)
    }

    /// Looks for a name and, on the same way, for the first place that has room for it: first fit, level by level, and
    /// a new level when all are full.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the hash table cannot grow any further; [`Error::ReadOnly`] for directories whose hashes
    /// cannot be computed.
    pub(crate) fn dir_search(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Search> {
        let head = self.vol.dir_head(dir)?;
        let Some(query @ Query::Exact { hash, name }) = Query::new(head, name) else {
            return Err(Error::ReadOnly("names of encrypted or case-insensitive directories cannot be changed".into()));
        };
        let need = slots_for(name.len());
        if head.inline {
            return self.vol.with_inline_entries(dir, |entries| match query.find(entries) {
                Some(entry) => Search::Found(found(None, entry)),
                None => Search::Missing(if entries.find_room(need).is_some() { Room::Inline } else { Room::Convert }),
            });
        }
        let mut room = None;
        for level in 0..head.depth {
            let bucket = bucket_of(hash, level, head.dir_level);
            for index in (0..u64::from(bucket.pages)).map(|i| bucket.first + i) {
                let known = dir.names.ask(index, hash);
                if let Known::Lacks { free } = known
                    && (room.is_some() || free < need)
                {
                    self.check_lack(dir, index, hash);
                    continue;
                }
                let page = if index.0 < head.pages { self.page(dir, index)? } else { None };
                let Some(page) = page else {
                    room = room.or(Some(Room::Page { page: index, depth: level + 1 }));
                    continue;
                };
                let (hit, fits) = page.with(|bytes| {
                    let entries = Dentries::block(bytes);
                    if known == Known::Nothing {
                        dir.names.learn(index, entries, head.depth);
                    }
                    let fits = room.is_none() && entries.find_room(need).is_some();
                    (query.find(entries).map(|e| found(Some(index), e)), fits)
                });
                if let Some(hit) = hit {
                    return Ok(Search::Found(hit));
                }
                if fits {
                    room = Some(Room::Page { page: index, depth: level + 1 });
                }
            }
        }
        match room {
            Some(room) => self.vol.reachable(dir, room),
            None if head.depth < MAX_DEPTH => {
                let page = bucket_of(hash, head.depth, head.dir_level).first;
                self.vol.reachable(dir, Room::Page { page, depth: head.depth + 1 })
            }
            None => Err(Error::NoSpace),
        }
    }
}
