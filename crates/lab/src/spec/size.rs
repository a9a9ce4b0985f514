//! Sizes in the files of experiments, and the scale of a run.

use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::str::FromStr;

/// A number of bytes: a whole number, or text with a suffix as in fio: `4K`, `583M` and `30G` are powers of 1024,
/// `120GB` of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub(crate) struct Size(u64);

impl Size {
    /// The number of bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.0
    }

    /// So many bytes.
    pub(crate) const fn of(bytes: u64) -> Self {
        Size(bytes)
    }

    /// A part of this size, in whole units of `unit` bytes, at least one.
    pub(crate) fn times(self, factor: f64, unit: u64) -> Self {
        assert!(factor > 0.0 && unit > 0);
        Size(((self.0 as f64 * factor) as u64 / unit * unit).max(unit))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a size such as 4096, 4K, 583M, 30G or 120GB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let mut letters = suffix.chars();
        let power = match letters.next().map(|c| c.to_ascii_uppercase()) {
            None => 0,
            Some(c) => "KMGT".find(c).ok_or_else(bad)? as u32 + 1,
        };
        let base: u64 = match letters.as_str() {
            "" | "iB" => 1024,
            "B" => 1000,
            _ => return Err(bad()),
        };
        number.checked_mul(base.pow(power)).map(Size).ok_or_else(bad)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 4096 or \"583M\"")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom("a size is not negative"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// How large a run is beside the experiment as it is written: a fraction, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scale {
    part: u64,
    of: u64,
}

impl Scale {
    /// As it is written.
    pub const FULL: Scale = Scale { part: 1, of: 1 };

    /// Whether nothing becomes smaller.
    pub fn is_full(self) -> bool {
        self.part == self.of
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.part as f64 / self.of as f64
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_full() { f.write_str("1") } else { write!(f, "{}/{}", self.part, self.of) }
    }
}

impl TryFrom<String> for Scale {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Scale> for String {
    fn from(scale: Scale) -> Self {
        scale.to_string()
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a scale such as 1 or 1/16");
        let (part, of) = text.split_once('/').unwrap_or((text, "1"));
        let (part, of): (u64, u64) = (part.parse().map_err(|_| bad())?, of.parse().map_err(|_| bad())?);
        if part == 0 || part > of || of > 1 << 20 { Err(bad()) } else { Ok(Scale { part, of }) }
    }
}
