//! Access control lists: their text in archives, and what a mode gives without its list.
//!
//! Archives have the text of POSIX 1003.1e: entries `tag:qualifier:rwx`, separated by commas or newlines, tags whole or
//! as one letter, with comments from `#` on. bsdtar and star add the numeric id as a fourth field. The text written
//! here has numbers only, which every reader takes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use steadyfs_format::xattr::{Acl, AclEntry, AclTag};

use super::{Xattrs, show};

/// The attribute that holds who may do what with a file.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory that holds what is made in it starts with.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The id of an entry that has none.
const NO_ID: u32 = u32::MAX;

/// Whether the attribute is an access control list.
pub(super) fn is_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// The access list among attributes.
pub(super) fn access(xattrs: &Xattrs) -> Option<&[u8]> {
    xattrs.iter().find(|(name, _)| name == ACCESS).map(|(_, value)| value.as_slice())
}

/// The permissions of a file that has an access list, when it is to have none: the bits of the group are the most that
/// the list gives to anybody named, and its group may have less.
pub(super) fn permissions_without(perm: u32, access: &[u8]) -> u32 {
    let group = Acl::from_call(access).map_or(0, |acl| {
        let perm = |tag| acl.entries().iter().find(|entry| entry.tag == tag).map(|entry| u32::from(entry.perm));
        perm(AclTag::GroupObj).unwrap_or(0) & perm(AclTag::Mask).unwrap_or(7)
    });
    perm & (!0o070 | group << 3)
}

/// The permissions of a file that gets an access list: those that the list says.
pub(super) fn permissions_with(perm: u32, access: &[u8]) -> u32 {
    Acl::from_call(access).map_or(perm, |acl| perm & !0o777 | u32::from(acl.mode()))
}

/// The users and groups of this host.
pub(super) struct Names {
    dir: PathBuf,
    known: HashMap<&'static str, HashMap<Vec<u8>, u32>>,
}

impl Names {
    /// Those of the files `passwd` and `group` in a directory, which are read when a name comes.
    pub(super) fn of(dir: &Path) -> Self {
        Names { dir: dir.to_owned(), known: HashMap::new() }
    }

    fn id(&mut self, file: &'static str, name: &[u8]) -> Option<u32> {
        let dir = &self.dir;
        let known = self.known.entry(file).or_insert_with(|| {
            let text = std::fs::read(dir.join(file)).unwrap_or_default();
            let line = |line: &[u8]| {
                let mut fields = line.split(|b| *b == b':');
                let (name, id) = (fields.next()?, fields.nth(1)?);
                Some((name.to_vec(), std::str::from_utf8(id).ok()?.parse().ok()?))
            };
            text.split(|b| *b == b'\n').filter_map(line).collect()
        });
        known.get(name).copied()
    }
}

/// What a text says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) acl: Acl,
    /// Names of users and groups that are not known here: their entries are left out.
    pub(super) unknown: Vec<String>,
}

/// Reads a list; an error says what is wrong with it.
pub(super) fn read(text: &[u8], names: &mut Names) -> Result<Read, String> {
    let (mut entries, mut unknown) = (Vec::new(), Vec::new());
    for piece in pieces(text) {
        let wrong = || format!("`{}` is no entry of a list", show(piece));
        match entry(piece, names).ok_or_else(wrong)? {
            Ok(entry) => entries.push(entry),
            Err(name) => unknown.push(name),
        }
    }
    let named = entries.iter().filter(|entry| entry.id != NO_ID);
    let group = entries.iter().filter(|entry| entry.tag == AclTag::GroupObj);
    // Without a mask every entry gives what it says.
    if named.clone().next().is_some() && !entries.iter().any(|entry| entry.tag == AclTag::Mask) {
        let perm = named.chain(group).fold(0, |perm, entry| perm | entry.perm);
        entries.push(AclEntry { tag: AclTag::Mask, perm, id: NO_ID });
    }
    entries.sort_by_key(|entry| entry.tag);
    match Acl::new(entries) {
        Ok(acl) => Ok(Read { acl, unknown }),
        Err(e) => Err(e.to_string()),
    }
}

