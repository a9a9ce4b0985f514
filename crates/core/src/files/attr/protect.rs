//! What the flags *immutable* and *append-only* forbid, decided in one place for every operation.
//!
//! An immutable inode changes in nothing but its flags. An append-only file grows at its end only; an append-only
//! directory gains names and loses none. Neither loses a name or gains another. Permissions are not decided here: they
//! are the caller's.

use crate::error::{Error, Result};
use steadyfs_format::inode::{Inode as RawInode, flags};

/// What somebody is about to do with an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Change attributes: mode, owner, explicit times, xattrs.
    Attributes,
    /// Set times to now.
    Touch,
    /// Change contents before the end, or cut them.
    Overwrite,
    /// Add contents at the end.
    Append,
    /// Add a name to this directory.
    AddName,
    /// Remove or redirect a name of this directory.
    DropName,
    /// Give this inode another name, or take one away.
    Link,
}

/// Refuses what the inode's flags forbid.
///
/// # Errors
/// [`Error::NotPermitted`].
pub(crate) fn check(raw: &RawInode, act: Act) -> Result<()> {
    let immutable = raw.flags() & flags::IMMUTABLE != 0;
    let append_only = raw.flags() & flags::APPEND != 0;
    let grows = matches!(act, Act::Append | Act::AddName | Act::Touch);
    if immutable || (append_only && !grows) { Err(Error::NotPermitted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_only_grows_and_immutable_stands_still() {
        let acts = [Act::Attributes, Act::Touch, Act::Overwrite, Act::Append, Act::AddName, Act::DropName, Act::Link];
        let allowed = |flags| {
            let mut raw = RawInode::zeroed();
            raw.set_flags(flags);
            acts.into_iter().filter(|&act| check(&raw, act).is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(allowed(flags::NODUMP), acts);
        assert_eq!(allowed(flags::APPEND), [Act::Touch, Act::Append, Act::AddName]);
        assert_eq!(allowed(flags::IMMUTABLE), []);
        assert_eq!(allowed(flags::IMMUTABLE | flags::APPEND), []);
    }
}
