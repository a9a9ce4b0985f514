//! What a crash may leave: compares a tree that was found with the versions that the promises allow.
//!
//! The rules, for one writer that a crash at one [`Moment`] interrupted:
//!
//! - *Names* are those of one version `k`, whole: no operation on names is there in part, none is there without those
//!   before it. `k` is not older than the last `sync`, `checkpoint` or `gc` that returned, or `wait` that
//!   was long enough for `journal.commit=`. To these come the files that
//!   an `fsync` after `k` made durable, under the name they had at the time. Adding one may replace another file only
//!   where that had lost its last name by then: never neither.
//! - *A directory* that was fsynced has the names and attributes it had then, or newer ones.
//! - *A file* has size, mode and attributes of one version: `k`, or one of its fsyncs after `k`, and not older than its
//!   last fsync that returned (`fdatasync`: mode and attributes may be older).
//! - *A file's size* may also be one that it had since the last promise, or a page's beginning above the least of
//!   these: its end follows its contents.
//! - *Each page* has a content that was current at some time from the last promise about this file to that version:
//!   write-back comes when it pleases. Anything else is stale or foreign, and so are zeros that nobody wrote: the file
//!   reached as far then as it does within this page.
//! - *A file that took another's name*, or exchanged names with it, has the contents of that moment or newer ones.
//! - *Changes of ranges* (all of falloc) and direct writes go in pieces, and a checkpoint may come in between.
//! - *In place* (`mode=adaptive`): a write may go where the page already is. So a file of one version may have pages of
//!   later ones. A page may be one content in some of its 512-byte pieces and another in others. Nothing is older than
//!   the last promise.
//! - *With a journal*, names and attributes of `k` may come with contents and a size of an earlier version: not older
//!   than the last promise about the file, or the last checkpoint that was asked for. A small file that was made in the
//!   workload and never synced has the contents of `k`.
//! - *Strict* mounts promise more with the fsync of a new file: names that were removed from its directory by then are
//!   gone.

use crate::content::describe;
use crate::lang::{Op, Workload};
use crate::model::{Content, Kind, Node, Obj, PAGE, State, Timeline, Version, entries};
use crate::observe::WHITEOUT;
use crate::observe::{Seen, SeenIno, SeenNode};
use crate::run::{Run, Span};
use std::collections::{BTreeMap, BTreeSet};
use steadyfs_core::{InPlace, MountOptions};
use steadyfs_device::PIECE_SIZE;
use steadyfs_format::dir::FileType;

/// What one writer had done when the power went.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Moment {
    /// Steps begun.
    begun: Version,
    /// Steps that had returned.
    returned: Version,
    /// The oldest version that names may have.
    names: Version,
    /// The last version that a checkpoint was asked for.
    checkpoint: Version,
    /// The oldest version that contents may have.
    contents: Version,
}

impl Moment {
    /// The moment for one writer if the crash comes after `tick`.
    pub(crate) fn at(workload: &Workload, line: &Timeline, run: &Run, tick: u64) -> Self {
        let spans = &run.spans;
        let count = |wanted: &dyn Fn(&Span) -> bool| {
            line.steps.iter().filter(|&&step| spans.get(step).is_some_and(wanted)).count() as Version
        };
        let returned = count(&|span| span.end <= tick);
        let begun = count(&|span| span.start < tick || span.end <= tick);
        let promised = |wanted: &dyn Fn(&Op) -> bool| {
            let asked = workload.steps.iter().zip(spans).enumerate();
            let asked = asked.filter(|(_, (step, span))| span.end <= tick && wanted(&step.op));
            let asked = asked.filter(|(at, _)| !run.refused.contains(at));
            // What of this writer had returned when the promise was asked for.
            let before = asked.map(|(asked, (step, at))| {
                let own = line.steps.iter().filter(|&&own| match workload.steps[own].writer == step.writer {
                    true => own < asked,
                    false => spans[own].end < at.start,
                });
                own.count() as Version
            });
            before.max().unwrap_or(0)
        };
        let checkpoint = promised(&|op| matches!(op, Op::Sync | Op::Checkpoint | Op::Gc));
        let waited = promised(&|op| matches!(op, Op::Wait { seconds } if workload.commits_within(*seconds)));
        let names = checkpoint.max(waited);
        let contents = promised(&|op| matches!(op, Op::Sync));
        assert!(names <= returned && returned <= begun && contents <= checkpoint, "promises cover what had been done");
        Moment { begun, returned, names, checkpoint, contents }
    }
}

