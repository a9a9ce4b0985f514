//! The hash that decides where in a directory a name lives: 16 rounds of TEA over groups of 16 bytes. Format section
//! 8.2.

const DELTA: u32 = 0x9E37_79B9;
const ROUNDS: u32 = 16;
const GROUP: usize = 16;

/// The hash of a name in a directory that minds case. The dot entries hash to 0.
pub fn name_hash(name: &[u8]) -> u32 {
    if name == b"." || name == b".." {
        return 0;
    }
    let mut state = (0x6745_2301, 0xEFCD_AB89);
    let mut rest = name;
    loop {
        state = mix(state, words(rest));
        if rest.len() <= GROUP {
            return state.0;
        }
        rest = &rest[GROUP..];
    }
}

/// Four words of the next group; where bytes are missing, the count of bytes left stands in.
fn words(rest: &[u8]) -> [u32; 4] {
    let pad = u32::from_le_bytes([rest.len() as u8; 4]);
    let mut words = [pad; 4];
    for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
        *word = bytes.iter().fold(pad, |word, &byte| (word << 8).wrapping_add(u32::from(byte)));
    }
    words
}

fn mix((h0, h1): (u32, u32), [a, b, c, d]: [u32; 4]) -> (u32, u32) {
    let (mut p, mut q, mut sum) = (h0, h1, 0u32);
    for _ in 0..ROUNDS {
        sum = sum.wrapping_add(DELTA);
        p = p.wrapping_add((q << 4).wrapping_add(a) ^ q.wrapping_add(sum) ^ (q >> 5).wrapping_add(b));
        q = q.wrapping_add((p << 4).wrapping_add(c) ^ p.wrapping_add(sum) ^ (p >> 5).wrapping_add(d));
    }
    (h0.wrapping_add(p), h1.wrapping_add(q))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let vectors: [(&[u8], u32); 13] = [
            (b"a", 0x6d0e_a4c1),
            (b"ab", 0xd27d_8659),
            (b"hello", 0x6f5b_b1a8),
            (b"README.md", 0x0e23_01b1),
            (b"0123456789abcdef", 0x5a07_88b2),
            (b"0123456789abcdefg", 0xfb1a_23ec),
            (&[b'x'; 32], 0x4235_b328),
            (&[b'y'; 255], 0x2325_ef57),
            ("é".as_bytes(), 0x6daf_7c01),
            (&[0xff, 0xfe], 0xbca8_6311),
            (b".", 0),
            (b"..", 0),
            // A dot entry is told by the whole name, not by its beginning.
            (b"...", name_hash(b"...")),
        ];
        for (name, hash) in vectors {
            assert_eq!(name_hash(name), hash, "{}", String::from_utf8_lossy(name));
        }
        assert_ne!(name_hash(b"..."), 0);
    }
}
