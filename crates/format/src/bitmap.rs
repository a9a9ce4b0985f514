//! Bits in bytes, in the format's two orders: the one place that knows which is which.
//!
//! [`msb`]: bit `n` is mask `0x80 >> n % 8` of byte `n / 8`. SIT valid maps and the version bitmaps of SIT and NAT.
//! [`lsb`]: bit `n` is mask `1 << n % 8` of byte `n / 8`. Directory bitmaps and `nat_bits`.
//!
//! A read past the end of the bytes is an unset bit; a write past the end panics, because only the program chooses what
//! it writes.

/// The eight bytes from `at` on; zeros where there are none.
fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    if let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        return *eight;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    std::array::from_fn(|n| rest.get(n).copied().unwrap_or(0))
}

macro_rules! order {
    ($(#[$doc:meta])* $name:ident, $n:ident => $mask:expr, $word:ident, $behind:ident, $before_first:ident) => {
        $(#[$doc])*
        pub mod $name {
            const fn mask($n: usize) -> u8 {
                $mask
            }

            /// Whether bit `n` is set; bits past the end are not.
            pub fn get(bytes: &[u8], n: usize) -> bool {
                bytes.get(n / 8).is_some_and(|byte| byte & mask(n) != 0)
            }

            /// Sets bit `n` to `value` and returns what it was.
            ///
            /// # Panics
            /// If the bit lies past the end.
            pub fn replace(bytes: &mut [u8], n: usize, value: bool) -> bool {
                let byte = &mut bytes[n / 8];
                let old = *byte & mask(n) != 0;
                if value {
                    *byte |= mask(n);
                } else {
                    *byte &= !mask(n);
                }
                old
            }

            /// Sets bit `n` to `value`.
            ///
            /// # Panics
            /// If the bit lies past the end.
            pub fn put(bytes: &mut [u8], n: usize, value: bool) {
                replace(bytes, n, value);
            }

            /// Sets or clears `count` bits from bit `first` on.
            ///
            /// # Panics
            /// If the run lies past the end.
            pub fn fill(bytes: &mut [u8], first: usize, count: usize, value: bool) {
                for n in first..first + count {
                    put(bytes, n, value);
                }
            }

            /// The first bit at or after `from` and before `end` that has this value, if any; bits past the bytes are
            /// unset.
            pub fn find(bytes: &[u8], from: usize, end: usize, value: bool) -> Option<usize> {
                let (mut first, mut skip) = (from / 64 * 64, from % 64);
                while first < end {
                    let word = u64::$word(super::eight(bytes, first / 8));
                    let wanted = (if value { word } else { !word }) & u64::MAX.$behind(skip as u32);
                    if wanted != 0 {
                        let found = first + wanted.$before_first() as usize;
                        return (found < end).then_some(found);
                    }
                    (first, skip) = (first + 64, 0);
                }
                None
            }
        }
    };
}

order! {
    /// Most significant bit first.
    msb, n => 0x80 >> (n % 8), from_be_bytes, unbounded_shr, leading_zeros
}
order! {
    /// Least significant bit first.
    lsb, n => 1 << (n % 8), from_le_bytes, unbounded_shl, trailing_zeros
}

/// Number of set bits.
pub fn count_ones(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: u32 = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones()).sum();
    of_words + rest.iter().map(|byte| byte.count_ones()).sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_two_orders_differ() {
        let mut bytes = [0u8; 2];
        msb::put(&mut bytes, 1, true);
        lsb::put(&mut bytes, 8, true);
        assert_eq!(bytes, [0x40, 0x01]);
        assert!(msb::get(&bytes, 1) && !msb::get(&bytes, 8) && lsb::get(&bytes, 8));
        assert!(!msb::get(&bytes, 16) && !lsb::get(&bytes, 1000));
    }

    proptest! {
        #[test]
        fn find_agrees_with_a_plain_scan(bytes: Vec<u8>, from in 0usize..80, end in 0usize..80, value: bool) {
            for (find, get) in [(msb::find as fn(&[u8], usize, usize, bool) -> Option<usize>, msb::get as fn(&[u8], usize) -> bool), (lsb::find, lsb::get)] {
                let plain = (from..end).find(|&n| get(&bytes, n) == value);
                prop_assert_eq!(find(&bytes, from, end, value), plain);
            }
        }

        #[test]
        fn put_changes_one_bit(mut bytes in prop::collection::vec(any::<u8>(), 1..20), n: prop::sample::Index, value: bool) {
            let n = n.index(bytes.len() * 8);
            let before: Vec<bool> = (0..bytes.len() * 8).map(|i| msb::get(&bytes, i)).collect();
            prop_assert_eq!(msb::replace(&mut bytes, n, value), before[n]);
            for (i, &old) in before.iter().enumerate() {
                prop_assert_eq!(msb::get(&bytes, i), if i == n { value } else { old });
            }
            let ones = (0..bytes.len() * 8).filter(|&i| lsb::get(&bytes, i)).count() as u32;
            prop_assert_eq!(count_ones(&bytes), ones);
        }
    }
}