/// Whether a mount with these options makes names durable without contents.
pub(crate) fn has_journal(mount: &str) -> bool {
    mount.split(',').any(|option| option.starts_with("journal=") && option != "journal=off")
}

/// Whether contents of [`SMALL`] files are in their inodes.
fn keeps_inline(workload: &Workload) -> bool {
    !workload.mount.split(',').any(|option| option == "noinline_data")
}

/// Whether the mount makes the stricter promises.
fn is_strict(workload: &Workload) -> bool {
    workload.mount.split(',').any(|option| option == "fsync_mode=strict")
}

/// Whether the mount writes in place, on volumes as small as ours: it may be a preset that says so.
fn writes_in_place(workload: &Workload) -> bool {
    MountOptions::parse(&workload.mount).is_ok_and(|options| options.writes_in_place(1) != InPlace::Never)
}

/// Contents of this many bytes fit every inode.
const SMALL: u64 = 3000;

/// A call of fsync.
struct Syncing {
    obj: Obj,
    /// The version that it makes durable.
    version: Version,
    data_only: bool,
    returned: bool,
}

/// A writer, the moment of the crash, and the tree found.
pub(crate) struct Evidence<'a> {
    line: &'a Timeline,
    moment: &'a Moment,
    seen: &'a Seen,
    top: SeenIno,
    ops: Vec<&'a Op>,
    strict: bool,
    journal: bool,
    /// Small new files have their contents when they have their names.
    carries: bool,
    in_place: bool,
    syncs: Vec<Syncing>,
}

/// One tree that the names may be.
struct Expected {
    version: Version,
    names: BTreeMap<(Obj, String), Obj>,
}

impl<'a> Evidence<'a> {
    /// Prepares the comparison.
    pub(crate) fn new(
        workload: &'a Workload,
        refused: &BTreeSet<usize>,
        line: &'a Timeline,
        moment: &'a Moment,
        seen: &'a Seen,
        top: SeenIno,
    ) -> Self {
        let mut syncs = Vec::new();
        for (version, &step) in line.steps.iter().enumerate().take(moment.begun as usize) {
            let (path, data_only) = match &workload.steps[step].op {
                Op::Fsync { path } => (path, false),
                Op::Fdatasync { path } => (path, true),
                _ => continue,
            };
            if let Some(obj) = line.states[version].find(path) {
                let version = version as Version;
                let returned = version < moment.returned && !refused.contains(&step);
                syncs.push(Syncing { obj, version, data_only, returned });
            }
        }
        let ops = workload.steps.iter().map(|step| &step.op).collect();
        let (strict, in_place) = (is_strict(workload), writes_in_place(workload));
        let journal = has_journal(&workload.mount);
        let carries = journal && keeps_inline(workload);
        Evidence { line, moment, seen, top, ops, strict, journal, carries, in_place, syncs }
    }

    /// Whether the tree is one that the crash may leave; otherwise what is wrong with it, by version, the closest
    /// first.
    pub(crate) fn check(&self) -> Result<(), String> {
        // The closest version first; each reason once.
        let mut reasons: Vec<(usize, String)> = Vec::new();
        for version in (self.moment.names..=self.moment.begun).rev() {
            for unfinished in [false, true] {
                match self.expected(version, unfinished).and_then(|expected| self.compare(&expected)) {
                    Ok(()) => return Ok(()),
                    Err((rank, why)) => {
                        let text = format!("version {version}: {why}");
                        if !reasons.iter().any(|(_, known)| *known == text) {
                            reasons.push((rank, text));
                        }
                    }
                }
            }
        }
        reasons.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let Moment { begun, returned, names, .. } = self.moment;
        let why: Vec<String> = reasons.into_iter().take(4).map(|(_, why)| why).collect();
        let why = why.join("; ");
        Err(format!("{returned} steps had returned, {begun} had begun, names may be of {names} and later; {why}"))
    }

    fn state(&self, version: Version) -> &State {
        &self.line.states[version as usize]
    }

    fn is_dir(&self, obj: Obj, version: Version) -> bool {
        self.state(version).objects.get(obj).is_some_and(|node| node.kind == Kind::Dir)
    }

