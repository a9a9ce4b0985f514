//! What programs do that want their names to last: sequences of calls, of which one round is one operation of the
//! program. Each client works in a directory of its own.
//!
//! What git, SQLite, dpkg, RocksDB and those who deliver into maildirs do is taken from traces, which
//! `tools/journal-traces.sh` takes again; docs/BENCHMARKS.md has their versions. What holds a file open there opens it
//! again for each call here. The others are by hand, for they are no single program's.

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
pub(super) const PATTERNS: [Pattern; 9] = [
    Pattern { name: "safe-save", prepare: one_file, round: safe_save },
    Pattern { name: "lock-file", prepare: one_file, round: lock_file },
    Pattern { name: "maildir", prepare: maildir, round: deliver },
    Pattern { name: "sqlite-delete", prepare: database, round: transaction },
    Pattern { name: "git-commit", prepare: repository, round: commit },
    Pattern { name: "unpack", prepare: package_database, round: unpack },
    Pattern { name: "rocksdb", prepare: log_of_manifests, round: memtable },
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

/// Writes a file under another name, renames it to its own, and makes that durable.
fn replace(fs: &dyn Names, dir: &str, tmp: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let tmp = format!("{dir}/{tmp}");
    fs.write(&tmp, bytes, Ends::Synced)?;
    fs.rename(&tmp, &format!("{dir}/{name}"))?;
    fs.sync(dir)
}

/// An editor's: a new temporary name each time.
fn safe_save(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    replace(fs, dir, &format!(".file.{n}"), "file", &PAGE)
}

/// The same with one temporary name, as lock files have it.
fn lock_file(fs: &dyn Names, dir: &str, _: u64) -> Result<()> {
    replace(fs, dir, "file.lock", "file", &PAGE)
}

fn maildir(fs: &dyn Names, dir: &str) -> Result<()> {
    ["tmp", "new", "cur"].iter().try_for_each(|name| fs.mkdir(&format!("{dir}/{name}")))
}

/// A message of 4 KiB.
fn deliver(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let tmp = format!("{dir}/tmp/{n}.host");
    fs.write(&tmp, &PAGE, Ends::Synced)?;
    fs.link(&tmp, &format!("{dir}/new/{n}.host"))?;
    fs.unlink(&tmp)
}

fn database(fs: &dyn Names, dir: &str) -> Result<()> {
    fs.write(&format!("{dir}/db"), &[1; 64 * 4096], Ends::Cached)
}

/// A transaction of SQLite with `journal_mode=delete` and `synchronous=full`: two pages, of which the first is always
/// the same. The rollback journal has both as they were; its header is written again when they are durable.
fn transaction(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let (db, journal) = (format!("{dir}/db"), format!("{dir}/db-journal"));
    fs.write(&journal, &[0x6a; 8720], Ends::DataSynced)?;
    fs.sync(dir)?;
    fs.overwrite(&journal, 0, &LINE[..12], Ends::DataSynced)?;
    fs.overwrite(&db, 0, &PAGE, Ends::Cached)?;
    fs.overwrite(&db, (1 + n % 63) * 4096, &PAGE, Ends::DataSynced)?;
    fs.unlink(&journal)
}

fn repository(fs: &dyn Names, dir: &str) -> Result<()> {
    ["objects", "refs", "logs"].iter().try_for_each(|name| fs.mkdir(&format!("{dir}/{name}")))?;
    (0..256).try_for_each(|n| fs.mkdir(&format!("{dir}/objects/{n:02x}")))?;
    ["logs/HEAD", "logs/main"].iter().try_for_each(|name| fs.write(&format!("{dir}/{name}"), &[], Ends::Cached))
}

/// A commit of git with `core.fsync=all`: blob, tree and commit as loose objects, the message, the branch by its lock
/// file with both logs, and the index.
fn commit(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let entry = [0x6c; 117];
    for object in 0..3 {
        let fan_out = (n * 3 + object) * 37 % 256;
        let tmp = format!("{dir}/objects/{fan_out:02x}/tmp_obj_{object}");
        fs.write(&tmp, &PAGE[..700], Ends::Synced)?;
        fs.link(&tmp, &format!("{dir}/objects/{fan_out:02x}/{n}-{object}"))?;
        fs.unlink(&tmp)?;
    }
    fs.write(&format!("{dir}/index.lock"), &PAGE, Ends::Cached)?;
    fs.write(&format!("{dir}/COMMIT_EDITMSG"), &LINE, Ends::Cached)?;
    fs.write(&format!("{dir}/HEAD.lock"), &[], Ends::Cached)?;
    let lock = format!("{dir}/refs/main.lock");
    fs.write(&lock, &LINE, Ends::Synced)?;
    for log in ["HEAD", "main"] {
        fs.overwrite(&format!("{dir}/logs/{log}"), n * entry.len() as u64, &entry, Ends::Cached)?;
    }
    fs.rename(&lock, &format!("{dir}/refs/main"))?;
    fs.unlink(&format!("{dir}/HEAD.lock"))?;
    fs.rename(&format!("{dir}/index.lock"), &format!("{dir}/index"))
}

fn package_database(fs: &dyn Names, dir: &str) -> Result<()> {
    ["updates", "info"].iter().try_for_each(|name| fs.mkdir(&format!("{dir}/{name}")))?;
    fs.write(&format!("{dir}/status"), &PAGE, Ends::Cached)
}

/// Changes of a package's state that `dpkg --install` notes: one before its files, five after them.
const STATES: [u64; 2] = [1, 5];

/// `dpkg --install` of a package of ten files in a new directory.
fn unpack(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let (updates, info, package) = (format!("{dir}/updates"), format!("{dir}/info"), format!("{dir}/package-{n}"));
    let note = |state: u64| replace(fs, &updates, "tmp.i", &format!("{state:04}"), &PAGE[..136]);
    let control = format!("{dir}/tmp.ci");
    fs.mkdir(&control)?;
    fs.write(&format!("{control}/control"), &PAGE[..500], Ends::Synced)?;
    fs.sync(&control)?;
    (0..STATES[0]).try_for_each(note)?;
    fs.mkdir(&format!("{package}.dpkg-new"))?;
    fs.rename(&format!("{package}.dpkg-new"), &package)?;
    for file in 0..10 {
        fs.write(&format!("{package}/{file}.dpkg-new"), &PAGE, Ends::Cached)?;
    }
    for file in 0..10 {
        let new = format!("{package}/{file}.dpkg-new");
        fs.sync(&new)?;
        fs.rename(&new, &format!("{package}/{file}"))?;
    }
    for list in ["list", "md5sums"] {
        replace(fs, &info, &format!("{n}.{list}-new"), &format!("{n}.{list}"), &PAGE[..400])?;
    }
    (STATES[0]..STATES[0] + STATES[1]).try_for_each(note)?;
    fs.unlink(&format!("{control}/control"))?;
    fs.rmdir(&control)?;
    if n > 0 {
        fs.unlink(&format!("{dir}/status-old"))?;
    }
    fs.write(&format!("{dir}/status-new"), &PAGE, Ends::Synced)?;
    fs.link(&format!("{dir}/status"), &format!("{dir}/status-old"))?;
    fs.rename(&format!("{dir}/status-new"), &format!("{dir}/status"))?;
    fs.sync(dir)?;
    (0..STATES[0] + STATES[1]).try_for_each(|state| fs.unlink(&format!("{updates}/{state:04}")))?;
    fs.sync(&updates)
}

/// Bytes that RocksDB's log takes for a value of 1,000.
const RECORD: [u8; 1039] = [0x72; 1039];
/// Records of a memtable of 64 KiB.
const RECORDS: u64 = 56;

fn log_of_manifests(fs: &dyn Names, dir: &str) -> Result<()> {
    ["0.log", "MANIFEST"].iter().try_for_each(|name| fs.write(&format!("{dir}/{name}"), &[], Ends::Cached))
}

/// A memtable of RocksDB with `sync=1`: its records in a log of its own, its table, the manifest.
fn memtable(fs: &dyn Names, dir: &str, n: u64) -> Result<()> {
    let (log, edit) = (format!("{dir}/{}.log", n + 1), [0x65; 132]);
    fs.write(&log, &RECORD, Ends::DataSynced)?;
    fs.sync(dir)?;
    for record in 1..RECORDS {
        fs.overwrite(&log, record * RECORD.len() as u64, &RECORD, Ends::DataSynced)?;
    }
    fs.write(&format!("{dir}/{n}.sst"), &[0x73; 56 * 1024], Ends::DataSynced)?;
    fs.sync(dir)?;
    fs.overwrite(&format!("{dir}/MANIFEST"), n * edit.len() as u64, &edit, Ends::DataSynced)?;
    fs.unlink(&format!("{dir}/{n}.log"))
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
    fs.sync(dir)?;
    fs.rename(&first, &second)?;
    fs.sync(dir)?;
    fs.unlink(&second)?;
    fs.sync(dir)
}
