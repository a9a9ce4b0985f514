//! What an emulated SSD is made of: [`Geometry`], [`Timing`], [`Interface`] and [`Policy`], together [`Parameters`],
//! and the [`Preset`]s.
//!
//! Every number of a preset says where it comes from: *artifact* is the 970 Pro profile of the NVMeVirt that came with
//! D2FS (FAST'25), *paper* the paper named, *datasheet* the maker's, *estimate* ours, made before any experiment ran.
//! What an experiment changes, it changes in the fields.

use crate::ftl::MakeLayer;
use crate::units::{Bandwidth, PAGE};
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;
use steadyfs_device::MigrationGeometry;

/// How the flash is divided. Bytes and counts.
///
/// Chips are programmed in units of one page per plane, all planes together. A line (superblock) is one block of every
/// chip; its units lie side by side over the channels, then over the chips of a channel, then over the rows of the
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Buses between controller and chips.
    pub channels: u32,
    /// Chips (LUNs) on each bus; each does one thing at a time.
    pub chips_per_channel: u32,
    /// Planes of a chip, programmed and erased together.
    pub planes: u32,
    /// Bytes of a flash page of one plane; a multiple of 4096.
    pub page_bytes: u32,
    /// Flash pages of a block: how often a block is programmed between two erases.
    pub block_pages: u32,
}

impl Geometry {
    /// All chips.
    pub const fn chips(&self) -> u32 {
        self.channels * self.chips_per_channel
    }

    /// 4 KiB pages of a program unit.
    pub const fn unit_pages(&self) -> u32 {
        (self.planes as u64 * self.page_bytes as u64 / PAGE) as u32
    }

    /// Bytes of a program unit.
    pub const fn unit_bytes(&self) -> u64 {
        self.planes as u64 * self.page_bytes as u64
    }

    /// Program units of a line.
    pub const fn line_units(&self) -> u32 {
        self.chips() * self.block_pages
    }

    /// 4 KiB pages of a line.
    pub const fn line_pages(&self) -> u32 {
        self.line_units() * self.unit_pages()
    }
}

/// What the flash takes for what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Sensing 4 KiB: in even rows of a block, in odd rows (the two bits of an MLC cell).
    pub sense_small: [Duration; 2],
    /// Sensing more than that, up to a program unit.
    pub sense: [Duration; 2],
    /// Programming a unit, when its data has been transferred.
    pub program: Duration,
    /// Erasing a block (of all planes of a chip).
    pub erase: Duration,
    /// A channel.
    pub channel: Bandwidth,
    /// Longest piece in which data crosses a channel; the next stage starts with the first piece. Bytes.
    pub channel_piece: u32,
}

/// What a read may suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Suspendable {
    /// Nothing: reads, programs and erases are done in the order in which a chip is told.
    #[default]
    Off,
    /// Programs.
    Program,
    /// Erases.
    Erase,
    /// Both.
    Both,
}

impl Suspendable {
    /// All of them.
    pub const ALL: [Suspendable; 4] = [Suspendable::Off, Suspendable::Program, Suspendable::Erase, Suspendable::Both];

    /// The name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Suspendable::Off => "off",
            Suspendable::Program => "program",
            Suspendable::Erase => "erase",
            Suspendable::Both => "both",
        }
    }

    /// Whether programs are.
    pub const fn programs(self) -> bool {
        matches!(self, Suspendable::Program | Suspendable::Both)
    }

    /// Whether erases are.
    pub const fn erases(self) -> bool {
        matches!(self, Suspendable::Erase | Suspendable::Both)
    }
}

/// Which turn a chip gives a read that programs and erases were told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// Its own: first in, first out.
    #[default]
    Fifo,
    /// Before all programs and erases that have not taken the chip.
    ReadFirst,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 2] = [Order::Fifo, Order::ReadFirst];

    /// The name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Fifo => "fifo",
            Order::ReadFirst => "read-first",
        }
    }
}

