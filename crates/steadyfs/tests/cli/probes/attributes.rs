//! Extended attributes beside those that `files` and `dirs` try: names that only the system may set, and unknown ones.

use super::calls::*;
use super::ground::Ground;
use super::{Probe, Where};
use rustix::io::Errno;

const UNKNOWN: Answer = Err(Errno::OPNOTSUPP);

type Row = (&'static str, fn(&Ground) -> Answer, Answer);

const EVERYWHERE: &[Row] = &[
    ("user. of one's own file", |ground| sets_attribute(&ground.mine(), "user.a", b"1"), OK),
    ("user. without a name", |ground| sets_attribute(&ground.mine(), "user.", b"1"), Err(Errno::INVAL)),
    ("trusted. of one's own file", |ground| sets_attribute(&ground.mine(), "trusted.a", b"1"), PERM),
    ("trusted. that is not there", |ground| gets_attribute(&ground.mine(), "trusted.a"), Err(Errno::NODATA)),
    (
        "trusted.overlay.opaque of one's own directory",
        |ground| sets_attribute(&ground.at("own"), "trusted.overlay.opaque", b"y"),
        PERM,
    ),
    ("security. of one's own file", |ground| sets_attribute(&ground.mine(), "security.a", b"1"), PERM),
    (
        "security.selinux of root's file",
        |ground| sets_attribute(&ground.at("files/roots-666"), "security.selinux", b"label"),
        PERM,
    ),
    ("security.ima of one's own file", |ground| sets_attribute(&ground.mine(), "security.ima", b"hash"), PERM),
    (
        "security.capability of one's own file",
        |ground| sets_attribute(&ground.mine(), "security.capability", CAPABILITY),
        PERM,
    ),
    ("system. of another kind", |ground| sets_attribute(&ground.mine(), "system.nfs4_acl", b"1"), UNKNOWN),
    (
        "system. of another kind, of root's",
        |ground| sets_attribute(&ground.at("files/roots-644"), "system.nfs4_acl", b"1"),
        UNKNOWN,
    ),
    ("get system. of another kind", |ground| gets_attribute(&ground.at("files/roots-644"), "system.nfs4_acl"), UNKNOWN),
    ("an unknown name", |ground| sets_attribute(&ground.mine(), "unknown.a", b"1"), UNKNOWN),
    ("get an unknown name", |ground| gets_attribute(&ground.mine(), "unknown.a"), UNKNOWN),
    ("remove an unknown name", |ground| removes_attribute(&ground.mine(), "unknown.a"), UNKNOWN),
    ("an unknown name, of root's", |ground| sets_attribute(&ground.at("files/roots-644"), "unknown.a", b"1"), ACCES),
    ("get an unknown name, of root's", |ground| gets_attribute(&ground.at("files/roots-600"), "unknown.a"), ACCES),
    ("a name without a dot", |ground| sets_attribute(&ground.mine(), "plain", b"1"), UNKNOWN),
    ("user. of a symlink", |ground| sets_attribute(&symlink(ground)?, "user.a", b"1"), PERM),
    ("get user. of a symlink", |ground| gets_attribute(&symlink(ground)?, "user.a"), Err(Errno::NODATA)),
    ("user. of a pipe", |ground| sets_attribute(&ground.at("special/pipe-666"), "user.a", b"1"), PERM),
    ("user. of a device", |ground| sets_attribute(&ground.at("special/null-666"), "user.a", b"1"), PERM),
    ("user. of root's sticky directory", |ground| sets_attribute(&ground.at("sticky"), "user.a", b"1"), PERM),
    ("user. of one's own sticky directory", |ground| sets_attribute(&ground.at("own-sticky"), "user.a", b"1"), OK),
    ("a plain ACL of one's own", |ground| sets_attribute(&ground.mine(), ACL, PLAIN_ACL), OK),
    ("an ACL of one's own", |ground| sets_attribute(&ground.mine(), ACL, GREEDY_ACL), OK),
    ("an ACL that is none", |ground| sets_attribute(&ground.mine(), ACL, &[2, 0, 0, 0, 1, 0]), Err(Errno::INVAL)),
    ("an ACL for what is made in a file", |ground| sets_attribute(&ground.mine(), DEFAULT_ACL, PLAIN_ACL), ACCES),
    (
        "an empty ACL for what is made in root's file",
        |ground| sets_attribute(&ground.at("files/roots-644"), DEFAULT_ACL, EMPTY_ACL),
        OK,
    ),
    ("a value that is too long", |ground| sets_attribute(&ground.mine(), "user.a", &[0; 65_537]), Err(Errno::TOOBIG)),
    (
        "a name that is too long",
        |ground| sets_attribute(&ground.mine(), &format!("user.{}", "x".repeat(251)), b"1"),
        Err(Errno::RANGE),
    ),
];

/// What only F2FS has, or ours.
const HERE: &[Row] = &[
    ("advice for root's file", |ground| sets_attribute(&ground.at("files/roots-666"), "system.advise", &[1]), PERM),
    ("advice for another's file", |ground| sets_attribute(&ground.at("files/others-666"), "system.advise", &[1]), PERM),
    ("advice for root's directory", |ground| sets_attribute(&ground.at("dirs/roots-777"), "system.advise", &[1]), PERM),
    ("advice for the root directory", |ground| sets_attribute(ground.root(), "system.advise", &[1]), PERM),
    ("advice for one's own file", |ground| sets_attribute(&ground.mine(), "system.advise", &[1]), OK),
    ("advice that nobody may give", |ground| sets_attribute(&ground.mine(), "system.advise", &[4]), Err(Errno::INVAL)),
    ("advice that is too long", |ground| sets_attribute(&ground.mine(), "system.advise", &[1, 1]), Err(Errno::INVAL)),
    (
        "take advice for another's file away",
        |ground| removes_attribute(&ground.at("files/others-666"), "system.advise"),
        Err(Errno::INVAL),
    ),
    (
        "ask for advice for what one may not read",
        |ground| gets_attribute(&ground.at("files/others-600"), "system.advise"),
        Ok(1),
    ),
];

/// Of a version, and without entries.
const EMPTY_ACL: &[u8] = &[2, 0, 0, 0];

fn symlink(ground: &Ground) -> Result<std::path::PathBuf, Errno> {
    let path = ground.fresh();
    rustix::fs::symlink("x", &path)?;
    Ok(path)
}

pub(super) fn table() -> Vec<Probe> {
    let everywhere = EVERYWHERE.iter().map(|row| Probe::row(row, Where::Everywhere));
    everywhere.chain(HERE.iter().map(|row| Probe::row(row, Where::Here))).collect()
}
