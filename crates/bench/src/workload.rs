//! The workloads. Each is a few measurements on one freshly made file system.
//!
//! A workload has stages; between two of them the file system is unmounted and mounted again, so that a stage starts
//! with nothing cached. Preparations and clean-up between measurements are not timed.

use crate::data::{Buffer, Entry, MIB, PAGE, Random, source_tree};
use crate::measure::{Sample, Stop, Watch};
use crate::tree::{Handle, Open, Tree};
use anyhow::{Context, Result, ensure};
use serde::Serialize;

/// How much to do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Amounts {
    /// Bytes of the file for data workloads, a multiple of 1 MiB.
    pub(crate) file_bytes: u64,
    /// Bytes per write when that file is laid out.
    pub(crate) layout_bytes: usize,
    /// Cached 4 KiB operations per measurement; direct ones are a quarter of that, synced ones a 32nd.
    pub(crate) operations: u64,
    /// Files to create, stat and unlink.
    pub(crate) names: usize,
    /// Files of the source tree.
    pub(crate) sources: usize,
}

/// The unit that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Thousand operations a second.
    Kops,
    /// Million bytes a second.
    Megabytes,
}

/// Every measurement: its name, what is counted, and what is done.
pub(crate) const MEASUREMENTS: [(&str, Unit, &str); 15] = [
    ("write 4K cached", Unit::Kops, "overwrite random pages of the laid-out file through the cache"),
    ("write 4K, one fsync", Unit::Kops, "the same, with one fdatasync at the end in the time"),
    ("read 4K cached", Unit::Kops, "read random pages that are cached"),
    ("write 4K + fsync each", Unit::Kops, "overwrite a random page, fdatasync, again"),
    ("write 4K direct", Unit::Kops, "overwrite random pages with O_DIRECT, one at a time"),
    ("read 4K direct", Unit::Kops, "read random pages with O_DIRECT, one at a time"),
    ("write 1M + fsync", Unit::Megabytes, "write a new file from start to end, one fdatasync in the time"),
    ("write 1M direct", Unit::Megabytes, "write a new file from start to end with O_DIRECT"),
    ("read 1M cold", Unit::Megabytes, "read that file from start to end after a remount"),
    ("read 1M direct", Unit::Megabytes, "read a file from start to end with O_DIRECT"),
    ("create", Unit::Kops, "create empty files in one directory"),
    ("stat", Unit::Kops, "stat them in random order"),
    ("stat cold", Unit::Kops, "the same after a remount"),
    ("unlink", Unit::Kops, "unlink them in random order"),
    ("untar", Unit::Kops, "unpack a source tree: directories, files, modes, times; no sync in the time"),
];

/// One stage: a series of measurements on a mounted file system.
pub(crate) type Stage = fn(&mut Run<'_>) -> Result<()>;

/// A workload.
pub(crate) struct Workload {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether a device without files can run it.
    pub(crate) on_raw_devices: bool,
    /// Its stages between mounts.
    pub(crate) stages: &'static [Stage],
}

/// All workloads.
pub(crate) const WORKLOADS: [Workload; 4] = [
    Workload { name: "random", on_raw_devices: true, stages: &[random] },
    Workload { name: "sequential", on_raw_devices: true, stages: &[write_sequentially, read_sequentially] },
    Workload { name: "names", on_raw_devices: false, stages: &[create, stat_and_unlink] },
    Workload { name: "untar", on_raw_devices: false, stages: &[untar] },
];

/// A stage at work.
pub(crate) struct Run<'a> {
    /// Where to work.
    pub(crate) tree: &'a dyn Tree,
    /// How much to do.
    pub(crate) amounts: &'a Amounts,
    /// The process that serves the mount.
    pub(crate) server: Option<u32>,
    /// Ends the work early.
    pub(crate) stop: &'a Stop,
    /// The samples so far, with the measurement's name.
    pub(crate) samples: Vec<(&'static str, Sample)>,
}

impl Run<'_> {
    /// Times `count` calls of `each`, and one of `end`.
    fn measure(
        &mut self,
        name: &'static str,
        count: u64,
        bytes_each: usize,
        mut each: impl FnMut(u64) -> Result<()>,
        end: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        assert!(MEASUREMENTS.iter().any(|(known, ..)| *known == name), "{name} is in no table");
        let watch = Watch::start(self.server)?;
        for i in 0..count {
            each(i).with_context(|| format!("{name}, operation {i}"))?;
            if i % 16 == 0 {
                self.stop.check()?;
            }
        }
        end().with_context(|| format!("the end of {name}"))?;
        self.samples.push((name, watch.stop(count, count * bytes_each as u64)?));
        Ok(())
    }
}

fn nothing() -> Result<()> {
    Ok(())
}

/// Writes the file that random I/O goes to, in equal pieces from start to end.
fn lay_out(run: &Run<'_>, data: &Buffer) -> Result<()> {
    let file = run.tree.open("file", Open::New)?;
    let piece = run.amounts.layout_bytes;
    for at in (0..run.amounts.file_bytes).step_by(piece) {
        let from = at as usize % MIB;
        file.write_at(at, &data.bytes()[from..from + piece])?;
        run.stop.check()?;
    }
    file.datasync()
}

