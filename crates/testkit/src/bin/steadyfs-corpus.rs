//! Makes the tree of corner cases in a directory, on the host and inside user-mode Linux.

use std::path::Path;
use std::process::ExitCode;

use steadyfs_testkit::corpus::{HostTarget, Spec, apply};

const USAGE: &str = "usage: steadyfs-corpus DIR full|small|tiny [--big-dir ENTRIES] [--no-falloc] [--list]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("steadyfs-corpus: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let [dir, size, rest @ ..] = args else { return Err(USAGE.to_owned()) };
    let mut spec = match size.as_str() {
        "full" => Spec::full(),
        "small" => Spec::small(),
        "tiny" => Spec::tiny(),
        json => serde_json::from_str(json).map_err(|e| format!("{e}\n{USAGE}"))?,
    };
    let mut rest = rest.iter();
    let mut list = false;
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--list" => list = true,
            "--no-falloc" => spec.falloc = false,
            "--big-dir" => spec.big_dir = rest.next().and_then(|n| n.parse().ok()).ok_or(USAGE)?,
            unknown => return Err(format!("unknown option {unknown}\n{USAGE}")),
        }
    }
    let ops = spec.ops();
    if list {
        ops.iter().for_each(|op| println!("{op}"));
        return Ok(());
    }
    let mut target = HostTarget::open(Path::new(dir)).map_err(|e| format!("{dir}: {e}"))?;
    apply(ops, &mut target).map_err(|e| e.to_string())
}
