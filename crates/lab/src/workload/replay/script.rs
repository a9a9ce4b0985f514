//! What a trace asks for: a tree that is there before, and lanes of steps with what each waits for.
//!
//! Inode numbers come again when files are removed, and names are known by number only: going through the records in
//! the order in which they began, each gets the *object* that its inode was at that time. What was used and not made in
//! the trace was there before, with the size that was seen first.
//!
//! A *lane* is what one task does: operations of one thread, one after the other, and of threads that began after it
//! had ended. What the kernel did by itself may overlap, and is spread over as many lanes as it takes. There are as
//! many lanes as operations were ever under way at once, or threads alive.
//!
//! Kept true: a step waits for earlier ones only, so that a replay always comes to its end. It waits for the step that
//! made what it works on, and for the last one on the same name. It also waits for changes of the same file by other
//! lanes that had ended when it began.

use std::collections::{BTreeMap, BTreeSet};
use steadyfs_trace::file::Trace;
use steadyfs_trace::{Name, Op, Record};

/// FUSE's bit of a setattr that changes the size.
pub(super) const SET_SIZE: u64 = 1 << 3;
/// As in mode_t.
const TYPE: u64 = 0o170_000;
const DIRECTORY: u64 = 0o040_000;
const SYMLINK: u64 = 0o120_000;
/// open(2): cut the file off.
pub(super) const TRUNCATE: u64 = 0o1000;
/// More are no threads but a damaged trace.
const MOST_LANES: usize = 4096;
/// The object of the root directory.
pub(super) const ROOT: usize = 0;
/// renameat2(2): a whiteout takes the old name.
pub(super) const WHITEOUT: u64 = 1 << 2;

/// One file, directory or link of the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Object {
    pub(super) is_dir: bool,
    pub(super) is_link: bool,
    /// It was there before.
    pub(super) is_initial: bool,
    /// Its size then.
    pub(super) initial_size: u64,
    /// Whether that has been seen, or changed since.
    sized: bool,
    size: u64,
    names: u32,
    /// The step that makes it.
    maker: Option<u32>,
    /// By lane, the last step that changed it, and when that ended.
    changes: BTreeMap<u32, (u32, u64)>,
}

/// One operation, in terms of objects.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) record: Record,
    pub(super) file: usize,
    pub(super) other: Option<usize>,
    /// The object that it makes.
    pub(super) makes: Option<usize>,
    /// Nanoseconds that passed in its lane since the step before had ended.
    pub(super) think_ns: u64,
    /// Steps that must have ended.
    pub(super) after: Vec<u32>,
}

/// A trace, ready to be done again.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(super) objects: Vec<Object>,
    /// Names that were there before: directory, name, what it named.
    pub(super) initial_names: Vec<(usize, Name, usize)>,
    pub(super) steps: Vec<Step>,
    /// Of each lane, its steps in order.
    pub(super) lanes: Vec<Vec<u32>>,
    /// The most bytes that files held at once.
    pub(super) peak_bytes: u64,
    /// From the beginning of the first step to the end of the last.
    pub(super) seconds: f64,
    live_bytes: u64,
    by_node: BTreeMap<u64, usize>,
    names: BTreeMap<(usize, Name), Option<usize>>,
    last_on_name: BTreeMap<(usize, Name), u32>,
}

