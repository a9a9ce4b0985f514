//! `steadyfs rm`: removes files and directories of a volume.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::{Error, InodeRef};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::PathArg;
use crate::transfer::join;
use crate::volume::{Access, Volume, failure, show_absolute};

/// Remove files and directories of a volume, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs rm -r image.img /var/cache")]
pub(crate) struct Args {
    /// Remove directories with all below them
    #[arg(short, long)]
    recursive: bool,
    /// A path that does not exist is no failure
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Write, |volume| {
        for path in &args.paths {
            let (dir, name) = volume.parent(path.bytes())?;
            match remove(args, volume, &dir, &name, path.bytes()) {
                Err(Removal::Refused(Error::NotFound)) if args.force => {}
                Err(e) => return Err(e.failure(path.bytes())),
                Ok(()) => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Why a removal stopped, and at which path if it was below the one that was asked for.
enum Removal {
    Refused(Error),
    Below(Vec<u8>, Error),
    NeedsRecursive,
}

impl Removal {
    fn failure(self, path: &[u8]) -> Failure {
        match self {
            Removal::Refused(e) => failure(format!("cannot remove {}", show_absolute(path)), &e),
            Removal::Below(path, e) => failure(format!("cannot remove {}", show_absolute(&path)), &e),
            Removal::NeedsRecursive => Failure::new(
                format!("cannot remove {}", show_absolute(path)),
                "it is a directory",
                "add -r to remove all below it",
            ),
        }
    }
}

fn remove(args: &Args, volume: &Volume, dir: &InodeRef, name: &[u8], path: &[u8]) -> Result<(), Removal> {
    let inode = volume.fs.lookup(dir, name).map_err(Removal::Refused)?;
    if inode.kind() != FileType::Dir {
        return volume.fs.unlink(dir, name).map_err(Removal::Refused);
    }
    if !args.recursive {
        return Err(Removal::NeedsRecursive);
    }
    empty(volume, inode, path)?;
    volume.fs.rmdir(dir, name).map_err(Removal::Refused)
}

/// A directory that is being emptied.
struct Level {
    dir: InodeRef,
    path: Vec<u8>,
    /// Its name in the level above.
    name: Vec<u8>,
    /// Entries that are still there.
    entries: Vec<(Vec<u8>, Ino)>,
}

impl Level {
    fn open(volume: &Volume, dir: InodeRef, path: Vec<u8>, name: Vec<u8>) -> Result<Self, Removal> {
        let entries = volume.entries(&dir).map_err(|e| Removal::Below(path.clone(), e))?;
        Ok(Level { dir, path, name, entries })
    }
}

/// Removes all below a directory. Not by recursion: a tree may be deeper than the stack.
fn empty(volume: &Volume, top: InodeRef, path: &[u8]) -> Result<(), Removal> {
    let mut on_the_way = HashSet::from([top.ino()]);
    let mut levels = vec![Level::open(volume, top, path.to_vec(), Vec::new())?];
    while let Some(level) = levels.last_mut() {
        let Some((name, ino)) = level.entries.pop() else {
            // The reference goes first, so that the removal deletes the directory at once.
            let Some(Level { dir, path, name, .. }) = levels.pop() else { break };
            on_the_way.remove(&dir.ino());
            drop(dir);
            if let Some(above) = levels.last() {
                volume.fs.rmdir(&above.dir, &name).map_err(|e| Removal::Below(path, e))?;
            }
            continue;
        };
        let path = join(&level.path, &name);
        let below = |e: Error| Removal::Below(path.clone(), e);
        let child = volume.fs.inode(ino).map_err(below)?;
        if child.kind() != FileType::Dir {
            drop(child);
            volume.fs.unlink(&level.dir, &name).map_err(below)?;
            continue;
        }
        if !on_the_way.insert(ino) {
            return Err(below(Error::Corrupt("the directory lies below itself".into())));
        }
        levels.push(Level::open(volume, child, path, name)?);
    }
    Ok(())
}
