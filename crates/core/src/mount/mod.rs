//! Bringing a volume up, and ending it.
//!
//! A mount takes named steps ([`steps`]), in the order of `mount_from`, with tables from a source ([`tables`]). Of
//! a volume that may be changed, files that were fsynced after the checkpoint are recovered
//! ([`crate::durable::recovery`]). Logs that another implementation left in reuse (SSR) mode move to segments of their
//! own. A checkpoint is committed, always, before anything else happens.
//!
//! That checkpoint avoids the stale-chain hazard (format section 12.3). Nodes of an earlier mount that carry the old
//! checkpoint's version may lie where this mount's log goes on. As long as that checkpoint is in force, they would
//! become part of this mount's chain.
//!
//! A read-only mount writes nothing at all. If there is something to recover, that happens on an overlay in memory,
//! through which the volume is then read.
//!
//! Reading needs no segment information. A volume that is only read goes on without what of it is damaged, and says
//! what that costs; recovery writes, so it needs all of it. Where recovery fails, because of that or of the chain, the
//! last checkpoint is shown.

mod discarding;
mod housekeeping;
mod infinite;
mod migrating;
pub(crate) mod rehearsal;
mod segmented;
pub(crate) mod shutdown;
mod steps;
pub(crate) mod tables;
mod zoned;

use crate::counters::{Cause, Traffic};
use crate::durable::Durable;
use crate::durable::checkpoint::Committed;
use crate::durable::recovery::Recovered;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::files::file::{Flusher, start_flusher};
use crate::files::inode::InodeTable;
use crate::files::noted::journal::Journal;
use crate::files::noted::since::Since;
use crate::files::orphans::Orphans;
use crate::files::pages::Budget;
use crate::fs::Fs;
use crate::fs::background::Background;
use crate::fs::discarder::Discarder;
use crate::gate::Gate;
use crate::locks;
use crate::mount::infinite::LoadedLogs;
use crate::mount::segmented::{Aside, SegmentTables};
use crate::mount::steps::Steps;
use crate::mount::tables::Tables;
use crate::options::{InPlace, JournalMode, MountOptions};
use crate::raw::{Image, OtherPack, PackPart};
use crate::reclaim::{self, Arm, Reclaim};
use crate::volume::Volume;
use crate::volume::clock::Clock;
use crate::volume::io::BlockIo;
use crate::volume::nodes::cache::NodeCache;
use crate::volume::nodes::nat::Nat;
use crate::volume::nodes::nids::FreeNids;
use crate::volume::placement::Placement;
use crate::volume::segments::reuse::Upkeep;
use crate::volume::segments::streams::Streams;
use crate::volume::space::{Space, SpaceCounts};
use std::sync::{Arc, OnceLock};
use steadyfs_device::{Device, OverlayDevice};
use steadyfs_format::checkpoint::{CheckpointHeader, CpFlags};
use steadyfs_format::orphan::ORPHANS_PER_BLOCK;
use steadyfs_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Features, Layout, Log};

/// Features under which a volume may be changed. The others are read-only: see [`why_read_only`].
const WRITABLE: Features = Features::ATOMIC_WRITE
    .union(Features::EXTRA_ATTR)
    .union(Features::PROJECT_QUOTA)
    .union(Features::INODE_CHECKSUM)
    .union(Features::FLEXIBLE_INLINE_XATTR)
    .union(Features::QUOTA)
    .union(Features::INODE_CRTIME)
    .union(Features::LOST_FOUND)
    .union(Features::SB_CHECKSUM)
    .union(Features::BLKZONED)
    .union(Features::INFINITE);

/// Features under which a volume may be read.
const READABLE: Features = WRITABLE
    .union(Features::ENCRYPT)
    .union(Features::VERITY)
    .union(Features::CASEFOLD)
    .union(Features::COMPRESSION)
    .union(Features::RO);

