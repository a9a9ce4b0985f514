//! Notes the commit that a release is built from, for pages of results, unless `make build` has said it already.
//!
//! Builds for development note none: they would be built anew with every commit.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=STEADYFS_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("STEADYFS_COMMIT").is_some() || std::env::var("PROFILE").as_deref() != Ok("release") {
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
