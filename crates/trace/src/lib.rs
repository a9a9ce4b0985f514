//! Traces of a mount: every operation with its time, sizes, places, thread and result, and neither names nor contents.
//!
//! `record` is one operation; [`Recorder`] takes them from the threads of a mount without ever making one wait; `codec`
//! and [`file`](mod@file) are their form in a file; [`Summary`] is what a trace amounts to. [`import`] makes such files
//! of traces that others recorded.
//!
//! Kept true:
//! - A name never leaves the recorder but as a number that only its own key, which is thrown away, relates to the name.
//! - Records that do not fit into the recorder's memory are dropped and counted, in the trace too.
//! - A file that was cut off is read as far as its frames are whole.

mod codec;
pub mod file;
pub mod import;
mod record;
mod recorder;
mod summary;

pub use record::{DATA_ONLY, DIRECT, NOT_FOUND, Name, Op, Record, WRITTEN_BACK};
pub use recorder::{Busy, Recorder};
pub use summary::{OpSummary, Summary};
