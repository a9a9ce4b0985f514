//! Signals that tell a command to stop, for commands that then say how far they came.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use signal_hook::flag;

/// What shells add to the number of the signal that ended a program.
const SIGNALLED: usize = 128;

/// Whether a signal has come. Until the process ends it is heeded here, and does not end the process by itself.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Heeds these signals from now on.
    pub(crate) fn by(signals: &[i32]) -> io::Result<Self> {
        let number = Arc::new(AtomicUsize::new(0));
        for &signal in signals {
            flag::register_usize(signal, Arc::clone(&number), signal as usize)?;
        }
        Ok(Interrupt(number))
    }

    /// As [`Interrupt::by`]; the first signal sets `stop`, and the next one ends the process at once.
    pub(crate) fn once(signals: &[i32], stop: &Arc<AtomicBool>) -> io::Result<Self> {
        for &signal in signals {
            // In this order: the first signal finds the flag as it was.
            flag::register_conditional_shutdown(signal, SIGNALLED as i32 + signal, Arc::clone(stop))?;
            flag::register(signal, Arc::clone(stop))?;
        }
        Interrupt::by(signals)
    }

    /// The exit code that shells give to a program which the signal has ended; `None` if none has come.
    pub(crate) fn code(&self) -> Option<ExitCode> {
        self.number().map(ExitCode::from)
    }

    /// The same as a number.
    pub(crate) fn number(&self) -> Option<u8> {
        let number = self.0.load(SeqCst);
        (number > 0).then(|| u8::try_from(SIGNALLED + number).unwrap_or(u8::MAX))
    }
}
