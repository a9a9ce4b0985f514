//! The library's own part: volumes by paths, over the operations of `steadyfs-core`.

mod error;
mod file;
pub mod path;
#[cfg(test)]
mod tests;
mod volume;

pub use error::{Cause, Error, Result};
pub use file::File;
pub use volume::{Volume, new_inode, random_uuid, usual_format};