/// Most inodes kept in memory without users; where the node cache is smaller, as many as it has nodes, for each keeps
/// one there.
const INODE_LIMIT: usize = 16 * 1024;

/// A thread of a volume that may be changed.
struct Worker {
    name: &'static str,
    start: fn(&Arc<Fs>),
    stop: fn(&Fs),
}

/// Those that a mount starts, in this order.
const WORKERS: [Worker; 4] = [
    Worker {
        name: "flusher",
        start: |fs| start_flusher(&fs.files),
        stop: |fs| fs.files.flusher.stop(&fs.files.budget),
    },
    Worker { name: "housekeeper", start: housekeeping::start, stop: |fs| fs.background.stop() },
    Worker { name: "collectors", start: |fs| fs.reclaim.start(), stop: |fs| fs.reclaim.stop() },
    Worker { name: "discarder", start: discarding::start, stop: |fs| fs.discarder.iter().for_each(Discarder::stop) },
];

/// Why a volume with these features, which it may be read with, must not be changed; `None` if it may.
pub fn why_read_only(features: Features) -> Option<String> {
    let beyond = features.difference(WRITABLE);
    let names: Vec<_> = beyond.names().collect();
    (!names.is_empty()).then(|| {
        format!("volumes with {} can be read but not changed by this version; mount with -o ro", names.join(", "))
    })
}

fn check_features(features: Features, read_only: bool) -> Result<()> {
    let refused = features.difference(READABLE);
    if !refused.is_empty() {
        let mut names: Vec<String> = refused.names().map(str::to_owned).collect();
        let unknown = refused.unknown();
        if !unknown.is_empty() {
            names.push(format!("{:#x} (unknown)", unknown.bits()));
        }
        return Err(Error::Unsupported(format!(
            "the volume uses features that this version refuses: {}",
            names.join(", ")
        )));
    }
    match why_read_only(features) {
        Some(why) if !read_only => Err(Error::Unsupported(why)),
        _ => Ok(()),
    }
}

/// Refuses a journal where the chain has no place for one.
fn check_journal(image: &Image, options: &MountOptions) -> Result<()> {
    let features = image.superblock().features();
    if options.journal != JournalMode::Off && features.contains(Features::INFINITE) {
        return Err(Error::Unsupported("IPLFS volumes have no metadata journal yet; mount without journal=".into()));
    }
    if options.journal != JournalMode::Off && features.contains(Features::BLKZONED) {
        return Err(Error::Unsupported(
            "volumes on zoned devices have no metadata journal yet; mount without journal=".into(),
        ));
    }
    if options.journal != JournalMode::Off && image.superblock().regions().is_some() {
        return Err(Error::Unsupported("D2FS volumes have no metadata journal; mount without journal=".into()));
    }
    Ok(())
}

/// What places blocks, as it was loaded.
#[expect(clippy::large_enum_variant, reason = "there is one, while a volume is mounted")]
enum Ground {
    Segments(SegmentTables),
    Infinite(LoadedLogs),
}

impl Ground {
    /// Loads it; for who changes the volume it must not contradict itself.
    fn load(image: &Image, tables: &dyn Tables, options: &MountOptions, read_only: bool) -> Result<Self> {
        match image.log_space() {
            None => SegmentTables::load_for(image, tables, options, read_only).map(Ground::Segments),
            Some(space) => LoadedLogs::load(tables, space, read_only).map(Ground::Infinite),
        }
    }

    /// KiB written in the life of the volume.
    fn kbytes_written(&self) -> u64 {
        match self {
            Ground::Segments(tables) => tables.kbytes,
            Ground::Infinite(logs) => logs.kbytes_written(),
        }
    }

    /// How many collectors the volume has, and logs beside the format's six for users' data.
    fn collectors(&self, options: &MountOptions, layout: &Layout, reserved_segments: u32) -> (usize, usize) {
        match self {
            Ground::Segments(_) => {
                let collectors = reclaim::collectors(&options.gc, layout, reserved_segments);
                (collectors, reclaim::data_logs(&options.gc, layout, reserved_segments, collectors))
            }
            Ground::Infinite(_) => (0, 0),
        }
    }
}

