//! Comparing names without regard to case, for directories that were marked so on another system.
//!
//! Only reading is supported there, so exactness matters less than finding what the user means: characters are compared
//! by their full upper- then lower-case mapping, without decomposing accents. Names that are not UTF-8 compare byte by
//! byte (format section 8.2).

/// Whether both names are the same but for case.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    match (std::str::from_utf8(a), std::str::from_utf8(b)) {
        (Ok(a), Ok(b)) => folded(a).eq(folded(b)),
        _ => a == b,
    }
}

/// The folded form of an ASCII name, which is the same under every version of the Unicode tables; `None` for other
/// names.
pub(crate) fn ascii(name: &[u8]) -> Option<Vec<u8>> {
    name.is_ascii().then(|| name.to_ascii_lowercase())
}

fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_and_bytes_do() {
        assert!(same(b"ReadMe.TXT", b"README.txt"));
        assert!(same("Straße".as_bytes(), "STRASSE".as_bytes()));
        assert!(same("ÀÉÎ".as_bytes(), "àéî".as_bytes()));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"abcd"));
        assert!(same(b"\xff\xfe", b"\xff\xfe") && !same(b"\xffA", b"\xffa"));
        assert_eq!(ascii(b"ABC.x").as_deref(), Some(&b"abc.x"[..]));
        assert_eq!(ascii("É".as_bytes()), None);
    }
}
