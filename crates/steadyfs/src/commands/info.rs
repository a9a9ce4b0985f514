//! `steadyfs info`: what a volume is and how full it is, and what a mounted one has done, for people and for scripts.

mod areas;
mod logs;
mod mounted;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::raw::Image;
use steadyfs_core::{Error, why_read_only};
use steadyfs_device::is_image_directory;
use steadyfs_format::checkpoint::CpFlags;
use steadyfs_format::quote::{quote, uuid};
use steadyfs_format::{BLOCK_SIZE, Log};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::size::human;
use crate::text::print_json;
use crate::volume::open_raw;
use areas::Areas;
use logs::Logs;

/// Show what a volume is: label, features, sizes, space, state; of a mounted one, what it has done since
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs info image.img")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device; or the directory where a volume is mounted, for its counters
    device: PathBuf,
}

/// The JSON form. Sizes are in bytes unless the name says otherwise.
#[derive(Serialize)]
struct Info {
    kind: &'static str,
    label: String,
    uuid: String,
    features: Vec<&'static str>,
    unknown_features: u32,
    version: String,
    init_version: String,
    size: u64,
    #[serde(flatten)]
    segments: Option<Segments>,
    /// Of an IPLFS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    iplfs: Option<Logs>,
    /// Of a D2FS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    d2fs: Option<Areas>,
    /// Why the volume can only be read, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only: Option<String>,
    superblock_copy: u32,
    checkpoint: CheckpointInfo,
    space: Space,
    /// Those that stand in segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logs: Vec<LogInfo>,
    cold_extensions: Vec<String>,
    hot_extensions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    devices: Vec<String>,
}

/// The geometry of a volume that has segments.
#[derive(Serialize)]
struct Segments {
    segment_size: u64,
    segments: u32,
    main_segments: u32,
    segments_per_section: u32,
    sections_per_zone: u32,
    sections: u32,
}

#[derive(Serialize)]
struct CheckpointInfo {
    pack: u32,
    version: u64,
    flags: Vec<&'static str>,
    unknown_flags: u32,
    clean: bool,
    /// None, as the two below, if that cannot be read.
    orphans: Option<usize>,
    /// What the next mount will recover: files fsynced after the checkpoint, and the nodes in their chain.
    fsynced_files: Option<u64>,
    fsynced_nodes: Option<u64>,
    /// The superblock keeps other programs away: there may be a metadata journal.
    journaled: bool,
    /// What of it the next mount will replay.
    journal_batches: u64,
    journal_records: u64,
    journal_damaged: bool,
    mounted_seconds: u64,
}

impl CheckpointInfo {
    /// What there is to replay, in one line.
    fn journal(&self) -> String {
        let (batches, records) = (self.journal_batches, self.journal_records);
        if self.journal_damaged {
            return "damaged; see `steadyfs fsck`".to_owned();
        }
        format!(
            "{batches} batches with {records} records to replay; other programs refuse the volume until the next mount \
             or `steadyfs recover`"
        )
    }
}

/// As df shows it.
#[derive(Serialize)]
struct Space {
    total: u64,
    used: u64,
    free: u64,
    #[serde(flatten)]
    segments: Option<SpareSegments>,
    inodes: u32,
    nodes: u32,
    max_nodes: u32,
}

/// Segments that are free, and that are kept back.
#[derive(Serialize)]
struct SpareSegments {
    free_segments: u32,
    reserved_segments: u32,
    overprovisioned_segments: u32,
}

