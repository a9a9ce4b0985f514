//! A file system that is mounted: bringing it up, serving until somebody unmounts it or says stop, ending it.

use super::{Attached, busy, helper, point, scribe, system, table, tune};
use crate::error::{Error, Result};
use crate::options::{Allow, FuseOptions};
use crate::server::{Policy, Reopen, Server};
use crate::session::{Channel, Crew, Rings, Transport, WhyDevice};
use crate::signals::Signals;
use crate::wire::flags::init;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use steadyfs_core::Fs;
use steadyfs_rt::queue::Queue;

/// How often a busy mount is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Seconds between checkpoints where `sync` does not reach the volume, as in ext4.
const COMMIT_WITHOUT_SYNC: u64 = 5;

/// What the thread that waits hears of.
pub(crate) enum Event {
    /// Somebody wants the process to stop: the signal's number.
    Stop(i32),
    /// The mount is gone and all requests are done.
    Gone(Option<Errno>),
}

/// A mounted file system. Dropping it unmounts it: at once out of sight, with its last checkpoint when nobody uses it
/// any more.
pub struct Mounted {
    dir: PathBuf,
    /// Number of the mounted file system in the mount table; `None` where there is no table.
    device: Option<String>,
    is_block_device: bool,
    by_helper: bool,
    transport: Transport,
    server: Arc<Server>,
    events: Arc<Queue<Event>>,
    /// Still in the mount table, as far as is known here.
    attached: bool,
    /// Requests are still being served.
    serving: bool,
    /// Signals that say stop are events for [`Mounted::wait`].
    signals: Option<Signals>,
    /// To be done at the first of them.
    at_stop: Option<Box<dyn FnOnce() + Send>>,
}

/// Mounts a file system and serves it, with threads of its own, until it is unmounted.
///
/// Give the [`Fs`] away: the device is closed when the mount ends, and only then if nobody else holds the file system.
/// If mounting fails the file system is unmounted.
///
/// # Errors
/// [`Error::MountPoint`], [`Error::Mount`], [`Error::Helper`], [`Error::NoFuse`], [`Error::TooOld`],
/// [`Error::Session`].
pub fn mount(fs: Arc<Fs>, dir: &Path, options: &FuseOptions) -> Result<Mounted> {
    super::become_io_flusher();
    let owner = rustix::process::geteuid();
    let mut options = options.clone();
    options.read_only |= fs.is_read_only();
    options.allow.get_or_insert(if owner.is_root() { Allow::Everyone } else { Allow::Owner });
    let volume = Arc::downgrade(&fs);
    let server = Arc::new(Server::new(fs, Policy::new(&options, owner.as_raw())));
    let brought_up = bring_up(&server, dir, &options, &volume);
    if brought_up.is_err()
        && let Err(error) = server.finish()
    {
        tracing::error!("{error}");
    }
    brought_up
}

