//! Making durable what the metadata journal has noted ([`crate::files::noted::journal`]).
//!
//! Before the mount promises anything by the journal, both copies of the superblock get the magic that keeps other
//! programs away ([`mark`]); they lose it when the last checkpoint of the mount has committed. A [`push`] makes a batch
//! of what was noted.

mod mark;
pub(crate) mod push;