#[derive(Serialize)]
struct LogInfo {
    log: &'static str,
    segment: u32,
    next_block: u16,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.device.is_dir() && !is_image_directory(&args.device) {
        return mounted::run(&args.device, args.json);
    }
    let image = open_raw(&args.device, args.image)?;
    let info = Info::new(&image);
    if args.json {
        print_json(&info)?;
    } else {
        info.print(&mut io::stdout().lock()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Info {
    fn new(image: &Image) -> Self {
        let (superblock, layout) = (image.superblock(), image.layout());
        let header = image.checkpoint().header();
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
        let (user, valid) = (header.user_blocks(), header.valid_blocks());
        let features = superblock.features();
        let chain = known("what was fsynced after the last checkpoint", image.chain_summary());
        let orphans = known("the list of orphans", image.orphans());
        let iplfs = image.log_space().map(Logs::of);
        let flags = image.stored_flags();
        let segmented = iplfs.is_none();
        Info {
            kind: superblock.kind(),
            label: superblock.label(),
            uuid: uuid(&superblock.uuid()),
            features: features.names().collect(),
            unknown_features: features.unknown().bits(),
            version: superblock.version(),
            init_version: superblock.init_version(),
            size: bytes(layout.block_count),
            segments: segmented.then_some(Segments {
                segment_size: steadyfs_format::SEG_BYTES,
                segments: layout.segment_count,
                main_segments: layout.main_segments,
                segments_per_section: layout.segs_per_sec,
                sections_per_zone: layout.secs_per_zone,
                sections: layout.sections,
            }),
            iplfs,
            d2fs: Areas::of(image),
            read_only: why_read_only(features),
            superblock_copy: if image.superblocks().copy(0).is_ok() { 0 } else { 1 },
            checkpoint: CheckpointInfo {
                pack: image.pack().number(),
                version: header.version(),
                flags: flags.names().collect(),
                unknown_flags: flags.unknown().bits(),
                clean: flags.contains(CpFlags::UMOUNT),
                orphans: orphans.map(|orphans| orphans.len()),
                fsynced_files: chain.map(|chain| chain.files),
                fsynced_nodes: chain.map(|chain| chain.nodes),
                journaled: image.superblocks().is_journaled(),
                journal_batches: chain.map_or(0, |chain| chain.batches),
                journal_records: chain.map_or(0, |chain| chain.records),
                journal_damaged: chain.is_some_and(|chain| chain.journal_damaged),
                mounted_seconds: header.elapsed_time(),
            },
            space: Space {
                total: bytes(user),
                used: bytes(valid),
                free: bytes(user.saturating_sub(valid)),
                segments: segmented.then_some(SpareSegments {
                    free_segments: header.free_segments(),
                    reserved_segments: header.reserved_segments(),
                    overprovisioned_segments: header.overprov_segments(),
                }),
                inodes: header.valid_inodes(),
                nodes: header.valid_nodes(),
                max_nodes: layout.max_nid().get(),
            },
            logs: if segmented { Log::ALL.map(|log| log_info(image, log)).into() } else { Vec::new() },
            cold_extensions: superblock.cold_extensions(),
            hot_extensions: superblock.hot_extensions(),
            devices: superblock.devices().into_iter().map(|device| device.path).collect(),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = |name: &str, value: String| writeln!(out, "{name:<14}{}", quote(&value));
        line("kind", self.kind.to_owned())?;
        line("label", label(&self.label))?;
        line("uuid", self.uuid.clone())?;
        line("features", names(&self.features, self.unknown_features))?;
        line("made by", self.init_version.clone())?;
        line("written by", self.version.clone())?;
        if let Some(s) = &self.segments {
            let size = human(self.size);
            line("size", format!("{size} ({} segments, {} in the main area)", s.segments, s.main_segments))?;
            let sections = (s.sections, s.segments_per_section, s.sections_per_zone);
            line("sections", format!("{} of {} segments, {} to a zone", sections.0, sections.1, sections.2))?;
        }
        if !self.devices.is_empty() {
            line("devices", self.devices.join(" "))?;
        }
        let checkpoint = &self.checkpoint;
        line("checkpoint", format!("version {} in pack {}", checkpoint.version, checkpoint.pack))?;
        line("flags", names(&checkpoint.flags, checkpoint.unknown_flags))?;
        line("state", if checkpoint.clean { "clean".to_owned() } else { "not unmounted cleanly".to_owned() })?;
        match (checkpoint.fsynced_files, checkpoint.fsynced_nodes) {
            (Some(0), _) => {}
            (Some(files), Some(nodes)) => {
                line("to recover", format!("{files} files fsynced since ({nodes} nodes); the next mount does"))?;
            }
            _ => line("to recover", "not known".to_owned())?,
        }
        if checkpoint.journaled {
            line("journal", checkpoint.journal())?;
        }
        let space = &self.space;
        line("space", fullness(space.used, space.total))?;
        if let Some(s) = &space.segments {
            let kept = (s.reserved_segments, s.overprovisioned_segments);
            line("segments", format!("{} free, {} reserved, {} overprovisioned", s.free_segments, kept.0, kept.1))?;
        }
        let orphans = checkpoint.orphans.map_or_else(|| "not known how many".to_owned(), |known| known.to_string());
        line("inodes", format!("{} ({} nodes of {}), {orphans} orphans", space.inodes, space.nodes, space.max_nodes))?;
        if let Some(why) = &self.read_only {
            line("read-only", why.clone())?;
        }
        if let Some(logs) = &self.iplfs {
            logs.print(&mut line)?;
        }
        if let Some(areas) = &self.d2fs {
            areas.print(&mut line)?;
        }
        for log in &self.logs {
            line(log.log, format!("segment {}, block {}", log.segment, log.next_block))?;
        }
        if self.superblock_copy != 0 {
            line("note", "the first superblock is damaged; the second one was used".to_owned())?;
        }
        Ok(())
    }
}

/// A label, for people.
fn label(label: &str) -> String {
    if label.is_empty() { "(none)".to_owned() } else { label.to_owned() }
}

/// Names of bits, and those that have none.
fn names(known: &[impl AsRef<str>], unknown: u32) -> String {
    let mut names: Vec<String> = known.iter().map(|name| name.as_ref().to_owned()).collect();
    match (unknown, names.is_empty()) {
        (0, true) => return "none".to_owned(),
        (0, false) => {}
        (bits, _) => names.push(format!("unknown({bits:#x})")),
    }
    names.join(" ")
}

/// How full it is, in bytes.
fn fullness(used: u64, total: u64) -> String {
    let percent = used as f64 * 100.0 / total.max(1) as f64;
    format!("{} of {} used ({percent:.1} %)", human(used), human(total))
}

/// A part of the checkpoint that the rest can be told without.
fn known<T>(what: &str, read: Result<T, Error>) -> Option<T> {
    read.inspect_err(|e| tracing::warn!("{what} cannot be read: {e}; check the volume with `steadyfs fsck`")).ok()
}

fn log_info(image: &Image, log: Log) -> LogInfo {
    let position = image.log_position(log);
    LogInfo { log: log.name(), segment: position.segment.get(), next_block: position.next }
}
