//! Takes and compares manifests of directory trees, on the host and inside user-mode Linux.

use std::process::ExitCode;

use steadyfs_testkit::Manifest;
use steadyfs_testkit::manifest::{Fields, Options};

const USAGE: &str = "usage: steadyfs-manifest DIR [--out FILE] [--atime] [--ctime] [--crtime] [--blocks] [--data] [--flags] [--no-contents] [--read-holes]
       steadyfs-manifest diff LEFT RIGHT [--portable]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((word, rest)) if word == "diff" => diff(rest),
        Some((dir, rest)) if !dir.starts_with('-') => take(dir, rest),
        _ => Err(USAGE.to_owned()),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("steadyfs-manifest: {message}");
        ExitCode::from(2)
    })
}

fn take(dir: &str, args: &[String]) -> Result<ExitCode, String> {
    let mut options = Options::default();
    let mut out = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--out" => out = Some(args.next().ok_or(USAGE)?),
            "--atime" => options.atime = true,
            "--ctime" => options.ctime = true,
            "--crtime" => options.crtime = true,
            "--blocks" => options.blocks = true,
            "--data" => options.data = true,
            "--flags" => options.flags = true,
            "--no-contents" => options.no_contents = true,
            "--read-holes" => options.read_holes = true,
            unknown => return Err(format!("unknown option {unknown}\n{USAGE}")),
        }
    }
    let manifest = Manifest::of(dir, &options).map_err(|e| e.to_string())?;
    match out {
        Some(file) => manifest.save(file).map_err(|e| e.to_string())?,
        None => print!("{}", manifest.to_json()),
    }
    Ok(ExitCode::SUCCESS)
}

fn diff(args: &[String]) -> Result<ExitCode, String> {
    let (left, right, fields) = match args {
        [left, right] => (left, right, Fields::all()),
        [left, right, flag] if flag == "--portable" => (left, right, Fields::portable()),
        _ => return Err(USAGE.to_owned()),
    };
    let load = |path: &String| Manifest::load(path).map_err(|e| e.to_string());
    let diff = load(left)?.diff(&load(right)?, &fields);
    println!("{diff}");
    Ok(if diff.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
