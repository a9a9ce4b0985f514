//! Contents of pages, from a few words.

/// `len` bytes that repeat these words, in little-endian order.
pub(crate) fn repeated(words: &[u64], len: usize) -> Vec<u8> {
    let once: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    once.repeat(len.div_ceil(once.len()))[..len].to_vec()
}
