//! The FUSE mount: kernel requests in, `steadyfs-core` calls out.
