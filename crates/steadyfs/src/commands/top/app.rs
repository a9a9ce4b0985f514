//! The state of the live view, and what keys do to it. Knows no terminal.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::plain::Rates;
use super::source::Snapshot;

/// Intervals that `+` and `-` step through.
const STEPS: [Duration; 9] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// Intervals that are remembered.
const HISTORY: usize = 120;

/// What the view shows.
pub(super) struct App {
    pub(super) now: Snapshot,
    /// The snapshot before that.
    pub(super) before: Option<Snapshot>,
    /// Bytes a second that users wrote, and that were written to the device; the latest last.
    pub(super) history: VecDeque<(f64, f64)>,
    pub(super) interval: Duration,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Show colours.
    pub(super) colour: bool,
    pub(super) ended: bool,
}

impl App {
    /// Begins with a first snapshot.
    pub(super) fn new(first: Snapshot, interval: Duration, colour: bool) -> Self {
        App {
            now: first,
            before: None,
            history: VecDeque::new(),
            interval,
            paused: false,
            help: false,
            colour,
            ended: false,
        }
    }

    /// Takes the next snapshot.
    pub(super) fn advance(&mut self, next: Snapshot) {
        if let Some(rates) = Rates::between(&self.now.stats, &next.stats) {
            self.history.push_back((rates.app_written, rates.device_written));
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        self.before = Some(std::mem::replace(&mut self.now, next));
    }

    /// The rates of the last interval, if there is one.
    pub(super) fn rates(&self) -> Option<Rates> {
        Rates::between(&self.before.as_ref()?.stats, &self.now.stats)
    }

    /// Does what a key means.
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.ended = true,
            KeyCode::Char('q') => self.ended = true,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => self.ended = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('+' | '=') => {
                self.interval = STEPS.into_iter().find(|step| *step > self.interval).unwrap_or(self.interval);
            }
            KeyCode::Char('-' | '_') => {
                self.interval = STEPS.into_iter().rev().find(|step| *step < self.interval).unwrap_or(self.interval);
            }
            _ => {}
        }
    }
}