/// What a chip does for a read that comes to programs and erases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspension {
    /// The operations that are broken off; they also let reads go before them.
    pub what: Suspendable,
    /// What happens to the rest.
    pub order: Order,
    /// From the command to the moment when a read may begin: of a program.
    pub program: Duration,
    /// The same, of an erase of a block.
    pub erase: Duration,
    /// Work that going on costs beside what was left.
    pub resume: Duration,
    /// Reads that a program or an erase lets pass; at least one.
    pub limit: u32,
}

impl Suspension {
    /// Whether reads delay anything that was told before them.
    fn delays(&self) -> bool {
        self.what != Suspendable::Off || self.order == Order::ReadFirst
    }

    /// Whether they delay programs.
    pub(crate) fn delays_programs(&self) -> bool {
        self.what.programs() || self.order == Order::ReadFirst
    }
}

/// Whether a link carries bytes in both directions at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Duplex {
    /// It does, each at its full rate, as PCIe.
    #[default]
    Full,
    /// Both directions share one rate.
    Half,
}

impl Duplex {
    /// All of them.
    pub const ALL: [Duplex; 2] = [Duplex::Full, Duplex::Half];

    /// The name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Duplex::Full => "full",
            Duplex::Half => "half",
        }
    }
}

/// How the host talks to the device, and what its firmware takes. Firmware times are latencies: any number of requests
/// pass at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The link.
    pub link: Bandwidth,
    /// Whether both directions have that rate at a time.
    pub duplex: Duplex,
    /// Requests in the device at a time; others wait outside, in order.
    pub queue_depth: u32,
    /// Largest command; longer requests count as several. Bytes.
    pub max_transfer: u32,
    /// Firmware of a read of up to 16 KiB, and of a longer one.
    pub read: [Duration; 2],
    /// Firmware of a write command.
    pub write: Duration,
    /// The same, for each 4 KiB of it.
    pub write_page: Duration,
    /// Firmware of a flush, beside what it waits for.
    pub flush: Duration,
    /// A discard or zone command.
    pub discard: Duration,
    /// The same, for each 4 KiB of a discard.
    pub discard_page: Duration,
}

/// What the translation layer decides by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Flash beyond the capacity, as a part of the capacity: 0.07 for 107 GiB of flash behind 100 GiB.
    pub over_provisioning: f64,
    /// Host writes are kept apart by their hint in this many open lines: 1, 2 (data, nodes and areas) or 3 (hot, warm,
    /// cold).
    pub streams: u32,
    /// Collection keeps pace with the host when there are this many free lines or fewer.
    pub gc_lines: u32,
    /// An idle device collects while there are this many free lines or fewer, and something to gain; 0: never.
    pub idle_gc_lines: u32,
    /// How long nothing was asked of an idle device.
    pub idle: Duration,
}

/// Which translation layer finds the flash of a logical page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// A page may lie anywhere, and the device collects garbage.
    #[default]
    PageMap,
    /// The same, with a map that takes memory for the pages that are mapped, and not for the address space. The
    /// capacity is how many pages may be mapped at a time.
    Interval(Intervals),
    /// Zones are written in order, and emptied by the host. A zone is a line ([`Geometry::line_pages`]), and the
    /// capacity is a number of zones.
    Zoned(ZoneLimits),
    /// Zones that the host writes once, and that the device empties into zones of its own, of which it tells the host
    /// (D2FS). A zone is a line, and the capacity is what the regular and the GC area may hold at a time.
    Migrating(Coupling),
    /// One that stands in a file of its own, and is in no list.
    Own(OwnLayer),
}

