//! The counters of a mounted volume, which its root directory gives to whoever asks.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;
use serde_json::Value;
use steadyfs_fuse::STATS_ATTRIBUTE;

use crate::failure::Failure;
use crate::text::print_json;

/// More than the counters ever take.
const ROOM: usize = 64 << 10;

pub(super) fn run(dir: &Path, json: bool) -> Result<ExitCode, Failure> {
    let stats = read(dir)?;
    if json {
        print_json(&stats)?;
    } else {
        print("", &stats, &mut io::stdout().lock()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(dir: &Path) -> Result<Value, Failure> {
    let what = || format!("cannot show {}", dir.display());
    let mut value = vec![0; ROOM];
    let got = rustix::fs::getxattr(dir, STATS_ATTRIBUTE, &mut value[..]);
    let length = got.map_err(|e| match e {
        Errno::NODATA | Errno::NOTSUP => Failure::new(
            what(),
            "it is a directory where no SteadyFS volume is mounted",
            "name an image, a device, or the directory that a volume is mounted on",
        ),
        e => Failure::new(what(), e, ""),
    })?;
    serde_json::from_slice(&value[..length])
        .map_err(|e| Failure::new(what(), e, "is it another version that serves this mount?"))
}

/// One line for each number, named by its way down.
fn print(name: &str, value: &Value, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            print(&name, value, out)
        }),
        other => writeln!(out, "{name:<36}{other}"),
    }
}
