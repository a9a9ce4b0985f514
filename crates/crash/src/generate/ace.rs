//! Every workload of a few operations on a few names, each operation followed by each way to make it durable.
//!
//! An operation says what must be there before it; what no earlier step of the workload makes is made by the set-up. A
//! combination whose steps contradict each other is no workload.

use super::{LONG_ENOUGH, commits_by_time};
use crate::lang::{Falloc, Op, Workload};
use crate::model::{HANDLE, timelines};
use crate::rng::Rng;

/// Bytes of a file that must be there.
const SIZE: u64 = 16_384;

/// What must be there.
#[derive(Debug, Clone, Copy)]
enum Need {
    File(&'static str),
    Dir(&'static str),
    /// A file with the attribute `user.a`.
    Marked(&'static str),
    /// A file, and a handle of it.
    Open(&'static str),
    /// A file without a name.
    Nameless(&'static str),
}

/// An operation, and what it needs beside the directories of its paths.
struct Act {
    op: Op,
    needs: Vec<Need>,
}

fn act(text: &str, needs: &[Need]) -> Option<Act> {
    let workload: Workload = text.parse().ok()?;
    let op = workload.steps.into_iter().next()?.op;
    Some(Act { op, needs: needs.to_vec() })
}

/// Operations on owners and times, on open files whatever becomes of their names, and on files without one.
const OTHERS: &[(&str, &[Need])] = &[
    ("chown foo 7 8", &[Need::File("foo")]),
    ("chown A 7 8", &[Need::Dir("A")]),
    ("utimes foo 1000000", &[Need::File("foo")]),
    ("mkfifo A/bar", &[]),
    ("open A", &[Need::Dir("A")]),
    ("write @foo 4096 8192", &[Need::Open("foo")]),
    ("dwrite @foo 4096 8192", &[Need::Open("foo")]),
    ("truncate @foo 5000", &[Need::Open("foo")]),
    ("tmpfile new", &[]),
    ("write @new 0 5000", &[Need::Nameless("new")]),
    ("link @new bar", &[Need::Nameless("new")]),
    ("link @new A/bar", &[Need::Nameless("new")]),
];

/// The operations. Of each kind: on a file of the root, one of a directory, across both; on names that are new and
/// names that exist.
fn acts() -> Vec<Act> {
    use Need::{Dir, File, Marked};
    let one = &[File("foo")][..];
    let table: &[(&str, &[Need])] = &[
        ("creat foo", &[]),
        ("creat A/foo", &[]),
        ("mkdir A", &[]),
        ("mkdir A/C", &[]),
        ("write foo 0 100", one),
        ("write foo 0 4096", one),
        ("write foo 1000 5000", one),
        ("write foo 8192 16384", one),
        ("write foo 4194304 4096", one),
        ("write A/foo 4096 4096", &[File("A/foo")]),
        ("dwrite foo 4096 8192", one),
        ("append foo 100", one),
        ("append foo 20000", one),
        ("append A/foo 4096", &[File("A/foo")]),
        ("rename foo bar", one),
        ("rename foo bar", &[File("foo"), File("bar")]),
        ("rename foo A/bar", one),
        ("rename A/foo foo", &[File("A/foo")]),
        ("rename A/foo bar", &[File("A/foo"), File("bar")]),
        ("rename A/foo A/bar", &[File("A/foo"), File("A/bar")]),
        ("rename A B", &[Dir("A")]),
        ("rename A B", &[File("A/foo"), Dir("B")]),
        ("rename A/C B", &[Dir("A/C")]),
        ("exchange foo bar", &[File("foo"), File("bar")]),
        ("exchange foo A/bar", &[File("foo"), File("A/bar")]),
        ("exchange A B", &[File("A/foo"), Dir("B")]),
        ("exchange foo A", &[File("foo"), Dir("A")]),
        ("whiteout foo bar", one),
        ("whiteout foo bar", &[File("foo"), File("bar")]),
        ("whiteout foo A/bar", one),
        ("whiteout A/foo A/bar", &[File("A/foo"), File("A/bar")]),
        ("whiteout A B", &[Dir("A")]),
        ("link foo bar", one),
        ("link foo A/bar", one),
        ("link A/foo bar", &[File("A/foo")]),
        ("symlink foo bar", &[]),
        ("symlink some/where A/bar", &[]),
        ("unlink foo", one),
        ("unlink A/foo", &[File("A/foo")]),
        ("unlink A/bar", &[File("A/bar")]),
        ("rmdir A", &[Dir("A")]),
        ("rmdir A/C", &[Dir("A/C")]),
        ("truncate foo 0", one),
        ("truncate foo 5000", one),
        ("truncate foo 8192", one),
        ("truncate foo 30000", one),
        ("falloc foo allocate 12288 16384", one),
        ("falloc foo allocate-keep 16384 16384", one),
        ("falloc foo punch 4096 8192", one),
        ("falloc foo punch 1000 6000", one),
        ("falloc foo zero 4096 4096", one),
        ("falloc foo zero-keep 12288 8192", one),
        ("falloc foo collapse 4096 4096", one),
        ("falloc foo insert 4096 4096", one),
        ("setxattr foo user.a 40", one),
        ("setxattr foo user.b 3000", one),
        ("setxattr A user.a 40", &[Dir("A")]),
        ("removexattr foo user.a", &[Marked("foo")]),
        ("chmod foo 600", one),
        ("open foo", one),
        ("gc", one),
    ];
    table.iter().chain(OTHERS).filter_map(|(text, needs)| act(text, needs)).collect()
}

/// The ways to make durable what was done to these paths: each of them, its directory, everything; and a wait, where
/// that is one.
fn persists(paths: &[&str], mount: &str) -> Vec<Op> {
    let mut out = Vec::new();
    let mut add = |op: Op| {
        if !out.contains(&op) {
            out.push(op);
        }
    };
    for path in paths {
        add(Op::Fsync { path: (*path).to_owned() });
        add(Op::Fdatasync { path: (*path).to_owned() });
        let dir = path.trim_start_matches(HANDLE).rsplit_once('/').map_or("", |(dir, _)| dir);
        add(Op::Fsync { path: if dir.is_empty() { ".".to_owned() } else { dir.to_owned() } });
    }
    add(Op::Sync);
    add(Op::Checkpoint);
    if commits_by_time(mount) {
        add(LONG_ENOUGH);
    }
    out
}

/// More than [`persists`] of the paths of three operations ever gives.
const SLOTS: u64 = 24;

/// One operation, and what makes it durable.
type Choice<'a> = (&'a Act, Option<Op>);

/// The workload of these choices; `None` if they contradict each other.
fn build(chosen: &[Choice<'_>], mount: &str) -> Option<Workload> {
    let steps = chosen.iter().flat_map(|(act, persist)| [Some(act.op.clone()), persist.clone()]).flatten();
    let mut workload = Workload { mount: mount.to_owned(), ..Workload::new(Vec::new(), steps) };
    let mut made: Vec<String> = Vec::new();
    // What an earlier step makes need not be there before.
    let mut later: Vec<String> = Vec::new();
    for (act, _) in chosen {
        // A handle needs none.
        let paths = act.op.paths().into_iter().filter(|path| !path.starts_with(HANDLE));
        let parents = paths.filter_map(|path| path.rsplit_once('/')).map(|(dir, _)| dir);
        for dir in parents {
            provide(&mut workload, &mut made, &later, dir, Shape::Dir);
        }
        for need in &act.needs {
            match *need {
                Need::File(path) => provide(&mut workload, &mut made, &later, path, Shape::File),
                Need::Dir(path) => provide(&mut workload, &mut made, &later, path, Shape::Dir),
                Need::Marked(path) => {
                    provide(&mut workload, &mut made, &later, path, Shape::File);
                    workload.setup.push(Op::SetXattr { path: path.to_owned(), name: "user.a".into(), len: 40 });
                }
                Need::Open(path) => {
                    let handle = format!("{HANDLE}{path}");
                    if made.iter().chain(&later).all(|known| *known != handle) {
                        provide(&mut workload, &mut made, &later, path, Shape::File);
                        workload.setup.push(Op::Open { path: path.to_owned() });
                        made.push(handle);
                    }
                }
                Need::Nameless(path) => {
                    let handle = format!("{HANDLE}{path}");
                    if made.iter().chain(&later).all(|known| *known != handle) {
                        workload.setup.push(Op::Tmpfile { path: path.to_owned() });
                        made.push(handle);
                    }
                }
            }
        }
        later.extend(new_names(&act.op));
    }
    timelines(&workload).ok().map(|_| workload)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    File,
    Dir,
}

/// Adds to the set-up what makes `path`, unless that is done already.
fn provide(workload: &mut Workload, made: &mut Vec<String>, later: &[String], path: &str, shape: Shape) {
    if let Some((dir, _)) = path.rsplit_once('/') {
        provide(workload, made, later, dir, Shape::Dir);
    }
    if made.iter().chain(later).any(|known| known == path) {
        return;
    }
    made.push(path.to_owned());
    let path = path.to_owned();
    if shape == Shape::Dir {
        workload.setup.push(Op::Mkdir { path });
    } else {
        workload.setup.push(Op::Creat { path: path.clone() });
        workload.setup.push(Op::Write { path, off: 0, len: SIZE });
    }
}

/// Names that an operation makes.
fn new_names(op: &Op) -> Vec<String> {
    match op {
        Op::Open { path } | Op::Tmpfile { path } => vec![format!("{HANDLE}{path}")],
        Op::Creat { path } | Op::Mkdir { path } | Op::Mkfifo { path } | Op::Symlink { path, .. } => vec![path.clone()],
        Op::Rename { to, .. } | Op::Whiteout { to, .. } | Op::Link { to, .. } => vec![to.clone()],
        _ => vec![],
    }
}

/// All workloads of `length` operations (1 or 2 are practicable), mounted with these options, in an order that the seed
/// decides: first those in which only the last operation is made durable, then those in which others are, too.
pub fn exhaustive(length: u32, mount: &str, seed: u64) -> impl Iterator<Item = Workload> + Send + use<> {
    let acts = acts();
    let n = acts.len() as u64;
    let mount = mount.to_owned();
    let last = permutation(n.pow(length) * SLOTS, seed).map(|number| (number, false));
    let between = if length == 1 { 0 } else { (n * SLOTS).pow(length) };
    let others = permutation(between, seed).map(|number| (number, true));
    last.chain(others).filter_map(move |(number, between)| numbered(&acts, number, length, between, &mount))
}

/// Workloads of `length` operations, picked at random, without end; in half of them only the last operation is made
/// durable.
pub fn sampled(length: u32, mount: &str, seed: u64) -> impl Iterator<Item = Workload> + Send + use<> {
    let (acts, mut rng, mount) = (acts(), Rng::new(seed), mount.to_owned());
    let n = acts.len() as u64;
    std::iter::repeat_with(move || {
        let between = rng.below(2) == 0;
        let total = if between { (n * SLOTS).pow(length) } else { n.pow(length) * SLOTS };
        numbered(&acts, rng.below(total), length, between, &mount)
    })
    .flatten()
}

/// The numbers below `total` in some order: steps of a length that shares no factor with it.
fn permutation(total: u64, seed: u64) -> impl Iterator<Item = u64> + Send {
    let mut rng = Rng::new(seed);
    let start = rng.below(total);
    let strides = std::iter::repeat_with(move || 1 + rng.below(total));
    let stride = strides.take(10_000).find(|&stride| gcd(stride, total) == 1).unwrap_or(1);
    (0..total).map(move |i| ((u128::from(start) + u128::from(i) * u128::from(stride)) % u128::from(total)) as u64)
}

/// The workload whose choices are the digits of `number`. With `between`, operations before the last are made durable,
/// too.
fn numbered(acts: &[Act], mut number: u64, length: u32, between: bool, mount: &str) -> Option<Workload> {
    let mut digit = |base: u64| {
        let digit = number % base;
        number /= base;
        digit as usize
    };
    let mut chosen: Vec<Choice<'_>> = Vec::with_capacity(length as usize);
    let mut paths: Vec<&str> = Vec::new();
    for position in 1..=length {
        let act = &acts[digit(acts.len() as u64)];
        paths.extend(act.op.paths());
        let mut ways = persists(&paths, mount);
        let persist = if position == length {
            Some(ways.get(digit(SLOTS))?.clone())
        } else if between {
            let slot = digit(SLOTS);
            if slot > ways.len() {
                return None;
            }
            (slot < ways.len()).then(|| ways.swap_remove(slot))
        } else {
            None
        };
        chosen.push((act, persist));
    }
    let early = chosen.iter().rev().skip(1).any(|(_, persist)| persist.is_some());
    if early == between { build(&chosen, mount) } else { None }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Modes that a random workload uses.
pub(super) const FALLOCS: [Falloc; 5] =
    [Falloc::Allocate, Falloc::AllocateKeep, Falloc::Punch, Falloc::Zero, Falloc::ZeroKeep];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_operation_is_in_a_workload_of_its_own() {
        let all: Vec<Workload> = exhaustive(1, "", 1).collect();
        for act in acts() {
            assert!(all.iter().any(|workload| workload.steps[0].op == act.op), "{}", act.op);
        }
        let texts: HashSet<String> = all.iter().map(ToString::to_string).collect();
        assert!(texts.len() > 200, "only {}", texts.len());
        assert!(all.iter().all(|workload| workload.to_string().parse() == Ok(workload.clone())));
    }

    #[test]
    fn the_seed_changes_the_order_and_nothing_else() {
        let set = |seed| exhaustive(1, "", seed).map(|w| w.to_string()).collect::<HashSet<_>>();
        let list = |seed| exhaustive(1, "", seed).map(|w| w.to_string()).collect::<Vec<_>>();
        assert_eq!(set(1), set(2));
        assert_ne!(list(1), list(2));
    }

    #[test]
    fn there_are_slots_for_all_ways() {
        let most = acts()
            .iter()
            .map(|act| persists(&act.op.paths(), "journal=single,journal.commit=1").len())
            .max()
            .expect("there are operations");
        assert!(3 * (most - 2) + 2 <= SLOTS as usize, "{most}");
    }

    #[test]
    fn later_steps_build_on_earlier_ones() {
        let mut pairs = exhaustive(2, "", 3).take(3000);
        let writes = |op: &Op| matches!(op, Op::Write { path, .. } | Op::Append { path, .. } if path == "foo");
        assert!(pairs.any(|workload| {
            let steps = &workload.steps;
            let makes = steps[0].op == Op::Creat { path: "foo".into() };
            makes && workload.setup.is_empty() && steps.iter().any(|step| writes(&step.op))
        }));
    }
}
