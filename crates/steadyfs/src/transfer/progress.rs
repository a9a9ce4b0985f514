//! The progress bar of a copy; silent unless stderr is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use steadyfs_format::quote::quote;

/// Bytes copied so far, for a person who waits.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar if anyone looks, with `total` bytes to go where that is known. `total` is asked for only then: counting
    /// may mean to walk a tree.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let (bar, template) = match total() {
            Some(total) => (ProgressBar::new(total), "{bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta} {wide_msg}"),
            None => (ProgressBar::no_length(), "{spinner} {bytes} {bytes_per_sec} {wide_msg}"),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    /// No bar, whoever looks.
    #[cfg(test)]
    pub(crate) fn hidden() -> Self {
        Progress { bar: ProgressBar::hidden() }
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// What is being copied now.
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