impl Script {
    /// What this trace asks for.
    ///
    /// # Errors
    /// There is nothing in it, or more at once than any machine does.
    pub(crate) fn of(trace: &Trace) -> Result<Self, String> {
        if trace.records.is_empty() {
            return Err("there is no operation in it".into());
        }
        let mut records = trace.records.clone();
        records.sort_by_key(|record| record.start_ns);
        let lane_of = lanes(&records);
        let count = lane_of.iter().max().map_or(0, |lane| *lane as usize + 1);
        if count > MOST_LANES {
            return Err(format!("{count} threads at once are more than {MOST_LANES}"));
        }
        let root = Object { is_dir: true, is_initial: true, ..Object::default() };
        let mut script = Script { objects: vec![root], lanes: vec![Vec::new(); count], ..Script::default() };
        script.by_node.insert(1, ROOT);
        let first = records.first().map_or(0, |record| record.start_ns);
        let mut ended = vec![first; count];
        for (record, lane) in records.into_iter().zip(lane_of) {
            let place = lane as usize;
            let think_ns = record.start_ns.saturating_sub(ended[place]);
            ended[place] = record.end_ns();
            script.add(record, lane, think_ns);
        }
        script.seconds = (ended.into_iter().max().unwrap_or(first) - first) as f64 / 1e9;
        Ok(script)
    }

