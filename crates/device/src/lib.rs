//! Block devices: what a block device promises to the file system, and its implementations.
