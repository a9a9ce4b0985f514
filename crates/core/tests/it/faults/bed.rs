//! The device under test: faults on demand over memory, with or without a queue, and counts of what is asked of it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use steadyfs_core::fsck::{CheckOptions, Severity, check};
use steadyfs_core::mkfs::{Infinite, MkfsOptions, format, parse_features};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{Device, DeviceInfo, FaultyDevice, MemDevice, OpKind, Request};

/// Longer than any single run takes by far; a run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// When requests end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// In the call that starts them.
    AtOnce,
    /// Later, in the order in which they were started, on another thread.
    Later,
}

impl Ends {
    pub(crate) const BOTH: [Ends; 2] = [Ends::AtOnce, Ends::Later];
}

/// Where requests wait, and the thread that serves them.
type Queue = (Mutex<Option<Sender<Request>>>, Mutex<Option<JoinHandle<()>>>);

/// The device.
pub(crate) struct Bed {
    pub(crate) faulty: Arc<FaultyDevice<MemDevice>>,
    queue: Option<Queue>,
    counts: [AtomicU64; 3],
}

/// The kinds of operations that are counted.
pub(crate) const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Flush];

impl Bed {
    pub(crate) fn new(volume: MemDevice, ends: Ends) -> Arc<Self> {
        let faulty = Arc::new(FaultyDevice::new(volume));
        let queue = (ends == Ends::Later).then(|| {
            let (sender, receiver): (_, Receiver<Request>) = channel();
            let device = Arc::clone(&faulty);
            let server = std::thread::spawn(move || receiver.into_iter().for_each(|r| device.submit(vec![r])));
            (Mutex::new(Some(sender)), Mutex::new(Some(server)))
        });
        Arc::new(Bed { faulty, queue, counts: [const { AtomicU64::new(0) }; 3] })
    }

    pub(crate) fn mount(self: &Arc<Self>, options: &str) -> steadyfs_core::Result<Arc<Fs>> {
        // The same operations each time, so no threads that collect.
        let options = format!("background_gc=off,commit=0,gc=f2fs-lfs,{options}");
        Fs::mount(Arc::clone(self) as Arc<dyn Device>, MountOptions::parse(&options).expect("good options"))
    }

    /// Operations of each of [`KINDS`] so far.
    pub(crate) fn counts(&self) -> [u64; 3] {
        self.counts.each_ref().map(|count| count.load(SeqCst))
    }

    /// What is on the device now, with nothing on its way: the machine has crashed, and the device works again.
    pub(crate) fn after_crash(&self) -> MemDevice {
        if let Some((sender, server)) = &self.queue {
            drop(sender.lock().unwrap().take());
            if let Some(server) = server.lock().unwrap().take() {
                server.join().expect("the device does not panic");
            }
        }
        self.faulty.inner().fork()
    }
}

impl Device for Bed {
    fn info(&self) -> DeviceInfo {
        let is_late = self.queue.is_some();
        DeviceInfo { synchronous: !is_late, prefers_fua: is_late, ..self.faulty.info() }
    }

    fn submit(&self, batch: Vec<Request>) {
        for request in batch {
            if let Some(at) = KINDS.iter().position(|kind| *kind == request.op.kind()) {
                self.counts[at].fetch_add(1, SeqCst);
            }
            match &self.queue {
                None => self.faulty.submit(vec![request]),
                Some((sender, _)) => match &*sender.lock().unwrap() {
                    Some(sender) => drop(sender.send(request)),
                    // Threads of a volume that was dropped in the middle may still ask.
                    None => request.fail(steadyfs_device::errno::ENODEV),
                },
            }
        }
    }
}

/// What is on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F2fs,
    Iplfs,
}

/// Blocks of an empty volume, or those that an IPLFS volume may hold.
const BLOCKS: u64 = (64 << 20) / 4096;

/// An empty volume of 64 MiB.
pub(crate) fn fresh() -> MemDevice {
    fresh_of(Kind::F2fs)
}

/// An empty volume of this kind, of 64 MiB.
pub(crate) fn fresh_of(kind: Kind) -> MemDevice {
    static MADE: [OnceLock<MemDevice>; 2] = [OnceLock::new(), OnceLock::new()];
    let infinite = (kind == Kind::Iplfs).then(|| Infinite::new(BLOCKS));
    let make = || {
        let device = MemDevice::new(infinite.as_ref().map_or(BLOCKS, Infinite::device_blocks));
        let features =
            if infinite.is_some() { "extra_attr,inode_crtime" } else { "extra_attr,inode_checksum,inode_crtime" };
        let features = parse_features(features).expect("known features");
        let options = MkfsOptions { features, infinite, ..MkfsOptions::new([9; 16], 1_700_000_000) };
        format(&device, &options).expect("a volume");
        device
    };
    MADE[kind as usize].get_or_init(make).fork()
}

/// Panics with what the checker says, unless the volume is whole.
pub(crate) fn fsck(device: &MemDevice, what: &str) {
    let options = CheckOptions { threads: 1, ..CheckOptions::default() };
    let report = check(Arc::new(device.fork()), &options).expect("a readable device");
    let bad: Vec<String> =
        report.issues.iter().filter(|i| i.severity() > Severity::Note).map(ToString::to_string).collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
}

/// Ends the process if one thing takes too long, and panics if a thread that nobody joins has panicked.
pub(crate) struct Watch {
    since: Arc<Mutex<(std::time::Instant, String)>>,
    panics: Arc<AtomicU64>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let since = Arc::new(Mutex::new((std::time::Instant::now(), String::new())));
        let watched = Arc::downgrade(&since);
        std::thread::spawn(move || {
            while let Some(since) = watched.upgrade() {
                let (start, what) = since.lock().unwrap().clone();
                if start.elapsed() > PATIENCE {
                    eprintln!("{what}: hangs");
                    std::process::abort();
                }
                drop(since);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        let panics = Arc::new(AtomicU64::new(0));
        let (count, before) = (Arc::clone(&panics), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            // Other tests of this process have threads of their own.
            if std::thread::current().name().is_some_and(|name| name.starts_with("steadyfs")) {
                count.fetch_add(1, SeqCst);
            }
            before(info);
        }));
        Watch { since, panics }
    }

    pub(crate) fn next(&self, what: &str) {
        *self.since.lock().unwrap() = (std::time::Instant::now(), what.to_owned());
    }

    pub(crate) fn check(&self, what: &str) {
        assert_eq!(self.panics.load(SeqCst), 0, "{what}: a thread has panicked");
    }
}
