//! What programs do that want their names to last: sequences of calls, of which one round is one operation of the
//! program. Each client works in a directory of its own.

use super::names::{Ends, Names};
use anyhow::Result;

/// A pattern.
pub(super) struct Pattern {
    /// For tables and options.
    pub(super) name: &'static str,
    /// Makes what a client begins with, in its directory.
    pub(super) prepare: fn(&dyn Names, &str) -> Result<()>,
    /// A round, with its number, from 0 on.
    pub(super) round: fn(&dyn Names, &str, u64) -> Result<()>,
}

/// All of them.
pub(super) const PATTERNS: [Pattern; 8] = [
    Pattern { name: "safe-save", prepare: one_file, round: safe_save },
    Pattern { name: "lock-file", prepare: one_file, round: lock_file },
    Pattern { name: "maildir", prepare: maildir, round: deliver },
    Pattern { name: "sqlite-delete", prepare: database, round: transaction },
    Pattern { name: "git-commit", prepare: repository, round: commit },
    Pattern { name: "unpack", prepare: nothing, round: unpack },
    Pattern { name: "hard-links", prepare: linked, round: write_linked },
    Pattern { name: "nfs-server", prepare: nothing, round: serve },
];

/// A page of a file, a document.
const PAGE: [u8; 4096] = [0x41; 4096];
/// A line, a reference.
const LINE: [u8; 41] = [0x61; 41];

fn nothing(_: &dyn Names, _: &str) -> Result<()> {
    Ok(())
}

fn one_file(fs: &dyn Names, dir: &str) -> Result<()> {
    fs.write(&format!("{dir}/file"), &PAGE, Ends::Cached)
}

/// An editor's: a new temporary name each time.
fn safe_save(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let tmp = format!("{dir}/.file.{n}");
    fs.write(&tmp, &PAGE, Ends::Synced)?;
    fs.rename(&tmp, &format!("{dir}/file"))?;
    fs.sync_dir(dir)
}

/// The same with one temporary name, as lock files have it.
fn lock_file(fs: &dyn Names, dir: &str, _: u64) -> Result<()> {
    let tmp = format!("{dir}/file.lock");
    fs.write(&tmp, &PAGE, Ends::Synced)?;
    fs.rename(&tmp, &format!("{dir}/file"))?;
    fs.sync_dir(dir)
}

fn maildir(fs: &dyn Names, dir: &str) -> Result<()> {
    ["tmp", "new", "cur"].iter().try_for_each(|name| fs.mkdir(&format!("{dir}/{name}")))
}

/// A message of 4 KiB.
fn deliver(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let tmp = format!("{dir}/tmp/{n}.host");
    fs.write(&tmp, &PAGE, Ends::Synced)?;
    fs.rename(&tmp, &format!("{dir}/new/{n}.host"))?;
    fs.sync_dir(&format!("{dir}/new"))
}

fn database(fs: &dyn Names, dir: &str) -> Result<()> {
    fs.write(&format!("{dir}/db"), &[1; 64 * 4096], Ends::Cached)
}

/// A transaction of SQLite with `journal_mode=delete` and `synchronous=full`.
fn transaction(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let journal = format!("{dir}/db-journal");
    fs.write(&journal, &PAGE, Ends::Synced)?;
    fs.sync_dir(dir)?;
    fs.overwrite(&format!("{dir}/db"), n % 64 * 4096, &PAGE, Ends::Synced)?;
    fs.unlink(&journal)?;
    fs.sync_dir(dir)
}

fn repository(fs: &dyn Names, dir: &str) -> Result<()> {
    fs.mkdir(&format!("{dir}/objects"))?;
    fs.mkdir(&format!("{dir}/refs"))?;
    (0..256).try_for_each(|n| fs.mkdir(&format!("{dir}/objects/{n:02x}")))
}

/// A commit of git with `core.fsync=all`: blob, tree and commit as loose objects, then the branch by its lock file.
fn commit(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    for object in 0..3 {
        let fan_out = (n * 3 + object) * 37 % 256;
        let tmp = format!("{dir}/objects/{fan_out:02x}/tmp_obj_{object}");
        fs.write(&tmp, &PAGE[..700], Ends::Synced)?;
        fs.rename(&tmp, &format!("{dir}/objects/{fan_out:02x}/{n}-{object}"))?;
    }
    let lock = format!("{dir}/refs/main.lock");
    fs.write(&lock, &LINE, Ends::Synced)?;
    fs.rename(&lock, &format!("{dir}/refs/main"))?;
    fs.sync_dir(&format!("{dir}/refs"))
}

/// A package of ten files in a new directory, as dpkg unpacks it.
fn unpack(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let package = format!("{dir}/package-{n}");
    fs.mkdir(&package)?;
    for file in 0..10 {
        fs.write(&format!("{package}/{file}.dpkg-new"), &PAGE, Ends::Cached)?;
    }
    for file in 0..10 {
        fs.overwrite(&format!("{package}/{file}.dpkg-new"), 0, &LINE, Ends::Synced)?;
        fs.rename(&format!("{package}/{file}.dpkg-new"), &format!("{package}/{file}"))?;
    }
    fs.sync_dir(&package)?;
    fs.sync_dir(dir)
}

fn linked(fs: &dyn Names, dir: &str) -> Result<()> {
    for n in 0..16 {
        fs.write(&format!("{dir}/{n}"), &PAGE, Ends::Cached)?;
        fs.link(&format!("{dir}/{n}"), &format!("{dir}/{n}.link"))?;
    }
    Ok(())
}

/// A write to a file of a tree of hard links.
fn write_linked(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    fs.overwrite(&format!("{dir}/{}", n % 16), 0, &PAGE, Ends::Synced)
}

/// What an NFS server does for a client that makes, renames and removes a file: each is durable before the answer.
fn serve(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let (first, second) = (format!("{dir}/{n}"), format!("{dir}/{n}.done"));
    fs.write(&first, &PAGE, Ends::Synced)?;
    fs.sync_dir(dir)?;
    fs.rename(&first, &second)?;
    fs.sync_dir(dir)?;
    fs.unlink(&second)?;
    fs.sync_dir(dir)
}
