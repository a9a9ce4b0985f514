//! F2FS volumes in image files and on block devices, read and written by this process, without mounting them.
//!
//! [`Volume`] makes and opens them and works by paths; [`Volume::fs`] is the file system below, with all of its
//! operations by inodes. One process has a volume open for writing at a time. After a crash it is opened as after one
//! of F2FS: what was synced is there.
//!
//! ```
//! use steadyfs::{Result, Volume};
//!
//! fn main() -> Result<()> {
//!     let image = std::env::temp_dir().join(format!("steadyfs-{}.img", std::process::id()));
//!
//!     let volume = Volume::make(&image, 64 << 20)?;
//!     volume.create_dir("/notes")?;
//!     volume.write("/notes/today", "It rains.")?;
//!     volume.sync()?; // from here on a power cut does not take it away
//!     volume.unmount()?;
//!
//!     let volume = Volume::open_read_only(&image)?;
//!     for entry in volume.list("/notes")? {
//!         let path = format!("/notes/{}", entry.name.display());
//!         println!("{path}: {} bytes", volume.metadata(&path)?.size);
//!     }
//!     assert_eq!(volume.read("/notes/today")?, b"It rains.");
//! #   std::fs::remove_file(&image).expect("it was made above");
//!     volume.unmount()
//! }
//! ```
//!
//! The program `steadyfs` is in this package, too, behind the feature `command`, which is on by default. For the
//! library alone: `steadyfs = { version = "0.1", default-features = false }`.
//!
//! # The crates below
//!
//! [`steadyfs_core`] is the file system, mkfs and the checker; [`steadyfs_device`] has the devices that it runs on,
//! also in memory and with planted errors; [`steadyfs_format`] knows the structures on disk, and does no I/O.

mod library;

pub use library::{Cause, Error, File, Result, Volume, new_inode, path, random_uuid, usual_format};
pub use steadyfs_core::mkfs::MkfsOptions;
pub use steadyfs_core::{Attr, Fs, InodeRef, MountOptions};
pub use steadyfs_format::dir::FileType;
pub use {steadyfs_core, steadyfs_device, steadyfs_format};
