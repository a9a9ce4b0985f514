//! The seam of an fsync's route: how what was written to a file becomes durable.
//!
//! A route is an arm of [`Route`], and [`Durable::fsync_route`] alone chooses one. Another way than the chain (a
//! journal of metadata) is another arm, and the compiler says where it has to be gone.
//!
//! Kept true: the chain is chosen only if recovery can repeat from it all that the file needs; each condition that it
//! cannot is a [`Reason`].

use super::Reason;
use crate::durable::Durable;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::options::FsyncMode;
use crate::volume::nodes::dirt::Standing;
use steadyfs_format::dir::FileType;

/// How an fsync makes a file durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The file's dirty nodes go into the chain that recovery follows.
    Chain,
    /// What the journal has noted goes into the chain, and the file's dirty nodes behind it. The reason is that for a
    /// checkpoint where there is no journal.
    Journal(Option<Reason>),
    /// Only a checkpoint helps.
    Checkpoint(Reason),
}

impl Durable {
    /// The route for a file that has a name, and that no checkpoint in progress covers. The file is locked, and the
    /// checkpoint lock is held shared.
    ///
    /// For a new file it also notes the names that recovery would have to make ([`expect_names`]).
    ///
    /// # Errors
    /// The file or its directory cannot be read.
    ///
    /// [`expect_names`]: crate::volume::space::Space::expect_names
    pub(super) fn fsync_route(&self, inode: &Inode) -> Result<Route> {
        let reason = self.checkpoint_reason(inode)?;
        if self.files.journal.is_on() {
            return Ok(match reason {
                _ if self.files.journal.is_lost() => Route::Checkpoint(Reason::Journal),
                Some(reason @ (Reason::NodesFreed | Reason::Space)) => Route::Checkpoint(reason),
                _ if self.vol.nodes.dirt.standing(inode.ino).reduced
                    && inode.kind == FileType::Regular
                    && !steadyfs_rt::mutated("freed-nodes-need-a-checkpoint") =>
                {
                    Route::Checkpoint(Reason::NodesFreed)
                }
                _ if !self.vol.space.recovery_fits() && !steadyfs_rt::mutated("journaled-sync-leaves-room") => {
                    Route::Checkpoint(Reason::Space)
                }
                reason => Route::Journal(reason),
            });
        }
        Ok(reason.map_or(Route::Chain, Route::Checkpoint))
    }

    /// Why the chain alone does not make the file durable.
    fn checkpoint_reason(&self, inode: &Inode) -> Result<Option<Reason>> {
        if inode.kind != FileType::Regular {
            return Ok(Some(Reason::Kind));
        }
        let (links, dir, name) = inode.read(|raw| (raw.links(), raw.pino(), raw.name().to_vec()))?;
        let dirt = &self.vol.nodes.dirt;
        let Standing { born, introduced, reduced, .. } = dirt.standing(inode.ino);
        if born && !introduced && !self.files.journal.is_on() {
            self.vol.space.expect_names(self.vol.dir_names_to_place(&self.files.inode(dir)?.inode)?);
        }
        let reasons = [
            (links != 1 && !steadyfs_rt::mutated("links-need-a-checkpoint"), Reason::Links),
            (
                self.files.since.is_renamed(inode.ino) && !steadyfs_rt::mutated("renamed-needs-a-checkpoint"),
                Reason::Renamed,
            ),
            (reduced, Reason::NodesFreed),
            (!self.vol.space.recovery_fits(), Reason::Space),
            (born && dirt.standing(dir).born, Reason::NewDirectory),
            (born && self.files.since.is_relabelled(dir), Reason::DirectoryAttributes),
            (
                born && self.files.since.is_vacated(dir, &name)
                    && !steadyfs_rt::mutated("reused-name-needs-a-checkpoint"),
                Reason::NameReused,
            ),
            (
                born && self.files.options.fsync_mode == FsyncMode::Strict && self.files.since.is_reduced(dir),
                Reason::Strict,
            ),
        ];
        Ok(reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason)))
    }
}

#[cfg(test)]
mod tests {
    use crate::durable::tests::journaled;
    use crate::{Fs, MountOptions, NewInode, SetAttr};
    use std::sync::Arc;

    const PAGE: u64 = 4096;

    /// A direct node goes and its indirect one stays, which no fsync writes: recovery would find the old contents.
    #[test]
    fn a_file_with_two_names_that_gave_nodes_up_takes_a_checkpoint() {
        let (device, fs) = journaled();
        let root = fs.root().unwrap();
        let file = fs.create(&root, b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        for page in [4000, 5000] {
            fs.write(&file, page * PAGE, &[7; PAGE as usize]).unwrap();
        }
        fs.link(&file, &root, b"other").unwrap();
        fs.sync().unwrap();
        for pages in [4001, 5001] {
            fs.setattr(&file, &SetAttr { size: Some(pages * PAGE), ..SetAttr::default() }).unwrap();
        }
        fs.fsync(&file, false).unwrap();
        let next = Fs::mount(Arc::new(device.fork()), MountOptions::default()).unwrap();
        let file = next.lookup(&next.root().unwrap(), b"other").unwrap();
        let mut page = [1; PAGE as usize];
        assert_eq!(next.read(&file, 5000 * PAGE, &mut page).unwrap(), PAGE as usize);
        assert_eq!(page, [0; PAGE as usize], "contents that were cut off");
        assert_eq!(fs.sync_stats().checkpoints["nodes_freed"], 1);
    }

    /// A directory is no file, which is a reason to go by the journal. It hides that recovery might find no room.
    #[test]
    fn where_recovery_might_find_no_room_a_directory_takes_a_checkpoint() {
        let (_, fs) = journaled();
        let root = fs.root().unwrap();
        fs.create(&root, b"file", &NewInode { mode: 0o100_644, ..NewInode::default() }).unwrap();
        fs.vol.space.expect_names(1 << 20);
        fs.fsync(&root, false).unwrap();
        assert_eq!(fs.sync_stats().checkpoints["space"], 1);
    }
}
