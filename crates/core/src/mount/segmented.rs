//! Loading what places blocks in segments: the SIT and its journal, the positions of the logs, their summaries.

use crate::error::{Error, Result};
use crate::mount::tables::Tables;
use crate::options::{Allocation, Discard, MountOptions};
use crate::raw::Image;
use crate::volume::clock::Clock;
use crate::volume::discard::Discards;
use crate::volume::io::BlockIo;
use crate::volume::segments::Segments;
use crate::volume::segments::locks::SegLocks;
use crate::volume::segments::logs::{Head, Logs};
use crate::volume::segments::medium::Medium;
use crate::volume::segments::migrating::MigratingArea;
use crate::volume::segments::refusing::InTurn;
use crate::volume::segments::reuse::{Reuse, Upkeep};
use crate::volume::segments::sit::Sit;
use crate::volume::segments::streams::Streams;
use crate::volume::segments::table::{BLOCKS, SegTable, SitRecord};
use crate::volume::segments::zoned::Zones;
use std::collections::BTreeMap;
use std::sync::Arc;
use steadyfs_format::checkpoint::CheckpointHeader;
use steadyfs_format::journal::Journal;
use steadyfs_format::sit::SitEntry;
use steadyfs_format::{AllocType, Layout, Log, SegNo};

/// What some devices and some mounts have beside the tables.
pub(super) struct Aside {
    medium: Medium,
    discards: Option<Discards>,
}

impl Aside {
    /// With the sections of a D2FS volume that the host writes in order; those of zones are, too.
    pub(super) fn new(
        layout: &Layout,
        area: Option<MigratingArea>,
        by_host: Option<InTurn>,
        zones: Option<Zones>,
        discards: Option<Discards>,
    ) -> Self {
        let medium = match (area, zones) {
            (Some(area), _) => Medium::Migrating { area: Arc::new(area), in_turn: by_host },
            (None, Some(zones)) => Medium::Zoned { in_turn: zones.in_turn(layout.sections), zones },
            (None, None) => Medium::Plain,
        };
        Aside { medium, discards }
    }
}

/// What only changes need: the segment table, where the logs stand, and the statistic that goes with them.
pub(super) struct SegmentTables {
    segs: SegTable,
    heads: [Head; Log::COUNT],
    /// KiB written in the life of the volume.
    pub(super) kbytes: u64,
}

impl SegmentTables {
    pub(super) fn load(image: &Image, tables: &dyn Tables, options: &MountOptions) -> Result<Self> {
        let segs = load_segments(image, tables, options)?;
        let heads = load_heads(image, tables, &segs)?;
        Ok(SegmentTables { segs, heads, kbytes: kbytes_written(image) })
    }

    /// As [`SegmentTables::load`] for who changes the volume, which must not contradict itself then. Who only reads it
    /// goes on without, with a warning.
    pub(super) fn load_for(
        image: &Image,
        source: &dyn Tables,
        options: &MountOptions,
        read_only: bool,
    ) -> Result<Self> {
        match SegmentTables::load(image, source, options) {
            Err(damage) if read_only => {
                tracing::warn!(
                    "{damage}; the volume is read without its segment information: do not trust what is told of its free space, and check it with `steadyfs fsck`"
                );
                let segs = SegTable::new(image.layout(), SegLocks::new(&options.gc));
                Ok(SegmentTables { segs, heads: Log::ALL.map(|_| Head::nowhere()), kbytes: 0 })
            }
            Err(damage) => Err(damage),
            Ok(tables) => match tables.check_counts(image.layout(), source.checkpoint().header()) {
                Err(damage) if read_only => {
                    tracing::warn!(
                        "{damage}; do not trust what is told of the volume's free space, and check it with `steadyfs fsck`"
                    );
                    Ok(tables)
                }
                checked => checked.map(|()| tables),
            },
        }
    }

    /// Refuses a volume whose counters contradict its segments: what a change would make of it is not a volume. Linux
    /// does the same.
    pub(super) fn check_counts(&self, layout: &Layout, header: &CheckpointHeader) -> Result<()> {
        let (mut all, mut nodes) = (0, 0);
        for seg in layout.segments() {
            let valid = u64::from(self.segs.state(seg).count());
            if valid > 0 {
                all += valid;
                nodes += if self.segs.kind(seg) >= Log::HotNode.number() { valid } else { 0 };
            }
        }
        // Slots that are reserved but were never written are counted and have no block.
        if all > header.valid_blocks() || nodes != u64::from(header.valid_nodes()) {
            return Err(Error::corrupt(format!(
                "the segments hold {all} blocks, {nodes} of them nodes; the checkpoint counts {} and {}",
                header.valid_blocks(),
                header.valid_nodes()
            )));
        }
        Ok(())
    }

