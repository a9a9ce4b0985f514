//! The progress bar of a copy; silent unless stderr is a terminal. And whether somebody wants the copy to stop.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use steadyfs_format::quote::quote;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::talk::Talk;

/// Bytes copied so far, for a person who waits.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Option<Interrupt>,
}

impl Progress {
    /// A bar if anyone looks, with `total` bytes to go where that is known. `total` is asked for only then: counting
    /// may mean to walk a tree.
    pub(crate) fn new(talk: Talk, total: impl FnOnce() -> Option<u64>) -> Self {
        if talk.quiet || !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let (bar, template) = match total() {
            Some(total) => (ProgressBar::new(total), "{bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta} {wide_msg}"),
            None => (ProgressBar::no_length(), "{spinner} {bytes} {bytes_per_sec} {wide_msg}"),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, stop: None }
    }

    /// Stops at a signal.
    pub(crate) fn until(self, stop: Interrupt) -> Self {
        Progress { stop: Some(stop), ..self }
    }

    /// Whether to go on. Files copied by then stay.
    ///
    /// # Errors
    /// A signal has come.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.stop.as_ref().and_then(Interrupt::number) {
            None => Ok(()),
            Some(code) => {
                let hint = "what was copied before is there, of the last file perhaps a part";
                Err(Failure::interrupted("cannot copy the rest", hint, code))
            }
        }
    }

    /// No bar for anybody.
    pub(crate) fn hidden() -> Self {
        Progress { bar: ProgressBar::hidden(), stop: None }
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// The path that is being copied now.
    pub(crate) fn at(&self, path: &[u8]) {
        if !self.bar.is_hidden() {
            self.bar.set_message(super::show(path));
        }
    }

    /// Prints a line on stderr without tearing the bar.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", quote(text)));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
