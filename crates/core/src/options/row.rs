//! What a table of mount options is made of: one row declares an option's name, its values, its help and its setter.
//!
//! Parsing, printing and every list of options come from rows; nothing else knows the name of an option. The tables
//! are [`crate::OPTIONS`] of the file system, and those of the mount and of the command, for targets of their own.
//!
//! Kept true: what a row prints of a target, the same row parses, and that leaves the target as it was.

use std::fmt;

/// For whom an option is: which page lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// For every user: `mount --help`.
    Everyday,
    /// What F2FS and mount(8) have, for lines of `/etc/fstab`: the manual page.
    F2fs,
    /// Techniques to compare with each other, for experiments: the pages of the lab.
    Research,
    /// Planted faults. Only builds for tests have them, and no page does.
    Planted,
}

/// One option of a table for the target `T`.
#[derive(Debug)]
pub struct Row<T: 'static> {
    /// Its name; the first word where [`Values::Flags`] has several.
    pub name: &'static str,
    /// Names that it also has; of rows with values only.
    pub aliases: &'static [&'static str],
    /// Its possible values.
    pub values: Values<T>,
    /// For whom it is.
    pub tier: Tier,
    /// Its effect, as a clause. Empty if another table has a row of the same name, which says it.
    pub help: &'static str,
}

/// Reads a setting of the target. `None`: it is as no value of this row says.
pub type Get<T, V> = fn(&T) -> Option<V>;

/// The values of an option, how to set each, and how to read back which is set.
#[derive(Debug)]
pub enum Values<T> {
    /// Words that stand alone, like `ro` and `rw`, by their places.
    Flags {
        /// The words. Of two that mean the same, the first is printed.
        words: &'static [&'static str],
        /// Sets the word of this place.
        set: fn(&mut T, usize),
        /// The place of the word that is set.
        get: Get<T, usize>,
    },
    /// `NAME=WORD`, by the places of the words.
    Words {
        /// The words. Of two that mean the same, the first is printed.
        words: &'static [&'static str],
        /// Sets the word of this place.
        set: fn(&mut T, usize),
        /// The place of the word that is set.
        get: Get<T, usize>,
    },
    /// `NAME=NUMBER`.
    Number {
        /// Its unit, for lists: `SECONDS`.
        unit: &'static str,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// Sets it.
        set: fn(&mut T, u64),
        /// Reads it.
        get: Get<T, u64>,
    },
    /// `NAME=SIZE`, in bytes, with an optional suffix K, M, G or T (powers of 1024).
    Size {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// Sets it.
        set: fn(&mut T, u64),
        /// Reads it.
        get: Get<T, u64>,
    },
    /// `NAME=TEXT` in a form of its own.
    Text {
        /// The form, for lists: `N|cores`.
        form: &'static str,
        /// The allowed texts, as a phrase.
        allowed: &'static str,
        /// Sets it; `None` if the text is not allowed.
        set: fn(&mut T, &str) -> Option<()>,
        /// Reads it, in a form that `set` takes.
        get: Get<T, String>,
    },
}

/// A refused value of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mount option {option}: {allowed}")]
pub struct Refusal {
    /// The option as it was given.
    pub option: String,
    /// The allowed values, as a clause.
    pub allowed: String,
}

/// What a page says of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Every name with its values: `ro, rw` or `mode=lfs|adaptive`.
    pub spelled: String,
    /// For whom it is.
    pub tier: Tier,
    /// Its effect, and the default value if one is printed for it.
    pub help: String,
}

/// The name of an option, and its value if it has one.
pub fn split(option: &str) -> (&str, Option<&str>) {
    option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)))
}

/// Applies one option (`name` or `name=value`) by the row that has its name; false if none has.
///
/// # Errors
/// A value that the row does not allow. The target is then as it was.
pub fn apply<T>(rows: &[Row<T>], target: &mut T, option: &str) -> Result<bool, Refusal> {
    let (name, value) = split(option);
    let mut allowed = Vec::new();
    for row in rows.iter().filter(|row| row.has_name(name)) {
        if row.set(target, name, value).is_some() {
            return Ok(true);
        }
        allowed.push(row.allowed());
    }
    if allowed.is_empty() {
        return Ok(false);
    }
    Err(Refusal { option: option.to_owned(), allowed: format!("want {}", allowed.join(", or ")) })
}

