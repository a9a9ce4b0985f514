//! What the flusher writes, and what writers do when there are too many dirty pages.
//!
//! Age as in Linux: looked at every 5 seconds, written after 30. Above a fifth of the cache the flusher works at once.
//! Above two fifths (with `linux` a tenth, and 17.5 %) `writeback=` says what a writer does before it makes more:
//!
//! - `together`: it writes some pages itself, so writers can never outrun the device for long, and nobody waits for a
//!   thread that may be waiting for him;
//! - `linux`: it sleeps. One thread writes back for the whole volume, and stops while as many of its requests are at
//!   the device as the block layer lets through. A writer sleeps as long as the device takes for as many pages as it
//!   may dirty then, and writers take turns: Linux reckons that time from the device's rate and sets a timer, and here
//!   landings count. A writer holds nothing that the flusher needs; if the flusher cannot work, or has ended, the
//!   writer helps itself.

use super::flusher::INTERVAL;
use super::writeback::ALL_PAGES;
use crate::error::Result;
use crate::files::Files;
use crate::files::inode::Inode;
use crate::files::pages::CacheStats;
use crate::gate::{Begun, Want};
use crate::options::WriteBack;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use steadyfs_rt::{Instant, now};

/// How long a page may stay dirty; and with a journal, how old contents are that the commit by time makes durable.
pub(super) const AGE: Duration = Duration::from_secs(30);

/// Failed writes that a writer who helps puts up with before he is told.
const PATIENCE: u64 = 16;

/// How long a writer above the limit sleeps at most before it looks again (Linux: `MAX_PAUSE`).
const PAUSE: Duration = Duration::from_millis(200);

/// Starts the flusher of a writable volume, which ends with it.
pub(crate) fn start_flusher(fs: &Arc<Files>) {
    let weak = Arc::downgrade(fs);
    fs.flusher.start(&fs.budget, move || round(&weak));
}

/// One round; false if the volume is gone.
fn round(fs: &Weak<Files>) -> bool {
    let Some(fs) = fs.upgrade() else { return false };
    if fs.vol.check_writable().is_ok()
        && let Err(e) = fs.flush_files()
    {
        tracing::warn!(error = %e, "write-back failed; it will be tried again");
        fs.budget.note_flusher(false);
        // Not at once: what failed would most likely fail again.
        fs.budget.wait_for_call(|| false, INTERVAL);
        fs.budget.note_flusher(true);
    }
    true
}

impl Files {
    /// Writes files that have been dirty too long, and others while there are too many dirty pages; each file once.
    fn flush_files(&self) -> Result<()> {
        let failures = self.budget.failures();
        let began = now();
        let old = Instant::from_nanos(began.as_nanos().saturating_sub(AGE.as_nanos() as u64));
        loop {
            let limit = if self.budget.wants_flush() { began } else { old };
            let Some((since, file)) = self.budget.oldest_dirty_file(Some(limit)) else {
                return self.budget.failed_since(failures, 0);
            };
            let flushed = self.flush_file(&file);
            self.journal.note_contents(since + AGE);
            flushed?;
        }
    }

    fn flush_file(&self, file: &Arc<Inode>) -> Result<()> {
        // Whatever is dirtied from here on is young again.
        self.budget.cache(file).renew_age();
        match self.options.write_back {
            WriteBack::Together => self.start_writeback(file, ALL_PAGES),
            WriteBack::Flusher(depth) => self.flush_within(file, depth),
        }
    }

    /// Before `pages` pages of a locked file become dirty: calls the flusher, and helps it, if there are many. Hold no
    /// change when calling.
    ///
    /// # Errors
    /// Why they stay many: what cannot be written stays dirty, and memory is bounded.
    pub(super) fn help_flush(&self, inode: &Inode, pages: u64) -> Result<()> {
        if !self.budget.wants_flush() {
            return Ok(());
        }
        self.budget.call_flusher();
        let failures = self.budget.failures();
        let mut may = inode.turn.load(Relaxed);
        while self.budget.must_flush() {
            if may >= pages {
                inode.turn.store(may - pages, Relaxed);
                return Ok(());
            }
            self.budget.failed_since(failures, PATIENCE)?;
            if let Some(turn) = self.sleep_for_flusher() {
                may += turn;
                continue;
            }
            let CacheStats { dirty, flying, .. } = self.budget.stats();
            let file = self.budget.oldest_dirty_file(None).filter(|_| dirty > flying);
            let Some((since, file)) = file else {
                if flying == 0 {
                    return self.flush_dirty_dirs(|| self.gate.begin(Want::default()).map(Begun::into_change));
                }
                self.budget.wait_landing(|| !self.budget.must_flush());
                continue;
            };
            let pages = self.flush_size(&file);
            let change = self.gate.begin(Want::blocks(pages))?;
            let placed = self.flush_pages(&change, &file, pages as usize)?;
            change.used(placed as u64);
            self.journal.note_contents(since + AGE);
            if placed == 0 {
                steadyfs_rt::yield_now(); // another thread has just taken them
            }
        }
        inode.turn.store(0, Relaxed);
        Ok(())
    }

    /// Sleeps while the flusher makes fewer dirty pages; returns how many the caller may make then, 0 if it has only
    /// slept for long. `None` if that is not the flusher's business, or there is nothing that it could write.
    fn sleep_for_flusher(&self) -> Option<u64> {
        let sleeps = self.options.write_back != WriteBack::Together
            && self.budget.flusher_works()
            && (self.budget.stats().flying > 0 || self.budget.oldest_dirty_file(None).is_some());
        sleeps.then(|| {
            let over = || self.budget.must_flush() && self.budget.flusher_works();
            let woken = self.budget.sleep_for_turn(|| !over(), PAUSE);
            if woken && self.budget.flusher_works() { self.budget.turn_pages() } else { 0 }
        })
    }
}
