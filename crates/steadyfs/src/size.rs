//! Sizes as people write and read them: `4G`, `512KiB`, `1.5 GiB`.

use std::str::FromStr;

/// Suffixes and what they multiply by: one letter or `iB` is binary, `B` alone with a letter is decimal, as in
/// coreutils.
const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// Decimals that count: with this many, less than two bytes of the largest unit are lost.
const DECIMALS: usize = 18;

/// A number of bytes given as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let malformed = || "a size is a number with an optional suffix, such as 4G or 1.5G".to_owned();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // A part of a byte is nothing.
        let of_bytes = suffix.is_empty() && number.contains('.');
        if !is_number(whole) || !is_number(fraction) || of_bytes {
            return Err(malformed());
        }
        let unit = multiplier(suffix)
            .ok_or_else(|| format!("unknown suffix `{suffix}`; use K, M, G or T (powers of 1024)"))?;
        let too_large = || "larger than 16 EiB".to_owned();
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let whole = whole.checked_mul(unit).ok_or_else(too_large)?;
        whole.checked_add(fraction_of(fraction, unit)).map(Size).ok_or_else(too_large)
    }
}

/// What the decimals behind a point are of `unit` bytes, rounded down.
fn fraction_of(decimals: &str, unit: u64) -> u64 {
    let decimals = &decimals[..decimals.len().min(DECIMALS)];
    let digits = decimals.bytes().fold(0, |number: u128, digit| number * 10 + u128::from(digit - b'0'));
    (digits * u128::from(unit) / 10u128.pow(decimals.len() as u32)) as u64
}

fn multiplier(suffix: &str) -> Option<u64> {
    let mut chars = suffix.chars();
    let Some(letter) = chars.next() else { return Some(1) };
    let power = UNITS.iter().position(|u| *u == letter.to_ascii_uppercase())? as u32 + 1;
    match chars.as_str() {
        "" | "iB" => 1024u64.checked_pow(power),
        "B" => 1000u64.checked_pow(power),
        _ => None,
    }
}

/// A number of bytes for a person: three significant digits and a binary unit.
pub(crate) fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let places = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.places$} {}iB", UNITS[unit])
}

/// A number of bytes in few letters, rounded up, as `ls -h` and `du -h` show it: `1.5M`.
pub(crate) fn short(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let (mut unit, mut letter) = (1024_u128, 0);
    let tenths = |unit: u128| (u128::from(bytes) * 10).div_ceil(unit);
    while tenths(unit) > 10_230 && letter + 1 < UNITS.len() {
        unit *= 1024;
        letter += 1;
    }
    match tenths(unit) {
        few if few < 100 => format!("{}.{}{}", few / 10, few % 10, UNITS[letter]),
        many => format!("{}{}", many.div_ceil(10), UNITS[letter]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1K", 1024),
            ("64M", 64 << 20),
            ("4g", 4 << 30),
            ("2TiB", 2 << 40),
            ("3MB", 3_000_000),
            ("15E", 15 << 60),
            ("1.5G", 3 << 29),
            ("0.5M", 1 << 19),
            ("2.25TiB", 9 << 38),
            ("1.10K", 1126),
            ("1.5MB", 1_500_000),
            ("0.999999999999999999999999999999K", 1023),
            ("15.999E", (15 << 60) + 1_151_768_583_102_240_129),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "1.5",
            "1.G",
            ".5G",
            "1.5.5G",
            "1,5G",
            "4 G",
            "4X",
            "4GiBs",
            "16E",
            "15.9999999999999999999999E0",
            "99999999999999999999",
            "4é",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn for_narrow_columns() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_188, "10K"),
            (10_239, "10K"),
            (10_241, "11K"),
            (1_047_553, "1.0M"),
            (3 << 29, "1.5G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(short(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10 << 20, "10.0 MiB"),
            (100 << 30, "100 GiB"),
            ((1 << 40) - 1, "1.00 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
