//! What stands between changes and what makes room for them: admissions to take blocks, and what changes of a file and
//! collectors keep from each other.
//!
//! Who makes room is above (`reclaim`). Files and what makes them durable need to know only this.

pub(crate) mod admission;
pub(crate) mod protect;
