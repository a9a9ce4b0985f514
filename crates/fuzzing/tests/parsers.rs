//! 10,000 bad inputs for each parser of one structure.

mod support;
#[macro_use]
#[path = "support/targets.rs"]
mod targets;

targets! { false: superblock checkpoint nat sit summary inode node dentries xattr quota acl cluster records sparse import }
