//! Which blocks of log space the checkpoint of an IPLFS volume needs, and what a device holds beyond them.

use super::Image;
use crate::error::Result;
use std::collections::BTreeSet;
use steadyfs_format::block::BlockView;
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::{Inode, inline};
use steadyfs_format::node::{NodeBlock, NodeKind, WideNode};
use steadyfs_format::{Block, Features, Lba, META_INO, Nid, ROOT_INO, Slot};

impl Image {
    /// Hands out the address of every node and every block of data of the checkpoint.
    ///
    /// # Errors
    /// Damaged nodes; read errors.
    pub fn blocks_in_use(&self, found: &mut dyn FnMut(Lba)) -> Result<()> {
        let features = self.superblock().features();
        let layout = *self.layout();
        for block in 0..layout.nat_blocks() {
            for nid in layout.nids_of(block).map(Nid).filter(|nid| *nid > META_INO.nid()) {
                let entry = self.nat(nid)?;
                if entry.is_free() {
                    continue;
                }
                found(entry.lba);
                let page = self.read_block(entry.lba)?;
                page.with(|bytes| {
                    if let Some(space) = self.log_space() {
                        space.verify_node(bytes, entry.lba)?;
                    }
                    slots_of(bytes, features, found)
                })?;
            }
        }
        Ok(())
    }

    /// Of the blocks that the device holds, those of log space that the volume does not need and does not know to be
    /// dead, and that no mount may have written since the checkpoint.
    ///
    /// # Errors
    /// As [`Image::blocks_in_use`]; a damaged discard log.
    pub fn leaks(&self, held: impl Iterator<Item = u64>) -> Result<Vec<Lba>> {
        let Some(space) = self.log_space() else { return Ok(Vec::new()) };
        let mut known = BTreeSet::new();
        self.blocks_in_use(&mut |lba| {
            known.insert(lba);
        })?;
        let mut dead = vec![space.header().discard_log.range()];
        dead.extend(space.header().heads.iter().zip(space.limits()).map(|(head, limit)| head.next..limit));
        self.dead_blocks(&mut |run| dead.push(run))?;
        dead.sort_unstable_by_key(|run| run.start);
        let is_dead = |lba: Lba| {
            let behind = dead.partition_point(|run| run.start <= lba);
            dead[..behind].iter().rev().take(2 + space.header().heads.len()).any(|run| run.contains(&lba))
        };
        let first = space.superblock().space().first();
        let strays = held.map(Lba).filter(|lba| *lba >= first && !known.contains(lba) && !is_dead(*lba));
        Ok(strays.collect())
    }
}

/// The blocks that a node names.
fn slots_of(block: &Block, features: Features, found: &mut dyn FnMut(Lba)) -> Result<()> {
    let mut tell = |slot: Slot| slot.lba().into_iter().for_each(&mut *found);
    match NodeBlock::view(block).footer.ofs().kind() {
        NodeKind::Direct => WideNode::view(block).slots().for_each(tell),
        NodeKind::Inode => {
            let raw = Inode::view(block);
            let is_inline = raw.has_inline(inline::DATA) || raw.has_inline(inline::DENTRY);
            let has_blocks = matches!(raw.file_type(), Some(FileType::Regular | FileType::Dir | FileType::Symlink));
            if has_blocks && !is_inline {
                raw.slots(raw.shape(features)?).for_each(&mut tell);
            }
        }
        _ => {}
    }
    Ok(())
}

const _: () = assert!(META_INO.get() + 1 == ROOT_INO.get());
