//! Nodes: the blocks that say where a file's blocks are, and the table that says where nodes are.
//!
//! - [`nat`] maps node ids to addresses, and [`nids`] gives free ids out.
//! - [`cache`] keeps nodes in memory, and [`dirt`] counts those that differ from the device.
//! - [`write`] places and writes nodes.
//! - [`slots`] is the one view of the addresses within a node, and [`leaf`] a node as the holder of pages.
//! - [`disk_size`] keeps back sizes whose contents are not written.

pub(crate) mod cache;
pub(crate) mod dirt;
pub(crate) mod disk_size;
pub(crate) mod leaf;
pub(crate) mod nat;
pub(crate) mod nids;
pub(crate) mod slots;
pub(crate) mod write;
