//! The process that serves a mount gives up what it does not need, in two steps.
//!
//! Kept true: capabilities go before the first thread is started, for they are each thread's own. System calls go when
//! the volume is mounted, from all threads at once. A step that the system refuses leaves a mount that works, and is
//! told of.

use std::io;

use steadyfs_device::{dump_no_core, keep_few_capabilities, refuse_other_system_calls};
use steadyfs_fuse::Mounted;

use crate::text::warn;

/// Between the two steps.
pub(crate) struct Sandbox;

impl Sandbox {
    /// What can be given up before the volume is opened. Call it before any thread is started.
    pub(crate) fn begin() -> Self {
        told("core dumps", dump_no_core());
        told("capabilities", keep_few_capabilities());
        Sandbox
    }

    /// Gives up the rest once the volume is mounted.
    pub(crate) fn close(self, mounted: &Mounted) {
        // Of an ordinary user: the program that unmounts has to be started, and has more rights.
        if !mounted.needs_helper() {
            told("system calls", refuse_other_system_calls());
        }
    }
}

fn told(what: &str, done: io::Result<()>) {
    if let Err(e) = done {
        warn(&format!("the server keeps its {what}: {e}"));
    }
}