fn bring_up(server: &Arc<Server>, dir: &Path, options: &FuseOptions, volume: &Weak<Fs>) -> Result<Mounted> {
    let dir = point::prepare(dir, &options.subtype)?;
    let mut options = options.clone();
    if let Ok(path) = options.source.canonicalize() {
        options.source = path;
    }
    scribe::start(server, &options)?;
    let Attached { fd, is_block_device, by_helper } = attach(&dir, &options)?;
    let channel = Channel::new(fd);
    if let Some(fs) = volume.upgrade().filter(|_| !is_block_device) {
        fs.set_usual_commit(COMMIT_WITHOUT_SYNC);
    }
    let events = Arc::new(Queue::unbounded());
    let server = Arc::clone(server);
    let device = table::at(&dir).map(|entry| entry.device);
    let transport = Transport::Device(WhyDevice::Asked);
    let (attached, serving) = (true, false);
    let mut mounted = Mounted {
        dir,
        device,
        is_block_device,
        by_helper,
        transport,
        server,
        events,
        attached,
        serving,
        signals: None,
        at_stop: None,
    };
    // From here on dropping `mounted` takes the mount away.
    let rings = Rings::prepare(channel.fuse(), options.uring, options.threads);
    if rings.is_ok() {
        mounted.server.want_too(init::OVER_IO_URING);
    }
    channel.greet(&mounted.server)?;
    let (rings, transport) = match rings {
        Ok(rings) if mounted.server.uses(init::OVER_IO_URING) => (Some(rings), Transport::Ring),
        Ok(_) => (None, Transport::Device(WhyDevice::Unknown)),
        Err(why) => (None, Transport::Device(why)),
    };
    mounted.transport = transport;
    mounted.server.counts().set_transport(transport.name());
    let (announce, ending) = (Arc::clone(&mounted.events), Arc::clone(&mounted.server));
    let ended = Box::new(move |error| {
        if let Err(error) = ending.finish() {
            tracing::error!("{error}");
        }
        // Nobody may be waiting.
        let _ = announce.push(Event::Gone(error));
    });
    Crew::start(channel, rings, Arc::clone(&mounted.server), options.threads, ended)
        .map_err(|source| Error::Session { what: "starting threads", source })?;
    mounted.serving = true;
    if let Some(knobs) = tune::tune(&mounted.dir, &options) {
        mounted.server.limit_dirty(Box::new(move |bytes| knobs.limit_dirty(bytes)));
    }
    Ok(mounted)
}

