//! Lists the experiments that are part of the program, which are the files of `experiments`.
//!
//! Also notes the commit that a release is built from, for pages of results, unless `make build` has said it already.
//! Builds for development note none: they would be built anew with every commit.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    list_experiments()?;
    note_commit();
    Ok(())
}

/// Writes an array of names and texts, in the order of the names, which `src/spec/builtin.rs` takes in.
fn list_experiments() -> io::Result<()> {
    println!("cargo::rerun-if-changed=experiments");
    let mut rows = Vec::new();
    for entry in fs::read_dir("experiments")? {
        let file = entry?.file_name();
        let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".toml")) else { continue };
        let path = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/experiments/{name}.toml\")");
        rows.push(format!("    ({name:?}, include_str!({path})),\n"));
    }
    rows.sort();
    let to = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no directory to write to"))?;
    fs::write(Path::new(&to).join("experiments.rs"), format!("&[\n{}]\n", rows.concat()))
}

fn note_commit() {
    println!("cargo::rerun-if-env-changed=STEADYFS_COMMIT");
    if env::var_os("STEADYFS_COMMIT").is_some() || env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // Outside a repository there is no commit to note. The log of HEAD changes with every commit and every checkout.
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return };
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rustc-env=STEADYFS_COMMIT={commit}");
}