    /// The names if the last checkpoint was of this version. With `unfinished`, an fsync that had not returned has had
    /// its effect.
    fn expected(&self, version: Version, unfinished: bool) -> Result<Expected, (usize, String)> {
        let state = self.state(version);
        let mut names = state.names.clone();
        let later = self.syncs.iter().filter(|sync| sync.version > version && (sync.returned || unfinished));
        for sync in later {
            let no = |why: &str| Err((0, format!("the fsync at version {} {why}", sync.version)));
            let then = self.state(sync.version);
            if self.is_dir(sync.obj, sync.version) {
                if sync.returned && !self.same_dir(sync.obj, version, sync.version) {
                    return no("of a directory is not respected");
                }
                continue;
            }
            let wanted: Vec<_> = then.names_of(sync.obj).collect();
            // Nobody finds it after a crash, unless its last name comes back; then its contents count all the same.
            if wanted.is_empty() {
                continue;
            }
            let known: Vec<_> = names.iter().filter(|(_, obj)| **obj == sync.obj).map(|(place, _)| place).collect();
            // A name that was taken away is not promised to be gone.
            if !known.is_empty() && wanted.iter().all(|place| known.contains(place)) {
                continue;
            }
            if !sync.returned {
                // It would have had to commit a checkpoint of its own version; or it introduces a new file.
                if !(known.is_empty() && wanted.len() == 1 && self.reachable(&names, wanted[0].0)) {
                    continue;
                }
            } else if !known.is_empty() {
                return no("promised other names of the file");
            }
            let [place] = wanted.as_slice() else { return no("promised several names of a new file") };
            if !self.reachable(&names, place.0) {
                return no("promised a file in a new directory");
            }
            let dir = place.0;
            let removed = |(at, obj): (&(Obj, String), &Obj)| at.0 == dir && then.names.get(at) != Some(obj);
            if self.strict && sync.returned && names.iter().any(removed) {
                return no("of a new file promised what had been removed from its directory");
            }
            let replaced = names.insert((*place).clone(), sync.obj);
            if let Some(old) = replaced
                && !names.values().any(|obj| *obj == old)
                && then.names_of(old).next().is_some()
            {
                return no("would replace a file that has another name");
            }
        }
        Ok(Expected { version, names })
    }

    /// Whether a directory can be reached from the writer's own by these names.
    fn reachable(&self, names: &BTreeMap<(Obj, String), Obj>, mut obj: Obj) -> bool {
        while obj != self.line.top {
            match names.iter().find(|(_, named)| **named == obj) {
                Some(((parent, _), _)) => obj = *parent,
                None => return false,
            }
        }
        true
    }

    /// Whether a directory is the same from one version to another, all the time.
    fn same_dir(&self, dir: Obj, from: Version, to: Version) -> bool {
        let looks = |version: Version| {
            let state = self.state(version);
            let names: Vec<_> = state.names_of(dir).cloned().collect();
            let inside: Vec<_> = state.entries(dir).map(|(name, obj)| (name.to_owned(), obj)).collect();
            (state.objects.get(dir).cloned(), names, inside)
        };
        let last = looks(to);
        (from..to).all(|version| looks(version) == last)
    }

    /// Walks both trees together.
    fn compare(&self, expected: &Expected) -> Result<(), (usize, String)> {
        let mut inos = BTreeMap::from([(self.line.top, self.top)]);
        let mut taken = BTreeSet::from([self.top]);
        let mut waiting = vec![(self.line.top, String::new())];
        let mut files = Vec::new();
        while let Some((obj, path)) = waiting.pop() {
            let seen = self.node(inos[&obj]).map_err(|why| (1, why))?;
            if seen.kind != FileType::Dir {
                files.push((obj, path, seen));
                continue;
            }
            let wanted: BTreeMap<&str, Obj> = entries(&expected.names, obj).collect();
            let found: Vec<&str> = seen.entries.keys().map(String::as_str).collect();
            if !found.iter().eq(wanted.keys()) {
                let wanted: Vec<_> = wanted.keys().collect();
                return Err((1, format!("directory '/{path}' has {found:?} instead of {wanted:?}")));
            }
            for (name, child) in wanted {
                let (ino, path) = (seen.entries[name], format!("{path}/{name}"));
                match inos.insert(child, ino) {
                    Some(known) if known != ino => return Err((2, format!("'{path}' is no link to the same file"))),
                    Some(_) => {}
                    None if !taken.insert(ino) => return Err((2, format!("'{path}' is a link to another file"))),
                    None => waiting.push((child, path)),
                }
            }
            self.check_attributes(obj, expected.version, expected.version, seen)
                .map_err(|why| (3, format!("directory '/{path}' {why}")))?;
        }
        files.iter().try_for_each(|(obj, path, seen)| {
            self.check_file(*obj, expected.version, seen).map_err(|why| (4, format!("'{path}' {why}")))
        })
    }

