//! The first exchange with the kernel: which of its abilities are used.

use super::{Answer, Server};
use crate::options::Cache;
use crate::wire::abi::{InitIn, InitOut};
use crate::wire::flags::init;
use crate::wire::{MAJOR, MINOR, OLDEST_MINOR, Opcode, Reply, Request};
use rustix::io::Errno;
use std::sync::atomic::Ordering::SeqCst;
use steadyfs_format::BLOCK_SIZE;

/// Most bytes of data in one request: what Linux allows without changing its own limit.
pub(crate) const MAX_WRITE: u32 = 1 << 20;

/// Requests of the kernel's own (reading ahead, writing back) that may be under way at once.
const MAX_BACKGROUND: u16 = 64;

/// How the first exchange went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// The reply says what is used; requests may come.
    Agreed,
    /// The kernel speaks a later major version: the reply says ours, and it will ask again.
    Again,
    /// It speaks one that is too old: major and minor version.
    TooOld(u32, u32),
}

/// What is asked for where the kernel offers it, whatever the options.
const WANTED: u64 = init::ASYNC_READ
    | init::ATOMIC_O_TRUNC
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::HAS_IOCTL_DIR
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::NO_OPENDIR_SUPPORT
    | init::EXPLICIT_INVAL_DATA
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::HAS_SYNCFS;

impl Server {
    /// Answers the first request, given as its bytes.
    ///
    /// # Errors
    /// `EIO` if it is no greeting.
    pub(crate) fn greet(&self, bytes: &[u8], reply: &mut Reply) -> Answer<Greeting> {
        let mut request = Request::parse(bytes)?;
        reply.start(request.header.unique);
        if request.opcode != Some(Opcode::Init) {
            return Err(Errno::IO.into());
        }
        // Kernels before 7.36 send less; what they leave out is zero.
        let (mut fixed, sent) = ([0; size_of::<InitIn>()], request.args.rest());
        let len = sent.len().min(fixed.len());
        fixed[..len].copy_from_slice(&sent[..len]);
        let asked: InitIn = zerocopy::transmute!(fixed);
        if asked.major > MAJOR {
            reply.put(&InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() })?;
            return Ok(Greeting::Again);
        }
        if asked.major < MAJOR || asked.minor < OLDEST_MINOR {
            reply.fail(Errno::PROTO);
            return Ok(Greeting::TooOld(asked.major, asked.minor));
        }
        let flags2 = if u64::from(asked.flags) & init::INIT_EXT != 0 { asked.flags2 } else { 0 };
        let offered = u64::from(asked.flags) | u64::from(flags2) << 32;
        let used = offered & (WANTED | self.wanted_by_options() | self.wanted_too.load(SeqCst));
        self.used.store(used, SeqCst);
        tracing::debug!(
            minor = asked.minor,
            offered = format_args!("{offered:#x}"),
            used = format_args!("{used:#x}"),
            "FUSE"
        );
        let (low, high) = (used & u64::from(u32::MAX), used >> 32);
        reply.put(&InitOut {
            major: MAJOR,
            minor: asked.minor.min(MINOR),
            max_readahead: asked.max_readahead,
            flags: u32::try_from(low).map_err(|_| Errno::IO)?,
            flags2: u32::try_from(high).map_err(|_| Errno::IO)?,
            max_background: MAX_BACKGROUND,
            congestion_threshold: MAX_BACKGROUND / 4 * 3,
            max_write: MAX_WRITE,
            time_gran: 1,
            max_pages: (MAX_WRITE as usize / BLOCK_SIZE) as u16,
            ..InitOut::default()
        })?;
        Ok(Greeting::Agreed)
    }

    fn wanted_by_options(&self) -> u64 {
        // ALLOW_IDMAP is not asked for: with it the kernel withholds the caller's ids, which `allow_root` and the
        // listing of attributes in the `trusted` namespace need.
        match self.policy.cache {
            Cache::Writeback => init::WRITEBACK_CACHE,
            // Where files bypass the cache, they can be mapped shared all the same.
            Cache::Through | Cache::Direct => init::DIRECT_IO_ALLOW_MMAP,
        }
    }

    /// Asks for these abilities as well, if it is called before the first request.
    pub(crate) fn want_too(&self, abilities: u64) {
        self.wanted_too.fetch_or(abilities, SeqCst);
    }

    /// Whether an ability is used.
    pub(crate) fn uses(&self, ability: u64) -> bool {
        self.used.load(SeqCst) & ability != 0
    }
}
