//! Stand-ins for names that are encrypted on disk.
//!
//! Without the key a name is a string of random bytes. Users see it as printable text instead: [`PREFIX`] and the
//! base64url form of the ciphertext. A ciphertext too long for that is shown by its hash as stored in the directory,
//! the hash of its tail, and its head. Looking a stand-in up finds the entry again. Kept true: a stand-in is at most
//! 255 bytes, has no `/` and no NUL, and decoding it gives what it was made from.

use steadyfs_format::dir::name_hash;

/// How every stand-in begins.
const PREFIX: &[u8] = b"_enc_";
/// Bytes that the longest stand-in encodes.
const LONGEST: usize = (255 - PREFIX.len()) * 3 / 4;
/// Bytes of the head of a ciphertext that is too long to be encoded whole.
const HEAD: usize = LONGEST - 8;

/// What a stand-in stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// The whole ciphertext.
    Whole(Vec<u8>),
    /// A longer one.
    Part {
        /// Hash of the entry in the directory.
        hash: u32,
        /// Hash of everything after the head.
        tail: u32,
        /// Its first bytes.
        head: Vec<u8>,
    },
}

impl Proxy {
    /// Whether this entry of the directory is meant.
    pub(crate) fn matches(&self, entry_hash: u32, ciphertext: &[u8]) -> bool {
        match self {
            Proxy::Whole(bytes) => bytes == ciphertext,
            Proxy::Part { hash, tail, head } => {
                *hash == entry_hash
                    && ciphertext.split_at_checked(HEAD).is_some_and(|(h, t)| h == head && name_hash(t) == *tail)
            }
        }
    }

    /// The hash under which the entry lies in a directory that does not ignore case.
    pub(crate) fn hash(&self) -> u32 {
        match self {
            Proxy::Whole(bytes) => name_hash(bytes),
            Proxy::Part { hash, .. } => *hash,
        }
    }
}

/// The stand-in of a ciphertext whose entry has this hash.
pub(crate) fn encode(entry_hash: u32, ciphertext: &[u8]) -> Vec<u8> {
    if ciphertext.len() < LONGEST {
        return encrypted_text(ciphertext);
    }
    let (head, tail) = ciphertext.split_at(HEAD);
    encrypted_text(&[&entry_hash.to_le_bytes()[..], &name_hash(tail).to_le_bytes(), head].concat())
}

/// Encrypted bytes as printable text, as names and symlink targets show it.
pub(crate) fn encrypted_text(bytes: &[u8]) -> Vec<u8> {
    let mut text = PREFIX.to_vec();
    to_base64(bytes, &mut text);
    text
}

/// What a name stands for; `None` if it is no stand-in.
pub(crate) fn decode(name: &[u8]) -> Option<Proxy> {
    let bytes = from_base64(name.strip_prefix(PREFIX)?)?;
    if bytes.len() < LONGEST {
        return Some(Proxy::Whole(bytes));
    }
    let (hash, rest) = bytes.split_first_chunk()?;
    let (tail, head) = rest.split_first_chunk()?;
    (head.len() == HEAD).then(|| Proxy::Part {
        hash: u32::from_le_bytes(*hash),
        tail: u32::from_le_bytes(*tail),
        head: head.to_vec(),
    })
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends the base64url form, without padding.
fn to_base64(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (i, &byte)| word | u32::from(byte) << (16 - 8 * i));
        out.extend((0..=group.len()).map(|i| ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
    }
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut word = 0u32;
        for (i, letter) in group.iter().enumerate() {
            word |= (ALPHABET.iter().position(|a| a == letter)? as u32) << (18 - 6 * i);
        }
        let whole = group.len().checked_sub(1).filter(|&n| n > 0)?;
        if word & ((1 << (24 - 8 * whole)) - 1) != 0 {
            return None; // bits beyond the last whole byte: not something that encoding makes
        }
        bytes.extend(&word.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_stand_ins_decode() {
        assert_eq!(encode(0, b"\x00\xff\x10"), b"_enc_AP8Q");
        for bad in [&b"plain"[..], b"_enc_A", b"_enc_AB", b"_enc_A/AA", b"_enc_AP8Q="] {
            assert_eq!(decode(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    proptest! {
        #[test]
        fn a_stand_in_is_a_name_and_finds_its_entry(bytes in prop::collection::vec(any::<u8>(), 1..=255), hash: u32) {
            let name = encode(hash, &bytes);
            prop_assert!(name.len() <= 255 && !name.contains(&b'/') && !name.contains(&0));
            let proxy = decode(&name).unwrap();
            prop_assert!(proxy.matches(hash, &bytes));
            let mut other = bytes.clone();
            *other.last_mut().unwrap() ^= 1;
            prop_assert!(!proxy.matches(hash, &other));
        }

        #[test]
        fn any_text_decodes_to_what_encodes_to_it_or_to_nothing(text in "[A-Za-z0-9_-]{0,250}") {
            let name = [PREFIX, text.as_bytes()].concat();
            if let Some(Proxy::Whole(bytes)) = decode(&name) {
                prop_assert_eq!(encode(0, &bytes), name);
            }
        }
    }
}
