//! 10,000 bad volumes for everything that reads whole ones; 1,000 for replays of the journal.

mod support;
#[macro_use]
#[path = "support/targets.rs"]
mod targets;

targets! { true: image fsck mount_read mount_write replay iplfs_check iplfs_mount }
