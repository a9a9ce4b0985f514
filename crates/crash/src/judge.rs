//! The judge of one state: is this volume what the promises allow, and can one go on with it?
//!
//! In order:
//! 1. Our checker finds no error.
//! 2. On a volume that gives dead blocks back, the device holds none that nobody knows of.
//! 3. It mounts, and the tree is legal at every moment at which the state may be found.
//! 4. A new file can be written and synced, or fsynced.
//! 5. The power goes off again, and the checker still finds no error.
//! 6. After another mount the tree is the same, with the new file.
//!
//! For some states the mount itself is interrupted too. Its own writes are explored like those of a workload, and each
//! state is judged by the same rules. A read-only mount of these shows the same tree and writes nothing.
//!
//! All mounts are in virtual time, with the cores and the seed of the workload: a state that is wrong is wrong each
//! time.

use crate::content::fill;
use crate::lang::{BALLAST, Op, Workload};
use crate::left::{Left, WriteHistory};
use crate::legal::{Evidence, Moment};
use crate::observe::Seen;
use crate::run::{Hand, Run, Trace, virtual_time};
use crate::seeds::without_panic;
use crate::states::{self, Effort};
use std::sync::Arc;
use std::time::Duration;
use steadyfs_core::fsck::{self, CheckOptions, Severity};
use steadyfs_core::{AccessTimes, Fs, MountOptions};
use steadyfs_device::{Device, FaultyDevice, MemDevice, Record, RecordingDevice};
use steadyfs_rt::sim::{self, SimConfig, SimFailure};
use steadyfs_rt::sleep;

/// The promise that a state breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The checker finds no error.
    Consistent,
    /// What the device holds is needed, or known to be dead.
    Leaks,
    /// It mounts.
    Mounts,
    /// The tree is legal.
    Legal,
    /// One can go on with it.
    Usable,
    /// No panic.
    NoPanic,
    /// The file system does what the model allows, without any crash.
    Works,
}

/// The fault of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Fault { rule, what: what.into() }
    }

    /// Of a mount that did not come to its end.
    fn of_mount(why: SimFailure) -> Self {
        let rule = match why {
            SimFailure::Deadlock(_) => Rule::Mounts,
            SimFailure::Panicked(_) => Rule::NoPanic,
        };
        Fault::new(rule, format!("while it is mounted, {why}"))
    }
}

/// Does `f`; a panic is a fault.
pub(crate) fn guarded<R>(f: impl FnOnce() -> Result<R, Fault>) -> Result<R, Fault> {
    without_panic(f, |text| Fault::new(Rule::NoPanic, text))
}

/// What a mount writes. A read-only one writes nothing, and shows the same tree.
fn record_mount(left: Left, options: &MountOptions) -> Result<Vec<Record>, Fault> {
    let device = Arc::new(RecordingDevice::new(left.device));
    let (watched, _) = left.history.watch(Arc::clone(&device) as Arc<dyn Device>);
    let mount = |options| {
        let fs = Fs::mount(Arc::clone(&watched), options);
        let read = fs.and_then(|fs| Seen::read(&fs).map(|seen| (fs, seen)));
        read.map_err(|e| Fault::new(Rule::Mounts, format!("it does not mount: {e}")))
    };
    let (_, looked) = mount(MountOptions { read_only: true, ..options.clone() })?;
    if !device.log().is_empty() {
        return Err(Fault::new(Rule::Mounts, "a read-only mount writes"));
    }
    let (fs, recovered) = mount(options.clone())?;
    if let Some(path) = looked.difference(&recovered) {
        return Err(Fault::new(Rule::Legal, format!("a read-only mount shows '{path}' unlike one that writes")));
    }
    let records = device.take_log();
    drop(fs);
    Ok(records)
}

/// Judges states of one run.
pub(crate) struct Judge<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) run: &'a Run,
    pub(crate) options: &'a MountOptions,
}

/// Threads of a volume that nobody has any more end when they look next, the flusher after five seconds, or ten; in
/// virtual time that costs nothing.
const ENOUGH_TO_END: Duration = Duration::from_secs(15);

/// The number that marks what the judge writes, beyond any step's.
const AFTERWARDS: u32 = 99_990;

