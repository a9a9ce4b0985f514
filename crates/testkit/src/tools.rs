//! f2fs-tools: mkfs.f2fs, fsck.f2fs and dump.f2fs, and what their output means.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process::{self, Finished};
use crate::sparse::create_sparse;

const PACKAGE: &str = "f2fs-tools";
/// No volume of a test takes a tool longer, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Marks by which a line of fsck.f2fs' output reports a fault.
const FAULT_MARKS: [&str; 6] = ["[ASSERT]", "[FIX]", "[Fail]", "Error:", "Error :", "Can't"];
/// Checks that fsck.f2fs 1.15 reports at the end of a whole walk; a run that does not reach them has proved nothing.
const CHECKS: [&str; 9] = [
    "Unreachable nat entries",
    "SIT valid block bitmap checking",
    "Hard link checking for regular file",
    "valid_block_count matching with CP",
    "valid_node_count matching with CP (de lookup)",
    "valid_node_count matching with CP (nat lookup)",
    "valid_inode_count matched with CP",
    "free segment_count matched with CP",
    "other corrupted bugs",
];

/// Makes `image` a file of `size` bytes (a new one, all zeros) and an F2FS volume, by `mkfs.f2fs ARGS`. Returns what
/// mkfs printed.
pub fn mkfs_f2fs<S: AsRef<str>>(image: impl AsRef<Path>, size: u64, args: &[S]) -> Result<String> {
    let image = image.as_ref();
    create_sparse(image, size)?;
    let finished = tool("mkfs.f2fs", args, image)?;
    match finished.status {
        0 => Ok(finished.stdout),
        status => Err(failure("mkfs.f2fs", image, format!("exit status {status}"), &finished)),
    }
}

/// What `mkfs.f2fs -V` prints: the version of f2fs-tools.
pub fn mkfs_version() -> Result<String> {
    let program = process::find("mkfs.f2fs", PACKAGE)?;
    Ok(process::run(&program, &["-V"], LIMIT)?.stdout.trim().to_owned())
}

/// Checks a volume by `fsck.f2fs -f --dry-run`, which walks all of it and writes nothing. Returns what fsck printed; an
/// error if it found the slightest fault. Its exit status says little (1.15 ends with 0 after printing `[FIX]`), so its
/// output is read.
pub fn fsck_f2fs(image: impl AsRef<Path>) -> Result<String> {
    let image = image.as_ref();
    let finished = tool("fsck.f2fs", &["-f", "--dry-run"], image)?;
    let mut faults = fsck_faults(&finished.stdout);
    faults.extend(finished.stderr.lines().map(str::to_owned));
    if finished.status != 0 {
        faults.push(format!("exit status {}", finished.status));
    }
    match faults.is_empty() {
        true => Ok(finished.stdout),
        false => Err(failure("fsck.f2fs", image, faults.join("\n"), &finished)),
    }
}

/// Runs `dump.f2fs ARGS IMAGE` and returns what it printed.
pub fn dump_f2fs<S: AsRef<str>>(image: impl AsRef<Path>, args: &[S]) -> Result<String> {
    let image = image.as_ref();
    let finished = tool("dump.f2fs", args, image)?;
    match finished.status {
        0 => Ok(finished.stdout),
        status => Err(failure("dump.f2fs", image, format!("exit status {status}"), &finished)),
    }
}

/// The lines of fsck.f2fs' output that report a fault, and one for each check that it did not come to.
pub fn fsck_faults(output: &str) -> Vec<String> {
    let mut faults: Vec<String> = output.lines().filter(|line| is_fault(line)).map(str::to_owned).collect();
    for check in CHECKS {
        if !output.lines().any(|line| line.contains(check)) {
            faults.push(format!("fsck.f2fs did not report: {check}"));
        }
    }
    faults
}

fn is_fault(line: &str) -> bool {
    FAULT_MARKS.iter().any(|mark| line.contains(mark)) || is_located_message(line)
}

/// `[function: 123] text`: an error message of f2fs-tools, which carries the place in its source.
fn is_located_message(line: &str) -> bool {
    let Some((place, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return false };
    let Some((function, number)) = place.split_once(':') else { return false };
    let is_name = !function.is_empty() && function.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name && number.trim().parse::<u32>().is_ok()
}

fn tool<S: AsRef<str>>(name: &str, args: &[S], image: &Path) -> Result<Finished> {
    let program = process::find(name, PACKAGE)?;
    let mut words: Vec<OsString> = args.iter().map(|a| OsString::from(a.as_ref())).collect();
    words.push(image.into());
    process::run(&program, &words, LIMIT)
}

fn failure(name: &str, image: &Path, verdict: String, finished: &Finished) -> Error {
    let command = format!("{name} {}", image.display());
    Error::Tool { command, verdict, output: process::tail(&format!("{}{}", finished.stdout, finished.stderr)) }
}
