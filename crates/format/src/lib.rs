//! The F2FS on-disk format: structures, checksums and layout arithmetic; no I/O.
