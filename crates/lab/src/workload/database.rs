//! What workloads over the database engine have in common: the server's settings, the ballast beside it, and a measured
//! phase with the timer of its log.

use crate::engine::{Config, Durability, Engine, PAGE};
use crate::error::{Error, Result};
use crate::spec::Size;
use crate::stage::{self, Pattern, Stage, Tally};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use steadyfs_core::NewInode;
use steadyfs_rt::JoinHandle;

/// Bytes of a file of the redo log at least: room for what all threads may have in flight.
const LEAST_REDO: u64 = 256 << 10;

/// The settings of a server, whatever its tables are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) threads: u32,
    pub(super) buffer_pool: Size,
    pub(super) redo_files: u32,
    pub(super) redo_file_size: Size,
    pub(super) flush_log_at_trx_commit: u32,
    pub(super) doublewrite: bool,
    pub(super) direct: bool,
    pub(super) page_cleaners: u32,
    pub(super) fill: f64,
    pub(super) query_us: u32,
}

/// Values of the settings where they are not given: MySQL's, if it has them.
pub(super) mod defaults {
    use crate::spec::Size;

    pub(in super::super) fn one() -> u32 {
        1
    }

    pub(in super::super) fn two() -> u32 {
        2
    }

    pub(in super::super) fn four() -> u32 {
        4
    }

    pub(in super::super) fn yes() -> bool {
        true
    }

    pub(in super::super) fn buffer_pool() -> Size {
        Size::of(128 << 20)
    }

    pub(in super::super) fn redo_file_size() -> Size {
        Size::of(48 << 20)
    }

    /// Inserts in random order leave leaves 69 % full.
    pub(in super::super) fn random_fill() -> f64 {
        0.69
    }

    /// InnoDB leaves a sixteenth free where keys rise.
    pub(in super::super) fn sequential_fill() -> f64 {
        15.0 / 16.0
    }

    pub(in super::super) fn query_us() -> u32 {
        50
    }
}

