//! The records of pax extended headers that a copy uses: their bytes, times as decimals, xattr names, and the map of a
//! sparse file.
//!
//! The format is that of POSIX pax with the keys of star (`SCHILY.xattr.NAME`) and of GNU tar (`GNU.sparse.*`, format
//! 1.0), so that GNU tar and libarchive read what is written here. A header that is read may also have libarchive's own
//! xattrs.

use std::ops::Range;

use super::Time;
use crate::failure::Failure;

/// Prefix of the keys that hold xattrs.
pub(super) const XATTR: &[u8] = b"SCHILY.xattr.";
/// Prefix of libarchive's: the name is written as in a URL, the value in base 64.
pub(super) const LIBARCHIVE_XATTR: &[u8] = b"LIBARCHIVE.xattr.";
/// Tar's unit: headers, maps and data are padded to it.
pub(super) const RECORD: usize = 512;

/// Appends one record: its own length in decimal, a blank, `key=value` and a newline.
pub(super) fn push(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    // The length counts its own digits.
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Splits the data of a pax header into its records; `None` if it is not made of records.
pub(super) fn records(mut data: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !data.is_empty() && data[0] != 0 {
        let blank = data.iter().position(|b| *b == b' ')?;
        let length: usize = std::str::from_utf8(&data[..blank]).ok()?.parse().ok()?;
        let (record, rest) = data.split_at_checked(length)?;
        let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|b| *b == b'=')?;
        found.push((&record[..equals], &record[equals + 1..]));
        data = rest;
    }
    Some(found)
}

/// The key of an xattr: `=` would end it, so `=` and `%` are written as in a URL.
pub(super) fn xattr_key(name: &[u8]) -> Vec<u8> {
    let mut key = XATTR.to_vec();
    for byte in name {
        match byte {
            b'=' => key.extend_from_slice(b"%3D"),
            b'%' => key.extend_from_slice(b"%25"),
            _ => key.push(*byte),
        }
    }
    key
}

/// The xattr's name back from the part of the key after [`XATTR`].
pub(super) fn xattr_name(mut key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(key.len());
    while let Some((first, rest)) = key.split_first() {
        let (byte, rest) = match rest {
            [b'3', b'D' | b'd', rest @ ..] if *first == b'%' => (b'=', rest),
            [b'2', b'5', rest @ ..] if *first == b'%' => (b'%', rest),
            _ => (*first, rest),
        };
        name.push(byte);
        key = rest;
    }
    name
}

/// Bytes back from `%XX`; `None` if it is not that.
pub(super) fn from_url(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        text = rest;
        if *first == b'%' {
            let (digits, rest) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            text = rest;
        } else {
            bytes.push(*first);
        }
    }
    Some(bytes)
}

/// Bytes back from base 64, with or without `=` at the end; `None` if it is not that.
pub(super) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0u32, 0);
    for digit in &text[..end] {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // One digit alone says nothing.
    if count == 6 { None } else { Some(bytes) }
}

/// A decimal number; it may have a sign.
pub(super) fn number(text: &[u8]) -> Option<i128> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Decimal numbers, separated by commas.
pub(super) fn numbers(text: &[u8]) -> Option<Vec<u64>> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    text.split(|b| *b == b',').filter(|text| !text.is_empty()).map(number).collect()
}

/// The failure of a stream that is not made as it should be.
pub(super) fn damaged(what: &str) -> Failure {
    Failure::new(
        "cannot read the tar stream",
        format!("{what} is damaged, or this is not a tar file"),
        "check the archive",
    )
}

/// A time as a decimal number of seconds.
pub(super) fn decimal(time: Time) -> String {
    match (time.secs, time.nanos) {
        (seconds, 0) => seconds.to_string(),
        (seconds, nanos) if seconds >= 0 => format!("{seconds}.{nanos:09}"),
        // -1.25 is second -2 and 750,000,000 nanoseconds.
        (seconds, nanos) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanos),
    }
}

/// The time back from a decimal; digits below a nanosecond are cut off.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanos: u32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(match (negative, nanos) {
        (false, _) => Time { secs: seconds, nanos },
        (true, 0) => Time { secs: -seconds, nanos: 0 },
        (true, _) => Time { secs: -seconds - 1, nanos: 1_000_000_000 - nanos },
    })
}

/// The map at the head of a sparse file's data: the number of pieces, then offset and length of each, one number per
/// line, padded.
pub(super) fn sparse_map(extents: &[Range<u64>], size: u64) -> Vec<u8> {
    let mut pieces: Vec<(u64, u64)> = extents.iter().map(|e| (e.start, e.end - e.start)).collect();
    if extents.last().is_none_or(|last| last.end < size) {
        pieces.push((size, 0)); // says where the hole at the end ends
    }
    let mut map = format!("{}\n", pieces.len());
    for (offset, length) in pieces {
        map.push_str(&format!("{offset}\n{length}\n"));
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(RECORD), 0);
    map
}

