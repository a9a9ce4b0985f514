//! `steadyfs top`: what a volume looks like and what a mounted one does: live on a terminal, as text again and again,
//! or once.
//!
//! `source` has the numbers, `plain` shows them as text, `app` and `view` on a screen, and `terminal` brings those to a
//! real one.

mod app;
mod cells;
mod latency;
mod logs;
mod plain;
mod source;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::print_json;
use app::App;
use source::Watched;

/// Show what a volume does now: segments by validity, collectors, bandwidth, latency, write amplification, locks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal: q or Esc leaves, p pauses, + and - change the interval, ? explains. Elsewhere the text comes again and \
                         again.\n\nExample: steadyfs top ./mnt"
)]
pub(crate) struct Args {
    /// Print it once, as text
    #[arg(long)]
    once: bool,
    /// Print it once, as JSON
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    #[command(flatten)]
    image: ImageArgs,
    /// The directory where a volume is mounted; or an image file or block device, mounted or not
    volume: PathBuf,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let given = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    given
        .filter(|time| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(time))
        .ok_or_else(|| "want seconds, from 0.1 to 3600".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let source = Watched::open(&args.volume, args.image)?;
    let first = source.snapshot()?;
    if args.json {
        print_json(&first)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.once && io::stdout().is_terminal() && io::stdin().is_terminal() {
        // As https://no-color.org has it.
        let colour = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        return terminal::watch(&source, App::new(first, args.interval, colour));
    }
    let print = |text: &str| io::stdout().write_all(text.as_bytes()).map_err(|e| Failure::output(&e));
    print(&plain::text(&first, None))?;
    let mut before = first;
    while !args.once && before.mounted {
        std::thread::sleep(args.interval);
        let now = source.snapshot()?;
        print("\n")?;
        print(&plain::text(&now, Some(&before)))?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}
