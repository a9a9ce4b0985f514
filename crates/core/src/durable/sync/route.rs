//! The seam of an fsync's route: how what was written to a file becomes durable.
//!
//! A route is an arm of [`Route`], and [`Fs::fsync_route`] alone chooses one. Another way than the chain (a journal of
//! metadata) is another arm, and the compiler says where it has to be gone.
//!
//! Kept true: the chain is chosen only if recovery can repeat from it all that the file needs; each condition that it
//! cannot is a [`Reason`].

use super::Reason;
use crate::error::Result;
use crate::files::inode::Inode;
use crate::fs::Fs;
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

impl Fs {
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
        if self.journal.is_on() {
            return Ok(match reason {
                _ if self.journal.is_lost() => Route::Checkpoint(Reason::Journal),
                Some(reason @ (Reason::NodesFreed | Reason::Space)) => Route::Checkpoint(reason),
                _ if self.vol.nodes.dirt.standing(inode.ino).reduced && inode.kind == FileType::Regular => {
                    Route::Checkpoint(Reason::NodesFreed)
                }
                _ if !self.vol.space.recovery_fits() => Route::Checkpoint(Reason::Space),
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
        if born && !introduced && !self.journal.is_on() {
            self.vol.space.expect_names(self.dir_names_to_place(&self.inode(dir)?.inode)?);
        }
        let reasons = [
            (links != 1, Reason::Links),
            (self.since.is_renamed(inode.ino), Reason::Renamed),
            (reduced, Reason::NodesFreed),
            (!self.vol.space.recovery_fits(), Reason::Space),
            (born && dirt.standing(dir).born, Reason::NewDirectory),
            (born && self.since.is_relabelled(dir), Reason::DirectoryAttributes),
            (born && self.since.is_vacated(dir, &name), Reason::NameReused),
            (born && self.options.fsync_mode == FsyncMode::Strict && self.since.is_reduced(dir), Reason::Strict),
        ];
        Ok(reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason)))
    }
}