    fn node(&self, ino: SeenIno) -> Result<&'a SeenNode, String> {
        self.seen.nodes.get(&ino).ok_or_else(|| format!("inode {ino} is missing"))
    }

    /// Kind, mode and attributes are those of one of the versions.
    fn check_attributes(&self, obj: Obj, oldest: Version, newest: Version, seen: &SeenNode) -> Result<(), String> {
        let nodes = (oldest..=newest).filter_map(|version| self.state(version).objects.get(obj));
        let mut why = "does not exist in this version".to_owned();
        for node in nodes {
            match attributes(node, seen) {
                Ok(()) => return Ok(()),
                Err(difference) => why = difference,
            }
        }
        Err(why)
    }

    /// A file or symlink is one of the versions that it may be, if the checkpoint was of version `base`.
    fn check_file(&self, obj: Obj, base: Version, seen: &SeenNode) -> Result<(), String> {
        let own = || self.syncs.iter().filter(|sync| sync.obj == obj);
        let promised = own().filter(|sync| sync.returned).map(|sync| sync.version).max().unwrap_or(0);
        let whole = own().filter(|sync| sync.returned && !sync.data_only).map(|sync| sync.version).max().unwrap_or(0);
        let durable = promised.max(self.moment.contents).max(self.settled(obj, base)).max(self.carried(obj, base));
        let exists = obj < self.state(base).objects.len();
        let mut why = format!("cannot be of any version from {promised} on");
        let from_base = (exists && base >= promised).then_some((base, base));
        let from_syncs = own().filter(|sync| sync.version > base && sync.version >= promised).map(|sync| {
            let oldest = if sync.data_only { whole.max(if exists { base } else { 0 }) } else { sync.version };
            (sync.version, oldest)
        });
        for (version, oldest) in from_base.into_iter().chain(from_syncs) {
            let of = |version| {
                let whole = self.check_contents(obj, version, durable, seen);
                whole.or_else(|why| {
                    if self.goes_in_pieces(obj, version) {
                        self.check_half_done(obj, version, durable, seen)
                    } else {
                        Err(why)
                    }
                })
            };
            let earliest = if self.journal { durable.max(self.moment.checkpoint).min(version) } else { version };
            let older = || (earliest..version).rev().filter(|&older| obj < self.state(older).objects.len());
            let newest = version + Version::from(self.changes_next(obj, version));
            let outcome = self.check_attributes(obj, oldest, newest, seen);
            let outcome = outcome.and_then(|()| {
                of(version).or_else(|why| if older().any(|v| of(v).is_ok()) { Ok(()) } else { Err(why) })
            });
            match outcome {
                Ok(()) => return Ok(()),
                Err(difference) => why = format!("{difference} (version {version}, contents since {durable})"),
            }
        }
        Err(why)
    }

    /// The version up to `base` in which the file last took the place of another: its contents went first.
    fn settled(&self, obj: Obj, base: Version) -> Version {
        let takes_over = |&version: &Version| {
            let before = self.state(version);
            let (from, to, swap) = match self.ops[self.line.steps[version as usize]] {
                Op::Rename { from, to } | Op::Whiteout { from, to } => (before.find(from), before.find(to), false),
                Op::Exchange { from, to } => (before.find(from), before.find(to), true),
                _ => return false,
            };
            from != to && to.is_some() && (from == Some(obj) || swap && to == Some(obj))
        };
        (0..base).rev().find(takes_over).map_or(0, |version| version + 1)
    }

    /// The version up to `base` in which a small file, made since the set-up and never synced, was last written:
    /// batches carry what it holds. 0 of any other file, and of one that shrank.
    fn carried(&self, obj: Obj, base: Version) -> Version {
        if !self.carries || obj < self.state(0).objects.len() {
            return 0;
        }
        let mut last = 0;
        for version in 0..base {
            let before = self.state(version);
            let is_ours = |path: &String| before.find(path) == Some(obj);
            match self.ops[self.line.steps[version as usize]] {
                Op::Write { path, .. } | Op::Append { path, .. } if is_ours(path) => last = version + 1,
                Op::DirectWrite { path, .. }
                | Op::Truncate { path, .. }
                | Op::Falloc { path, .. }
                | Op::Fsync { path }
                | Op::Fdatasync { path }
                    if is_ours(path) =>
                {
                    return 0;
                }
                _ => {}
            }
            if self.size(obj, version + 1) > SMALL {
                return 0;
            }
        }
        last
    }

    fn size(&self, obj: Obj, version: Version) -> u64 {
        self.state(version).objects.get(obj).map_or(0, |node| node.size)
    }

    /// Whether a file of this version may have this size: contents since `durable` may be missing at its end.
    fn size_fits(&self, obj: Obj, version: Version, durable: Version, size: u64) -> bool {
        let mut known = (durable.min(version)..=version).map(|version| self.size(obj, version));
        let least = known.clone().min().unwrap_or(0);
        size <= self.size(obj, version) && size >= least && (size.is_multiple_of(PAGE) || known.any(|had| had == size))
    }

    /// Whether the step after this version changes the file in pieces: such a step may be found half done.
    fn goes_in_pieces(&self, obj: Obj, version: Version) -> bool {
        let step = self.line.steps.get(version as usize).filter(|_| version < self.moment.begun);
        step.is_some_and(|&step| match &self.ops[step] {
            Op::Falloc { path, .. } | Op::DirectWrite { path, .. } => self.state(version).find(path) == Some(obj),
            _ => false,
        })
    }

    /// Whether the step after this version changes the contents of the file, and with them its times: a checkpoint may
    /// come in between.
    fn changes_next(&self, obj: Obj, version: Version) -> bool {
        let step = self.line.steps.get(version as usize).filter(|_| version < self.moment.begun);
        step.is_some_and(|&step| match &self.ops[step] {
            Op::Write { path, .. }
            | Op::DirectWrite { path, .. }
            | Op::Append { path, .. }
            | Op::Truncate { path, .. }
            | Op::Falloc { path, .. } => self.state(version).find(path) == Some(obj),
            _ => false,
        })
    }

    /// Half of such a step: the size before or after it, and each page as before or after it.
    fn check_half_done(&self, obj: Obj, version: Version, durable: Version, seen: &SeenNode) -> Result<(), String> {
        let (old, new) = (&self.state(version).objects[obj], &self.state(version + 1).objects[obj]);
        if !self.size_fits(obj, version, durable, seen.size) && !self.size_fits(obj, version + 1, durable, seen.size) {
            return Err(format!("has {} bytes, neither {} nor {}", seen.size, old.size, new.size));
        }
        for page in 0..old.size.max(new.size).div_ceil(PAGE) {
            let length = PAGE.min(seen.size.saturating_sub(page * PAGE)) as usize;
            let found = seen.pages.get(&page).map(Vec::as_slice);
            // What moves up has not come to every page behind the old end.
            let fits = |version| self.fits(obj, version, page, durable, found, length, 0);
            if !fits(version) && !fits(version + 1) {
                return Err(format!("holds in page {page} neither what was there nor what was to come"));
            }
        }
        Ok(())
    }

    /// The size is that of the node, and each page one of its contents since `durable`.
    fn check_contents(&self, obj: Obj, version: Version, durable: Version, seen: &SeenNode) -> Result<(), String> {
        let node = &self.state(version).objects[obj];
        if node.kind != Kind::File {
            return Ok(());
        }
        if !self.size_fits(obj, version, durable, seen.size) {
            return Err(format!("has {} bytes instead of {}", seen.size, node.size));
        }
        let pages: BTreeSet<u64> = node.pages.keys().chain(seen.pages.keys()).copied().collect();
        for page in pages.into_iter().filter(|page| page * PAGE < seen.size) {
            let length = PAGE.min(seen.size - page * PAGE) as usize;
            let found = seen.pages.get(&page).map(Vec::as_slice);
            let history = node.pages.get(&page).map_or(&[][..], Vec::as_slice);
            let reach = seen.size.min((page + 1) * PAGE);
            if !self.fits(obj, version, page, durable, found, length, reach) {
                let what = found.map_or("zeros".to_owned(), |bytes| describe_difference(history, bytes, page));
                return Err(format!("holds {what} in page {page}, which is none of its contents"));
            }
        }
        Ok(())
    }

    /// Whether the first bytes of a page are what they may be in a file of this version that had `reach` bytes at least
    /// when they were its contents.
    #[expect(clippy::too_many_arguments, reason = "a page, and what is asked of it")]
    fn fits(
        &self,
        obj: Obj,
        version: Version,
        page: u64,
        durable: Version,
        found: Option<&[u8]>,
        length: usize,
        reach: u64,
    ) -> bool {
        let contents = |version: Version| {
            let node = self.state(version).objects.get(obj);
            let history = node.and_then(|node| node.pages.get(&page)).map_or(&[][..], Vec::as_slice);
            legal(history, durable, move |from, end| (from..end.min(version + 1)).any(|at| self.size(obj, at) >= reach))
        };
        if !self.in_place {
            return contents(version).any(|content| same(content, found, length));
        }
        // Contents that were written since, but not a hole: that would not be made in place.
        let later = (version + 1..=self.moment.begun).flat_map(|version| contents(version).filter(Option::is_some));
        let all: Vec<Option<&[u8]>> = contents(version).chain(later).collect();
        (0..length).step_by(PIECE_SIZE).all(|at| {
            let range = at..length.min(at + PIECE_SIZE);
            let piece = |content: &[u8]| content.get(range.start..range.end.min(content.len())).unwrap_or(&[]).to_vec();
            let found = found.map(piece);
            all.iter().any(|content| same(content.map(piece).as_deref(), found.as_deref(), range.len()))
        })
    }
}

