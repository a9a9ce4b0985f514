//! Real mounts: a process serves an image, plain system calls go to it, and what is left afterwards is looked at.
//!
//! These tests need root and `/dev/fuse`; without them they fail and say so.

mod acl;
mod atime;
mod backing;
mod block;
mod busy;
mod concurrent;
mod deep;
mod dsync;
mod ends;
mod exercise;
mod harness;
mod image;
mod infinite;
mod journal;
mod kill;
mod limits;
mod mapped;
mod nameless;
mod overlay;
mod plain;
mod protected;
mod race;
mod requests;
mod rights;
mod shutdown;
mod space;
mod sparse;
mod stale;
mod trim;
mod unsynced;
mod user;
