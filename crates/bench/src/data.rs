//! The written data, its places and its order: everything follows from fixed seeds, so every target gets the same.

/// Bytes in a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes in a mebibyte, the unit of sequential I/O.
pub(crate) const MIB: usize = 1 << 20;

/// SplitMix64: small, fast, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing is below zero");
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// The numbers below `n` in random order.
    pub(crate) fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// Memory that direct I/O accepts, filled with random bytes.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes of a seed.
    pub(crate) fn random(len: usize, seed: u64) -> Self {
        let mut memory = vec![0; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        assert!(start < PAGE, "memory that cannot be aligned");
        let mut random = Random::new(seed);
        for word in memory[start..start + len].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        Buffer { memory, start, len }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// One of its pages.
    pub(crate) fn page(&self, number: u64) -> &[u8] {
        let at = number as usize % (self.len / PAGE) * PAGE;
        &self.bytes()[at..at + PAGE]
    }
}

/// A file or directory to unpack.
pub(crate) enum Entry {
    /// A directory.
    Dir(String),
    /// A file of this many bytes.
    File(String, usize),
}

/// A source tree of about `files` files, in directories up to four deep with 16 files each on average. Sizes are from
/// 100 bytes to 200 KiB: half of them below 6 KiB, and 16 KiB on average, which is close to the Linux sources.
pub(crate) fn source_tree(files: usize) -> Vec<Entry> {
    let mut random = Random::new(0x7472_6565);
    let mut dirs = vec![("src".to_owned(), 1)];
    let mut entries = vec![Entry::Dir("src".to_owned())];
    for number in 0..files {
        if random.below(16) == 0 {
            let (parent, depth) = dirs[random.below(dirs.len() as u64) as usize].clone();
            if depth < 4 {
                let dir = format!("{parent}/directory-{number}");
                entries.push(Entry::Dir(dir.clone()));
                dirs.push((dir, depth + 1));
            }
        }
        let (parent, _) = &dirs[random.below(dirs.len() as u64) as usize];
        // Ten doublings from 100 bytes, the middle ones most often.
        let doublings = random.below(6) + random.below(6);
        let size = (100u64 << doublings) + random.below(100 << doublings);
        entries.push(Entry::File(format!("{parent}/source-file-{number}.c"), size as usize));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_has_every_number_once() {
        let order = Random::new(1).shuffled(1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000) && order != sorted);
    }

    #[test]
    fn buffers_are_aligned_and_full() {
        let buffer = Buffer::random(MIB, 7);
        assert_eq!((buffer.bytes().as_ptr().addr() % PAGE, buffer.bytes().len()), (0, MIB));
        assert_ne!(buffer.page(0), buffer.page(1));
        assert_eq!(buffer.page(0), buffer.page(256));
        assert!(buffer.bytes().chunks(64).all(|part| part.iter().any(|b| *b != 0)));
    }

    #[test]
    fn the_source_tree_is_what_it_says() {
        let tree = source_tree(4000);
        let mut sizes: Vec<usize> =
            tree.iter().filter_map(|e| if let Entry::File(_, size) = e { Some(*size) } else { None }).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert_eq!(sizes.len(), 4000);
        assert!((3000..7000).contains(&sizes[2000]) && (13_000..20_000).contains(&mean), "{} {mean}", sizes[2000]);
        // Parents come before what is in them.
        let mut known = std::collections::HashSet::new();
        for entry in &tree {
            let (Entry::Dir(path) | Entry::File(path, _)) = entry;
            assert!(path.rsplit_once('/').is_none_or(|(parent, _)| known.contains(parent)), "{path}");
            if matches!(entry, Entry::Dir(_)) {
                assert!(known.insert(path.clone()), "{path} twice");
            }
        }
    }
}
