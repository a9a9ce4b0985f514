//! Sets of named bits in a 32-bit field: what feature bits and checkpoint flags have in common.
//!
//! A set keeps bits that have no name, shows them, and can tell them apart.

macro_rules! bitset {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $constant:ident = $bit:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            $($(#[$bit_doc])* pub const $constant: Self = Self($bit);)*

            /// The empty set.
            pub const NONE: Self = Self(0);

            /// Every bit that has a name, with its name, in bit order.
            pub const ALL: &'static [(&'static str, Self)] = &[$(($text, Self::$constant)),*];

            /// The set with these bits; bits without a name are kept.
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The bits as the disk stores them.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Whether every bit of `other` is in the set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether some bit of `other` is in the set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits of both sets.
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits of this set that are not in `other`.
            pub const fn difference(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether the set is empty.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The bits that have no name.
            pub fn unknown(self) -> Self {
                self.difference(Self(0 $(| $bit)*))
            }

            /// The names of the bits in the set, in bit order.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::ALL.iter().filter(move |(_, bit)| self.contains(*bit)).map(|(name, _)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if self.is_empty() {
                    return f.write_str("none");
                }
                let mut separator = "";
                for name in self.names() {
                    write!(f, "{separator}{name}")?;
                    separator = ",";
                }
                if !self.unknown().is_empty() {
                    write!(f, "{separator}unknown({:#x})", self.unknown().bits())?;
                }
                Ok(())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

pub(crate) use bitset;
