//! The counters of a mounted volume, which its root directory gives to whoever asks.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use steadyfs_fuse::STATS_ATTRIBUTE;

use crate::failure::Failure;
use crate::live;
use crate::text::print_json;

pub(super) fn run(dir: &Path, json: bool) -> Result<ExitCode, Failure> {
    let stats: Value = live::read(dir, STATS_ATTRIBUTE)?;
    if json {
        print_json(&stats)?;
    } else {
        print("", &stats, &mut io::stdout().lock()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line for each number, named by its way down.
fn print(name: &str, value: &Value, out: &mut impl Write) -> io::Result<()> {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| print(&below(key), value, out)),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(i, value)| {
            // What has a name of its own is called by it.
            let key = value["name"].as_str().map_or_else(|| i.to_string(), str::to_owned);
            print(&below(&key), value, out)
        }),
        other => writeln!(out, "{name:<44} {other}"),
    }
}
