//! How far a run of the laboratory is, for those who wait: a bar on a terminal, else a line now and then. Standard
//! error only, and never beside what programs read.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use steadyfs_lab::{Phase, Progress};
use steadyfs_rt::{Instant, now};

/// The progress, and whom to tell.
pub(super) struct Watch {
    began: Instant,
    /// On a terminal.
    bar: Option<ProgressBar>,
    /// Between two lines, without one.
    every: Duration,
    told: Instant,
}

impl Watch {
    /// A bar if standard error is a terminal, else a line at most every `every` seconds (0: none).
    pub(super) fn new(every: u32) -> Self {
        let began = now();
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            bar.set_draw_target(ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {prefix}\n  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Watch { began, bar, every: Duration::from_secs(every.into()), told: began }
    }

    /// Looks at the runs; is called often.
    pub(super) fn look(&mut self, runs: &[Arc<Progress>]) {
        let done = runs.iter().map(|run| part(run)).sum::<f64>() / runs.len().max(1) as f64;
        if let Some(bar) = &self.bar {
            bar.set_position((done * 1000.0) as u64);
            bar.set_prefix(whole(runs, done, self.began.elapsed()));
            bar.set_message(running(runs));
        } else if !self.every.is_zero() && self.told.elapsed() >= self.every {
            self.told = now();
            let whole = whole(runs, done, self.began.elapsed());
            eprintln!("{:.0} %  {whole}; {}", done * 100.0, running(runs));
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How much of a run is done, from 0 to 1. Layout and verifying take a small part of most runs.
fn part(run: &Progress) -> f64 {
    match run.phase() {
        Phase::Waiting => 0.0,
        Phase::Layout => 0.05 * run.share(),
        Phase::Measuring => 0.05 + 0.9 * run.share(),
        Phase::Verifying => 0.95 + 0.05 * run.share(),
        Phase::Done => 1.0,
    }
}

/// ETA, elapsed time and events per second of all runs.
fn whole(runs: &[Arc<Progress>], done: f64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let eta = if done > 0.005 { clock(seconds * (1.0 - done) / done) } else { "unknown".into() };
    let events: u64 = runs.iter().map(|run| run.events()).sum();
    let rate = events as f64 / seconds.max(1e-3) / 1e6;
    let mut out = format!("ETA {eta}, elapsed {}, {rate:.1} M events/s", clock(seconds));
    if runs.len() < 2 {
        return out;
    }
    let ended = runs.iter().filter(|run| run.phase() == Phase::Done).count();
    out += &format!(", {ended} of {} runs done", runs.len());
    out
}

/// Of the first run that goes on its phase, its virtual time and its last interval.
fn running(runs: &[Arc<Progress>]) -> String {
    let Some(run) = runs.iter().find(|run| !matches!(run.phase(), Phase::Waiting | Phase::Done)) else {
        return String::new();
    };
    let (mb_s, waf, free) = run.latest();
    match run.phase() {
        Phase::Measuring => {
            format!("measuring: {:.2} s virtual, {mb_s:.0} MB/s, WAF {waf:.2}, {free} free sections", run.seconds())
        }
        phase => phase.name().to_owned(),
    }
}

/// Seconds as 1:02:03 or 2:03.
fn clock(seconds: f64) -> String {
    let all = seconds.min(1e9) as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn times_are_read_as_on_a_clock() {
        assert_eq!([0.0, 59.9, 61.0, 3723.0].map(clock), ["0:00", "0:59", "1:01", "1:02:03"]);
    }
}