/// A translation layer that this table does not know: a static of the file that it stands in.
#[derive(Clone, Copy)]
pub struct OwnLayer(pub(crate) &'static dyn MakeLayer);

impl PartialEq for OwnLayer {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}

impl Eq for OwnLayer {}

impl std::fmt::Debug for OwnLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The areas of a device that moves pages by itself, in pages of 4 KiB, and what it has for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coupling {
    /// The metadata area: lines.
    pub meta: u64,
    /// The regular area: lines.
    pub regular: u64,
    /// The GC area: lines, and at least the capacity.
    pub gc: u64,
    /// Most records that are not completed; of two lines at least.
    pub records: u32,
    /// Lines that are kept for what a host writes while the device may not collect, because the host has records to
    /// complete. The first ten go to the collector, and to zones that are begun and not filled.
    pub reserve_lines: u32,
}

impl Coupling {
    /// The areas of a volume, with a record for each eighth page of the capacity. Of lines for what is written until a
    /// checkpoint there are eighteen, and one for each 512 of the capacity: a node refers to twice as many blocks
    /// (estimates).
    pub fn new(areas: &MigrationGeometry) -> Self {
        let length = |area: &Range<u64>| area.end - area.start;
        let (meta, regular, gc) = (length(&areas.meta), length(&areas.regular), length(&areas.gc));
        let records = (areas.capacity / 8).max(2 * areas.zone);
        let reserve_lines = 18 + (areas.capacity / areas.zone.max(1) / 512) as u32;
        Coupling { meta, regular, gc, records: u32::try_from(records).unwrap_or(u32::MAX), reserve_lines }
    }
}

/// How many zones a zoned device has at work, and how many take writes anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Zones open at once; 0 for no limit.
    pub max_open: u32,
    /// Zones open or closed at once; 0 for no limit. Not less than `max_open`.
    pub max_active: u32,
    /// The first zones are conventional.
    pub conventional: u32,
}

impl Default for ZoneLimits {
    /// 14 open and active zones, as the Western Digital ZN540 has (datasheet), none of them conventional.
    fn default() -> Self {
        ZoneLimits { max_open: 14, max_active: 14, conventional: 0 }
    }
}

/// The shape of an interval map, after IPLFS (USENIX ATC 2022). Pages are of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Pages of the address space, at most 2^60; 0 for as many as the capacity has.
    pub addresses: u64,
    /// Pages that a map node is for.
    pub node_pages: u32,
    /// Map nodes of a zone node.
    pub zone_nodes: u32,
    /// Shorter holes keep their entries when a node is compacted.
    pub smallest_hole: u32,
    /// When nodes are compacted.
    pub compaction: Compaction,
}

/// When the nodes of an interval map are compacted, and how long the firmware is away with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Time between passes, each over the nodes with discards since the one before; zero for no compaction.
    pub period: Duration,
    /// The firmware serves nobody while it works on this many nodes, and the host for as long again after that; 0 for
    /// the whole pass.
    pub slice_nodes: u32,
    /// A node is replaced if it then takes at most this many hundredths of its bytes.
    pub adopt_percent: u32,
    /// A node is looked at if at most this many hundredths of its pages are mapped.
    pub most_valid_percent: u32,
    /// The firmware's time to look at 2^20 pages.
    pub scan: Duration,
}

impl Compaction {
    /// From the public series of D2FS' artifact (FIO on IPLFS, run of 2024-12-24 10:29). It has 193 million writes,
    /// with a standard deviation of 1049.8 us. Meanwhile passes looked at n nodes of 2^20 pages each, the sum of n^2
    /// being 4.23 million. If all variance is one write a pass that waits for it, a node takes 7.1 ms. The longest wait
    /// takes no part in that: the longest pass, 172 nodes, gives 1.22 s, and the longest write took 1.11 s.
    pub const ARTIFACT_SCAN: Duration = us(7100);
}

impl Intervals {
    /// The paper's: map nodes of 16 MiB and zones of 16 GiB, looked at every 30 s, and replaced below 0.7 of the size.
    /// As in the firmware of the prototype, that goes node by node, and only if at most half of a node is mapped. The
    /// speed of a scan is the artifact's.
    pub const fn paper() -> Self {
        let compaction = Compaction {
            period: Duration::from_secs(30),
            slice_nodes: 1,
            adopt_percent: 70,
            most_valid_percent: 50,
            scan: Compaction::ARTIFACT_SCAN,
        };
        Intervals { addresses: 0, node_pages: 1 << 12, zone_nodes: 1024, smallest_hole: 16, compaction }
    }

