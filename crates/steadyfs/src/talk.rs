//! How much a command says: `-q`, `-v`, and the line or object at its end.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;
use crate::text::print_json;

/// Options of commands that say what they have done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Talk {
    /// Say nothing but what went wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Say more: what the file system notes, and of a copy each name
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// The form of what a command says at its end.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct End {
    #[command(flatten)]
    pub(crate) talk: Talk,
    /// Print a JSON object in place of text
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

impl End {
    /// Says how it ended: in a line, an object, or not at all.
    pub(crate) fn say(self, line: &str, object: &impl Serialize) -> Result<(), Failure> {
        match () {
            () if self.json => print_json(object),
            () if self.talk.quiet => Ok(()),
            () => writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e)),
        }
    }
}
