//! The file system: volumes, nodes, files, directories, checkpoints and collection.

mod error;
pub mod raw;

pub use error::{Error, Result};
