//! Sticky directories, hard links, and whiteouts.

use super::calls::*;
use super::ground::{Ground, OWNERS};
use super::{Probe, Where};
use rustix::fs::{FileType, OFlags, RenameFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

const EXIST: Answer = Err(Errno::EXIST);
const NOENT: Answer = Err(Errno::NOENT);
const INVAL: Answer = Err(Errno::INVAL);

/// How a file or a directory of somebody else is tried in a sticky directory, and what comes of it.
type Way = (&'static str, fn(&Ground, &Path) -> Answer, Answer);
type Row = (&'static str, fn(&Ground) -> Answer, Answer);

const STICKY_FILES: &[Way] = &[
    ("unlink", |_, path| unlinks(path), PERM),
    ("rename within", |_, path| renames(path, &beside(path)), PERM),
    ("rename out", |ground, path| renames(path, &ground.fresh()), PERM),
    ("rename over from elsewhere", |ground, path| renames(&ground.mine(), path), PERM),
    ("rename over from beside", |ground, path| renames(&moved(ground)?, path), PERM),
    ("exchange with what is elsewhere", |ground, path| exchanges(&ground.mine(), path), PERM),
    ("exchange with what is beside", |ground, path| exchanges(path, &moved(ground)?), PERM),
    ("rename to it without replacing", |ground, path| renames_so(&ground.mine(), path, RenameFlags::NOREPLACE), EXIST),
    ("rename and leave a whiteout", |ground, path| renames_so(path, &ground.fresh(), RenameFlags::WHITEOUT), PERM),
    ("rename over with a whiteout", |ground, path| renames_so(&ground.mine(), path, RenameFlags::WHITEOUT), PERM),
    ("rmdir", |_, path| removes_dir(path), PERM),
    ("write", |_, path| opens(path, WRITE), ACCES),
    ("chmod", |_, path| chmods(path, 0o666), PERM),
];

const STICKY_DIRS: &[Way] = &[
    ("rmdir", |_, path| removes_dir(path), PERM),
    ("unlink", |_, path| unlinks(path), PERM),
    ("rename within", |_, path| renames(path, &beside(path)), PERM),
    ("rename out", |ground, path| renames(path, &ground.fresh()), PERM),
    ("rename over", |ground, path| renames(&own_dir(ground)?, path), PERM),
    ("exchange", |ground, path| exchanges(path, &own_dir(ground)?), PERM),
    ("create in it", |_, path| creates(&path.join("new"), 0o644), ACCES),
];

/// Where the sticky directory is one's own.
const OWN_STICKY: &[Way] = &[
    ("write", |_, path| opens(path, WRITE), ACCES),
    ("rename", |_, path| renames(path, &beside(path)).and(renames(&beside(path), path)), OK),
    ("rename over", |ground, path| renames(&ground.mine(), &gone(path)), OK),
    ("unlink", |_, path| unlinks(path), OK),
];

const STICKY: &[Row] = &[
    ("create in a sticky directory", |ground| done(moved(ground)), OK),
    ("unlink one's own there", |ground| unlinks(&moved(ground)?), OK),
    ("rename one's own there", |ground| moved(ground).and_then(|path| renames(&path, &beside(&path))), OK),
    ("take one's own out", |ground| renames(&moved(ground)?, &ground.fresh()), OK),
    (
        "mkdir and rmdir there",
        |ground| makes_dir(&ground.at("sticky/mine")).and(removes_dir(&ground.at("sticky/mine"))),
        OK,
    ),
    ("take the sticky bit away", |ground| chmods(&ground.at("sticky"), 0o777), PERM),
    ("rmdir a sticky directory", |ground| removes_dir(&ground.at("sticky")), ACCES),
    ("rename a sticky directory", |ground| renames(&ground.at("sticky"), &ground.fresh()), ACCES),
];

/// As fs.protected_hardlinks has it.
const GUARDED: &[Row] = &[
    ("link a set-user-id program", |ground| links(&ground.at("bits/link-user"), &ground.fresh()), PERM),
    ("link a set-group-id program", |ground| links(&ground.at("bits/link-group"), &ground.fresh()), PERM),
    ("link a pipe", |ground| links(&ground.at("special/pipe-666"), &ground.fresh()), PERM),
    ("link a socket", |ground| links(&ground.at("special/socket-666"), &ground.fresh()), PERM),
    ("link a device", |ground| links(&ground.at("special/null-666"), &ground.fresh()), PERM),
    ("link a symlink", |ground| links(&ground.at("special/to-open"), &ground.fresh()), PERM),
    (
        "link within a sticky directory",
        |ground| links(&ground.at("sticky/roots-file"), &ground.at("sticky/linked")),
        PERM,
    ),
    (
        "link what is open to read",
        |ground| links_open(&file(&ground.at("files/roots-644"), READ)?, &ground.fresh()),
        PERM,
    ),
];

const LINKS: &[Row] = &[
    ("link one's own", |ground| links(&ground.mine(), &ground.fresh()), OK),
    ("link a directory of root's", |ground| links(&ground.at("dirs"), &ground.fresh()), PERM),
    ("link one's own directory", |ground| links(&own_dir(ground)?, &ground.fresh()), PERM),
    ("link into root's directory", |ground| links(&ground.mine(), &ground.at("files/mine")), ACCES),
    ("link over one's own", |ground| links(&ground.mine(), &ground.mine()), EXIST),
    ("link what is not there", |ground| links(&ground.fresh(), &ground.fresh()), NOENT),
    ("link from another file system", |ground| links("/proc/self/status".as_ref(), &ground.fresh()), Err(Errno::XDEV)),
    ("link what was removed", links_removed, NOENT),
    ("give a nameless file a name", |ground| links_open(&nameless(ground, OFlags::empty())?, &ground.fresh()), OK),
    (
        "give one a name that is to have none",
        |ground| links_open(&nameless(ground, OFlags::EXCL)?, &ground.fresh()),
        NOENT,
    ),
    (
        "give a nameless file a name of root's",
        |ground| links_open(&nameless(ground, OFlags::empty())?, &ground.at("files/mine")),
        ACCES,
    ),
];

const WHITEOUTS: &[Row] = &[
    ("leave a whiteout", |ground| done(whiteout(ground)), OK),
    ("what a whiteout is", |ground| Ok(rustix::fs::stat(whiteout(ground)?)?.st_rdev), OK),
    ("open a whiteout", |ground| opens(&whiteout(ground)?, READ), ACCES),
    ("write to a whiteout", |ground| opens(&whiteout(ground)?, WRITE), ACCES),
    ("remove a whiteout", |ground| unlinks(&whiteout(ground)?), OK),
    ("make a whiteout", |ground| makes_device(&ground.fresh(), FileType::CharacterDevice, 0o666, 0), OK),
    (
        "a whiteout in root's directory",
        |ground| renames_so(&ground.at("files/roots-666"), &ground.fresh(), RenameFlags::WHITEOUT),
        ACCES,
    ),
    (
        "a whiteout of an exchange",
        |ground| renames_so(&ground.mine(), &ground.mine(), RenameFlags::WHITEOUT | RenameFlags::EXCHANGE),
        INVAL,
    ),
    (
        "a whiteout that replaces nothing",
        |ground| renames_so(&ground.mine(), &ground.mine(), RenameFlags::WHITEOUT | RenameFlags::NOREPLACE),
        EXIST,
    ),
    (
        "a rename in an unknown way",
        |ground| renames_so(&ground.mine(), &ground.fresh(), RenameFlags::from_bits_retain(8)),
        INVAL,
    ),
    (
        "an exchange that replaces nothing",
        |ground| renames_so(&ground.mine(), &ground.mine(), RenameFlags::EXCHANGE | RenameFlags::NOREPLACE),
        INVAL,
    ),
];

fn beside(path: &Path) -> PathBuf {
    path.with_extension("beside")
}

/// The file that a file is there to be replaced for.
fn gone(path: &Path) -> PathBuf {
    path.to_str().unwrap().replace("-file", "-gone").into()
}

/// A file of one's own in the sticky directory of root's.
fn moved(ground: &Ground) -> Result<PathBuf, Errno> {
    let from = ground.mine();
    let to = ground.at("sticky").join(from.file_name().unwrap());
    renames(&from, &to)?;
    Ok(to)
}

fn own_dir(ground: &Ground) -> Result<PathBuf, Errno> {
    let path = ground.fresh();
    makes_dir(&path)?;
    Ok(path)
}

fn links_removed(ground: &Ground) -> Answer {
    let path = ground.mine();
    let open = file(&path, OFlags::RDWR)?;
    unlinks(&path)?;
    links_open(&open, &path)
}

fn nameless(ground: &Ground, how: OFlags) -> Result<std::fs::File, Errno> {
    file(&ground.at("own"), OFlags::TMPFILE | OFlags::RDWR | how)
}

fn whiteout(ground: &Ground) -> Result<PathBuf, Errno> {
    let path = ground.mine();
    renames_so(&path, &ground.fresh(), RenameFlags::WHITEOUT)?;
    Ok(path)
}

pub(super) fn table() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (ways, dir, what) in
        [(STICKY_FILES, "sticky", "file"), (STICKY_DIRS, "sticky", "dir"), (OWN_STICKY, "own-sticky", "file")]
    {
        for (way, run, expected) in ways {
            for (whose, _) in OWNERS {
                let path = format!("{dir}/{whose}-{what}");
                let name = format!("{way}: {path}");
                probes.push(Probe::new(name, move |ground| run(ground, &ground.at(&path)), *expected));
            }
        }
    }
    let rows = [STICKY, LINKS, WHITEOUTS].into_iter().flatten();
    probes.extend(rows.map(|row| Probe::row(row, Where::Everywhere)));
    probes.extend(GUARDED.iter().map(|row| Probe::row(row, Where::GuardedLinks)));
    probes
}