    /// The artifact's of D2FS: map nodes of 4 GiB, of which all with discards are looked at every second at a stop, and
    /// replaced if that saves a tenth; holes below 256 KiB keep their entries.
    pub const fn artifact() -> Self {
        let compaction = Compaction {
            period: Duration::from_secs(1),
            slice_nodes: 0,
            adopt_percent: 90,
            most_valid_percent: 100,
            scan: Compaction::ARTIFACT_SCAN,
        };
        Intervals { addresses: 0, node_pages: 1 << 20, zone_nodes: 1024, smallest_hole: 64, compaction }
    }

    /// Refuses what cannot work.
    fn validate(&self) -> Result<(), ParameterError> {
        let wrong = |what| Err(ParameterError::Intervals(what));
        if self.addresses > 1 << 60 {
            return wrong("the address space ends at 2^60 pages");
        }
        if !(64..=1 << 24).contains(&self.node_pages) || !(1..=1 << 16).contains(&self.zone_nodes) {
            return wrong("a map node is for 64 to 2^24 pages, and a zone has 1 to 65536 of them");
        }
        if self.smallest_hole == 0 || self.smallest_hole > self.node_pages {
            return wrong("the smallest hole has 1 page at least, and fits a map node");
        }
        let Compaction { adopt_percent, most_valid_percent, .. } = self.compaction;
        if adopt_percent > 99 || most_valid_percent > 100 {
            return wrong("compaction has to make a node smaller");
        }
        Ok(())
    }
}

/// Everything that an emulated SSD is made from, but its capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Name for messages.
    pub name: String,
    /// How the flash is divided.
    pub geometry: Geometry,
    /// What the flash takes.
    pub timing: Timing,
    /// How reads break off what the flash is doing.
    pub suspension: Suspension,
    /// How the host talks to the device.
    pub interface: Interface,
    /// Host data that has been accepted and not been programmed: at most this many bytes.
    pub buffer_bytes: u64,
    /// The write buffer survives a power cut: flushes and FUA wait for nothing.
    pub power_loss_protection: bool,
    /// Which translation layer it has.
    pub layer: Layer,
    /// What the translation layer decides by.
    pub policy: Policy,
    /// Keep what every page of the flash holds, for [`crate::EmulatedSsd::after_power_cut`]. Takes memory, and no time
    /// of the device.
    pub remember_cells: bool,
}