impl Judge<'_> {
    /// Judges the states in which crashes leave a volume while it is mounted after a crash; `depth` crashes one upon
    /// the other. Returns how many states it judged.
    pub(crate) fn judge_recovery(
        &self,
        left: &Left,
        moments: &[Vec<Moment>],
        effort: Effort,
        depth: u32,
        seed: u64,
    ) -> Result<u64, Fault> {
        let trace = self.record_mount(left)?;
        // What may be found does not depend on when the second crash comes.
        let found = states::explore(&trace, effort, seed, |_| ());
        let mut judged = 0;
        for (number, state) in found.distinct.iter().enumerate() {
            let left = state.choice.build(&trace);
            let again = || format!("a crash while mounting it ({})", state.choice.describe(&trace));
            let within = |fault: Fault| Fault { what: format!("after {}: {}", again(), fault.what), ..fault };
            if depth > 1 && number as u64 == seed % found.distinct.len() as u64 {
                judged += self.judge_recovery(&left, moments, effort, depth - 1, seed).map_err(within)?;
            }
            self.judge(left, moments, number).map_err(within)?;
            judged += 1;
        }
        Ok(judged)
    }

    /// What a mount writes. Without times of access: with them, most of what is written is what reading the tree leads
    /// to.
    pub(crate) fn record_mount(&self, left: &Left) -> Result<Trace, Fault> {
        let (base, checksums) = (left.fork(), self.workload.has_checksums());
        let options = MountOptions { access_times: AccessTimes::Never, ..self.options.clone() };
        let records = self.in_virtual_time(move || record_mount(base, &options))?;
        // No step ends in it.
        let end = 0;
        Ok(Trace { base: left.device.fork(), records, end, checksums, history: left.history.clone() })
    }

    /// Judges one state; `moments` as in [`crate::states::CrashState`]. The state's number decides how one goes on
    /// afterwards.
    pub(crate) fn judge(&self, left: Left, moments: &[Vec<Moment>], number: usize) -> Result<(), Fault> {
        guarded(|| self.judge_unguarded(left, moments, number.is_multiple_of(2)))
    }

    /// Whether the tree on `other`, which somebody else made of the volume `ours`, is legal, and the same as the one
    /// that we make of it.
    pub(crate) fn compare(
        &self,
        other: Arc<dyn Device>,
        ours: Arc<MemDevice>,
        moments: &[Vec<Moment>],
    ) -> Result<(), String> {
        let options = MountOptions { read_only: true, ..self.options.clone() };
        let read =
            |fs: Result<Arc<Fs>, steadyfs_core::Error>| fs.and_then(|fs| Seen::read(&fs)).map_err(|e| e.to_string());
        let theirs = read(Fs::mount(other, options))?;
        moments.iter().try_for_each(|moment| self.check_tree(&theirs, moment)).map_err(|fault| fault.what)?;
        let ours = read(Fs::mount(ours, self.options.clone()))?;
        match theirs.difference(&ours) {
            None => Ok(()),
            Some(path) => Err(format!("'{path}' is not what we make of it, though both are legal")),
        }
    }

    fn in_virtual_time<R: 'static>(&self, f: impl FnOnce() -> Result<R, Fault> + 'static) -> Result<R, Fault> {
        in_virtual_time(virtual_time(self.workload), f)
    }

    fn judge_unguarded(&self, left: Left, moments: &[Vec<Moment>], all: bool) -> Result<(), Fault> {
        check(&left.device, "after the crash")?;
        left.history.check_leaks(&left.device, "after the crash")?;
        let (options, full) = (self.options.clone(), self.workload.free.is_some());
        let Used { device, history, seen, wrote } = self.in_virtual_time(move || Used::of(left, options, full, all))?;
        moments.iter().try_for_each(|moment| self.check_tree(&seen, moment))?;
        let kept = wrote.map_err(|e| Fault::new(Rule::Usable, format!("writing afterwards: {e}")))?;
        check(device.inner(), "after writing more")?;
        history.check_leaks(device.inner(), "after writing more")?;
        let again = Left { device: device.inner().fork(), history };
        let options = MountOptions { read_only: true, ..self.options.clone() };
        let after = self.in_virtual_time(move || read_again(again, options))?;
        check_again(after, seen, &kept)
    }

    /// The tree against the model, for every writer.
    fn check_tree(&self, seen: &Seen, moment: &[Moment]) -> Result<(), Fault> {
        let wrong = |why: String| Fault::new(Rule::Legal, why);
        let lines = &self.run.timelines;
        if let [first, _, ..] = lines.as_slice() {
            let wanted: Vec<&str> = first.states[0].entries(crate::model::ROOT).map(|(name, _)| name).collect();
            let found: Vec<&str> = seen.nodes[&seen.root].entries.keys().map(String::as_str).collect();
            if wanted != found {
                return Err(wrong(format!("the root has {found:?} instead of {wanted:?}")));
            }
        }
        for (line, moment) in lines.iter().zip(moment) {
            let writer = self.workload.steps[line.steps[0]].writer;
            let home = if lines.len() == 1 { String::new() } else { format!("w{writer}") };
            let top = seen.find(&home).ok_or_else(|| wrong(format!("directory '/{home}' is missing")))?;
            Evidence::new(self.workload, &self.run.refused, line, moment, seen, top)
                .check()
                .map_err(|why| wrong(if home.is_empty() { why } else { format!("in '/{home}': {why}") }))?;
        }
        Ok(())
    }
}

