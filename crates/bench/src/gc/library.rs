//! Our library as a peer, in this process.

use super::write::{Counters, Peer};
use crate::library::LibraryTree;
use crate::measure::cpu_time;
use crate::tree::Tree;
use anyhow::Result;

impl Peer for LibraryTree {
    fn tree(&self) -> &dyn Tree {
        self
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = self.fs().statfs();
        Ok(stat.blocks_free * u64::from(stat.block_size))
    }

    fn counters(&self) -> Result<Counters> {
        let (io, gc) = (self.fs().io_stats(), self.fs().gc_totals());
        let named = [
            ("written", io.written_blocks()),
            ("data", io.data_written),
            ("node", io.node_written),
            ("meta", io.meta_written),
            ("read", io.read),
            ("moved", gc.data_moved + gc.nodes_moved),
            ("victims", gc.victims),
            ("checkpoints", self.fs().checkpoint_stats().committed),
            ("cpu_us", u64::try_from(cpu_time(None)?.as_micros())?),
        ];
        Ok(named.map(|(name, value)| (name.to_owned(), value)).into())
    }
}