    /// Bytes of files that were there before, in whole pages.
    pub(crate) fn initial_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.initial_size.div_ceil(4096) * 4096).sum()
    }

    /// The most bytes that files held at once, those that were there before included.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.initial_bytes())
    }

    /// How long it took when it was recorded.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    fn add(&mut self, record: Record, lane: u32, think_ns: u64) {
        let number = self.steps.len() as u32;
        let file = self.object(record.file);
        let mut step = Step { record, file, other: None, makes: None, think_ns, after: Vec::new() };
        let mut after = BTreeSet::new();
        let object = &mut self.objects[file];
        after.extend(object.maker);
        object.is_dir |= record.error == 0 && matches!(record.op, Op::Readdir | Op::Fsyncdir);
        object.is_link |= record.error == 0 && record.op == Op::Readlink;
        self.on_names(&mut step, &mut after);
        self.on_contents(&step, number, lane, &mut after);
        if let Some(made) = step.makes {
            self.objects[made].maker = Some(number);
        }
        for key in [(file, record.name), (step.other.unwrap_or(ROOT), record.other_name)] {
            if key.1 != Name::default() && is_on_names(record.op) {
                self.last_on_name.insert(key, number);
            }
        }
        let mine = &mut self.lanes[lane as usize];
        // A lane does one after the other anyway.
        after.retain(|other| mine.binary_search(other).is_err());
        step.after = after.into_iter().collect();
        mine.push(number);
        self.steps.push(step);
    }

    /// The object that an inode is now.
    fn object(&mut self, node: u64) -> usize {
        if let Some(known) = self.by_node.get(&node) {
            return *known;
        }
        self.new_object(Some(node), true)
    }

    fn new_object(&mut self, node: Option<u64>, is_initial: bool) -> usize {
        let number = self.objects.len();
        self.objects.push(Object { is_initial, ..Object::default() });
        if let Some(node) = node {
            self.by_node.insert(node, number);
        }
        number
    }

    /// What an operation does to names, and which it has to wait for because of them.
    fn on_names(&mut self, step: &mut Step, after: &mut BTreeSet<u32>) {
        let (r, dir) = (step.record, step.file);
        if !is_on_names(r.op) {
            if r.op == Op::Copy {
                step.other = Some(self.object(r.other));
                after.extend(step.other.and_then(|to| self.objects[to].maker));
            }
            return;
        }
        self.objects[dir].is_dir = true;
        after.extend(self.last_on_name.get(&(dir, r.name)));
        if r.op == Op::Rename {
            let to = self.object(r.other);
            self.objects[to].is_dir = true;
            step.other = Some(to);
            after.extend(self.objects[to].maker);
            after.extend(self.last_on_name.get(&(to, r.other_name)));
        }
        if r.error != 0 {
            if r.op == Op::Lookup {
                self.names.entry((dir, r.name)).or_insert(None);
            }
            return;
        }
        match r.op {
            Op::Lookup => self.looked_up(step),
            Op::Link => {
                let object = self.object(r.other);
                step.other = Some(object);
                after.extend(self.objects[object].maker);
                self.named(dir, r.name, object);
            }
            Op::Create | Op::Mknod | Op::Mkdir | Op::Symlink | Op::Tmpfile => {
                let made = self.new_object(Some(r.other), false);
                step.makes = Some(made);
                let object = &mut self.objects[made];
                (object.is_dir, object.is_link) = (r.op == Op::Mkdir, r.op == Op::Symlink);
                if r.op != Op::Tmpfile {
                    self.named(dir, r.name, made);
                }
            }
            Op::Unlink | Op::Rmdir => {
                let victim = self.named_now(dir, r.name);
                if r.op == Op::Rmdir {
                    self.objects[victim].is_dir = true;
                    // It has to be empty by then.
                    after.extend(self.objects[victim].changes.values().map(|(step, _)| *step));
                }
                self.unnamed(dir, r.name);
            }
            _ => self.renamed(step),
        }
    }

    fn looked_up(&mut self, step: &mut Step) {
        let (r, dir) = (step.record, step.file);
        let object = match (self.by_node.get(&r.other), self.names.get(&(dir, r.name))) {
            (Some(known), _) => *known,
            (None, Some(Some(known))) => {
                // Its maker was not recorded, or the file of this name was seen by its name only.
                self.by_node.insert(r.other, *known);
                *known
            }
            (None, _) => self.new_object(Some(r.other), true),
        };
        let is_new = !self.names.contains_key(&(dir, r.name));
        let seen = &mut self.objects[object];
        seen.is_dir |= r.flags & TYPE == DIRECTORY;
        seen.is_link |= r.flags & TYPE == SYMLINK;
        if seen.is_initial && !seen.sized && !seen.is_dir && !seen.is_link {
            let more = r.size.saturating_sub(seen.size);
            (seen.sized, seen.initial_size, seen.size) = (true, r.size, r.size);
            self.grew(more);
        }
        if is_new && self.objects[object].is_initial && self.objects[dir].is_initial {
            self.initial_names.push((dir, r.name, object));
            self.named(dir, r.name, object);
        }
    }

    /// What a name names; if nobody has seen it yet, something that was there before.
    fn named_now(&mut self, dir: usize, name: Name) -> usize {
        if let Some(Some(known)) = self.names.get(&(dir, name)) {
            return *known;
        }
        let object = self.new_object(None, true);
        if self.objects[dir].is_initial && !self.names.contains_key(&(dir, name)) {
            self.initial_names.push((dir, name, object));
        }
        self.named(dir, name, object);
        object
    }

    fn named(&mut self, dir: usize, name: Name, object: usize) {
        self.names.insert((dir, name), Some(object));
        self.objects[object].names += 1;
    }

    fn unnamed(&mut self, dir: usize, name: Name) {
        if let Some(Some(object)) = self.names.insert((dir, name), None) {
            let object = &mut self.objects[object];
            object.names = object.names.saturating_sub(1);
            if object.names == 0 {
                self.live_bytes = self.live_bytes.saturating_sub(object.size);
                object.size = 0;
            }
        }
    }

    fn renamed(&mut self, step: &mut Step) {
        let (from, to) = ((step.file, step.record.name), (step.other.unwrap_or(ROOT), step.record.other_name));
        let moved = self.named_now(from.0, from.1);
        // renameat2(2): 2 is to exchange.
        if step.record.flags & 2 != 0 {
            let other = self.named_now(to.0, to.1);
            self.names.insert(from, Some(other));
            self.names.insert(to, Some(moved));
            return;
        }
        self.unnamed(to.0, to.1);
        self.names.insert(to, Some(moved));
        self.names.insert(from, None);
        if step.record.flags & WHITEOUT != 0 {
            let left = self.new_object(None, false);
            step.makes = Some(left);
            self.named(from.0, from.1, left);
        }
    }

    /// What an operation does to contents, and which changes it has to wait for.
    fn on_contents(&mut self, step: &Step, number: u32, lane: u32, after: &mut BTreeSet<u32>) {
        let r = &step.record;
        let end = |offset: u64| offset.saturating_add(r.done.max(if r.op == Op::Fallocate { r.size } else { 0 }));
        let is_change = match r.op {
            Op::Read => {
                let object = &mut self.objects[step.file];
                if object.is_initial && !object.sized && r.done > 0 {
                    let more = end(r.offset).saturating_sub(object.size);
                    object.initial_size = object.initial_size.max(end(r.offset));
                    object.size += more;
                    self.grew(more);
                }
                false
            }
            Op::Write | Op::Fallocate => self.resized(step.file, end(r.offset), true),
            Op::Copy => self.resized(step.other.unwrap_or(step.file), end(r.other_offset), true),
            Op::Setattr if r.flags & SET_SIZE != 0 => self.resized(step.file, r.size, false),
            Op::Open if r.flags & TRUNCATE != 0 => self.resized(step.file, 0, false),
            op => is_on_names(op) && op != Op::Lookup,
        };
        // Writes to one file may overlap; everything else had seen what ended before it began.
        let waits = matches!(r.op, Op::Fsync | Op::Read | Op::Setattr | Op::Getattr | Op::Copy | Op::Release);
        let begun = r.start_ns;
        if waits {
            let ended = self.objects[step.file].changes.values().filter(|(_, end)| *end <= begun);
            after.extend(ended.map(|(step, _)| *step));
        }
        if is_change && r.error == 0 {
            for object in [Some(step.file), step.other].into_iter().flatten() {
                self.objects[object].changes.insert(lane, (number, r.end_ns()));
            }
        }
    }

    /// A file has this size now, or at least this size.
    fn resized(&mut self, object: usize, size: u64, at_least: bool) -> bool {
        let object = &mut self.objects[object];
        object.sized = true;
        let before = object.size;
        object.size = if at_least { before.max(size) } else { size };
        let (more, less) = (object.size.saturating_sub(before), before.saturating_sub(object.size));
        self.live_bytes = self.live_bytes.saturating_sub(less);
        self.grew(more);
        true
    }

    fn grew(&mut self, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }
}

