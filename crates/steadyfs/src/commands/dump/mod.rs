//! `steadyfs dump`: the structures of a volume as they lie on the device, one `name value` per line, or one JSON
//! object.
//!
//! For readers who have to know why a volume is as it is: nothing is interpreted more than it takes to print it, and
//! nothing is written.

mod checkpoint;
mod directory;
mod inode;
mod logs;
mod superblock;
mod tables;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;
use steadyfs_core::Error;
use steadyfs_core::raw::Image;
use steadyfs_format::nat::NatEntry;
use steadyfs_format::{Block, Ino, Lba, Nid, SegNo};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::{PathArg, print_json};
use crate::volume::{failure, find_at_checkpoint, open_raw};

/// Print structures of a volume as they lie on the device
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs dump inode 3 image.img")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// Where to read.
#[derive(Debug, clap::Args)]
struct Source {
    /// Print a JSON object: names and values of the lines, numbers as numbers; a name that comes more than once has an
    /// array. Entries of a directory are in `entries`, the bytes of a block in `bytes`, in hexadecimal
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The superblock
    Sb {
        #[command(flatten)]
        source: Source,
    },
    /// The checkpoint in force
    Cp {
        #[command(flatten)]
        source: Source,
    },
    /// The NAT entry of a node id
    Nat {
        /// Node id
        nid: u32,
        #[command(flatten)]
        source: Source,
    },
    /// The SIT entry of a segment of the main area
    Sit {
        /// Segment number
        segment: u32,
        #[command(flatten)]
        source: Source,
    },
    /// The summaries of a segment of the main area: who owns its blocks
    Ssa {
        /// Segment number
        segment: u32,
        #[command(flatten)]
        source: Source,
    },
    /// An inode
    Inode {
        /// Inode number, or path in the volume, as of the last checkpoint; a path that is a number begins with /
        #[arg(value_name = "INO|PATH")]
        inode: Which,
        #[command(flatten)]
        source: Source,
    },
    /// The entries of a directory, in the order in which they are stored
    Dir {
        /// Inode number, or path in the volume, as of the last checkpoint; a path that is a number begins with /
        #[arg(value_name = "INO|PATH")]
        inode: Which,
        #[command(flatten)]
        source: Source,
    },
    /// The bytes of a block, and what it belongs to
    Block {
        /// Block address
        lba: u64,
        #[command(flatten)]
        source: Source,
    },
}

/// An inode as the user names it.
#[derive(Clone, Debug)]
enum Which {
    Number(Ino),
    Path(PathArg),
}

impl From<OsString> for Which {
    fn from(text: OsString) -> Self {
        match text.to_str().and_then(|text| text.parse().ok()) {
            Some(number) => Which::Number(Ino(number)),
            None => Which::Path(text.into()),
        }
    }
}

impl Which {
    fn ino(&self, source: &Source) -> Result<Ino, Failure> {
        match self {
            Which::Number(ino) => Ok(*ino),
            Which::Path(path) => find_at_checkpoint(&source.device, source.image, path.bytes()),
        }
    }
}