    /// The queue of discards, if the mount wants one and the device has a use for it.
    pub(super) fn discards(layout: &Layout, options: &MountOptions, io: &BlockIo) -> Option<Discards> {
        let discards = Discards::new(layout, options.discard)?;
        if !io.takes_discards() {
            tracing::warn!("the device takes no discards: nothing is discarded");
            return None;
        }
        Some(discards)
    }

    /// Puts placement together from them.
    #[expect(clippy::too_many_arguments, reason = "called once, by the mount, with each part it has just loaded")]
    pub(super) fn into_segments(
        self,
        image: &Image,
        options: &MountOptions,
        streams: Streams,
        Aside { medium, discards }: Aside,
        io: &Arc<BlockIo>,
        clock: Clock,
        upkeep: impl Fn() -> Upkeep + Send + Sync + 'static,
    ) -> Segments {
        let layout = *image.layout();
        let adaptive = options.allocation() == Allocation::Adaptive;
        let reserved = u64::from(image.checkpoint().header().reserved_segments().div_ceil(layout.segs_per_sec));
        Segments {
            table: match medium.zones() {
                Some(zones) => self.segs.with_emptied(zones.first()),
                None => self.segs,
            },
            logs: Logs::new(self.heads.map(|head| Head { strange: medium.migrating().is_some(), ..head })),
            streams,
            reuse: adaptive.then(|| Reuse::new(reserved, options.eager_reuse, upkeep)),
            discards,
            medium,
            sit: Sit::new(&layout, |block| image.sit_version(block)),
            io: Arc::clone(io),
            layout,
            clock,
        }
    }
}

/// The statistic that the hot-node summary carries. After a crash the pack has none, and the statistic begins again.
fn kbytes_written(image: &Image) -> u64 {
    image.pack_summary(Log::HotNode).map_or(0, |summary| summary.journal.kbytes_written())
}

fn load_segments(image: &Image, tables: &dyn Tables, options: &MountOptions) -> Result<SegTable> {
    let mut segs = SegTable::new(image.layout(), SegLocks::new(&options.gc));
    if options.allocation() == Allocation::Adaptive {
        segs = segs.with_reuse(options.takes_first_free(image.layout().main_segments));
    }
    if matches!(options.discard, Discard::Runs(_)) {
        segs = segs.with_held();
    }
    if let Some(regions) = image.superblock().regions() {
        segs = segs.with_held().with_own_sections(regions.regular_sections);
    }
    // Of two logs in one segment the first counts.
    let mut at_logs: BTreeMap<SegNo, (Log, SitEntry)> = BTreeMap::new();
    for &log in image.logs() {
        at_logs.entry(tables.log_position(log).segment).or_insert((log, SitEntry::default()));
    }
    let load = |seg, log: Option<Log>, entry: &SitEntry| {
        // A current segment holds what its log writes, whatever it was before.
        let kind = log.map_or(entry.raw_type(), Log::number);
        let record = SitRecord { kind, map: *entry.valid_map(), mtime: entry.mtime() };
        segs.load(seg, &record, log.is_some());
        // Collectors put what they move among the cold data.
        if kind == Log::ColdData.number() {
            segs.note_passes(seg, 1);
        }
    };
    tables.segments(&mut |seg, entry| {
        entry.validate()?;
        match at_logs.get_mut(&seg) {
            Some((_, known)) => *known = *entry,
            None => load(seg, None, entry),
        }
        Ok(())
    })?;
    // Also where the table says nothing of them.
    for (seg, (log, entry)) in &at_logs {
        load(*seg, Some(*log), entry);
    }
    for seg in tables.segments_behind() {
        if seg.get() >= image.layout().main_segments {
            return Err(Error::corrupt(format!("the SIT journal names segment {seg}, which does not exist")));
        }
        segs.sit_dirty.set(seg.index());
    }
    Ok(segs)
}

fn load_heads(image: &Image, tables: &dyn Tables, segs: &SegTable) -> Result<[Head; Log::COUNT]> {
    let mut heads = Vec::with_capacity(Log::COUNT);
    for log in Log::ALL {
        if !image.logs().contains(&log) {
            // A volume with the feature `ro` has two logs and is never written to: the others stand nowhere.
            heads.push(Head::nowhere());
            continue;
        }
        let at = tables.log_position(log);
        let next = u32::from(at.next);
        let tail_used = (next..BLOCKS).any(|off| segs.is_valid(at.segment, off));
        if at.alloc == AllocType::Lfs && tail_used {
            return Err(Error::corrupt(format!("blocks ahead of the {log} log are marked valid")));
        }
        let mut summary = tables.log_summary(log)?;
        summary.journal = Journal::default();
        heads.push(Head { seg: at.segment, next, alloc: at.alloc, summary, serial: 0, strange: false });
    }
    heads.try_into().map_err(|_| Error::corrupt("a log is missing"))
}
