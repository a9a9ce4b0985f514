//! The steps of a mount: each has a name, and some have a way back.
//!
//! A step that fails ends the mount. Those before it are taken back, the last one first, and the error names the step.

use crate::error::{Error, Result};
use std::sync::Arc;
use steadyfs_rt::now;

/// What takes a step back.
struct Undo<T> {
    step: &'static str,
    of: Arc<T>,
    undo: fn(&T),
}

/// The steps that a mount of `T` has taken.
pub(super) struct Steps<T> {
    undos: Vec<Undo<T>>,
}

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Steps { undos: Vec::new() }
    }
}

impl<T> Steps<T> {
    /// Takes a step.
    ///
    /// # Errors
    /// Those of `step`, with its name.
    pub(super) fn take<R>(&mut self, name: &'static str, step: impl FnOnce() -> Result<R>) -> Result<R> {
        let began = now();
        let taken = step().map_err(|error| named(error, name));
        match &taken {
            Ok(_) => tracing::debug!(step = name, took_us = began.elapsed().as_micros() as u64, "mount"),
            Err(error) => tracing::debug!(step = name, %error, "a step of the mount failed"),
        }
        taken
    }

    /// Takes a step that `undo` takes back if a later one fails.
    ///
    /// # Errors
    /// As [`Steps::take`].
    pub(super) fn take_or_undo(
        &mut self,
        name: &'static str,
        of: &Arc<T>,
        step: impl FnOnce(&Arc<T>) -> Result<()>,
        undo: fn(&T),
    ) -> Result<()> {
        self.take(name, || step(of))?;
        self.undos.push(Undo { step: name, of: Arc::clone(of), undo });
        Ok(())
    }

    /// The volume is mounted: nothing is taken back any more.
    pub(super) fn done(mut self) {
        self.undos.clear();
    }
}

impl<T> Drop for Steps<T> {
    fn drop(&mut self) {
        while let Some(Undo { step, of, undo }) = self.undos.pop() {
            tracing::debug!(step, "a step of the mount is taken back");
            undo(&of);
        }
    }
}

/// What went wrong, and in which step. Errors that are whole sentences about what the user asked for need no step.
fn named(error: Error, step: &'static str) -> Error {
    match error {
        Error::Unsupported(_) | Error::Usage(_) | Error::Recovery(_) | Error::ReadOnly(_) | Error::Mount { .. } => {
            error
        }
        cause => Error::Mount { step, cause: Box::new(cause) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A number that grows by a digit with each step, and with each that is taken back.
    type Seen = AtomicU64;

    fn note(seen: &Seen, digit: u64) {
        seen.store(seen.load(Relaxed) * 10 + digit, Relaxed);
    }

    fn done(seen: &Seen, digit: u64) -> Result<()> {
        note(seen, digit);
        Ok(())
    }

    #[test]
    fn a_step_that_fails_is_named_and_those_before_it_are_taken_back() {
        let seen = Arc::new(Seen::default());
        let mount = |seen: &Arc<Seen>| -> Result<()> {
            let mut steps = Steps::default();
            steps.take_or_undo("mark", seen, |seen| done(seen, 1), |seen| note(seen, 4))?;
            steps.take_or_undo("threads", seen, |seen| done(seen, 2), |seen| note(seen, 3))?;
            steps.take("tables", || Err::<(), _>(Error::corrupt("two logs in one segment")))?;
            steps.done();
            Ok(())
        };
        let error = mount(&seen).unwrap_err();
        assert_eq!(seen.load(Relaxed), 1234);
        let said = "the volume is damaged: two logs in one segment; run fsck on it (mount step: tables)";
        assert_eq!((error.to_string().as_str(), error.errno()), (said, Error::corrupt("").errno()));
        assert!(matches!(error.cause(), Error::Corrupt(_)));
    }

    #[test]
    fn a_mount_that_succeeds_takes_nothing_back() {
        let seen = Arc::new(Seen::default());
        let mut steps = Steps::default();
        steps.take_or_undo("mark", &seen, |seen| done(seen, 1), |seen| note(seen, 2)).unwrap();
        steps.done();
        assert_eq!(seen.load(Relaxed), 1);
    }

    #[test]
    fn a_refusal_that_is_a_whole_sentence_names_no_step() {
        let refused = Steps::<()>::default().take("features", || Err::<(), _>(Error::Unsupported("no".into())));
        assert_eq!(refused.unwrap_err().to_string(), "no");
    }
}