/// Parameters or a capacity of which no SSD can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A part of the geometry is zero, or a flash page is not a number of 4 KiB pages.
    #[error("the geometry has an empty part, or flash pages that are not a multiple of 4 KiB")]
    Geometry,
    /// Number of streams.
    #[error("{0} streams; there are 1, 2 or 3")]
    Streams(u32),
    /// Queue depth or command size.
    #[error("the interface takes no command of a page")]
    Interface,
    /// The buffer cannot hold the partly filled units of all open lines and one more.
    #[error("a write buffer of {have} bytes; open lines alone may hold {need}")]
    Buffer {
        /// Bytes there are.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// Not a whole number of pages, or none, or more than 32-bit page numbers reach.
    #[error("a capacity of {0} bytes; it must be 4 KiB pages, at least one, and below 8 TiB")]
    Capacity(u64),
    /// Over-provisioning that is not a number, negative, or beyond all measure.
    #[error("the over-provisioning must be from 0 to 100 times the capacity")]
    OverProvisioning,
    /// Zone limits that contradict each other, or conventional zones that fill the device.
    #[error("zones: {0}")]
    Zones(&'static str),
    /// A shape of the interval map that cannot be.
    #[error("interval map: {0}")]
    Intervals(&'static str),
    /// Suspension for no read.
    #[error("suspension: a program or an erase lets at least one read pass")]
    Suspension,
    /// A preset's name.
    #[error("no preset is called {0}; there are 970pro, pm9a3 and slow-emmc")]
    UnknownPreset(String),
}

impl Parameters {
    /// The same device with blocks of a `parts`th of the size, and erases that take a `parts`th of the time: for small
    /// capacities, where lines of full size would be too few for collection to have a choice. Bandwidths, latencies of
    /// reads and programs, and the time spent erasing stay the same. Stops at blocks of one page.
    pub fn with_smaller_blocks(mut self, parts: u32) -> Self {
        let parts = parts.clamp(1, self.geometry.block_pages.max(1));
        self.geometry.block_pages /= parts;
        self.timing.erase /= parts;
        self.suspension.erase /= parts;
        self
    }

    /// The same device with blocks so small that a capacity of `capacity` bytes has at least 256 lines.
    pub fn for_capacity(self, capacity: u64) -> Self {
        const LINES: u64 = 256;
        let line = (u64::from(self.geometry.line_pages()) * PAGE).max(1);
        let parts = (LINES * line).div_ceil(capacity.max(1));
        if parts > 1 { self.with_smaller_blocks(u32::try_from(parts).unwrap_or(u32::MAX)) } else { self }
    }

    /// Refuses what cannot work, whatever the capacity.
    ///
    /// # Errors
    /// What does not go together.
    pub fn check(&self) -> Result<(), ParameterError> {
        self.validate()
    }

    /// Refuses what cannot work.
    pub(crate) fn validate(&self) -> Result<(), ParameterError> {
        let g = &self.geometry;
        let parts = [g.channels, g.chips_per_channel, g.planes, g.page_bytes, g.block_pages];
        let page_fits = u64::from(g.page_bytes).is_multiple_of(PAGE);
        let line = parts.iter().try_fold(1u64, |all, part| all.checked_mul(u64::from(*part)));
        if parts.contains(&0) || !page_fits || line.is_none_or(|bytes| bytes / PAGE > u64::from(u32::MAX) / 16) {
            return Err(ParameterError::Geometry);
        }
        if !(1..=3).contains(&self.policy.streams) {
            return Err(ParameterError::Streams(self.policy.streams));
        }
        if self.interface.queue_depth == 0
            || u64::from(self.interface.max_transfer) < PAGE
            || u64::from(self.timing.channel_piece) < PAGE
        {
            return Err(ParameterError::Interface);
        }
        if self.suspension.delays() && self.suspension.limit == 0 {
            return Err(ParameterError::Suspension);
        }
        if !(0.0..=100.0).contains(&self.policy.over_provisioning) {
            return Err(ParameterError::OverProvisioning);
        }
        if let Layer::Interval(shape) = self.layer {
            shape.validate()?;
        }
        self.buffer_holds(u64::from(self.policy.streams))
    }

    /// Pages that a host sees of a device with `pages`.
    pub(crate) fn addresses(&self, pages: u64) -> u64 {
        match self.layer {
            Layer::Interval(shape) if shape.addresses > 0 => shape.addresses,
            Layer::Migrating(shape) => shape.meta + shape.regular + shape.gc,
            _ => pages,
        }
    }

    /// Refuses a write buffer that `open_units` partly filled units could fill: nothing would ever leave it.
    pub(crate) fn buffer_holds(&self, open_units: u64) -> Result<(), ParameterError> {
        let need = (open_units + 1) * self.geometry.unit_bytes();
        if self.buffer_bytes < need {
            return Err(ParameterError::Buffer { have: self.buffer_bytes, need });
        }
        Ok(())
    }
}

/// What all presets share: chips do what they are told in that order, and nothing is suspended. No public source says
/// what their firmware does. NVMeVirt, which the papers used, has no suspension; MQSim's own settings (ssdconfig.xml)
/// suspend erases only, in 700 us of 3.8 ms, and have 100 us for a program, and nothing for going on. Those times are
/// here for experiments that switch it on; that of an erase is the same share of our erases. The limit is an estimate:
/// MQSim has none.
fn suspension(erase: Duration) -> Suspension {
    let (what, order) = (Suspendable::Off, Order::Fifo);
    Suspension { what, order, program: us(100), erase: erase * 7 / 38, resume: Duration::ZERO, limit: 16 }
}

/// Devices whose parameters are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// `970pro`: a Samsung 970 Pro, as D2FS' artifact emulates it; a consumer's NVMe SSD without capacitors.
    Samsung970Pro,
    /// `pm9a3`: the Samsung PM9A3 of ScaleLFS' evaluation, behind PCIe 3; a data centre SSD with capacitors.
    Pm9a3,
    /// `slow-emmc`: the storage of a cheap phone or board.
    SlowEmmc,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 3] = [Preset::Samsung970Pro, Preset::Pm9a3, Preset::SlowEmmc];

    /// The name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Samsung970Pro => "970pro",
            Preset::Pm9a3 => "pm9a3",
            Preset::SlowEmmc => "slow-emmc",
        }
    }

    /// The numbers.
    pub fn parameters(self) -> Parameters {
        match self {
            Preset::Samsung970Pro => samsung_970_pro(),
            Preset::Pm9a3 => pm9a3(),
            Preset::SlowEmmc => slow_emmc(),
        }
    }
}

