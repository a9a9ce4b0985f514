//! What operations on files write down for those who make them durable: which names an fsync must know of (`since`),
//! and what the metadata journal is to say of an inode (`logged`, by `log`), which waits in the [`journal`].

mod expected;
pub(crate) mod journal;
mod log;
pub(crate) mod logged;
pub(crate) mod since;
