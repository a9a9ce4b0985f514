//! Moving a directory from its inode to blocks, once its inode is full (format section 10).
//!
//! With directory level 0 the slots are copied one for one, so that positions given out to a reader stay good;
//! otherwise every entry goes to the bucket of its hash. Either the whole directory moves, or nothing has changed.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::inode::Inode;
use crate::volume::Change;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_device::PageBuf;
use steadyfs_format::dir::{Dentries, DentriesMut, FileType, bucket_of};
use steadyfs_format::inode::{Inode as RawInode, inline};
use steadyfs_format::{FormatError, PageIndex};

/// The blocks that a directory becomes.
type Pages = BTreeMap<PageIndex, PageBuf>;

impl Files {
    /// Moves an inline directory to blocks.
    pub(super) fn dir_convert(&self, change: &Change<'_>, dir: &Arc<Inode>) -> Result<()> {
        let features = self.vol.sb.features();
        let before: RawInode = dir.read(RawInode::clone)?;
        assert!(before.has_inline(inline::DENTRY), "{:?} is not inline", dir.ino);
        let area = before.inline_area(before.shape(features)?);
        let pages = spread(Dentries::inline(area), before.dir_level())?;
        let size = pages.keys().next_back().map_or(0, |&last| (last + 1).byte_offset());
        self.vol.edit_inode(change, dir, |raw| -> std::result::Result<(), FormatError> {
            let shape = raw.shape(features)?;
            raw.inline_area_mut(shape).fill(0);
            raw.set_inline_flags(raw.inline_flags() & !inline::DENTRY);
            raw.set_size(size);
            raw.set_current_depth(1);
            Ok(())
        })??;
        for (&index, page) in &pages {
            if let Err(error) = self.put_page(change, dir, index, page.clone()) {
                self.move_back(change, dir, &before, index)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Undoes a move that came as far as `page`. There is no way on from a failure here: the volume stops.
    fn move_back(&self, change: &Change<'_>, dir: &Arc<Inode>, before: &RawInode, page: PageIndex) -> Result<()> {
        let restore = || {
            self.punch_pages(change, dir, PageIndex(0)..page)?;
            self.vol.edit_inode(change, dir, |raw| raw.clone_from(before))
        };
        restore().inspect_err(|e| self.vol.stop(e))
    }
}

/// Distributes the entries over the blocks of level 0.
fn spread(entries: Dentries<'_>, dir_level: u8) -> Result<Pages> {
    let mut pages = Pages::new();
    if dir_level == 0 {
        let mut page = PageBuf::zeroed();
        DentriesMut::block(page.make_mut()).copy_slots(entries);
        pages.insert(PageIndex(0), page);
        return Ok(pages);
    }
    for entry in entries.iter() {
        let entry = entry?;
        let kind = entry.file_type.unwrap_or(FileType::Regular);
        let bucket = bucket_of(entry.hash, 0, dir_level);
        let fits = (0..u64::from(bucket.pages)).any(|i| {
            let page = pages.entry(bucket.first + i).or_default();
            DentriesMut::block(page.make_mut()).insert(entry.hash, entry.name, entry.ino, kind).is_ok()
        });
        if !fits {
            return Err(Error::corrupt("an inline directory does not fit a bucket"));
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadyfs_format::Ino;
    use steadyfs_format::dir::name_hash;

    fn inline_area(names: u32) -> Vec<u8> {
        let mut area = vec![0; 3488];
        let mut entries = DentriesMut::inline(&mut area);
        entries.insert_dots(Ino(9), Ino(3)).unwrap();
        for n in 0..names {
            let name = format!("{n}");
            entries.insert(name_hash(name.as_bytes()), name.as_bytes(), Ino(100 + n), FileType::Dir).unwrap();
        }
        area
    }

    #[test]
    fn level_zero_keeps_every_slot() {
        let area = inline_area(150);
        let pages = spread(Dentries::inline(&area), 0).unwrap();
        assert_eq!(pages.len(), 1);
        let list = |e: Dentries<'_>| e.iter().map(|e| e.unwrap()).map(|e| (e.slot, e.ino)).collect::<Vec<_>>();
        pages[&PageIndex(0)].with(|block| assert_eq!(list(Dentries::block(block)), list(Dentries::inline(&area))));
    }

    #[test]
    fn higher_levels_put_entries_into_their_buckets() {
        let area = inline_area(150);
        let pages = spread(Dentries::inline(&area), 3).unwrap();
        let mut total = 0;
        for (index, page) in &pages {
            page.with(|block| {
                for entry in Dentries::block(block).iter().map(|e| e.unwrap()) {
                    let first = bucket_of(entry.hash, 0, 3).first;
                    assert!(*index == first || *index == first + 1);
                    total += 1;
                }
            });
        }
        assert_eq!(total, 152);
        pages[&PageIndex(0)].with(|block| {
            let dots: Vec<_> = Dentries::block(block).iter().map(|e| e.unwrap()).take(2).map(|e| e.slot).collect();
            assert_eq!(dots, [0, 1]);
        });
    }
}