/// The contents of a page that were current at version `durable` or later, if `reached` says of the versions then that
/// the file had them.
fn legal<'a>(
    history: &'a [(Version, Content)],
    durable: Version,
    reached: impl Fn(Version, Version) -> bool + 'a,
) -> impl Iterator<Item = Option<&'a [u8]>> + 'a {
    let hole = history.is_empty().then_some(None);
    let ends = history.iter().skip(1).map(|(version, _)| *version).chain([Version::MAX]);
    let current = history.iter().zip(ends).filter(move |((from, _), end)| reached(*from.max(&durable), *end));
    hole.into_iter().chain(current.map(|((_, content), _)| content.as_deref()))
}

fn same(content: Option<&[u8]>, found: Option<&[u8]>, length: usize) -> bool {
    let zeros = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    match (content, found) {
        (None, None) => true,
        (Some(content), Some(found)) => content[..length] == found[..length.min(found.len())],
        (Some(content), None) => zeros(&content[..length]),
        (None, Some(found)) => zeros(found),
    }
}

fn describe_difference(history: &[(Version, Content)], found: &[u8], page: u64) -> String {
    let newest = history.last().and_then(|(_, content)| content.as_deref()).unwrap_or(&[]);
    let zeros = [0; PAGE as usize];
    let newest = if newest.is_empty() { &zeros[..] } else { newest };
    let at = found.iter().zip(newest).position(|(a, b)| a != b).unwrap_or(0) / 16 * 16;
    format!("{} at offset {}", describe(&found[at..]), page * PAGE + at as u64)
}

