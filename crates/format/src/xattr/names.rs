//! Names of extended attributes: a number for the prefix, and the rest.

/// Numbers of the prefixes.
pub mod index {
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`, no rest.
    pub const POSIX_ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`, no rest.
    pub const POSIX_ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `lustre.`
    pub const LUSTRE: u8 = 5;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// `system.advise`: not stored, stands for the inode's advice bits.
    pub const ADVISE: u8 = 7;
    /// Encryption context, name `c`; not visible to users.
    pub const ENCRYPTION: u8 = 9;
    /// Verity descriptor, name `v`; not visible to users.
    pub const VERITY: u8 = 11;
}

const PREFIXES: [(u8, &[u8]); 4] = [
    (index::USER, b"user."),
    (index::TRUSTED, b"trusted."),
    (index::LUSTRE, b"lustre."),
    (index::SECURITY, b"security."),
];
const WHOLE: [(u8, &[u8]); 2] =
    [(index::POSIX_ACL_ACCESS, b"system.posix_acl_access"), (index::POSIX_ACL_DEFAULT, b"system.posix_acl_default")];

/// The stored form of an attribute's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XattrName<'a> {
    /// Number of the prefix, see [`index`].
    pub index: u8,
    /// What follows the prefix; empty for the two ACLs.
    pub rest: &'a [u8],
}

impl<'a> XattrName<'a> {
    /// The stored form of a full name; `None` for a prefix that the format has no number for, or a prefix alone.
    pub fn parse(full: &'a [u8]) -> Option<Self> {
        if let Some((index, _)) = WHOLE.into_iter().find(|(_, name)| *name == full) {
            return Some(Self { index, rest: b"" });
        }
        let split = |(index, prefix)| full.strip_prefix(prefix).map(|rest| Self { index, rest });
        PREFIXES.into_iter().find_map(split).filter(|name| !name.rest.is_empty())
    }

    /// The full name; `None` for what users do not see.
    pub fn full(self) -> Option<Vec<u8>> {
        if let Some((_, name)) = WHOLE.into_iter().find(|(index, _)| *index == self.index) {
            return Some(name.to_vec());
        }
        let (_, prefix) = PREFIXES.into_iter().find(|(index, _)| *index == self.index)?;
        Some([prefix, self.rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_and_stored_names() {
        let cases: [(&[u8], u8, &[u8]); 6] = [
            (b"user.a", 1, b"a"),
            (b"trusted.x.y", 4, b"x.y"),
            (b"security.capability", 6, b"capability"),
            (b"lustre.z", 5, b"z"),
            (b"system.posix_acl_access", 2, b""),
            (b"system.posix_acl_default", 3, b""),
        ];
        for (full, index, rest) in cases {
            let name = XattrName::parse(full).unwrap();
            assert_eq!((name.index, name.rest), (index, rest));
            assert_eq!(name.full().unwrap(), full);
        }
        for unknown in [&b"user."[..], b"user", b"system.advise", b"system.other", b"", b"os2.x"] {
            assert_eq!(XattrName::parse(unknown), None);
        }
        assert_eq!(XattrName { index: index::ENCRYPTION, rest: b"c" }.full(), None);
    }
}
