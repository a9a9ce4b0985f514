//! How large the tree is.

/// The size of the tree and which of the more demanding parts it has.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Spec {
    /// Entries of the largest directory.
    pub big_dir: usize,
    /// Directories inside each other.
    pub depth: usize,
    /// Names of the file that has most of them.
    pub links: usize,
    /// MiB of the file without holes.
    pub dense_mib: u64,
    /// Files with data at the ends of every node level, up to the format's limit of 3.94 TiB.
    pub sparse: bool,
    /// The kinds of fallocate beyond allocate, keep-size and punch: zero, collapse, insert.
    pub falloc: bool,
    /// What a new file inherits from its directory: default ACLs, the group.
    pub inherit: bool,
    /// Times that only 64-bit seconds hold, beyond the years 1901 to 2446.
    pub far_times: bool,
    /// Contents that do not compress. Without them an image of the tree is small when compressed.
    pub noise: bool,
}

impl Spec {
    /// Everything, with a directory of 100,000 entries: needs about 600 MiB.
    pub fn full() -> Self {
        Self {
            big_dir: 100_000,
            depth: 500,
            links: 1500,
            dense_mib: 14,
            sparse: true,
            falloc: true,
            inherit: true,
            far_times: true,
            noise: true,
        }
    }

    /// Every kind of thing, in about 15 MiB.
    pub fn small() -> Self {
        Self { big_dir: 700, depth: 60, links: 40, dense_mib: 5, ..Self::full() }
    }

    /// As [`Spec::small`], in about 5 MiB that compress to little.
    pub fn tiny() -> Self {
        Self { big_dir: 120, depth: 12, links: 5, dense_mib: 1, noise: false, ..Self::full() }
    }
}
