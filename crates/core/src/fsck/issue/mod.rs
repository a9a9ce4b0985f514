//! What the checker can find: one variant per rule, each with its severity, its place and a text for the user.
//!
//! The table at the end is the whole list. A variant's fields say where and what; [`Issue::code`], [`Issue::fields`]
//! and [`Issue::location`] give the same to programs, so that no front end needs to know the variants.

use std::fmt;
use steadyfs_format::node::NodeOfs;
use steadyfs_format::{Ino, Lba, Log, Nid, PageIndex, SegNo};

/// How bad an issue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Odd, but no file is affected and Linux accepts it.
    Warning,
    /// The volume breaks a rule of the format.
    Error,
    /// The check could not go on here.
    Fatal,
}

impl Severity {
    /// The name people and programs read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an issue is, as far as it has a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file.
    pub ino: Option<Ino>,
    /// The node.
    pub nid: Option<Nid>,
    /// The segment.
    pub segno: Option<SegNo>,
    /// The block.
    pub lba: Option<Lba>,
}

/// The value of an issue's field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A text; names of files are lossily decoded.
    Text(String),
}

/// What a field type adds to the description of an issue.
trait Field {
    fn value(&self) -> Value;
    fn locate(&self, _location: &mut Location) {}
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn value(&self) -> Value {
                Value::Number(u64::from(*self))
            }
        }
    )*};
}

macro_rules! located_fields {
    ($($type:ty => $slot:ident),*) => {$(
        impl Field for $type {
            fn value(&self) -> Value {
                Value::Number(u64::from(self.get()))
            }
            fn locate(&self, location: &mut Location) {
                location.$slot.get_or_insert(*self);
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64);
located_fields!(Ino => ino, Nid => nid, SegNo => segno, Lba => lba);

impl Field for PageIndex {
    fn value(&self) -> Value {
        Value::Number(self.get())
    }
}

impl Field for NodeOfs {
    fn value(&self) -> Value {
        Value::Number(u64::from(self.get()))
    }
}

impl Field for Log {
    fn value(&self) -> Value {
        Value::Text(self.name().to_owned())
    }
}

impl Field for String {
    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for &'static str {
    fn value(&self) -> Value {
        Value::Text((*self).to_owned())
    }
}

macro_rules! issues {
    ($($(#[$doc:meta])* $severity:ident $name:ident { $($field:ident: $type:ty),* } $text:literal)*) => {
        /// Something the checker found. The text ([`fmt::Display`]) is one line for the user.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the fields are named in the text of their variant")]
        pub enum Issue {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl Issue {
            /// The code of every variant, in the order of the table.
            pub const CODES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The name of the variant: stable, for programs.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }

            /// How bad it is.
            pub fn severity(&self) -> Severity {
                match self {
                    $(Self::$name { .. } => Severity::$severity,)*
                }
            }

            /// The fields with their names, for programs.
            pub fn fields(&self) -> Vec<(&'static str, Value)> {
                match self {
                    $(Self::$name { $($field),* } => vec![$((stringify!($field), Field::value($field))),*],)*
                }
            }

            /// The place, from the fields that name one.
            pub fn location(&self) -> Location {
                let mut location = Location::default();
                match self {
                    $(Self::$name { $($field),* } => { $(Field::locate($field, &mut location);)* })*
                }
                location
            }

            /// The place of the variant in the table; issues are reported in this order.
            pub(in crate::fsck) fn rank(&self) -> usize {
                let code = self.code();
                Self::CODES.iter().position(|&other| other == code).unwrap_or(usize::MAX)
            }
        }

        impl fmt::Display for Issue {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // A name with a newline in it must not look like a line of the report.
                let mut f = Quoting(f);
                match self {
                    $(Self::$name { $($field),* } => { $(let _ = $field;)* fmt::Write::write_fmt(&mut f, format_args!($text)) })*
                }
            }
        }
    };
}

mod table;
pub use table::Issue;
