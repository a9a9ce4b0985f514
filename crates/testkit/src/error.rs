//! The one error type of the test kit. Its texts go to a test's failure report, so each carries what a reader needs to
//! act.

use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong when another program is asked for its opinion.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program, kernel or module is not installed.
    #[error("{what} is missing; install it: apt-get install {package} (or run tools/apt-deps.sh)")]
    Missing {
        /// The program or file looked for.
        what: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// An operating system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and the file it was for.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A program did not end in time; it and its children were killed.
    #[error("{program} was killed after {after:?}\n{tail}")]
    Timeout {
        /// The program's name.
        program: String,
        /// The limit it was given.
        after: Duration,
        /// The last lines that it printed.
        tail: String,
    },
    /// The user-mode kernel ended without having run the script to its end.
    #[error("the kernel stopped before the script ended\n--- script\n{stdout}\n--- kernel\n{kernel}")]
    Boot {
        /// What the script printed.
        stdout: String,
        /// The last lines of the kernel log.
        kernel: String,
    },
    /// The script in the user-mode kernel ended with a status other than 0.
    #[error("the script ended with status {status}\n--- script\n{stdout}\n--- kernel\n{kernel}")]
    Script {
        /// Its exit status.
        status: i32,
        /// Its output.
        stdout: String,
        /// The last lines of the kernel log.
        kernel: String,
    },
    /// The kernel complained: a bug, a warning, or an F2FS message that a sound volume does not cause.
    #[error("the kernel complained:\n{}\n--- script\n{stdout}", complaints.join("\n"))]
    Kernel {
        /// The lines.
        complaints: Vec<String>,
        /// What the script printed.
        stdout: String,
    },
    /// A tool ended with a failure.
    #[error("{command}: {verdict}\n{output}")]
    Tool {
        /// The command line.
        command: String,
        /// Its exit status, or the lines of its output that say that something is wrong.
        verdict: String,
        /// Its output.
        output: String,
    },
    /// A manifest file is not one.
    #[error("{path}: not a manifest: {reason}")]
    BadManifest {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
}

/// The result of every fallible function here.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds to an I/O error what was being done.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}

/// As [`io`], for rustix calls.
pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Error {
    let what = what.into();
    move |errno| Error::Io { what, source: errno.into() }
}
