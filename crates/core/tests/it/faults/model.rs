//! What a volume may hold after a fault: per path the states it was in, and since when one of them is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_core::{Error, Fs, InodeRef, Result};
use steadyfs_format::dir::FileType;

const PAGE: usize = 4096;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Absent,
    Dir,
    Link(Vec<u8>),
    /// Shared by all models and states that have them: each run begins with a copy of megabytes.
    File(Arc<Vec<u8>>),
}

#[derive(Clone, Debug)]
struct History {
    states: Vec<Entry>,
    /// The oldest state that a crash may lead back to.
    floor: usize,
    /// The last state that was certain; later ones are what operations that failed may have made.
    certain: usize,
}

/// The paths.
#[derive(Clone, Default)]
pub(crate) struct Model {
    paths: BTreeMap<String, History>,
    /// Files that were renamed while durable: one of both names is always there.
    renamed: Vec<(String, String)>,
}

impl Model {
    /// The state of a path as far as it is known.
    pub(crate) fn get(&self, path: &str) -> Entry {
        self.paths.get(path).map_or(Entry::Absent, |h| h.states[h.states.len() - 1].clone())
    }

    /// Whether a path may be what was found there now.
    pub(crate) fn may_be(&self, path: &str, found: &Entry) -> bool {
        match self.paths.get(path) {
            None => *found == Entry::Absent,
            Some(history) => allows(&history.states[history.certain..], found, true),
        }
    }

    fn history(&mut self, path: &str) -> &mut History {
        let none = || History { states: vec![Entry::Absent], floor: 0, certain: 0 };
        self.paths.entry(path.to_owned()).or_insert_with(none)
    }

    /// The path is in a new state.
    pub(crate) fn set(&mut self, path: &str, entry: Entry) {
        let history = self.history(path);
        history.states.push(entry);
        history.certain = history.states.len() - 1;
    }

    /// The path may be in a new state.
    pub(crate) fn set_maybe(&mut self, path: &str, entry: Entry) {
        self.history(path).states.push(entry);
    }

    /// What the path is now survives a crash.
    pub(crate) fn durable(&mut self, path: &str) {
        let history = self.history(path);
        history.floor = history.certain;
    }

    /// Everything survives a crash.
    pub(crate) fn all_durable(&mut self) {
        for history in self.paths.values_mut() {
            // What came before can never be seen again.
            history.states.drain(..history.certain);
            (history.floor, history.certain) = (0, 0);
        }
        self.renamed.clear();
    }

    /// A file goes from one name to another.
    pub(crate) fn note_rename(&mut self, from: &str, to: &str) {
        let is_durable = self.paths.get(from).is_some_and(|h| matches!(h.states[h.floor], Entry::File(_)));
        if is_durable {
            self.renamed.push((from.to_owned(), to.to_owned()));
        }
    }

    /// Compares with a volume: exactly, or as a crash may have left it.
    pub(crate) fn judge(&self, fs: &Fs, exactly: bool) -> std::result::Result<(), String> {
        for (path, history) in &self.paths {
            let found = read(fs, path).map_err(|e| format!("{path}: {e}"))?;
            let from = if exactly { history.certain } else { history.floor };
            let allowed = &history.states[from..];
            if !allows(allowed, &found, exactly) {
                return Err(format!(
                    "{path} is {}, not one of {:?}",
                    brief(&found),
                    allowed.iter().map(brief).collect::<Vec<_>>()
                ));
            }
        }
        for (from, to) in &self.renamed {
            let gone = |path| read(fs, path).is_ok_and(|entry| entry == Entry::Absent);
            // It may have been removed on purpose since.
            let removed = [from, to].iter().all(|path| self.get(path) == Entry::Absent);
            if gone(from) && gone(to) && !removed {
                return Err(format!("neither {from} nor {to} is there"));
            }
        }
        Ok(())
    }
}

fn allows(allowed: &[Entry], found: &Entry, exactly: bool) -> bool {
    allowed.contains(found) || !(exactly && allowed.len() == 1) && is_mix(found, allowed)
}

/// Whether a file is made of pages of the allowed states. A page that the oldest of them did not have may be zero:
/// reserved, never written.
fn is_mix(found: &Entry, allowed: &[Entry]) -> bool {
    let Entry::File(found) = found else { return false };
    let files: Vec<&Arc<Vec<u8>>> =
        allowed.iter().filter_map(|e| if let Entry::File(data) = e { Some(data) } else { None }).collect();
    let whole = files.len() == allowed.len();
    files.iter().any(|data| data.len() == found.len())
        && found.chunks(PAGE).enumerate().all(|(n, page)| {
            let (from, to) = (n * PAGE, n * PAGE + page.len());
            let part = |data: &[u8]| {
                let mut part = data.get(from..to.min(data.len())).unwrap_or_default().to_vec();
                part.resize(page.len(), 0);
                part
            };
            let may_be_new = !whole || files.iter().any(|data| data.len() < to);
            files.iter().any(|data| part(data) == page) || may_be_new && page.iter().all(|byte| *byte == 0)
        })
}

fn brief(entry: &Entry) -> String {
    let runs = |data: &[u8]| {
        let starts: Vec<String> = data.chunks(PAGE).map(|page| format!("{:02x}", page[page.len() / 2])).collect();
        starts.join("")
    };
    match entry {
        Entry::File(data) => format!("a file of {} bytes ({})", data.len(), runs(data)),
        other => format!("{other:?}"),
    }
}

/// The inode at a path.
pub(crate) fn find(fs: &Fs, path: &str) -> Result<InodeRef> {
    let mut at = fs.root()?;
    for name in path.split('/') {
        at = fs.lookup(&at, name.as_bytes())?;
    }
    Ok(at)
}

/// What a path leads to.
pub(crate) fn read(fs: &Fs, path: &str) -> Result<Entry> {
    let inode = match find(fs, path) {
        Ok(inode) => inode,
        Err(Error::NotFound) => return Ok(Entry::Absent),
        Err(e) => return Err(e),
    };
    match inode.kind() {
        FileType::Dir => Ok(Entry::Dir),
        FileType::Symlink => fs.readlink(&inode).map(Entry::Link),
        _ => {
            let mut data = vec![0; fs.attr(&inode)?.size as usize];
            let n = fs.read(&inode, 0, &mut data)?;
            assert_eq!(n, data.len());
            Ok(Entry::File(Arc::new(data)))
        }
    }
}