/// The options that make `target` of `base`, as a list that [`apply`] takes one by one. Rows that stand for several
/// settings come first in a table, so that the others add what differs.
pub fn differences<T>(rows: &[Row<T>], target: &T, mut base: T) -> Vec<String> {
    let mut list = Vec::new();
    for row in rows {
        if let Some(option) = row.print(target)
            && row.print(&base).as_ref() != Some(&option)
            && apply(rows, &mut base, &option).is_ok()
        {
            list.push(option);
        }
    }
    list
}

/// What pages say of the options of a table, in its order; rows without help are left out.
pub fn entries<T>(rows: &[Row<T>], default: &T) -> Vec<Entry> {
    rows.iter().filter(|row| !row.help.is_empty()).map(|row| row.entry(default)).collect()
}

impl<T> Row<T> {
    /// Whether an option of this name belongs to this row.
    pub fn has_name(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    /// Every name of its options.
    pub fn names(&self) -> Vec<&'static str> {
        match &self.values {
            Values::Flags { words, .. } => words.to_vec(),
            _ => [self.name].into_iter().chain(self.aliases.iter().copied()).collect(),
        }
    }

    /// Applies a value; `None` if it is not allowed.
    fn set(&self, target: &mut T, name: &str, value: Option<&str>) -> Option<()> {
        let place = |words: &[&str], word: &str| words.iter().position(|known| *known == word);
        match (&self.values, value) {
            (Values::Flags { words, set, .. }, None) => set(target, place(words, name)?),
            (Values::Words { words, set, .. }, Some(word)) => set(target, place(words, word)?),
            (Values::Number { least, most, set, .. }, Some(text)) => {
                let number = text.parse().ok().filter(|number| (*least..=*most).contains(number))?;
                set(target, number);
            }
            (Values::Size { least, most, set, .. }, Some(text)) => {
                let bytes = parse_size(text).filter(|bytes| (*least..=*most).contains(bytes))?;
                set(target, bytes);
            }
            (Values::Text { set, .. }, Some(text)) => set(target, text)?,
            _ => return None,
        }
        Some(())
    }

    /// The option as it is set, in the form of a `-o` list. `None`: it is as no value of this row says.
    pub fn print(&self, target: &T) -> Option<String> {
        let text = match &self.values {
            Values::Flags { words, get, .. } => return get(target).map(|at| words[at].to_owned()),
            Values::Words { words, get, .. } => words[get(target)?].to_owned(),
            Values::Number { get, .. } => get(target)?.to_string(),
            Values::Size { get, .. } => Size(get(target)?).to_string(),
            Values::Text { get, .. } => get(target)?,
        };
        Some(format!("{}={text}", self.name))
    }

    /// The values that are allowed, as a phrase.
    pub fn allowed(&self) -> String {
        match &self.values {
            Values::Flags { .. } => "no value".to_owned(),
            Values::Words { words, .. } => match words {
                [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                words => words.concat(),
            },
            Values::Number { least, most: u64::MAX, .. } => format!("a number, {least} or more"),
            Values::Number { least, most, .. } => format!("a number from {least} to {most}"),
            Values::Size { least: 0, most: u64::MAX, .. } => "a size such as 64M".to_owned(),
            Values::Size { least, most, .. } => format!("a size from {} to {}", Size(*least), Size(*most)),
            Values::Text { allowed, .. } => (*allowed).to_owned(),
        }
    }

    /// What a page says of it.
    fn entry(&self, default: &T) -> Entry {
        let valued = |form: &str| {
            let aliases = self.aliases.iter().map(|alias| format!(", {alias}=...")).collect::<String>();
            format!("{}={form}{aliases}", self.name)
        };
        let spelled = match &self.values {
            Values::Flags { words, .. } => words.join(", "),
            Values::Words { words, .. } => valued(&words.join("|")),
            Values::Number { unit, .. } => valued(unit),
            Values::Size { .. } => valued("SIZE"),
            Values::Text { form, .. } => valued(form),
        };
        let shown = self.print(default).map(|option| split(&option).1.unwrap_or(&option).to_owned());
        let help = shown.map_or(self.help.to_owned(), |default| format!("{} (default: {default})", self.help));
        Entry { spelled, tier: self.tier, help }
    }
}

/// A size in bytes as [`parse_size`] reads it: with the largest suffix that leaves a whole number.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        let fits = |(_, shift): &(&str, u32)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift;
        let (suffix, shift) = SUFFIXES.into_iter().rev().find(fits).unwrap_or(("", 0));
        write!(f, "{}{suffix}", bytes >> shift)
    }
}

