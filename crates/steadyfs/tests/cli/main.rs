//! The command, run as a program: one module per group of commands.

mod compatibility;
mod crash_test;
mod d2fs;
mod frame;
mod fsck;
mod gc;
mod hostile;
mod in_use;
mod inspect;
mod iplfs;
mod json;
mod lab;
mod links;
mod metrics;
mod mkfs;
mod mount;
mod offline;
mod protected;
mod recovery;
mod remount;
mod run;
mod service;
mod told;
mod top;
mod trace;
mod tree;
