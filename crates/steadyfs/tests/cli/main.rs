//! The command, run as a program: one module per group of commands.

mod frame;
mod fsck;
mod inspect;
mod mkfs;
mod run;
