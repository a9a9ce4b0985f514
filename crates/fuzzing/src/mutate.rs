//! Changing bytes: what turns a sound structure into a bad one.

use crate::rng::Rng;

/// Numbers at which code goes wrong: bounds of types, marks of the format, and their neighbours.
pub const AWKWARD: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    8,
    54,
    55,
    63,
    64,
    255,
    256,
    454,
    455,
    511,
    512,
    513,
    1018,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFD,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
    u64::MAX,
];

/// Makes one to eight changes to `bytes`; sometimes replaces them altogether. The length stays, except that one change
/// cuts the end off.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() || rng.below(16) == 0 {
        *bytes = rng.bytes(bytes.len().max(64));
        return;
    }
    for _ in 0..=rng.below(8) {
        change(rng, bytes);
    }
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = place(rng, bytes.len());
    match rng.below(16) {
        0..4 => bytes[at] ^= 1 << rng.below(8),
        4..6 => bytes[at] = rng.number() as u8,
        6..13 => {
            let number = AWKWARD[rng.below(AWKWARD.len())].to_le_bytes();
            let width = [1, 2, 2, 4, 4, 4, 8][rng.below(7)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        13 => {
            let length = 1 + rng.below(64.min(bytes.len() - at));
            let fill = [0x00, 0xFF, rng.number() as u8][rng.below(3)];
            bytes[at..at + length].fill(fill);
        }
        14 => {
            let from = rng.below(bytes.len());
            let length = rng.below(256.min(bytes.len() - from.max(at)) + 1);
            bytes.copy_within(from..from + length, at);
        }
        _ if rng.below(4) == 0 => bytes.truncate(at),
        _ => bytes[at] = bytes[at].wrapping_add(1),
    }
}

/// A place in `length` bytes: half of them in the first 64, where the fields of most structures are.
fn place(rng: &mut Rng, length: usize) -> usize {
    if rng.below(2) == 0 { rng.below(length.min(64)) } else { rng.below(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_changes_change_and_none_fails() {
        let mut changed = 0;
        for number in 0..2000 {
            let mut rng = Rng::of("mutate", number);
            let before = vec![7; rng.below(300)];
            let mut after = before.clone();
            mutate(&mut rng, &mut after);
            changed += usize::from(after != before);
            assert!(after.len() <= before.len().max(64));
        }
        assert!(changed > 1800, "{changed}");
    }
}