impl Volume {
    /// Comes before the first write of a mount, which goes over what the checkpoint in force has replaced. The writer
    /// of that checkpoint may have ended before it was durable, and then a power cut could damage both.
    pub(crate) fn begin_writing(&self) -> Result<()> {
        self.placement.begin_writing()?;
        self.io.flush()
    }
}

impl Fs {
    /// Mounts the volume on a device.
    ///
    /// # Errors
    /// Damage, also in what is to be recovered unless it is only read, unsupported features, I/O errors; with the step
    /// of the mount that failed. As far as its last checkpoint is concerned the volume is then as it was.
    pub fn mount(dev: Arc<dyn Device>, options: MountOptions) -> Result<Arc<Fs>> {
        let image = Image::open(Arc::clone(&dev))?;
        let read_only = options.read_only || dev.info().read_only;
        check_features(image.superblock().features(), read_only)?;
        check_state(&image, read_only)?;
        warn_of_pack(&image);
        if !read_only {
            return mount_from(&image, &image, options);
        }
        match recovered_aside(&image, &options) {
            Ok(Some(fs)) => return Ok(fs),
            Ok(None) => {}
            Err(why) => {
                let why = if let Error::Recovery(why) = why { why } else { why.to_string() };
                tracing::warn!(
                    "what was fsynced after the last checkpoint is not shown: {why}; check the volume with `steadyfs fsck`"
                );
            }
        }
        assemble(&mut Steps::default(), &image, &image, options, read_only)
    }

    /// Ends the mount with a checkpoint that marks the volume as cleanly unmounted. References to inodes that still
    /// exist keep working for reading only.
    ///
    /// # Errors
    /// What could not be written. The rest is, if a checkpoint is possible at all; while it is not, this can be tried
    /// again. A volume that stopped after an error says so: what was changed since its last checkpoint is lost. One
    /// that was shut down is left as it is, which is no error.
    pub fn unmount(&self) -> Result<()> {
        self.background.stop();
        self.reclaim.stop();
        self.files.flusher.stop(&self.files.budget);
        self.discarder.iter().for_each(Discarder::stop);
        if self.is_shut_down() {
            return Ok(());
        }
        self.vol.check_running()?;
        if self.vol.check_writable().is_err() {
            return Ok(());
        }
        self.files.reap_again();
        let files = self.files.sync_files();
        files.and(self.reclaim.drain()).and(self.durable.checkpoint(Cause::Unmount))?;
        self.reclaim.end()?;
        self.vol.discard_the_rest();
        self.durable.unmark_journal()?;
        self.vol.close("the volume was unmounted");
        Ok(())
    }

    /// Makes everything durable: all dirty files, then a checkpoint.
    pub fn sync(&self) -> Result<()> {
        if self.vol.read_only {
            return Ok(());
        }
        self.vol.check_running()?;
        self.files.reap_again();
        let files = self.files.sync_files();
        files.and(self.durable.sync_checkpoint())
    }
}

/// Mounts a volume to be changed, with these tables.
fn mount_from(image: &Image, tables: &dyn Tables, options: MountOptions) -> Result<Arc<Fs>> {
    let mut steps = Steps::default();
    steps.take("options and device", || {
        check_journal(image, &options)?;
        migrating::check_device(image)?;
        infinite::check_device(image)?;
        zoned::check(image, &options)
    })?;
    let fs = assemble(&mut steps, image, tables, options, false)?;
    note_recovered(&fs, recover(&fs, &mut steps, image, tables)?);
    let mark = |fs: &Arc<Fs>| fs.durable.mark_journal(image.superblocks());
    steps.take_or_undo("mark of the journal", &fs, mark, |fs| fs.vol.take_mark_back())?;
    steps.take("deleted files", || {
        // One that cannot be deleted stays an orphan; unless the volume has stopped over it.
        fs.files.reap_quietly();
        fs.vol.check_running()
    })?;
    for Worker { name, start, stop } in WORKERS {
        let started = |fs: &Arc<Fs>| {
            start(fs);
            Ok(())
        };
        steps.take_or_undo(name, &fs, started, stop)?;
    }
    steps.done();
    Ok(fs)
}