/// Reads the map, record by record; `None` if it is not one. The pieces must ascend and end at `size` or before.
pub(super) fn read_sparse_map(
    size: u64,
    mut next_record: impl FnMut() -> std::io::Result<[u8; RECORD]>,
) -> std::io::Result<Option<Vec<Range<u64>>>> {
    let mut record = next_record()?;
    let mut at = 0;
    let mut number = || -> std::io::Result<Option<u64>> {
        let mut value: u64 = 0;
        for digits in 0.. {
            if at == RECORD {
                record = next_record()?;
                at = 0;
            }
            let byte = record[at];
            at += 1;
            match byte {
                b'\n' if digits > 0 => return Ok(Some(value)),
                b'0'..=b'9' if digits < 20 => {
                    match value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0'))) {
                        Some(larger) => value = larger,
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    };
    let Some(count) = number()? else { return Ok(None) };
    let mut extents: Vec<Range<u64>> = Vec::new();
    for _ in 0..count {
        let (Some(offset), Some(length)) = (number()?, number()?) else { return Ok(None) };
        let after = extents.last().map_or(0, |last| last.end);
        let Some(end) = offset.checked_add(length) else { return Ok(None) };
        if offset < after || end > size {
            return Ok(None);
        }
        if length > 0 {
            extents.push(offset..end);
        }
    }
    Ok(Some(extents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        let record = |key: &str, value: &str| {
            let mut out = Vec::new();
            push(&mut out, key.as_bytes(), value.as_bytes());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(record("a", "b"), "6 a=b\n");
        assert_eq!(record("abcd", "de"), "11 abcd=de\n");
        assert_eq!(record("abc", "de"), "9 abc=de\n");
        for n in 80..110 {
            let text = record("k", &"v".repeat(n));
            assert_eq!(text.len().to_string(), text.split(' ').next().unwrap());
        }
    }

    #[test]
    fn values_may_hold_anything() {
        let mut data = Vec::new();
        push(&mut data, b"path", b"a\nb=c d");
        push(&mut data, b"SCHILY.xattr.user.x", b"\0\n\xff 5 x=y\n");
        push(&mut data, b"empty", b"");
        let expected: Vec<(&[u8], &[u8])> =
            vec![(b"path", b"a\nb=c d"), (b"SCHILY.xattr.user.x", b"\0\n\xff 5 x=y\n"), (b"empty", b"")];
        assert_eq!(records(&data), Some(expected));
        for broken in [&b"x"[..], b"99 a=b\n", b"6 a=b ", b"5 ab\n", b"2 a=b\n", b"-1 a=b\n", b"0 a=b\n"] {
            assert_eq!(records(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn times_are_decimals() {
        for (seconds, nanos, text) in [
            (0, 0, "0"),
            (5, 0, "5"),
            (5, 250_000_000, "5.250000000"),
            (-5, 0, "-5"),
            (-2, 750_000_000, "-1.250000000"),
            (-1, 1, "-0.999999999"),
            (i64::from(u32::MAX) + 1, 1, "4294967296.000000001"),
        ] {
            let value = Time { secs: seconds, nanos };
            assert_eq!(decimal(value), text);
            assert_eq!(time(text.as_bytes()), Some(value), "{text}");
        }
        assert_eq!(time(b"1.5"), Some(Time { secs: 1, nanos: 500_000_000 }));
        assert_eq!(time(b"1.0000000019"), Some(Time { secs: 1, nanos: 1 }));
        for text in ["", "-", ".5", "1e5", "1.+5", "nan", "99999999999999999999"] {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn any_xattr_name_makes_a_key() {
        for name in [&b"user.plain"[..], b"user.a=b", b"user.100%", b"user.%3D", b"user.\xff%"] {
            let key = xattr_key(name);
            assert!(!key.contains(&b'='));
            assert_eq!(xattr_name(key.strip_prefix(XATTR).unwrap()), name);
        }
    }

    #[test]
    fn what_libarchive_encodes() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Yg", b"b"),
            ("Yg==", b"b"),
            ("Y3R4", b"ctx"),
            ("//79", b"\xff\xfe\xfd"),
            ("AAE", b"\0\x01"),
        ] {
            assert_eq!(from_base64(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!((from_base64(b"Y"), from_base64(b"Y!Jk")), (None, None));
        assert_eq!(from_url(b"user.a%3Db%25").as_deref(), Some(&b"user.a=b%"[..]));
        assert_eq!((from_url(b"user.%"), from_url(b"user.%4"), from_url(b"user.%zz")), (None, None, None));
    }

    fn parse(bytes: &[u8], size: u64) -> Option<Vec<Range<u64>>> {
        let mut records = bytes.chunks(RECORD);
        read_sparse_map(size, || {
            let mut record = [0; RECORD];
            let chunk = records.next().ok_or(std::io::ErrorKind::UnexpectedEof)?;
            record[..chunk.len()].copy_from_slice(chunk);
            Ok(record)
        })
        .ok()
        .flatten()
    }

    #[test]
    fn sparse_maps() {
        for (extents, size) in
            [(vec![], 0), (vec![], 9), (vec![0..4096, 8192..10_000], 10_000), (vec![4096..8192, 9000..9001], 1 << 40)]
        {
            let map = sparse_map(&extents, size);
            assert_eq!(map.len() % RECORD, 0);
            assert_eq!(parse(&map, size), Some(extents));
        }
        let many: Vec<_> = (0..1000).map(|i| i * 8192..i * 8192 + 4096).collect();
        assert_eq!(parse(&sparse_map(&many, 1 << 30), 1 << 30), Some(many));
    }

    #[test]
    fn maps_that_lie() {
        for (text, size) in [
            ("", 10),
            ("x\n", 10),
            ("1\n5\n", 10),
            ("1\n5\n6\n", 10),
            ("2\n5\n2\n4\n1\n", 10),
            ("1\n18446744073709551615\n1\n", u64::MAX),
            ("99999999999999999999999\n", 10),
            ("18446744073709551615\n0\n0\n", 10),
        ] {
            assert_eq!(parse(text.as_bytes(), size), None, "{text}");
        }
    }
}
