//! `steadyfs mkfs`: makes a volume. Flags are those of mkfs.f2fs where the meaning is the same.
//!
//! Whatever the device holds is kept unless the user says `-f`: a known signature, a mounted file system. With the same
//! uuid and time two runs give the same bytes.

mod d2fs;
mod f2fs;
mod iplfs;
mod target;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::Error;
use steadyfs_core::mkfs::{MkfsOptions, MkfsReport, parse_features};
use steadyfs_format::infinite::Stretch;
use steadyfs_format::mkfs_layout::MAX_OVERPROVISION;
use steadyfs_format::quote::uuid;
use steadyfs_format::{BLOCK_SIZE, Log};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::size::{Size, human};
use crate::talk::Talk;
use crate::text::print_json;
use crate::volume::failure;
use iplfs::Kind;
use target::Target;

/// Make a volume on a device or in an image file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  steadyfs mkfs image.img 4G\n  SOURCE_DATE_EPOCH=0 steadyfs mkfs --uuid 01234567-89ab-cdef-0123-456789abcdef image.img 1G\n  steadyfs mkfs --kind iplfs --capacity 64G image.img\n  steadyfs mkfs --kind iplfs --capacity 64G image.d/\n  steadyfs mkfs --kind d2fs --capacity 4G volume.d2fs"
)]
pub(crate) struct Args {
    /// Name of the volume
    #[arg(short, long, value_name = "LABEL", default_value = "", hide_default_value = true)]
    label: String,
    /// Features, separated by commas, such as extra_attr,inode_checksum,sb_checksum
    #[arg(short = 'O', long, value_name = "FEATURES")]
    features: Vec<String>,
    /// Segments (2 MiB) in a section, the unit of collection
    #[arg(short, long, value_name = "SEGS", default_value_t = 1)]
    segments_per_section: u32,
    /// Sections in a zone
    #[arg(short = 'z', long, value_name = "SECS", default_value_t = 1)]
    sections_per_zone: u32,
    /// Percentage to keep back for collection [default: what leaves most room]
    #[arg(short, long, value_name = "PERCENT", value_parser = percentage, allow_hyphen_values = true)]
    overprovision: Option<f64>,
    /// Extensions of files that seldom change, beside the usual ones
    #[arg(short = 'e', long = "cold", value_name = "EXT,...", value_delimiter = ',')]
    cold_extensions: Vec<String>,
    /// Extensions of files that often change, beside the usual ones
    #[arg(short = 'E', long = "hot", value_name = "EXT,...", value_delimiter = ',')]
    hot_extensions: Vec<String>,
    /// Overwrite what the device holds
    #[arg(short, long)]
    force: bool,
    /// Say what would be made, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print a JSON object: label, uuid, features, size and user_size (bytes), sections, segments_per_section,
    /// sections_per_zone, overprovision (percent), overprovision_segments, files (at most), written; of an IPLFS volume
    /// also capacity and log_size (bytes), of a D2FS volume capacity and regular_sections
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    pub(crate) talk: Talk,
    /// Room for more files, as with large volumes of small files
    #[arg(short = 'i', long)]
    large_nat: bool,
    /// Owner and group of the root directory [default: the caller's]
    #[arg(short = 'R', long, value_name = "UID:GID", value_parser = owner)]
    root_owner: Option<(u32, u32)>,
    /// Discard the device first (1) or not (0)
    #[arg(short = 't', long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1), default_value_t = 1)]
    discard: u8,
    /// Sector size of the device, 512 to 4096 [default: the device's own]
    #[arg(short = 'w', long, value_name = "BYTES", value_parser = sector_size)]
    sector_size: Option<u32>,
    /// Identity of the volume [default: random]
    #[arg(short = 'U', long, value_name = "UUID", value_parser = parse_uuid)]
    uuid: Option<[u8; 16]>,
    /// Time of the first files, in seconds since 1970 [default: SOURCE_DATE_EPOCH, or now]
    #[arg(short = 'T', long, value_name = "SECONDS", allow_hyphen_values = true)]
    timestamp: Option<i64>,
    #[command(flatten)]
    f2fs: f2fs::Flags,
    #[command(flatten)]
    iplfs: iplfs::InfiniteFlags,
    #[command(flatten)]
    d2fs: d2fs::MigratingFlags,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file, block device, or chunk directory: one that is there, or a name that ends with a slash; for a D2FS
    /// volume a directory
    device: PathBuf,
    /// Size of the volume in bytes (or with a suffix: 64M, 1.5G), of an IPLFS volume the length of its address space.
    /// Makes image file or directory if there is none [default: all of the device; of an IPLFS image 1E]
    size: Option<Size>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.f2fs.check()?;
    args.iplfs.check(|kind| of_others(args, kind))?;
    let mut options = options(args)?;
    options.migrating = args.iplfs.of_d2fs().map(|capacity| args.d2fs.chosen(capacity));
    let size = match args.iplfs.is_iplfs() {
        true => args.iplfs.space(&args.device, args.image.offset.0, args.size),
        false => args.size,
    };
    let force = args.force || args.f2fs.force();
    let target = match options.migrating {
        Some(_) => Target::collecting(&args.device, &options, force)?,
        None => Target::open(&args.device, args.image, size, args.dry_run, force)?,
    };
    if args.iplfs.is_iplfs() {
        let made = args.iplfs.chosen(&args.device, target.device().info().blocks, args.force).and_then(|chosen| {
            options.infinite = Some(chosen);
            target.lengthen()
        });
        if let Err(failure) = made {
            target.abandon();
            return Err(failure);
        }
    }
    options.start_sector = target.start_sector();
    let sector_size = args.sector_size.or(args.f2fs.sector_size());
    options.log_sector_size = sector_size.unwrap_or_else(|| target.sector_size()).ilog2();
    let report = make(target, &options)?;
    if args.json {
        print_json(&Made::new(args, &report))?;
    } else if !args.talk.quiet {
        summary(args, &report, &mut io::stdout().lock()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The flags given that mean nothing on a volume of this kind.
fn of_others(args: &Args, kind: Kind) -> Vec<&'static str> {
    let (iplfs, d2fs) = (kind == Kind::Iplfs, kind == Kind::D2fs);
    let given = [
        (!d2fs && args.d2fs.is_given(), iplfs::REGULAR_RATIO),
        (iplfs && args.segments_per_section != 1, "sections (-s)"),
        (args.sections_per_zone != 1, "zones (-z)"),
        (args.overprovision.is_some(), "over-provisioning (-o)"),
        (iplfs && args.large_nat, "choice of its NAT (-i)"),
        (args.discard == 0, "way without discards (-t)"),
        (d2fs && args.size.is_some(), "SIZE, but a --capacity"),
        (d2fs && !args.image.is_whole(), "beginning amid its device (--offset, --partition)"),
    ];
    let given = given.into_iter().filter_map(|(is_given, name)| is_given.then_some(name));
    given.chain(args.f2fs.segmented_only()).collect()
}

/// The JSON form of what was made.
#[derive(Serialize)]
struct Made {
    label: String,
    uuid: String,
    features: Vec<&'static str>,
    size: u64,
    user_size: u64,
    sections: u32,
    segments_per_section: u32,
    sections_per_zone: u32,
    overprovision: f64,
    overprovision_segments: u32,
    files: u32,
    /// Of an IPLFS or a D2FS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    /// Of a D2FS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    regular_sections: Option<u32>,
    /// Of an IPLFS volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_size: Option<u64>,
    written: bool,
}

impl Made {
    fn new(args: &Args, report: &MkfsReport) -> Self {
        let (superblock, plan) = (&report.superblock, &report.plan);
        let (layout, regions) = (superblock.layout(), superblock.regions());
        Made {
            label: superblock.label(),
            uuid: uuid(&superblock.uuid()),
            features: superblock.features().names().collect(),
            size: layout.block_count * BLOCK_SIZE as u64,
            user_size: plan.user_blocks * BLOCK_SIZE as u64,
            sections: layout.sections,
            segments_per_section: layout.segs_per_sec,
            sections_per_zone: layout.secs_per_zone,
            overprovision: plan.overprovision,
            overprovision_segments: plan.overprov_segments,
            files: most_files(report),
            capacity: report
                .infinite
                .map(|made| made.capacity)
                .or(regions.map(|regions| regions.capacity))
                .map(|blocks| blocks * BLOCK_SIZE as u64),
            regular_sections: regions.map(|regions| regions.regular_sections),
            log_size: report.infinite.map(|made| (BLOCK_SIZE as u64) << made.log_shift),
            written: !args.dry_run,
        }
    }
}

/// Node ids that are left for files.
fn most_files(report: &MkfsReport) -> u32 {
    report.superblock.layout().max_nid().get().saturating_sub(3)
}

/// Makes an image file with a volume in it, for callers that need one and have no wishes: everything that files can
/// keep is kept.
pub(crate) fn create(path: &Path, image: ImageArgs, size: Size) -> Result<(), Failure> {
    make(Target::open(path, image, Some(size), false, false)?, &steadyfs::usual_format()).map(drop)
}

/// Makes the volume; leaves no file behind that it made in vain.
fn make(target: Target, options: &MkfsOptions) -> Result<MkfsReport, Failure> {
    let made = steadyfs_core::mkfs::format(target.device(), options).and_then(|report| {
        if !options.dry_run {
            target.device().flush()?;
        }
        Ok(report)
    });
    match made {
        Ok(report) => target.keep().map(|()| report),
        Err(e) => Err(cannot_make(&target.abandon(), &e)),
    }
}

fn options(args: &Args) -> Result<MkfsOptions, Failure> {
    let mut options = MkfsOptions::new(args.uuid.unwrap_or_else(steadyfs::random_uuid), timestamp(args)?);
    options.label.clone_from(&args.label);
    options.features = parse_features(&args.features.join(",")).map_err(|e| cannot_make(&args.device, &e))?;
    options.segs_per_sec = args.segments_per_section;
    options.secs_per_zone = args.sections_per_zone;
    options.overprovision = args.overprovision;
    options.cold_extensions.clone_from(&args.cold_extensions);
    options.hot_extensions.clone_from(&args.hot_extensions);
    options.root_owner = args.root_owner.or(args.f2fs.root_owner()).unwrap_or_else(caller);
    options.large_nat = args.large_nat;
    options.discard = args.discard == 1;
    options.dry_run = args.dry_run;
    args.f2fs.apply(&mut options);
    Ok(options)
}

fn cannot_make(path: &Path, e: &Error) -> Failure {
    let what = format!("cannot make a volume on {}", path.display());
    match e {
        Error::Usage(why) => Failure::usage(what, why, "see `steadyfs mkfs --help`"),
        Error::Format(why) => Failure::new(what, why, "choose another size or geometry"),
        _ => failure(what, e),
    }
}

/// `--timestamp`, or what reproducible builds set, or the time of day.
fn timestamp(args: &Args) -> Result<i64, Failure> {
    if let Some(timestamp) = args.timestamp {
        return Ok(timestamp);
    }
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().map_err(|_| {
            let what = format!("cannot use SOURCE_DATE_EPOCH={text}");
            Failure::usage(what, "it is not a number of seconds", "unset it, or set it to seconds since 1970")
        }),
        Err(_) => Ok(now()),
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    steadyfs_rt::wall_clock().sec
}

fn parse_uuid(text: &str) -> Result<[u8; 16], String> {
    let bad = || "a uuid has 32 hexadecimal digits, such as 01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let mut bytes = [0; 16];
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad());
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
    }
    Ok(bytes)
}