/// Keeps as much memory for pages that are to come as the options say; in virtual time none.
fn retain_page_memory(options: &MountOptions) {
    if !steadyfs_rt::sim::is_active() {
        steadyfs_device::retain_page_memory(options.spare_bytes);
    }
}

/// The volume with what was fsynced after its checkpoint, recovered in memory; `None` if nothing was, or if it is
/// not wanted.
///
/// # Errors
/// Why it cannot be recovered: nothing is shown of a part of it.
fn recovered_aside(image: &Image, options: &MountOptions) -> Result<Option<Arc<Fs>>> {
    if options.discard_unreplayed || !image.has_fsync_chain()? {
        return Ok(None);
    }
    let why_not = |why: Error| Error::Recovery(format!("this version does not change such volumes ({why})"));
    check_features(image.superblock().features(), false).and_then(|()| check_state(image, false)).map_err(why_not)?;
    let needed = |damage: Error| Error::Recovery(format!("recovery needs what is damaged here: {damage}"));
    whole_for_recovery(image, options).map_err(needed)?;
    let overlay: Arc<dyn Device> = Arc::new(OverlayDevice::new(Arc::clone(image.device())));
    let below = Image::open(Arc::clone(&overlay))?;
    let mut steps = Steps::default();
    let writable = MountOptions { read_only: false, ..options.clone() };
    let written = assemble(&mut steps, &below, &below, writable, false)?;
    let recovered = recover(&written, &mut steps, &below, &below)?;
    drop(written);
    let shown = Image::open(overlay)?;
    let fs = assemble(&mut steps, &shown, &shown, options.clone(), true)?;
    note_recovered(&fs, recovered);
    Ok(Some(fs))
}