/// The entries of a text, without comments.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = |line: &[u8]| {
        // A comment that holds commas is a line; what setfacl says beside an entry ends with the entry.
        let comment = line.iter().position(|b| *b == b'#');
        let is_line = comment.is_some_and(|at| !line[at..].starts_with(b"#effective:"));
        if is_line { comment.unwrap_or(line.len()) } else { line.len() }
    };
    text.split(|b| *b == b'\n')
        .flat_map(move |line| line[..end(line)].split(|b| *b == b','))
        .map(|piece| piece.split(|b| *b == b'#').next().unwrap_or_default().trim_ascii())
        .filter(|piece| !piece.is_empty() && *piece != b"\0")
}

/// One entry, or the name in it that is not known here; `None` if it is not one.
fn entry(piece: &[u8], names: &mut Names) -> Option<Result<AclEntry, String>> {
    let mut fields: Vec<&[u8]> = piece.split(|b| *b == b':').map(<[u8]>::trim_ascii).collect();
    if matches!(fields[..], [b"d" | b"default", _, ..]) {
        fields.remove(0);
    }
    let kind = *fields.first()?;
    let (tags, file) = match kind.strip_prefix(b"default").filter(|rest| !rest.is_empty()).unwrap_or(kind) {
        b"u" | b"user" => ((AclTag::UserObj, AclTag::User), "passwd"),
        b"g" | b"group" => ((AclTag::GroupObj, AclTag::Group), "group"),
        b"m" | b"mask" => ((AclTag::Mask, AclTag::Mask), ""),
        b"o" | b"other" => ((AclTag::Other, AclTag::Other), ""),
        _ => return None,
    };
    let (name, perm, beside) = match fields[1..] {
        [perm] if file.is_empty() => (&b""[..], perm, None),
        [name, perm] => (name, perm, None),
        [name, perm, id] => (name, perm, Some(id)),
        _ => return None,
    };
    let perm = permission(perm)?;
    if name.is_empty() {
        return Some(Ok(AclEntry { tag: tags.0, perm, id: NO_ID }));
    }
    if file.is_empty() {
        return None;
    }
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).filter(|id| *id != NO_ID);
    // Owners are numbers, too: the number beside a name is the true one.
    match beside.and_then(number).or_else(|| number(name)).or_else(|| names.id(file, name)) {
        Some(id) => Some(Ok(AclEntry { tag: tags.1, perm, id })),
        None => Some(Err(show(name))),
    }
}

/// `rwx` in any order, with `-` for what is not given, or one digit.
fn permission(text: &[u8]) -> Option<u16> {
    match text {
        [] => None,
        [digit @ b'0'..=b'7'] => Some(u16::from(digit - b'0')),
        letters => letters.iter().try_fold(0, |perm, letter| match letter {
            b'r' => Some(perm | 4),
            b'w' => Some(perm | 2),
            b'x' => Some(perm | 1),
            b'-' => Some(perm),
            _ => None,
        }),
    }
}

