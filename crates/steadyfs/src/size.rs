//! Sizes as people write and read them: `4G`, `512KiB`, `1.5 GiB`.

use std::str::FromStr;

/// Suffixes and what they multiply by: one letter or `iB` is binary, `B` alone with a letter is decimal, as in coreutils.
const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// A number of bytes given as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let number: u64 =
            number.parse().map_err(|_| "a size is a whole number with an optional suffix, such as 4G".to_owned())?;
        let unit = multiplier(suffix)
            .ok_or_else(|| format!("unknown suffix `{suffix}`; use K, M, G or T (powers of 1024)"))?;
        number.checked_mul(unit).map(Size).ok_or_else(|| "larger than 16 EiB".to_owned())
    }
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
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "-1", "1.5G", "4 G", "4X", "4GiBs", "16E", "99999999999999999999", "4é"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
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
