//! The live view on a real terminal: draws, waits for keys, changes of size, signals and the next look.
//!
//! Kept true: however it ends - by a key, a signal, an error or a panic - the terminal is as it was before.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::app::App;
use super::source::Watched;
use super::view::draw;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How often to look whether a signal has come.
const SIGNALS: Duration = Duration::from_millis(100);

/// Gives the terminal back when it goes.
struct Borrowed(DefaultTerminal);

impl Drop for Borrowed {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the volume until somebody says that it is enough.
pub(super) fn watch(source: &Watched, mut app: App) -> Result<ExitCode, Failure> {
    let failed = |e: io::Error| Failure::new("cannot use the terminal", e, "use --once or --json");
    let signal = Interrupt::by(&[SIGHUP, SIGINT, SIGTERM]).map_err(failed)?;
    // From here on a panic gives the terminal back before it is reported.
    let mut terminal = Borrowed(ratatui::try_init().map_err(failed)?);
    let mut looked = Instant::now();
    while !app.ended {
        terminal.0.draw(|frame| draw(frame, &app)).map_err(failed)?;
        let due = looked + app.interval;
        let wait = due.saturating_duration_since(Instant::now()).min(SIGNALS);
        let interrupted = |e: &io::Error| e.kind() == io::ErrorKind::Interrupted;
        match event::poll(wait) {
            Ok(true) => {
                if let Event::Key(key) = event::read().map_err(failed)? {
                    app.press(key);
                }
            }
            Err(e) if !interrupted(&e) => return Err(failed(e)),
            _ => {}
        }
        if let Some(code) = signal.code() {
            return Ok(code);
        }
        if Instant::now() >= due {
            looked = Instant::now();
            if !app.paused && app.now.mounted {
                app.advance(source.snapshot()?);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
