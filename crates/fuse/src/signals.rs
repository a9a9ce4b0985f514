//! Signals that mean "stop", as events.

use crate::mount::Event;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Source};
use std::sync::Arc;
use steadyfs_rt::queue::Queue;
use steadyfs_rt::try_spawn;

/// Forwards signals while it lives.
pub(crate) struct Signals {
    source: Option<Handle>,
}

impl Signals {
    /// Starts a thread that puts an event into `events` for each signal that says stop, except those that are ignored
    /// now (as `nohup` makes them). Where the system gives no handler or thread, signals do what they did before.
    pub(crate) fn forward(events: Arc<Queue<Event>>) -> Self {
        let ignored = ignored_signals();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let started = Source::new(wanted).and_then(|mut source| {
            let handle = source.handle();
            try_spawn("fuse-signals", move || {
                for signal in source.forever() {
                    let _ = events.push(Event::Stop(signal));
                }
            })?;
            Ok(handle)
        });
        match started {
            Ok(handle) => Signals { source: Some(handle) },
            Err(error) => {
                tracing::warn!("cannot handle signals: {error}");
                Signals { source: None }
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            source.close();
        }
    }
}

/// The signals that this process ignores, as the kernel lists them: bit 0 is signal 1.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}