fn random(run: &mut Run<'_>) -> Result<()> {
    let data = Buffer::random(MIB, 1);
    lay_out(run, &data).context("laying out the file")?;
    let pages = run.amounts.file_bytes / PAGE as u64;
    let tree = run.tree;
    let many = run.amounts.operations;
    let (some, few) = ((many / 4).max(1), (many / 32).max(1));
    let mut random = Random::new(2);
    let mut page = Buffer::random(PAGE, 3);
    let write = |file: &dyn Handle, random: &mut Random, i: u64| {
        file.write_at(random.below(pages) * PAGE as u64, data.page(random.below(256) + i))
    };

    let file = tree.open("file", Open::Cached)?;
    run.measure("write 4K cached", many, PAGE, |i| write(&*file, &mut random, i), nothing)?;
    file.datasync()?;
    run.measure("write 4K, one fsync", some, PAGE, |i| write(&*file, &mut random, i), || file.datasync())?;
    let read = |file: &dyn Handle, random: &mut Random, page: &mut Buffer| {
        file.read_at(random.below(pages) * PAGE as u64, page.bytes_mut())
    };
    run.measure("read 4K cached", many, PAGE, |_| read(&*file, &mut random, &mut page), nothing)?;
    let synced = |i| write(&*file, &mut random, i).and_then(|()| file.datasync());
    run.measure("write 4K + fsync each", few, PAGE, synced, nothing)?;
    drop(file);

    let file = tree.open("file", Open::Direct)?;
    run.measure("write 4K direct", some, PAGE, |i| write(&*file, &mut random, i), nothing)?;
    file.datasync()?;
    run.measure("read 4K direct", some, PAGE, |_| read(&*file, &mut random, &mut page), nothing)
}

fn write_sequentially(run: &mut Run<'_>) -> Result<()> {
    let data = Buffer::random(MIB, 4);
    let count = run.amounts.file_bytes / MIB as u64;
    let tree = run.tree;
    for (name, path, how) in [("write 1M direct", "direct", Open::NewDirect), ("write 1M + fsync", "cached", Open::New)]
    {
        let file = tree.open(path, how)?;
        let end = || if how.is_direct() { Ok(()) } else { file.datasync() };
        run.measure(name, count, MIB, |i| file.write_at(i * MIB as u64, data.bytes()), end)?;
        file.datasync()?;
    }
    Ok(())
}

fn read_sequentially(run: &mut Run<'_>) -> Result<()> {
    let written = Buffer::random(MIB, 4);
    let mut data = Buffer::random(MIB, 5);
    let count = run.amounts.file_bytes / MIB as u64;
    let tree = run.tree;
    for (name, path, how) in [("read 1M cold", "cached", Open::Cached), ("read 1M direct", "direct", Open::Direct)] {
        let file = tree.open(path, how)?;
        run.measure(name, count, MIB, |i| file.read_at(i * MIB as u64, data.bytes_mut()), nothing)?;
        ensure!(data.bytes() == written.bytes(), "{path} does not hold what was written");
    }
    Ok(())
}

fn name(i: usize) -> String {
    format!("names/file-{i:08}")
}

fn create(run: &mut Run<'_>) -> Result<()> {
    let tree = run.tree;
    tree.mkdir("names")?;
    let names: Vec<String> = (0..run.amounts.names).map(name).collect();
    let each = |i| tree.open(&names[i as usize], Open::New).map(drop);
    run.measure("create", names.len() as u64, 0, each, nothing)?;
    tree.sync()?;
    let order = Random::new(6).shuffled(names.len());
    let each = |i| tree.stat(&names[order[i as usize]]).map(drop);
    run.measure("stat", names.len() as u64, 0, each, nothing)
}

fn stat_and_unlink(run: &mut Run<'_>) -> Result<()> {
    let tree = run.tree;
    let names: Vec<String> = (0..run.amounts.names).map(name).collect();
    let order = Random::new(7).shuffled(names.len());
    let each = |i| tree.stat(&names[order[i as usize]]).map(drop);
    run.measure("stat cold", names.len() as u64, 0, each, nothing)?;
    let order = Random::new(8).shuffled(names.len());
    let each = |i| tree.unlink(&names[order[i as usize]]);
    run.measure("unlink", names.len() as u64, 0, each, nothing)?;
    tree.sync()
}

fn untar(run: &mut Run<'_>) -> Result<()> {
    /// Bytes that `tar` writes at once.
    const RECORD: usize = 10 << 10;
    let tree = run.tree;
    let entries = source_tree(run.amounts.sources);
    let data = Buffer::random(MIB, 9);
    let unpack = |entry: &Entry| match entry {
        Entry::Dir(path) => tree.mkdir(path),
        Entry::File(path, size) => {
            let file = tree.open(path, Open::New)?;
            for at in (0..*size).step_by(RECORD) {
                file.write_at(at as u64, &data.bytes()[at..(at + RECORD).min(*size)])?;
            }
            file.set_mode_and_time(0o644, 1_700_000_000)
        }
    };
    run.measure("untar", entries.len() as u64, 0, |i| unpack(&entries[i as usize]), nothing)?;
    tree.sync()
}