/// The text of a list.
pub(super) fn write(acl: &Acl) -> String {
    let entry = |entry: &AclEntry| {
        let tag = match entry.tag {
            AclTag::UserObj | AclTag::User => "user",
            AclTag::GroupObj | AclTag::Group => "group",
            AclTag::Mask => "mask",
            AclTag::Other => "other",
        };
        let id = if entry.id == NO_ID { String::new() } else { entry.id.to_string() };
        let bit = |bit: u16, letter: char| if entry.perm & bit != 0 { letter } else { '-' };
        format!("{tag}:{id}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))
    };
    acl.entries().iter().map(entry).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> (tempfile::TempDir, Names) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("passwd"), "root:x:0:0::/:/bin/sh\nlisa:x:502:100::/:/bin/sh\nbroken\n")
            .unwrap();
        std::fs::write(dir.path().join("group"), "staff:x:50:lisa\n").unwrap();
        let names = Names::of(dir.path());
        (dir, names)
    }

    #[test]
    fn every_way_to_write_a_list() {
        let (_dir, mut names) = names();
        let canonical = "user::rw-,user:502:rw-,group::---,group:50:r--,mask::rw-,other::r--";
        for text in [
            canonical,
            // acl_to_text, getfacl, with comments
            "user::rw-\nuser:lisa:rw-\ngroup::---\ngroup:staff:r--\nmask::rw-\nother::r--\n",
            "# file: a, b\n# owner: x\nuser::rw-\nuser:lisa:rwx\t\t#effective:rw-\ngroup::---\ngroup:staff:r--\nmask::rw-\nother::r--\n\0",
            "user::rw-,user:lisa:rw-\t#effective:rw-,group::---,group:staff:r--,mask::rw-,other::r--",
            // short, in another order, with digits
            "o:r,m::6,u::rw,g::-, u:lisa:rw , g:50:r",
            // star and bsdtar: the number beside, also of a name that is somebody else's here
            "user::rw-,group::---,other::r--,user:nobody here:rw-:502,group:staff:r--:50,mask::rw-",
            "user::rw-,user:root:rw-:502,group::---,group:staff:r--:50,mask:rw-,other:r--",
            "default:user::rw-,d:u:502:rw-,defaultgroup::---,default:group:50:r--,defaultmask::rw-,defaultother::r--",
        ] {
            let read = read(text.as_bytes(), &mut names).unwrap_or_else(|e| panic!("{text}: {e}"));
            let expected =
                if text.contains("rwx") { canonical.replace("502:rw-", "502:rwx") } else { canonical.into() };
            assert_eq!((write(&read.acl), read.unknown), (expected, vec![]), "{text}");
        }
        let acl = read(b"u::7,u:9:4,g::1,o::0", &mut names).unwrap().acl;
        assert_eq!(write(&acl), "user::rwx,user:9:r--,group::--x,mask::r-x,other::---");
    }

    #[test]
    fn names_that_are_not_known_are_told_and_nonsense_is_refused() {
        let (_dir, mut names) = names();
        let unknown = read(b"u::rw,u:ghost:r,g::r,g:ghosts:rw,m::rw,o::-", &mut names).unwrap();
        assert_eq!(write(&unknown.acl), "user::rw-,group::r--,mask::rw-,other::---");
        assert_eq!(unknown.unknown, ["ghost", "ghosts"]);
        for text in [
            "",
            "user",
            "user::",
            "user::rwz",
            "u::8,g::7,o::7",
            "u::7,g::7",
            "u::7,g::7,o::7,o::7",
            "mask:5:rwx",
            "u::7,g::7,o::7,everyone@:r:allow",
            "u:1:2:3:4",
            "u::7,u:4294967295:7,g::7,o::7,x",
        ] {
            assert!(read(text.as_bytes(), &mut names).is_err(), "{text:?}");
        }
        let no_id = read(b"u::7,u:4294967295:7,g::7,o::7", &mut names).unwrap();
        assert_eq!(no_id.unknown, ["4294967295"]);
    }

    #[test]
    fn without_its_list_a_file_gives_its_group_no_more() {
        let (_dir, mut names) = names();
        let mut list = |text: &str| read(text.as_bytes(), &mut names).unwrap().acl.to_call();
        assert_eq!(permissions_without(0o4660, &list("u::6,u:1:6,g::0,m::6,o::0")), 0o4600);
        assert_eq!(permissions_without(0o640, &list("u::6,u:1:6,g::7,m::4,o::0")), 0o640);
        assert_eq!(permissions_without(0o610, &list("u::6,g::6,o::0")), 0o600);
        assert_eq!(permissions_without(0o664, b"nonsense"), 0o604);
    }
}