/// Operations that are about a name in a directory.
fn is_on_names(op: Op) -> bool {
    matches!(
        op,
        Op::Lookup
            | Op::Create
            | Op::Mknod
            | Op::Mkdir
            | Op::Symlink
            | Op::Tmpfile
            | Op::Link
            | Op::Unlink
            | Op::Rmdir
            | Op::Rename
    )
}

/// The lane of each record, which are in the order of their beginnings.
fn lanes(records: &[Record]) -> Vec<u32> {
    // Spans of time that belong together: a thread's, or one operation of the kernel.
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut of_thread: BTreeMap<u32, usize> = BTreeMap::new();
    let mut span_of = Vec::with_capacity(records.len());
    for record in records {
        let open = of_thread.get(&record.thread).copied().filter(|_| record.thread != 0);
        // A thread that asks again before it was answered has asked for several things at once.
        let span = match open.filter(|span| spans[*span].1 <= record.start_ns) {
            Some(span) => span,
            None => {
                spans.push((record.start_ns, 0));
                spans.len() - 1
            }
        };
        spans[span].1 = spans[span].1.max(record.end_ns());
        if open.is_none() {
            of_thread.insert(record.thread, span);
        }
        span_of.push(span);
    }
    // Spans begin in order. Each gets the first lane that is free.
    let mut free: BTreeSet<u32> = BTreeSet::new();
    let mut busy: BTreeSet<(u64, u32)> = BTreeSet::new();
    let mut lane_of_span = Vec::with_capacity(spans.len());
    for (start, end) in &spans {
        while let Some(&(until, lane)) = busy.first()
            && until <= *start
        {
            busy.remove(&(until, lane));
            free.insert(lane);
        }
        let lane = free.pop_first().unwrap_or(busy.len() as u32);
        busy.insert((*end, lane));
        lane_of_span.push(lane);
    }
    span_of.into_iter().map(|span| lane_of_span[span]).collect()
}