fn attributes(node: &Node, seen: &SeenNode) -> Result<(), String> {
    let same_kind = match &node.kind {
        Kind::File => seen.kind == FileType::Regular,
        Kind::Dir => seen.kind == FileType::Dir,
        Kind::Whiteout => seen.kind == FileType::CharDevice && seen.target == WHITEOUT,
        Kind::Fifo => seen.kind == FileType::Fifo,
        Kind::Symlink(target) => seen.kind == FileType::Symlink && seen.target == target.as_bytes(),
    };
    if !same_kind {
        return Err(format!("is a {:?} (target {:?})", seen.kind, String::from_utf8_lossy(&seen.target)));
    }
    if node.mode != seen.mode && !matches!(node.kind, Kind::Symlink(_)) {
        return Err(format!("has mode {:o} instead of {:o}", seen.mode, node.mode));
    }
    if node.owner != seen.owner {
        return Err(format!("belongs to {:?} instead of {:?}", seen.owner, node.owner));
    }
    if let Some(then) = node.mtime.filter(|then| Some(i64::from(*then)) != seen.mtime) {
        return Err(format!("was changed at {:?} instead of {then}", seen.mtime));
    }
    if !node
        .xattrs
        .iter()
        .map(|(name, value)| (name, &value[..]))
        .eq(seen.xattrs.iter().map(|(name, value)| (name, &value[..])))
    {
        let names: Vec<_> = seen.xattrs.keys().collect();
        return Err(format!("has the attributes {names:?} instead of {:?}", node.xattrs.keys().collect::<Vec<_>>()));
    }
    Ok(())
}