/// Mounts in the way that this user may.
fn attach(dir: &Path, options: &FuseOptions) -> Result<Attached> {
    if !rustix::process::geteuid().is_root() {
        return helper::mount(dir, options);
    }
    match system::mount(dir, options) {
        // Root of a container may not mount, but its helper may.
        Err(Error::Mount { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            helper::mount(dir, options)
        }
        mounted => mounted,
    }
}

impl Mounted {
    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the kernel passes `sync` and `syncfs` on, and `umount` waits for the last checkpoint: so for block
    /// devices, and for image files that have the name of a loop device. Else only `fsync` makes something durable at
    /// once, and [`unmount`](super::unmount) waits.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Whether unmounting it at a signal takes a program with rights that this process has not (fusermount3): a process
    /// that can start none cannot do that.
    pub fn needs_helper(&self) -> bool {
        self.by_helper
    }

    /// How requests of the kernel get here.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Lets a mount of a volume that is open for reading only become writable by `mount -o remount,rw`: `reopen` opens
    /// the volume again, when nobody else has it open here.
    pub fn reopen_by(&self, reopen: Reopen) {
        let is_block_device = self.is_block_device;
        self.server.reopen_by(Box::new(move |access| {
            let fs = reopen(access)?;
            if !is_block_device {
                fs.set_usual_commit(COMMIT_WITHOUT_SYNC);
            }
            Ok(fs)
        }));
    }

    /// From now on the signals that say stop (SIGINT, SIGTERM, SIGHUP) no longer end the process but are kept for
    /// [`Mounted::wait`]. Call it before telling anyone that the file system is mounted: who knows may send one at
    /// once.
    pub fn heed_signals(&mut self) {
        self.signals.get_or_insert_with(|| Signals::forward(Arc::clone(&self.events)));
    }

    /// Has [`Mounted::wait`] do this at the first signal that says stop, before it unmounts.
    pub fn at_stop(&mut self, work: impl FnOnce() + Send + 'static) {
        self.at_stop = Some(Box::new(work));
    }

    /// Serves until the file system is unmounted, by `umount` or because a signal (SIGINT, SIGTERM, SIGHUP) says stop;
    /// then ends it with a checkpoint. Signals that were ignored before stay ignored.
    ///
    /// At the first signal the mount is taken away as soon as nobody uses it, and the log says who does. At the second
    /// it goes out of sight at once, and is served until its last user is gone. At the third it ends, used or not.
    ///
    /// # Errors
    /// What the end of the file system says, or why the conversation with the kernel broke off.
    pub fn wait(mut self) -> Result<()> {
        self.heed_signals();
        let mut stops = 0;
        let mut told = None;
        let mut told_elsewhere = false;
        while self.serving {
            let event = match stops > 0 && (self.attached || !told_elsewhere) {
                true => self.events.pop_timeout(AGAIN),
                false => self.events.pop(),
            };
            if event.is_none() && !self.attached {
                told_elsewhere = true;
                self.tell_elsewhere(stops > 1);
            }
            match event {
                Some(Event::Gone(error)) => return self.gone(error),
                Some(Event::Stop(signal)) => {
                    tracing::debug!(signal, "asked to stop");
                    stops += 1;
                    if let Some(work) = self.at_stop.take() {
                        work();
                    }
                }
                None => {}
            }
            match stops {
                0 => {}
                1 => self.try_unmount(&mut told),
                2 => self.hide(),
                _ => {
                    tracing::warn!("ending {} although it is in use", self.dir.display());
                    break;
                }
            }
        }
        self.signals = None;
        Ok(self.server.finish()?)
    }

    /// Unmounts, and ends the file system with a checkpoint.
    ///
    /// # Errors
    /// [`Error::Unmount`] with `EBUSY` if somebody uses it; then it goes on being served, and this can be tried again.
    pub fn unmount(&mut self) -> Result<()> {
        self.detach(false)?;
        while self.serving {
            if let Some(Event::Gone(error)) = self.events.pop() {
                return self.gone(error);
            }
        }
        Ok(())
    }

    /// The mount is gone: ends the file system.
    fn gone(&mut self, error: Option<Errno>) -> Result<()> {
        (self.attached, self.serving) = (false, false);
        let ended = self.server.finish();
        match error {
            Some(errno) => Err(Error::session("reading requests", errno)),
            None => Ok(ended?),
        }
    }

    /// Takes the mount away, if it is still there.
    fn detach(&mut self, lazily: bool) -> Result<()> {
        if !self.attached {
            return Ok(());
        }
        let failed = |source| Error::Unmount { dir: self.dir.clone(), source };
        if let Some(device) = &self.device {
            let stack = table::stack(&self.dir);
            match stack.iter().position(|entry| entry.device == *device) {
                // Somebody else was faster.
                None => {
                    self.attached = false;
                    return Ok(());
                }
                // Not ours to take away.
                Some(place) if place + 1 < stack.len() => return Err(failed(Errno::BUSY.into())),
                Some(_) => {}
            }
        }
        point::detach(&self.dir, lazily).map_err(failed)?;
        self.attached = false;
        Ok(())
    }

    /// Unmounts unless somebody uses it; then says who, if that is news.
    fn try_unmount(&mut self, told: &mut Option<Vec<String>>) {
        let Err(error) = self.detach(false) else {
            return;
        };
        let is_busy = matches!(&error, Error::Unmount { source, .. } if source.kind() == io::ErrorKind::ResourceBusy);
        let reasons = if is_busy { busy::reasons(&self.dir, self.device.as_deref()) } else { vec![error.to_string()] };
        if told.as_ref() == Some(&reasons) {
            return;
        }
        let dir = self.dir.display();
        if told.is_none() {
            tracing::warn!("{dir} is in use; waiting to unmount it (stop again to unmount it all the same)");
        }
        for reason in &reasons {
            tracing::warn!("{dir} is in use: {reason}");
        }
        *told = Some(reasons);
    }

    /// Unmounted here, and served all the same: says for whom. That it was taken out of sight has been said.
    fn tell_elsewhere(&self, is_hidden: bool) {
        let dir = self.dir.display();
        if !is_hidden {
            tracing::warn!(
                "{dir} is unmounted here and still in use; it is served until nobody uses it, or a third signal"
            );
        }
        for reason in self.device.iter().flat_map(|device| busy::elsewhere(device)) {
            tracing::warn!("{dir} is mounted in another mount namespace: {reason}");
        }
    }

    /// Takes the mount out of sight, in use or not.
    fn hide(&mut self) {
        if !self.attached {
            return;
        }
        match self.detach(true) {
            Ok(()) => tracing::warn!("{} is unmounted, and served until its last user is gone", self.dir.display()),
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.detach(true) {
            tracing::debug!("{error}");
        }
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({})", self.dir.display())
    }
}
