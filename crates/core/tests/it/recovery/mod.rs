//! Roll-forward recovery: chains as they are, chains as nobody should write them, and crashes on the way.

mod crash;
mod faults;
mod full;
mod hostile;
mod journal;
mod journal_written;
mod rereading;
mod shapes;
mod stale;
mod support;
mod timed_names;
