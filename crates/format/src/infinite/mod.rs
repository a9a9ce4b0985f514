//! IPLFS volumes: an F2FS node tree over an address space that is never used twice.

/// The end of the address space of any volume: 2^61 blocks, 2^64 sectors of 512 bytes.
pub const SPACE_END: u64 = 1 << 61;