/// Puts a mounted volume together, as it was at its checkpoint.
fn assemble(
    steps: &mut Steps<Fs>,
    image: &Image,
    tables: &dyn Tables,
    options: MountOptions,
    read_only: bool,
) -> Result<Arc<Fs>> {
    let options = zoned::options(image, migrating::options(image, options));
    let ground = steps.take("segments and logs", || Ground::load(image, tables, &options, read_only))?;
    let layout = *image.layout();
    let (device, by_host) = migrating::device(image);
    let (device, zones) = zoned::device(image, read_only, device);
    let io = BlockIo::new(device, ground.kbytes_written());
    #[cfg(feature = "canary")]
    options.canary.into_iter().for_each(|canary| io.planted.plant(canary));
    let nat = Nat::new(&layout, options.node_cache_bytes, |b| image.nat_version(b));
    steps.take("node table", || load_nat_journal(&nat, &io, image, tables, read_only))?;
    let checkpoint = tables.checkpoint().clone();
    let header = checkpoint.header();
    // Node ids 0, 1 and 2 are not for use.
    let space = Space::new(header.user_blocks(), u64::from(nat.max_nid()) - 3, counted(header));
    let nids = FreeNids::new(header.next_free_nid(), &nat);
    let wanted = ground.collectors(&options, &layout, header.reserved_segments());
    let (collectors, data_logs) = zoned::bounded(image, options.gc.generations, wanted);
    retain_page_memory(&options);
    let budget = Budget::new(options.cache_bytes, options.write_back);
    let nodes = Arc::new(NodeCache::new((options.node_cache_bytes / BLOCK_SIZE as u64) as usize));
    let inodes = InodeTable::new(INODE_LIMIT.min(nodes.limit()), options.gc.protect);
    let upkeep = {
        let (nodes, budget) = (Arc::clone(&nodes), budget.clone());
        move || Upkeep { nodes: nodes.dirty_count() as u64, dents: budget.dirty_in_dirs() }
    };
    let clock = Clock::starting_at(header.elapsed_time());
    let streams = Streams::new(collectors, options.gc.generations, data_logs);
    let placement = match ground {
        Ground::Segments(tables) => {
            let discards = if read_only { None } else { SegmentTables::discards(&layout, &options, &io) };
            let aside = Aside::new(&layout, migrating::area(image, read_only), by_host, zones, discards);
            Placement::Segments(tables.into_segments(image, &options, streams, aside, &io, clock, upkeep))
        }
        Ground::Infinite(logs) => Placement::Infinite(Box::new(logs.into_placement(&io, read_only))),
    };
    let vol =
        Volume::new(image.superblock().clone(), io, placement, nat, nids, nodes, space, clock, read_only, &options);
    let in_place = match vol.placement.segments() {
        Some(_) => options.writes_in_place(layout.main_segments),
        None => InPlace::Never,
    };
    let vol = Arc::new(vol);
    let arm = Arm::new(&vol, &budget, &options, header.reserved_segments(), collectors);
    let gate = Gate::new(&vol, arm.admissions(), arm.headroom());
    let journal = Journal::new(&options, orphan_limit(&layout), &vol.io.planted);
    let files = Files {
        vol,
        in_place,
        inodes,
        budget,
        orphans: Orphans::new(orphan_limit(&layout)),
        shape: steadyfs_rt::Mutex::new(&locks::RENAME, ()),
        flusher: Flusher::new(),
        since: Since::new(),
        journal,
        traffic: Traffic::default(),
        gate,
        order: OnceLock::new(),
        options: Arc::new(options),
    };
    Ok(over(files, Committed::new(checkpoint, image.pack()), arm))
}

/// The floors above the files of a volume, whose last checkpoint is this one.
fn over(files: Files, committed: Committed, arm: Arm) -> Arc<Fs> {
    let files = Arc::new(files);
    let durable = Durable::new(&files, committed);
    let reclaim = Reclaim::new(&durable, arm);
    let vol = Arc::clone(&files.vol);
    let signal = vol.placement.discard_signal().filter(|_| !vol.read_only).cloned();
    Arc::new(Fs {
        vol,
        files,
        durable,
        reclaim,
        background: Background::new(),
        discarder: signal.map(Discarder::new),
        recovered: OnceLock::new(),
        serving: OnceLock::new(),
    })
}

/// The part of a mount that changes the volume: ends with a checkpoint that has everything that was durable.
fn recover(fs: &Fs, steps: &mut Steps<Fs>, image: &Image, tables: &dyn Tables) -> Result<Recovered> {
    let begin = steadyfs_rt::now();
    steps.take("orphans", || fs.files.adopt_orphans(&tables.orphans()?))?;
    let recovered = steps.take("recovery", || match fs.files.options.discard_unreplayed {
        true => Ok(Recovered::default()),
        false => fs.durable.roll_forward(image).map_err(while_recovering),
    })?;
    steps.take("first writes", || {
        if recovered.is_empty() {
            fs.vol.begin_writing()?;
        }
        let _change = fs.vol.begin_change()?;
        fs.vol.placement.leave_holes()
    })?;
    // The checkpoint goes over the other pack, so this one has to be whole.
    steps.take("checkpoint pack", || image.mend_pack())?;
    steps.take("first checkpoint", || fs.durable.checkpoint(Cause::Mount))?;
    fs.vol.placement.begin_reuse();
    Ok(Recovered { elapsed: begin.elapsed(), ..recovered })
}

