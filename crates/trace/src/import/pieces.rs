//! Which pieces of a disk are used, and where each lies in a file that has nothing but these.
//!
//! Pieces keep their order, so what lies side by side on the disk does so in the file, and every operation stays in one
//! piece or in neighbours. What nobody uses takes no room.

use std::collections::BTreeSet;

/// Bytes of a piece: small enough that a file is not much longer than what is used, large enough for few of them.
const PIECE: u64 = 64 << 10;
/// The most pieces of a trace: 256 GiB.
const MOST: usize = 1 << 22;

/// The pieces of one disk or file that are used.
#[derive(Default)]
pub(super) struct Pieces {
    used: BTreeSet<u64>,
    /// The same, rising, once all are known.
    sealed: Vec<u64>,
}

/// Refuses more pieces than a trace may have.
pub(super) fn check(count: usize) -> Result<(), String> {
    if count > MOST {
        return Err(format!("more than {} GiB are used; take a part", (MOST as u64 * PIECE) >> 30));
    }
    Ok(())
}

impl Pieces {
    /// These bytes are used; how many pieces were not before.
    pub(super) fn add(&mut self, offset: u64, size: u64) -> usize {
        let (first, last) = (offset / PIECE, (offset + size - 1) / PIECE);
        (first..=last).filter(|piece| self.used.insert(*piece)).count()
    }

    /// All are known.
    pub(super) fn seal(&mut self) {
        self.sealed = std::mem::take(&mut self.used).into_iter().collect();
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.sealed.len() as u64 * PIECE
    }

    /// Where a byte of the disk lies in the file; of a piece that is not used, where the next one begins.
    pub(super) fn place(&self, byte: u64) -> u64 {
        match self.sealed.binary_search(&(byte / PIECE)) {
            Ok(place) => place as u64 * PIECE + byte % PIECE,
            Err(place) => place as u64 * PIECE,
        }
    }
}