const SUFFIXES: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// A size in bytes with an optional suffix K, M, G or T (powers of 1024), of either case.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let suffixed = |(suffix, shift): (&str, u32)| {
        let digits = text.strip_suffix(suffix).or_else(|| text.strip_suffix(&suffix.to_ascii_lowercase()))?;
        Some((digits, shift))
    };
    let (digits, shift) = SUFFIXES.into_iter().find_map(suffixed).unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `Values` of a kind with words: each word with the value that it gives a place of the target.
#[doc(hidden)]
#[macro_export]
macro_rules! option_words {
    ($kind:ident, $($place:ident).+, { $($word:literal => $value:expr),+ $(,)? }) => {
        Values::$kind {
            words: &[$($word),+],
            set: |target, at| target.$($place).+ = [$($value),+][at],
            get: |target| [$($value),+].iter().position(|value| *value == target.$($place).+),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Target {
        on: bool,
        size: u64,
        level: u64,
    }

    const ROWS: &[Row<Target>] = &[
        Row {
            name: "preset",
            aliases: &["p"],
            values: Values::Words {
                words: &["small", "large"],
                set: |target, at| *target = Target { size: [1 << 20, 1 << 30][at], ..*target },
                get: |target| [1 << 20, 1 << 30].iter().position(|size| *size == target.size),
            },
            tier: Tier::Everyday,
            help: "a preset",
        },
        Row {
            name: "on",
            aliases: &[],
            values: option_words!(Flags, on, { "on" => true, "off" => false }),
            tier: Tier::Everyday,
            help: "a flag",
        },
        Row {
            name: "on",
            aliases: &[],
            values: Values::Number {
                unit: "LEVEL",
                least: 1,
                most: 9,
                set: |target, level| target.level = level,
                get: |target| (target.level > 0).then_some(target.level),
            },
            tier: Tier::F2fs,
            help: "a level",
        },
        Row {
            name: "size",
            aliases: &[],
            values: Values::Size {
                least: 0,
                most: u64::MAX,
                set: |target, size| target.size = size,
                get: |target| Some(target.size),
            },
            tier: Tier::Research,
            help: "",
        },
    ];

    fn set(list: &str) -> Target {
        let mut target = Target::default();
        for option in list.split(',') {
            assert_eq!(apply(ROWS, &mut target, option), Ok(true), "{option}");
        }
        target
    }

    #[test]
    fn a_flag_and_a_value_may_have_one_name() {
        assert_eq!(set("on,on=3"), Target { on: true, level: 3, ..Target::default() });
        let mut target = Target::default();
        let refused = apply(ROWS, &mut target, "on=12").unwrap_err();
        assert_eq!(refused.to_string(), "mount option on=12: want no value, or a number from 1 to 9");
        assert_eq!(apply(ROWS, &mut target, "one"), Ok(false));
        assert_eq!(target, Target::default());
    }

    #[test]
    fn a_preset_is_printed_before_what_differs_from_it() {
        for (given, printed) in [
            ("p=large", "preset=large"),
            ("size=1G,on", "preset=large,on"),
            ("preset=small,size=1M", "preset=small"),
            ("size=3k", "size=3K"),
            ("on=9,on", "on,on=9"),
        ] {
            let list = differences(ROWS, &set(given), Target::default());
            assert_eq!(list.join(","), printed, "{given}");
            assert_eq!(set(printed), set(given));
        }
    }

    #[test]
    fn sizes_are_printed_as_they_are_read() {
        for (text, bytes, printed) in [
            ("0", Some(0), "0"),
            ("1023", Some(1023), "1023"),
            ("64m", Some(64 << 20), "64M"),
            ("1536K", Some(1536 << 10), "1536K"),
            ("2T", Some(2 << 40), "2T"),
            ("16777216T", None, ""),
            ("M", None, ""),
            ("", None, ""),
            ("-1K", None, ""),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
            if let Some(bytes) = bytes {
                assert_eq!(Size(bytes).to_string(), printed);
            }
        }
    }

    #[test]
    fn pages_spell_every_name_and_the_default() {
        let entries = entries(ROWS, &Target { size: 1 << 20, ..Target::default() });
        let lines: Vec<_> = entries.iter().map(|entry| (entry.spelled.as_str(), entry.help.as_str())).collect();
        assert_eq!(
            lines,
            [
                ("preset=small|large, p=...", "a preset (default: small)"),
                ("on, off", "a flag (default: off)"),
                ("on=LEVEL", "a level"),
            ]
        );
    }
}
