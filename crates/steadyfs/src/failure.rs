//! How a command fails: one line on stderr that says what, why and what to do, and an exit code by convention.
//!
//! The codes are those of the programs that users and scripts know: mkfs and fsck as in util-linux and fsck(8), mount
//! as in mount(8), the rest 0, 1 and 2.

use std::fmt::{self, Write};
use std::io;
use std::process::ExitCode;

use steadyfs_format::quote::Quoting;

/// What a shell reports for a program that SIGPIPE killed; a reader that went away is no news to print.
const READER_GONE: u8 = 128 + 13;

/// mount(8)'s code for a mount that failed.
pub(crate) const MOUNT_FAILED: u8 = 32;

/// A failure in three parts; each is one clause without a full stop.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: String,
    hint: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The arguments contradict each other or name something that there is not.
    Usage,
    /// The work itself failed.
    Operation,
    /// The reader of our output has gone.
    ReaderGone,
    /// A signal came; the exit code that shells give for it.
    Interrupted(u8),
}

impl Failure {
    /// The work failed: what could not be done, why, and what the user can do about it.
    pub(crate) fn new(what: impl Into<String>, why: impl fmt::Display, hint: impl Into<String>) -> Self {
        Failure { what: what.into(), why: reason(why), hint: hint.into(), kind: Kind::Operation }
    }

    /// The arguments are wrong in a way that the argument parser cannot see.
    pub(crate) fn usage(what: impl Into<String>, why: impl fmt::Display, hint: impl Into<String>) -> Self {
        Failure { kind: Kind::Usage, ..Failure::new(what, why, hint) }
    }

    /// The same with another thing to do.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Failure { hint: hint.into(), ..self }
    }

    /// Standard output could not be written.
    pub(crate) fn output(e: &io::Error) -> Self {
        let kind = if e.kind() == io::ErrorKind::BrokenPipe { Kind::ReaderGone } else { Kind::Operation };
        Failure { kind, ..Failure::new("cannot write the output", e, "check where it goes") }
    }

    /// A signal ended the work; what became of it.
    pub(crate) fn interrupted(what: impl Into<String>, hint: impl Into<String>, code: u8) -> Self {
        Failure { kind: Kind::Interrupted(code), ..Failure::new(what, "it was interrupted", hint) }
    }

    /// The reason alone.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// Prints the line and gives the exit code for `verb`.
    pub(crate) fn report(&self, verb: &str) -> ExitCode {
        if self.kind != Kind::ReaderGone {
            eprintln!("{self}");
        }
        match self.kind {
            Kind::Usage => usage_code(verb),
            Kind::Operation => ExitCode::from(operation_code(verb)),
            Kind::ReaderGone => ExitCode::from(READER_GONE),
            Kind::Interrupted(code) => ExitCode::from(code),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // File names may hold anything; the line stays one line.
        write!(Quoting(f), "steadyfs: {}: {}; {}", self.what, self.why, self.hint)
    }
}

/// The exit code for wrong arguments.
pub(crate) fn usage_code(verb: &str) -> ExitCode {
    ExitCode::from(wrong_arguments(verb))
}

fn wrong_arguments(verb: &str) -> u8 {
    match verb {
        "mkfs" | "fsck" => 16,
        "mount" | "umount" => 1,
        _ => 2,
    }
}

/// The exit code for work that failed.
fn operation_code(verb: &str) -> u8 {
    match verb {
        "mkfs" | "fsck" => 8,
        "mount" | "umount" => MOUNT_FAILED,
        _ => 1,
    }
}

/// The exit codes of a command and what they mean, for its manual.
pub(crate) fn codes(verb: &str) -> Vec<(u8, &'static str)> {
    const SIGNALS: [(u8, &str); 2] = [(130, "SIGINT ended it"), (143, "SIGTERM ended it")];
    let failed = match verb {
        "mkfs" => "no volume could be made",
        "fsck" => "the check could not be done",
        "put" | "get" => "it failed, or something was left out; lines on standard error say what",
        "crash-test" | "lab" => "it failed, or a promise is broken",
        _ => "it failed; one line on standard error says why",
    };
    let mut codes = vec![(0, if verb == "fsck" { "nothing is wrong" } else { "it is done" })];
    codes.push((operation_code(verb), failed));
    codes.push((wrong_arguments(verb), "the arguments are wrong"));
    match verb {
        "fsck" => codes.push((4, "errors were found, or a copy of the superblock or of the checkpoint is lost")),
        "put" | "crash-test" => codes.extend(SIGNALS),
        _ => {}
    }
    codes.push((READER_GONE, "whoever read the output has gone"));
    codes.sort_unstable();
    codes
}

/// The text of an error for the middle of a line: the system's words without the capital and the number that Rust gives
/// them.
pub(crate) fn reason(e: impl fmt::Display) -> String {
    let text = e.to_string();
    let Some(end) = text.find(" (os error") else { return text };
    let mut letters = text[..end].chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_whatever_the_names_hold() {
        let failure = Failure::new("cannot open a\nb", "no such file", "check the name");
        assert_eq!(failure.to_string(), "steadyfs: cannot open a\\nb: no such file; check the name");
    }

    #[test]
    fn each_code_has_one_meaning() {
        for verb in ["mkfs", "fsck", "mount", "umount", "put", "get", "ls", "lab", "crash-test"] {
            let codes = codes(verb);
            assert!(codes.windows(2).all(|pair| pair[0].0 < pair[1].0), "{verb}: {codes:?}");
            assert!(
                [0, operation_code(verb), wrong_arguments(verb)].iter().all(|code| codes.iter().any(|c| c.0 == *code))
            );
        }
    }

    #[test]
    fn the_systems_words_fit_into_the_line() {
        assert_eq!(reason(io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(reason("Kept as it is (really)"), "Kept as it is (really)");
    }
}
