//! 10,000 bad volumes for everything that reads whole ones; fewer for what takes longer.

mod support;
#[macro_use]
#[path = "support/targets.rs"]
mod targets;

targets! { true: image fsck mount_read mount_write replay iplfs_check iplfs_mount verdict iplfs_verdict }
