//! Contents as a digest that does not depend on how they are stored and costs nothing for holes.

use sha2::{Digest, Sha256};

/// Above this size the digest is over the blocks that are not zero, not over the plain contents.
const PLAIN_LIMIT: u64 = 1 << 20;
const BLOCK: usize = 4096;

/// The digest of a file's contents, fed in ascending order of offset.
///
/// Files up to 1 MiB: `sha256:` and what `sha256sum` prints. Larger ones: `blocks:` and the SHA-256 of, for each
/// aligned 4 KiB block that has a byte other than zero, its offset (8 bytes, little-endian) and its contents (the last
/// block may be short). A hole, an unwritten extent and written zeros therefore have the same digest, and ranges known
/// to be zero need not be fed.
#[derive(Debug)]
pub struct ContentDigest {
    size: u64,
    hash: Sha256,
    /// Up to where the contents are known.
    position: u64,
    /// The started block, if any.
    block: Vec<u8>,
}

impl ContentDigest {
    /// For a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { size, hash: Sha256::new(), position: 0, block: Vec::with_capacity(BLOCK) }
    }

    /// The next piece of contents, at `offset`. What lies between the last piece and this one is zero. Panics if pieces
    /// overlap or pass the size: that is a mistake of the caller, not of the file system.
    pub fn update(&mut self, offset: u64, mut data: &[u8]) {
        assert!(offset >= self.position, "contents out of order: {offset} after {}", self.position);
        assert!(offset + data.len() as u64 <= self.size, "contents past the size");
        if self.size <= PLAIN_LIMIT {
            self.plain_zeros(offset);
            self.hash.update(data);
            self.position = offset + data.len() as u64;
            return;
        }
        self.skip_to(offset);
        while !data.is_empty() {
            let take = data.len().min(BLOCK - self.block.len());
            self.block.extend_from_slice(&data[..take]);
            self.position += take as u64;
            data = &data[take..];
            if self.block.len() == BLOCK {
                self.finish_block();
            }
        }
    }

    /// The digest. Bytes that were not fed are zero.
    pub fn finish(mut self) -> String {
        let prefix = if self.size <= PLAIN_LIMIT {
            self.plain_zeros(self.size);
            "sha256"
        } else {
            self.skip_to(self.size);
            self.finish_block();
            "blocks"
        };
        format!("{prefix}:{}", hex(&self.hash.finalize()))
    }

    fn plain_zeros(&mut self, to: u64) {
        let zeros = [0u8; BLOCK];
        while self.position < to {
            let take = (to - self.position).min(BLOCK as u64);
            self.hash.update(&zeros[..take as usize]);
            self.position += take;
        }
    }

    /// Moves on over zeros, which complete a started block.
    fn skip_to(&mut self, offset: u64) {
        if offset == self.position {
            return;
        }
        let block_start = self.position - self.block.len() as u64;
        let end = offset.min(block_start + BLOCK as u64);
        self.block.resize((end - block_start) as usize, 0);
        self.position = end;
        if self.block.len() == BLOCK {
            self.finish_block();
        }
        if offset > self.position {
            self.position = offset - offset % BLOCK as u64;
            self.block.resize((offset - self.position) as usize, 0);
            self.position = offset;
        }
    }

    fn finish_block(&mut self) {
        if self.block.iter().any(|&b| b != 0) {
            let start = self.position - self.block.len() as u64;
            self.hash.update(start.to_le_bytes());
            self.hash.update(&self.block);
        }
        self.block.clear();
    }
}

/// `sha256:` and the digest of some bytes.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{ContentDigest, PLAIN_LIMIT, of_bytes};

    fn whole(data: &[u8]) -> String {
        let mut digest = ContentDigest::new(data.len() as u64);
        digest.update(0, data);
        digest.finish()
    }

    /// Feeds only what is not zero, in pieces that end anywhere.
    fn pieces(data: &[u8], step: usize) -> String {
        let mut digest = ContentDigest::new(data.len() as u64);
        for (n, piece) in data.chunks(step).enumerate() {
            if piece.iter().any(|&b| b != 0) {
                digest.update((n * step) as u64, piece);
            }
        }
        digest.finish()
    }

    #[test]
    fn holes_zeros_and_pieces_do_not_matter() {
        for size in [1, 4096, 5000, PLAIN_LIMIT as usize, PLAIN_LIMIT as usize + 1, 3_000_001] {
            let mut data = vec![0u8; size];
            for at in [0, 4095, 4096, 8191, 1_500_000, size - 1] {
                if at < size {
                    data[at] = at as u8 | 1;
                }
            }
            let expected = whole(&data);
            for step in [1000, 4096, 10_007] {
                assert_eq!(pieces(&data, step), expected, "{size} {step}");
            }
            data[size / 2] ^= 0x80;
            assert_ne!(whole(&data), expected, "{size}");
        }
    }

    #[test]
    fn position_and_size_matter() {
        let mut a = ContentDigest::new(1 << 30);
        a.update(4096, b"x");
        let mut b = ContentDigest::new(1 << 30);
        b.update(8192, b"x");
        assert_ne!(a.finish(), b.finish());
    }

    #[test]
    fn small_files_have_their_sha256() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(whole(b"abc"), known);
        assert_eq!(of_bytes(b"abc"), known);
    }
}
