//! Does a workload to a directory, on the host and inside user-mode Linux.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use steadyfs_testkit::corpus::{HostTarget, Spec, Workload, apply};

const USAGE: &str = "usage: steadyfs-corpus DIR WORKLOAD [--big-dir ENTRIES] [--no-falloc] [--list] [--progress] [--hold]
workloads: full, small, tiny (trees of corner cases), fsync-chain, fsync-checkpoint, aged-MIB, orphans-COUNT, or the JSON of one
--list prints the operations, --progress their number after every hundred, --hold keeps the process (and its open files) alive";

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

fn workload(name: &str) -> Result<Workload, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("not a number: {text}"));
    Ok(match name {
        "full" => Workload::Corners(Spec::full()),
        "small" => Workload::Corners(Spec::small()),
        "tiny" => Workload::Corners(Spec::tiny()),
        "fsync-chain" => Workload::FsyncChain,
        "fsync-checkpoint" => Workload::FsyncCheckpoint,
        other => match (other.strip_prefix("aged-"), other.strip_prefix("orphans-")) {
            (Some(mib), _) => Workload::Aged { mib: number(mib)? },
            (_, Some(count)) => Workload::Orphans { count: number(count)? as usize },
            _ => serde_json::from_str(other).map_err(|e| format!("{e}\n{USAGE}"))?,
        },
    })
}

fn run(args: &[String]) -> Result<(), String> {
    let [dir, name, rest @ ..] = args else { return Err(USAGE.to_owned()) };
    let mut workload = workload(name)?;
    let (mut list, mut progress, mut hold) = (false, false, false);
    let mut rest = rest.iter();
    while let Some(arg) = rest.next() {
        match (arg.as_str(), &mut workload) {
            ("--list", _) => list = true,
            ("--progress", _) => progress = true,
            ("--hold", _) => hold = true,
            ("--no-falloc", Workload::Corners(spec)) => spec.falloc = false,
            ("--big-dir", Workload::Corners(spec)) => {
                spec.big_dir = rest.next().and_then(|n| n.parse().ok()).ok_or(USAGE)?;
            }
            (unknown, _) => return Err(format!("unknown option {unknown}\n{USAGE}")),
        }
    }
    let ops = workload.ops();
    if list {
        ops.iter().for_each(|op| println!("{op}"));
        return Ok(());
    }
    let mut target = HostTarget::open(Path::new(dir)).map_err(|e| format!("{dir}: {e}"))?;
    let report = |(n, _): &(usize, _)| {
        if progress && n % 100 == 0 {
            println!("operation {n}");
        }
    };
    apply(ops.into_iter().enumerate().inspect(report).map(|(_, op)| op), &mut target).map_err(|e| e.to_string())?;
    if hold {
        println!("holding");
        std::thread::sleep(Duration::from_secs(3600));
    }
    Ok(())
}
