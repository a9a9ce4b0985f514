//! Every operation of a short workload on its device fails: in one or two ways, which take turns, or in every way
//! ([`sampled`]).
//!
//! After each run: nobody panicked, nobody hangs; somebody was told, or else all that was done is there; the device
//! works again, the volume mounts, the checker finds nothing, and the tree is one that the syncs that succeeded allow.

use crate::faults::bed::{Bed, Ends, KINDS, Watch, fsck};
use crate::faults::workload::{Run, base, work};
use std::time::Duration;
use steadyfs_device::{Fault, MemDevice, OpKind, errno};
use steadyfs_testkit::sampled;

/// What happens to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Fails,
    /// The backing file is full.
    Full,
    Torn,
    /// This one fails and the next few, so that trying once more does not help.
    FailsForAWhile,
    /// It is the last one: the device is gone.
    Gone,
    Late,
}

impl Way {
    fn fault(self, kind: OpKind, nth: u64) -> Fault {
        match self {
            Way::Fails => Fault::fail(errno::EIO).on(kind).nth(nth),
            Way::Full => Fault::fail(errno::ENOSPC).on(kind).nth(nth),
            Way::Torn => Fault::torn(3).nth(nth),
            Way::FailsForAWhile => Fault::fail(errno::EIO).on(kind).after(nth).times(40),
            Way::Gone => Fault::disappear().on(kind).nth(nth),
            Way::Late => Fault::delay(Duration::from_millis(5)).on(kind).nth(nth),
        }
    }

    fn on(kind: OpKind) -> &'static [Way] {
        match kind {
            OpKind::Read => &[Way::Fails, Way::Gone, Way::Late],
            OpKind::Write => &[Way::Fails, Way::Full, Way::Torn, Way::FailsForAWhile, Way::Gone],
            _ => &[Way::Fails, Way::Gone, Way::Late],
        }
    }
}

/// What comes after the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The machine crashes.
    Crash,
    /// The device is repaired and the volume unmounted.
    Unmount,
}

struct Case {
    ends: Ends,
    kind: OpKind,
    nth: u64,
    way: Way,
    end: End,
    options: &'static str,
}

impl Case {
    fn name(&self) -> String {
        let Case { ends, kind, nth, way, end, options } = self;
        format!("{kind} {nth} {way:?}, ending {ends:?}, {options}, then {end:?}")
    }

    /// Runs the workload with the fault; whether it struck while the volume was mounted.
    fn run(&self) {
        let name = self.name();
        let (volume, model) = base();
        let bed = Bed::new(volume, self.ends);
        bed.faulty.add(self.way.fault(self.kind, self.nth));
        let Ok(fs) = bed.mount(self.options) else {
            // Said at once. The volume is what it was.
            assert_ne!(self.way, Way::Late, "{name}: a mount that takes longer fails");
            return self.judge(&bed, model, false);
        };
        let mut run = Run::new(fs, model);
        work(&mut run);
        let told = !run.errors.is_empty();
        // How many operations there are depends a little on what the housekeeper does: the last may not have come.
        let struck = bed.counts()[place_of(self.kind)] > self.nth;
        if self.way == Way::Late {
            assert!(!told, "{name}: {:?}", run.errors);
        } else if struck && (self.kind == OpKind::Flush || self.way == Way::Gone) {
            assert!(told, "{name}: nobody was told");
        }
        bed.faulty.heal();
        let Run { fs, mut model, .. } = run;
        // Nobody need be told of what has no effect: a superblock that has a copy, the contents of a deleted file, a
        // write that the second attempt does. Then everything must be there.
        let exactly = (self.end == End::Unmount || !told) && fs.unmount().is_ok();
        assert!(told || exactly, "{name}: told only at the end");
        if exactly {
            model.all_durable();
        }
        drop(fs);
        self.judge(&bed, model, exactly);
    }

    /// What is there after the fault.
    fn judge(&self, bed: &Bed, model: crate::faults::model::Model, exactly: bool) {
        let name = self.name();
        let device = bed.after_crash();
        fsck(&device, &name);
        let again = Bed::new(device, Ends::AtOnce);
        let fs = again.mount("").unwrap_or_else(|e| panic!("{name}: mounted again: {e}"));
        model.judge(&fs, exactly).unwrap_or_else(|e| panic!("{name}: {e}"));
        fs.unmount().unwrap_or_else(|e| panic!("{name}: unmounted again: {e}"));
        drop(fs);
        fsck(&again.after_crash(), &name);
    }
}

/// Where a kind is counted.
fn place_of(kind: OpKind) -> usize {
    KINDS.iter().position(|k| *k == kind).expect("counted")
}

/// How many operations of each kind mount and workload make.
fn operations(ends: Ends) -> [u64; 3] {
    let (volume, model) = base();
    let bed = Bed::new(volume, ends);
    let mut run = Run::new(bed.mount("").expect("a device without faults"), model);
    work(&mut run);
    assert!(run.errors.is_empty(), "{:?}", run.errors);
    let counts = bed.counts();
    run.model.judge(&run.fs, true).expect("a device without faults");
    run.fs.unmount().expect("a device without faults");
    drop(run.fs);
    let device: MemDevice = bed.after_crash();
    fsck(&device, "without faults");
    counts
}

fn every(kind: OpKind, ends: Ends, options: &'static str) {
    let watch = Watch::start();
    let count = operations(ends)[place_of(kind)];
    assert!(count > 5, "the workload makes only {count} operations of kind {kind}");
    let mut cases = 0;
    for nth in 0..count {
        let ways = Way::on(kind);
        let turn = ways.iter().cycle().skip(nth as usize * 2).take(sampled(ways.len() / 2, ways.len()));
        for &way in turn {
            let end = if cases % 2 == 0 { End::Crash } else { End::Unmount };
            let case = Case { ends, kind, nth, way, end, options };
            watch.next(&case.name());
            case.run();
            watch.check(&case.name());
            cases += 1;
        }
    }
    println!("{cases} cases: every {kind} of {count} with {options}, ending {ends:?}");
}

#[test]
fn every_read_fails() {
    every(OpKind::Read, Ends::AtOnce, "errors=continue");
    every(OpKind::Read, Ends::Later, "errors=continue");
}

#[test]
fn every_write_fails() {
    every(OpKind::Write, Ends::AtOnce, "errors=continue");
}

#[test]
fn every_write_fails_later() {
    every(OpKind::Write, Ends::Later, "errors=continue");
}

#[test]
fn every_write_fails_and_the_volume_becomes_read_only() {
    every(OpKind::Write, Ends::AtOnce, "errors=remount-ro");
}

#[test]
fn every_flush_fails() {
    every(OpKind::Flush, Ends::AtOnce, "errors=continue");
    every(OpKind::Flush, Ends::Later, "errors=remount-ro");
}