/// Keeps what there is to tell.
fn note_recovered(fs: &Fs, found: Recovered) {
    if !found.is_empty() {
        let Recovered { files, nodes, batches, records, blocks, .. } = found;
        tracing::info!(files, nodes, batches, records, blocks, "recovered what was fsynced after the last checkpoint");
        let first = fs.recovered.set(found).is_ok();
        assert!(first, "a volume is mounted once");
    }
}

/// What a checkpoint counts.
fn counted(header: &CheckpointHeader) -> SpaceCounts {
    SpaceCounts {
        blocks: header.valid_blocks(),
        nodes: u64::from(header.valid_nodes()),
        inodes: u64::from(header.valid_inodes()),
    }
}

/// What went wrong while recovering, as one kind of error.
fn while_recovering(error: Error) -> Error {
    let why = match error {
        Error::Corrupt(why) => why,
        Error::Format(why) => why.to_string(),
        Error::NotFound => "it refers to an inode that does not exist".to_owned(),
        Error::NoSpace => "there is no room".to_owned(),
        other => return other,
    };
    Error::Recovery(why)
}

/// How many orphans a checkpoint pack has room for (format section 13).
fn orphan_limit(layout: &Layout) -> usize {
    (BLOCKS_PER_SEG - 2 - Log::COUNT as u32 - layout.cp_payload) as usize * ORPHANS_PER_BLOCK
}

/// Refuses what the checkpoint says must not be changed.
fn check_state(image: &Image, read_only: bool) -> Result<()> {
    if read_only {
        return Ok(());
    }
    let flags = image.checkpoint().header().flags();
    let unfinished = CpFlags::DISABLED | CpFlags::DISABLED_QUICK | CpFlags::RESIZEFS;
    if flags.intersects(unfinished) {
        return Err(Error::Unsupported(format!(
            "the volume was left with {flags}; mount it once on Linux, or read it with -o ro"
        )));
    }
    if !flags.unknown().is_empty() {
        return Err(Error::Unsupported(format!(
            "the checkpoint has flags that this version does not know ({:#x}); read the volume with -o ro",
            flags.unknown().bits()
        )));
    }
    Ok(())
}

/// Says where the other checkpoint pack may have been the newer one.
fn warn_of_pack(image: &Image) {
    let other = image.pack().other();
    if image.other_pack() == OtherPack::Gone
        && let Err(why) = image.packs().version(other)
    {
        let number = other.number();
        tracing::warn!(
            "checkpoint pack {number} is destroyed ({why}); if it was the newer one, the volume is shown as it was before, and what that checkpoint made durable is lost; check the volume with `steadyfs fsck`"
        );
    }
}

/// Whether all is sound that recovery needs and reading does not.
fn whole_for_recovery(image: &Image, options: &MountOptions) -> Result<()> {
    Ground::load(image, image, options, false)?;
    let nat = Nat::new(image.layout(), 0, |b| image.nat_version(b));
    image.whole(PackPart::NatJournal)?;
    image.nat_journal().iter().try_for_each(|&(nid, entry)| nat.check_journal(nid, entry))?;
    image.orphans().map(drop)
}

/// Puts the journal's entries over those of the table; of two with one id the first counts. Who only reads goes on
/// without those that are damaged or whose block of the table cannot be read, or without the journal.
fn load_nat_journal(nat: &Nat, io: &BlockIo, image: &Image, tables: &dyn Tables, read_only: bool) -> Result<()> {
    match image.whole(PackPart::NatJournal) {
        Err(damage) if read_only => {
            tracing::warn!("{damage}; what changed last is read as the node table has it: older, or not at all");
        }
        whole => whole?,
    }
    for &(nid, entry) in tables.nat_journal().iter().rev() {
        match nat.check_journal(nid, entry).and_then(|()| nat.load_journal(io, nid, entry)) {
            Err(damage) if read_only => {
                tracing::warn!("{damage}; this entry of the NAT journal is left out, and what the table says counts");
            }
            loaded => loaded?,
        }
    }
    Ok(())
}