/// Options of a load over the engine: its own, and behind them the server's, which are MySQL's by their names. `fill`
/// names the function that says how full leaves are after loading.
macro_rules! database_options {
    (
        $(#[$meta:meta])*
        pub(crate) struct $load:ident {
            $($(#[$of:meta])* $own:ident: $kind:ty,)*
        }
        fill = $fill:literal
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $load {
            $($(#[$of])* $own: $kind,)*
            #[serde(default = "defaults::one")]
            threads: u32,
            /// Bytes of the buffer pool; smaller with the scale.
            #[serde(default = "defaults::buffer_pool")]
            buffer_pool: Size,
            #[serde(default = "defaults::two")]
            redo_files: u32,
            /// Bytes of each file of the redo log; smaller with the scale.
            #[serde(default = "defaults::redo_file_size")]
            redo_file_size: Size,
            /// 1: commits wait for a sync of the log; 2: they write it; 0: neither. Those that do not wait are synced
            /// once a second.
            #[serde(default = "defaults::one")]
            flush_log_at_trx_commit: u32,
            #[serde(default = "defaults::yes")]
            doublewrite: bool,
            /// Pages go past the page cache.
            #[serde(default)]
            direct: bool,
            /// Tasks that write dirty pages.
            #[serde(default = "defaults::four")]
            page_cleaners: u32,
            /// How full leaves are after loading.
            #[serde(default = $fill)]
            fill: f64,
            /// Microseconds that the server and the client need for a statement, beside files.
            #[serde(default = "defaults::query_us")]
            query_us: u32,
            /// Bytes of a file that is there from the start, in place of what else a server has on the volume; smaller
            /// with the scale.
            #[serde(default)]
            ballast: Option<Size>,
        }

        impl $load {
            fn server(&self) -> Server {
                Server {
                    threads: self.threads,
                    buffer_pool: self.buffer_pool,
                    redo_files: self.redo_files,
                    redo_file_size: self.redo_file_size,
                    flush_log_at_trx_commit: self.flush_log_at_trx_commit,
                    doublewrite: self.doublewrite,
                    direct: self.direct,
                    page_cleaners: self.page_cleaners,
                    fill: self.fill,
                    query_us: self.query_us,
                }
            }

            /// A smaller pool and a smaller log.
            fn scale_server(&mut self, factor: f64) {
                let server = self.server();
                (self.buffer_pool, self.redo_file_size) = (server.scaled_pool(factor), server.scaled_redo(factor));
            }

            /// Bytes of the ballast.
            fn ballast_bytes(&self) -> u64 {
                self.ballast.map_or(0, Size::bytes)
            }
        }
    };
}
pub(super) use database_options;

impl Server {
    /// A pool smaller by the factor.
    pub(super) fn scaled_pool(&self, factor: f64) -> Size {
        Size::of(self.buffer_pool.times(factor, PAGE).bytes().max(self.least_pool()))
    }

    /// Files of the log smaller by the factor.
    pub(super) fn scaled_redo(&self, factor: f64) -> Size {
        Size::of(self.redo_file_size.times(factor, 4096).bytes().max(LEAST_REDO))
    }

    /// Every thread holds a few pages at a time.
    fn least_pool(&self) -> u64 {
        (u64::from(self.threads) * 8 + 64) * PAGE
    }

    /// The engine for tables with rows of so many bytes.
    pub(super) fn engine(&self, tables: &[u64]) -> Config {
        Config {
            tables: tables.to_vec(),
            pool_pages: (self.buffer_pool.bytes() / PAGE) as usize,
            log_files: self.redo_files,
            log_file_size: self.redo_file_size.bytes(),
            durability: match self.flush_log_at_trx_commit {
                1 => Durability::Synced,
                2 => Durability::Written,
                _ => Durability::Lazy,
            },
            doublewrite: self.doublewrite,
            direct: self.direct,
            cleaners: self.page_cleaners,
            fill: self.fill,
            journal: false,
        }
    }

    /// Refuses what no run could do.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        check_counts(&[
            ("threads", self.threads.into(), 4096),
            ("redo_files", self.redo_files.into(), 100),
            ("page_cleaners", self.page_cleaners.into(), 64),
        ])?;
        if self.buffer_pool.bytes() < self.least_pool() {
            return Err(format!("workload.buffer_pool: so many threads need at least {} bytes", self.least_pool()));
        }
        if self.redo_file_size.bytes() < LEAST_REDO || !self.redo_file_size.bytes().is_multiple_of(4096) {
            return Err(format!("workload.redo_file_size is a multiple of 4096, at least {LEAST_REDO}"));
        }
        if self.flush_log_at_trx_commit > 2 {
            return Err("workload.flush_log_at_trx_commit is 0, 1 or 2".into());
        }
        if !(0.1..=1.0).contains(&self.fill) {
            return Err(format!("workload.fill: {} is not between 0.1 and 1", self.fill));
        }
        if self.query_us == 0 {
            return Err("workload.query_us: a statement takes at least a microsecond".into());
        }
        Ok(())
    }
}

/// Refuses a key that is 0 or above its limit.
pub(super) fn check_counts(counts: &[(&str, u64, u64)]) -> std::result::Result<(), String> {
    match counts.iter().find(|(_, value, most)| *value == 0 || value > most) {
        Some((name, value, most)) => Err(format!("workload.{name}: {value} is not between 1 and {most}")),
        None => Ok(()),
    }
}

/// Makes the file that stands for what else a server has on its volume.
pub(super) fn lay_out_ballast(stage: &Stage, size: u64) -> Result<()> {
    let fs = &stage.fs;
    let doing = || Error::core("laying out the ballast");
    let root = fs.root().map_err(doing())?;
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&root, b"ballast", &new).map_err(doing())?;
    let mut at = 0;
    while at < size {
        let len = (1u64 << 20).min(size - at);
        if Pattern::new(!3, stage.seed).write(fs, &file, at, len, false).map_err(doing())? != len {
            return Err(doing()(steadyfs_core::Error::NoSpace));
        }
        stage.progress.advance(len);
        at += len;
    }
    fs.fsync(&file, false).map_err(doing())
}

/// The measured phase: the clients, and the timer of the log until they are done; adds what the engine counts.
pub(super) fn work<S: Send + Sync + 'static>(
    shared: &Arc<S>,
    engine: fn(&S) -> &Engine,
    stage: &Arc<Stage>,
    clients: impl FnOnce() -> Vec<JoinHandle<Result<Tally>>>,
) -> Result<Tally> {
    let over = Arc::new(AtomicBool::new(false));
    let ticker = {
        let (shared, over, stage) = (Arc::clone(shared), Arc::clone(&over), Arc::clone(stage));
        Arc::clone(&stage).start("log-timer", move || {
            let goes_on = || !over.load(Relaxed) && stage.goes_on(None);
            engine(&shared).tick(goes_on).map(|()| Tally::default())
        })
    };
    let done = stage::join(clients());
    over.store(true, Relaxed);
    stage::join(vec![ticker])?;
    let mut tally = done?;
    let (syncs, misses) = engine(shared).counts();
    tally.add("log_syncs", syncs);
    tally.add("pool_misses", misses);
    Ok(tally)
}