/// The user who makes a volume owns it, as with mkfs.f2fs: else a user could not write to a volume of his own.
fn caller() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

fn owner(text: &str) -> Result<(u32, u32), String> {
    let parse = |text: &str| text.parse().map_err(|_| "owner and group are two numbers, such as 1000:1000".to_owned());
    let (uid, gid) = text.split_once(':').unwrap_or((text, "?"));
    Ok((parse(uid)?, parse(gid)?))
}

fn percentage(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= MAX_OVERPROVISION => Ok(percent),
        _ => Err(format!("a percentage to keep back is more than 0, and at most {MAX_OVERPROVISION}")),
    }
}

fn sector_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(size @ (512 | 1024 | 2048 | 4096)) => Ok(size),
        _ => Err("a sector has 512, 1024, 2048 or 4096 bytes".to_owned()),
    }
}

fn summary(args: &Args, report: &MkfsReport, out: &mut impl Write) -> io::Result<()> {
    let (superblock, plan) = (&report.superblock, &report.plan);
    let layout = superblock.layout();
    let bytes = |blocks: u64| human(blocks * BLOCK_SIZE as u64);
    let mut line = |name: &str, value: String| writeln!(out, "{name:<14}{value}");
    if !superblock.label().is_empty() {
        line("label", superblock.label())?;
    }
    line("uuid", uuid(&superblock.uuid()))?;
    line("features", superblock.features().to_string())?;
    match &report.infinite {
        Some(made) => {
            line("capacity", format!("{}, {} of it for files", bytes(made.capacity), bytes(plan.user_blocks)))?;
            line("logs", format!("6, and one for discards; each takes {} in its life", bytes(1 << made.log_shift)))?;
        }
        None => {
            line("size", format!("{}, {} of it for files", bytes(layout.block_count), bytes(plan.user_blocks)))?;
            let sections = (layout.sections, layout.segs_per_sec, layout.secs_per_zone);
            line("sections", format!("{} of {} segments, {} to a zone", sections.0, sections.1, sections.2))?;
            match superblock.regions() {
                Some(regions) => {
                    line("of the host", format!("{} sections", regions.regular_sections))?;
                    line("capacity", bytes(regions.capacity))?;
                }
                None => {
                    line("kept back", format!("{:.2} % ({} segments)", plan.overprovision, plan.overprov_segments))?
                }
            }
        }
    }
    line("files", format!("at most {}", most_files(report)))?;
    if args.f2fs.shows_areas() {
        areas(report, &mut line)?;
    }
    let done = if args.dry_run { "nothing was written; this would be made on" } else { "made a volume on" };
    writeln!(out, "{done} {}", args.device.display())
}

/// Where each area is, and where each log begins.
fn areas(report: &MkfsReport, line: &mut impl FnMut(&str, String) -> io::Result<()>) -> io::Result<()> {
    let layout = report.superblock.layout();
    if let Some(made) = &report.infinite {
        for (name, start) in [("checkpoint", layout.cp), ("NAT", layout.nat)] {
            line(name, format!("from block {start}"))?;
        }
        return Stretch::ALL.iter().try_for_each(|stretch| {
            let start = (stretch.index() as u64 + 1) << made.log_shift;
            line(&stretch.to_string(), format!("from block {start}"))
        });
    }
    let areas = [
        ("checkpoint", layout.cp),
        ("SIT", layout.sit),
        ("NAT", layout.nat),
        ("SSA", layout.ssa),
        ("main area", layout.main),
    ];
    for (name, start) in areas {
        line(name, format!("from block {start}"))?;
    }
    let logs = report.plan.logs;
    Log::ALL.iter().try_for_each(|log| line(&log.to_string(), format!("from segment {}", logs[log.index()].0)))
}