impl From<Preset> for Parameters {
    fn from(preset: Preset) -> Self {
        preset.parameters()
    }
}

impl FromStr for Preset {
    type Err = ParameterError;
    fn from_str(name: &str) -> Result<Self, ParameterError> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| ParameterError::UnknownPreset(name.to_owned()))
    }
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

const fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// What all presets share: 7 % over-provisioning (all three artifacts: capacity = flash x 100/107), one stream as
/// consumer and most data centre drives have, and collection at four free lines (artifact: 2 to 5). An idle device
/// does not collect: the artifact's does not, and no public source says what these drives do.
fn policy() -> Policy {
    Policy { over_provisioning: 0.07, streams: 1, gc_lines: 4, idle_gc_lines: 0, idle: Duration::from_millis(100) }
}

/// Artifact, where nothing else is said. Its four separate translation layers, each with its own lines of 8 MiB, are
/// one here, with lines of 32 MiB. Program, read and link figures are what NVMeVirt's authors fitted to the real
/// device.
fn samsung_970_pro() -> Parameters {
    Parameters {
        name: "970pro".into(),
        // 8 channels of 2 chips; 32 KiB program units, of two planes of 16 KiB pages (paper: 16 KiB pages); blocks of 2
        // MiB.
        geometry: Geometry { channels: 8, chips_per_channel: 2, planes: 2, page_bytes: 16 << 10, block_pages: 64 },
        timing: Timing {
            sense_small: [ns(29_760), ns(41_760)],
            sense: [ns(30_013), ns(42_013)],
            program: us(185),
            // Artifact: 0. Estimate: 3.5 ms (usual for 3D MLC) for a real block of about 16 MiB in two planes, of which
            // this is an eighth. The fitted program time contains some erasing already; full 3.5 ms here would take a
            // fifth of the real device's bandwidth.
            erase: us(440),
            channel: Bandwidth::mib_per_second(800),
            channel_piece: 16 << 10,
        },
        suspension: suspension(us(440)),
        interface: Interface {
            link: Bandwidth::mib_per_second(3360),
            duplex: Duplex::Full,    // PCIe; NVMeVirt books both ways on one
            queue_depth: 1023,       // NVMe queues of 1024 entries (estimate)
            max_transfer: 256 << 10, // MDTS 6
            read: [ns(21_500), ns(30_490)],
            write: us(4),
            write_page: ns(460),
            flush: us(4),         // estimate: as a write
            discard: us(20),      // estimate; artifact: 0
            discard_page: ns(10), // estimate: one map entry, out of cache; artifact: 0
        },
        buffer_bytes: 1 << 20, // 16 chips x 32 KiB x 2
        power_loss_protection: false,
        layer: Layer::PageMap,
        policy: policy(),
        remember_cells: false,
    }
}