/// Mounts and what is done with them, in virtual time; no thread of a mount may outlive it.
pub(crate) fn in_virtual_time<R: 'static>(
    config: SimConfig,
    f: impl FnOnce() -> Result<R, Fault> + 'static,
) -> Result<R, Fault> {
    let work = move || {
        let result = f();
        sleep(ENOUGH_TO_END);
        result
    };
    let report = sim::run(config, work).map_err(Fault::of_mount)?;
    match report.unfinished.as_slice() {
        [] => report.value,
        left => Err(Fault::new(Rule::Usable, format!("threads outlive the mount: {}", left.join(", ")))),
    }
}

/// Our checker finds no error on the volume; `when` is for the message.
pub(crate) fn check(image: &MemDevice, when: &str) -> Result<(), Fault> {
    let options = CheckOptions { threads: 1, max_issues: 20, ..CheckOptions::default() };
    let report = fsck::check(Arc::new(image.fork()), &options)
        .map_err(|e| Fault::new(Rule::Consistent, format!("{when}, the checker: {e}")))?;
    let errors = report.issues.iter().filter(|issue| issue.severity() >= Severity::Error);
    let errors: Vec<String> = errors.take(3).map(ToString::to_string).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(Fault::new(Rule::Consistent, format!("{when}, the checker finds: {}", errors.join("; "))))
}

/// A volume after a crash, as it was found, and as it was when its use went on.
struct Used {
    device: Arc<FaultyDevice<MemDevice>>,
    /// With what was written.
    history: WriteHistory,
    seen: Seen,
    /// The name of the file that was written.
    wrote: Result<String, steadyfs_core::Error>,
}

impl Used {
    /// Mounts a volume, looks at it, writes more, and makes that durable: with `all`, by a checkpoint; else by a chain
    /// that begins where the one before the crash did. Then the power goes off.
    fn of(left: Left, options: MountOptions, full: bool, all: bool) -> Result<Self, Fault> {
        let device = Arc::new(FaultyDevice::new(left.device));
        let (watched, history) = left.history.watch(Arc::clone(&device) as Arc<dyn Device>);
        let fs =
            Fs::mount(watched, options).map_err(|e| Fault::new(Rule::Mounts, format!("it does not mount: {e}")))?;
        let seen = Seen::read(&fs).map_err(|e| Fault::new(Rule::Legal, format!("the tree cannot be read: {e}")))?;
        let wrote = go_on(fs, full, all);
        // Collectors may be at work still. Their writes while others read would be found by these in part.
        device.disappear();
        Ok(Used { device, history: history.now(), seen, wrote })
    }
}

/// Writes a file, on a full volume in place of the ballast, and makes it durable, by a checkpoint or by a chain. Its
/// name.
fn go_on(fs: Arc<Fs>, full: bool, all: bool) -> Result<String, steadyfs_core::Error> {
    let mut hand = Hand { fs, open: Vec::new() };
    if full {
        hand.attempt(&Op::Unlink { path: BALLAST.to_owned() }, AFTERWARDS)?;
    }
    let path = "afterwards".to_owned();
    hand.attempt(&Op::Creat { path: path.clone() }, AFTERWARDS)?;
    hand.attempt(&Op::Write { path: path.clone(), off: 0, len: 9000 }, AFTERWARDS)?;
    let last = if all { Op::Sync } else { Op::Fsync { path: path.clone() } };
    hand.attempt(&last, AFTERWARDS)?;
    Ok(path)
}

/// What a second mount shows, which writes nothing.
fn read_again(left: Left, options: MountOptions) -> Result<Seen, Fault> {
    let (watched, _) = left.history.watch(Arc::new(left.device));
    let fs = Fs::mount(watched, options).map_err(|e| Fault::new(Rule::Usable, format!("the second mount: {e}")))?;
    let unreadable = |e| Fault::new(Rule::Usable, format!("after the second mount, the tree cannot be read: {e}"));
    Seen::read(&fs).map_err(unreadable)
}

/// After another mount, everything is as it was, and what was written since is there.
fn check_again(mut after: Seen, mut before: Seen, new: &str) -> Result<(), Fault> {
    let lost = |why: &str| Fault::new(Rule::Usable, format!("after the second mount, {why}"));
    let root = after.root;
    let written = after.take(new).ok_or_else(|| lost("the new file is missing"))?;
    // An fsync of the new file does not promise that the ballast is gone.
    let _may_be_there = (before.take(BALLAST), after.take(BALLAST));
    let bytes: Vec<u8> = written.pages.into_values().flatten().collect();
    if bytes != fill(AFTERWARDS, 0, 9000) {
        return Err(lost("the new file has other contents"));
    }
    // The size of the directory may have grown for the new name.
    let roots = after.nodes.get_mut(&root).zip(before.nodes.get(&root));
    roots.into_iter().for_each(|(now, then)| now.size = then.size);
    if after != before {
        let path = after.difference(&before).unwrap_or_default();
        return Err(lost(&format!("'{path}' is not what the first mount showed")));
    }
    Ok(())
}