impl What {
    fn source(&self) -> &Source {
        match self {
            What::Sb { source }
            | What::Cp { source }
            | What::Nat { source, .. }
            | What::Sit { source, .. }
            | What::Ssa { source, .. }
            | What::Inode { source, .. }
            | What::Dir { source, .. }
            | What::Block { source, .. } => source,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let json = args.what.source().json.then(serde_json::Map::new);
    let mut out = Printer { out: io::BufWriter::new(io::stdout().lock()), json };
    let open = |source: &Source| open_raw(&source.device, source.image);
    match &args.what {
        What::Sb { source } => superblock::print(&*crate::image::look(&source.device, source.image)?.device, &mut out)?,
        What::Cp { source } => {
            let image = open(source)?;
            match image.log_space() {
                Some(space) => logs::checkpoint(&image, space, &mut out)?,
                None => checkpoint::print(&image, &mut out)?,
            }
        }
        What::Nat { nid, source } => tables::nat(&open(source)?, Nid(*nid), &mut out)?,
        What::Sit { segment, source } => tables::sit(&segmented(open(source)?, "SIT")?, SegNo(*segment), &mut out)?,
        What::Ssa { segment, source } => tables::ssa(&segmented(open(source)?, "SSA")?, SegNo(*segment), &mut out)?,
        What::Inode { inode, source } => inode::print(&open(source)?, inode.ino(source)?, &mut out)?,
        What::Dir { inode, source } => directory::print(&open(source)?, inode.ino(source)?, &mut out)?,
        What::Block { lba, source } => tables::block(&open(source)?, Lba(*lba), &mut out)?,
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses volumes without segments.
fn segmented(image: Image, table: &str) -> Result<Image, Failure> {
    match image.log_space() {
        None => Ok(image),
        Some(_) => {
            let what = format!("there is no {table}");
            Err(Failure::new(what, "an IPLFS volume has logs and no segments", "see `steadyfs dump cp`"))
        }
    }
}

/// Prints lines of a name and a value, or gathers them for one JSON object.
struct Printer<W: Write> {
    out: W,
    json: Option<serde_json::Map<String, Value>>,
}

impl<W: Write> Printer<W> {
    fn field(&mut self, name: &str, value: impl Display) -> Result<(), Failure> {
        match &mut self.json {
            Some(object) => add(object, name, json_value(value.to_string())),
            None => self.line(format_args!("{name:<26}{value}"))?,
        }
        Ok(())
    }

    /// A field that is text, whatever it holds.
    fn text(&mut self, name: &str, value: impl Display) -> Result<(), Failure> {
        match &mut self.json {
            Some(object) => add(object, name, Value::String(value.to_string())),
            None => self.line(format_args!("{name:<26}{value}"))?,
        }
        Ok(())
    }

    /// A line for people; in JSON an object in the array `list`.
    fn row(&mut self, list: &str, line: impl Display, fields: &[(&str, Value)]) -> Result<(), Failure> {
        let Some(object) = &mut self.json else { return self.line(line) };
        let row = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        if let Value::Array(rows) = object.entry(list).or_insert_with(|| Value::Array(Vec::new())) {
            rows.push(Value::Object(row));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|e| Failure::output(&e))?;
        let Some(object) = self.json else { return Ok(()) };
        // Releases standard output, which is locked.
        drop(self.out);
        print_json(&object)
    }

    fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(|e| Failure::output(&e))
    }

    /// Rows of 16 bytes with their offset; rows that repeat the one before are a single `*`.
    fn hex(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(object) = &mut self.json {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            add(object, "bytes", Value::String(hex));
            return Ok(());
        }
        let mut before: &[u8] = &[];
        let mut starred = false;
        for (n, row) in bytes.chunks(16).enumerate() {
            if row == before {
                if !starred {
                    self.line("*")?;
                }
                starred = true;
                continue;
            }
            (before, starred) = (row, false);
            let hex: String = row.iter().map(|b| format!("{b:02x} ")).collect();
            let text: String = row.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }).collect();
            self.line(format_args!("{:04x}  {hex} {text}", n * 16))?;
        }
        Ok(())
    }
}

/// Adds a value; of a name that comes again all values become an array.
fn add(object: &mut serde_json::Map<String, Value>, name: &str, value: Value) {
    match object.get_mut(name) {
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
        None => drop(object.insert(name.to_owned(), value)),
    }
}

/// A number or a truth value as such, everything else as text.
fn json_value(text: String) -> Value {
    match text.as_str() {
        "true" => true.into(),
        "false" => false.into(),
        _ => text.parse::<u64>().map_or(Value::String(text), Value::from),
    }
}

/// Reads a block.
fn read(image: &Image, lba: Lba) -> Result<Box<Block>, Failure> {
    let cannot = |e: Error| failure(format!("cannot read block {lba}"), &e);
    Ok(image.read_block(lba).map_err(cannot)?.to_array())
}

/// Reads the block of a node, where the NAT says it is.
fn read_node(image: &Image, nid: Nid) -> Result<(Lba, Box<Block>), Failure> {
    let lba = nat_entry(image, nid)?.lba;
    if lba == Lba(0) {
        return Err(Failure::new(
            format!("there is no node {nid}"),
            "its entry in the NAT is free",
            "check the number",
        ));
    }
    let is_place = image.log_space().map_or_else(|| image.layout().in_main(lba), |space| space.is_node_address(lba));
    if !is_place {
        let e = Error::Corrupt(format!("the NAT says block {lba}, where no node can be"));
        return Err(failure(format!("cannot read node {nid}"), &e));
    }
    Ok((lba, read(image, lba)?))
}

/// The NAT entry of a node id.
fn nat_entry(image: &Image, nid: Nid) -> Result<NatEntry, Failure> {
    let ids = image.layout().max_nid();
    if nid >= ids {
        let why = format!("the volume has node ids below {ids}");
        return Err(Failure::new(format!("there is no node id {nid}"), why, "give a smaller number"));
    }
    image.nat(nid).map_err(|e| failure(format!("cannot read the NAT entry of {nid}"), &e))
}

/// Bytes of a name for a line of text: what is not printable ASCII as `\xNN`.
fn quoted(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(
            |b| {
                if (0x20..0x7f).contains(b) && *b != b'\\' { char::from(*b).to_string() } else { format!("\\x{b:02x}") }
            },
        )
        .collect()
}