/// 7.68 TB; datasheet: 4.0 GB/s sequential write, 6.8 GB/s read, 1.1 M random reads and 200 k random writes per second.
/// ScaleLFS' hosts have PCIe 3 (Xeon E5): the 3.4 GB/s that the paper calls the device's peak are what a PCIe 3 x4 link
/// carries. The flash below the link writes 4.0 GB/s, so the link is the limit, as in the paper.
fn pm9a3() -> Parameters {
    Parameters {
        name: "pm9a3".into(),
        // Estimate: 8 channels of 8 chips of four planes. With 64 KiB units, 64 chips x 64 KiB / (990 + 55 us) = 4.0
        // GB/s (datasheet).
        geometry: Geometry { channels: 8, chips_per_channel: 8, planes: 4, page_bytes: 16 << 10, block_pages: 32 },
        timing: Timing {
            sense_small: [us(50), us(50)], // estimate: TLC V-NAND of 128 layers, 45 to 60 us
            sense: [us(55), us(55)],
            program: us(990),
            erase: us(700), // estimate: 3.5 ms for a block of 10 MiB, of which this is a fifth
            channel: Bandwidth::mb_per_second(1200), // estimate: ONFI / Toggle 4
            channel_piece: 16 << 10,
        },
        suspension: suspension(us(700)),
        interface: Interface {
            link: Bandwidth::mb_per_second(3400), // paper
            duplex: Duplex::Full, // PCIe has lanes for each way; the paper counts both together (MODEL.md)
            queue_depth: 1023,
            max_transfer: 1 << 20,  // MDTS 8, estimate
            read: [us(20), us(25)], // estimate: 80 us for an idle 4 KiB read
            write: us(8),           // estimate: 10 us for an idle 4 KiB write
            write_page: ns(300),
            flush: us(8),
            discard: us(20),
            discard_page: ns(10),
        },
        buffer_bytes: 16 << 20, // two units per chip, as the artifact, and as much again: data centre drives hold tens of MiB
        power_loss_protection: true, // datasheet
        layer: Layer::PageMap,
        policy: policy(),
        remember_cells: false,
    }
}

/// Estimates after eMMC 5.1 parts of the years to 2020: about 250 MB/s read, 60 MB/s write, 6 k random reads per
/// second, and no capacitors.
fn slow_emmc() -> Parameters {
    Parameters {
        name: "slow-emmc".into(),
        geometry: Geometry { channels: 1, chips_per_channel: 2, planes: 2, page_bytes: 16 << 10, block_pages: 64 },
        timing: Timing {
            sense_small: [us(70), us(90)],
            sense: [us(75), us(95)],
            program: us(980), // 2 chips x 32 KiB / (980 + 82 us) = 61.7 MB/s
            erase: us(1000),
            channel: Bandwidth::mb_per_second(400),
            channel_piece: 16 << 10,
        },
        suspension: suspension(us(1000)),
        interface: Interface {
            link: Bandwidth::mb_per_second(300), // HS400, less overhead
            duplex: Duplex::Half,                // one bus of eight lines for both ways (JEDEC, eMMC 5.1)
            queue_depth: 32,                     // eMMC 5.1 command queue
            max_transfer: 512 << 10,
            read: [us(60), us(80)],
            write: us(60),
            write_page: us(1),
            flush: us(100),
            discard: us(200),
            discard_page: ns(20),
        },
        buffer_bytes: 512 << 10,
        power_loss_protection: false,
        layer: Layer::PageMap,
        policy: policy(),
        remember_cells: false,
    }
}
