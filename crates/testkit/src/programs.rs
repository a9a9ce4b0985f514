//! Finds the programs of this package, for the tests of other packages, and builds them if need be.
//!
//! `cargo test -p another-crate` builds this library but not its programs, so the first use in a process runs `cargo
//! build` for them, in the profile and target directory of the test that asks. That costs a fraction of a second when
//! they are up to date. `STEADYFS_PROGRAMS` names a directory where they are already. After a build of the
//! whole workspace their dependencies would be built a second time, with the features of this package alone.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process;

/// Building from scratch on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// The path of one of this package's programs, such as `steadyfs-manifest`, built from the current sources.
pub fn path(name: &str) -> Result<PathBuf> {
    static DIRECTORY: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| match std::env::var_os("STEADYFS_PROGRAMS") {
        Some(built) => Ok(PathBuf::from(built)),
        None => build().map_err(|e| e.to_string()),
    });
    let failed = |verdict: String| Error::Tool { command: format!("build {name}"), verdict, output: String::new() };
    let program = directory.clone().map_err(failed)?.join(name);
    if program.is_file() { Ok(program) } else { Err(failed(format!("{} does not exist", program.display()))) }
}

/// Cargo's target directory, in which the test that asks was built.
pub fn target_directory() -> PathBuf {
    profile_directory().parent().map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

fn build() -> Result<PathBuf> {
    let directory = profile_directory();
    let profile = match directory.file_name().and_then(|n| n.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = target_directory().display().to_string();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let args = ["build", "-q", "--manifest-path", manifest, "--bins", "--profile", profile, "--target-dir", &target];
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let finished = process::run(&cargo, &args, LIMIT)?;
    match finished.status {
        0 => Ok(directory),
        status => {
            let command = format!("cargo {}", args.join(" "));
            Err(Error::Tool { command, verdict: format!("exit status {status}"), output: finished.stderr })
        }
    }
}

/// `target/debug`, from a test's own path `target/debug/deps/test-0123456789abcdef` or a program's
/// `target/debug/program`.
fn profile_directory() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let directory = exe.parent().unwrap_or(Path::new("."));
    match directory.file_name() {
        Some(name) if name == "deps" || name == "examples" => directory.parent().unwrap_or(directory).to_owned(),
        _ => directory.to_owned(),
    }
}
