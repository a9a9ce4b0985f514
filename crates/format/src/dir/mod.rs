//! Directories: hashed names, the levels and buckets of the hash table, and blocks of entries. Format section 8.

mod edit;
mod entries;
mod file_type;
mod hash;
mod level;

pub use edit::DentriesMut;
pub use entries::{BLOCK_SLOTS, Dentries, DentryLayout, DirEntry, slots_for};
pub use file_type::FileType;
pub use hash::name_hash;
pub use level::{Bucket, MAX_DEPTH, bucket_of, bucket_of_page, bucket_pages, buckets_at};

/// Whether a directory may hold this name: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
///
/// Names read from an image may break this (an encrypted name is any bytes): check before a name leaves the file
/// system.
pub fn is_valid_name(name: &[u8]) -> bool {
    let length = (1..=crate::inode::MAX_NAME).contains(&name.len());
    length && name != b"." && name != b".." && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}
