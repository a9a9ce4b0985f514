//! Scripts of small traces: what was there before, which inode is which file, who waits for whom.

use super::script::{ROOT, Script};
use steadyfs_trace::file::{Header, Trace};
use steadyfs_trace::{Name, Op, Record};

const FILE: u64 = 0o100_644;

/// A record of `thread` from `start` on for 10 ns.
fn op(op: Op, start_ns: u64, thread: u32, file: u64) -> Record {
    Record { start_ns, duration_ns: 10, ..Record::new(op, thread, file) }
}

fn name(number: u64) -> Name {
    Name::new(number, 5)
}

/// An operation on a name of the root.
fn named(what: Op, start_ns: u64, thread: u32, number: u64, other: u64) -> Record {
    Record { name: name(number), other, flags: FILE, ..op(what, start_ns, thread, 1) }
}

fn script(records: Vec<Record>) -> Script {
    let header = Header { began: 0, cache: 0 };
    Script::of(&Trace { header, records, dropped: 0, cut_off: false }).unwrap()
}

#[test]
fn an_inode_number_that_comes_again_is_another_file() {
    let script = script(vec![
        named(Op::Create, 0, 1, 7, 100),
        Record { size: 4096, done: 4096, ..op(Op::Write, 20, 1, 100) },
        named(Op::Unlink, 40, 1, 7, 0),
        named(Op::Create, 60, 1, 8, 100),
        Record { size: 8192, done: 8192, ..op(Op::Write, 80, 1, 100) },
    ]);
    let files: Vec<usize> = script.steps.iter().map(|step| step.file).collect();
    assert_eq!((script.steps[0].makes, script.steps[3].makes), (Some(1), Some(2)));
    assert_eq!(files, [ROOT, 1, ROOT, ROOT, 2]);
    assert_eq!((script.initial_bytes(), script.peak_bytes()), (0, 8192), "the first was gone");
    assert!(script.initial_names.is_empty() && script.lanes == [[0, 1, 2, 3, 4]]);
    assert!(script.steps.iter().all(|step| step.after.is_empty()), "one after the other anyway");
}

#[test]
fn what_was_there_before_has_its_names_and_sizes() {
    let missing = Record { error: 2, other: 0, ..named(Op::Lookup, 50, 1, 9, 0) };
    let script = script(vec![
        Record { size: 10_000, ..named(Op::Lookup, 0, 1, 7, 100) },
        Record { offset: 0, size: 9000, done: 9000, ..op(Op::Read, 20, 1, 100) },
        Record { offset: 4096, size: 4096, done: 100, ..op(Op::Read, 40, 1, 200) },
        missing,
        named(Op::Unlink, 60, 1, 8, 0),
        Record { name: name(3), flags: 0o040_755, ..named(Op::Lookup, 80, 1, 3, 300) },
        Record { name: name(4), flags: FILE, size: 5, other: 400, ..op(Op::Lookup, 100, 1, 300) },
    ]);
    assert_eq!(script.objects[1].initial_size, 10_000);
    assert_eq!(script.objects[2].initial_size, 4196, "of a file whose name was never seen what was read is known");
    assert_eq!(script.initial_bytes(), 12_288 + 8192 + 4096);
    let directory = script.steps[6].file;
    assert!(script.objects[directory].is_dir);
    let named: Vec<(usize, Name)> = script.initial_names.iter().map(|(dir, name, _)| (*dir, *name)).collect();
    assert_eq!(named, [(ROOT, name(7)), (ROOT, name(8)), (ROOT, name(3)), (directory, name(4))]);
}

#[test]
fn steps_wait_for_those_of_other_lanes_that_made_named_or_changed() {
    // Two threads at once: the first makes and writes a file, the second reads, renames and removes it.
    let script = script(vec![
        op(Op::Getattr, 0, 2, 1),
        named(Op::Create, 1, 1, 7, 100),
        Record { size: 4096, done: 4096, ..op(Op::Write, 20, 1, 100) },
        Record { size: 4096, done: 4096, ..op(Op::Read, 40, 2, 100) },
        Record { other_name: name(8), flags: 0, ..named(Op::Rename, 60, 2, 7, 1) },
        named(Op::Unlink, 80, 1, 8, 0),
        op(Op::Fsync, 100, 2, 100),
    ]);
    assert_eq!(script.lanes, [vec![0, 3, 4, 6], vec![1, 2, 5]]);
    let after: Vec<&[u32]> = script.steps.iter().map(|step| &step.after[..]).collect();
    assert_eq!(after, [&[][..], &[], &[], &[1, 2], &[1], &[4], &[1, 2]]);
    assert!((0u32..).zip(&script.steps).all(|(number, step)| step.after.iter().all(|other| *other < number)));
}

#[test]
fn lanes_are_as_many_as_were_at_work_at_once() {
    let kernel = |start| Record { duration_ns: 100, size: 4096, done: 4096, ..op(Op::Write, start, 0, 100) };
    // Three threads one after the other, and two write-backs that overlap.
    let script = script(vec![
        op(Op::Getattr, 0, 1, 1),
        op(Op::Getattr, 20, 1, 1),
        op(Op::Getattr, 50, 2, 1),
        kernel(55),
        kernel(56),
        op(Op::Getattr, 70, 3, 1),
        op(Op::Getattr, 500, 3, 1),
    ]);
    assert_eq!(script.lanes, [vec![0, 1, 2, 5, 6], vec![3], vec![4]]);
    let thinks: Vec<u64> = script.lanes[0].iter().map(|step| script.steps[*step as usize].think_ns).collect();
    assert_eq!(thinks, [0, 10, 20, 10, 420]);
    assert_eq!(script.steps[3].think_ns, 55, "a lane that begins later waits");
    assert!((script.seconds() - 510e-9).abs() < 1e-15);
}
