//! `steadyfs dump`: the structures of a volume as they lie on the device, one `name value` per line.
//!
//! For whoever has to know why a volume is as it is: nothing is interpreted more than it takes to print it, and nothing
//! is written.

mod checkpoint;
mod directory;
mod inode;
mod superblock;
mod tables;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use steadyfs_core::Error;
use steadyfs_core::raw::Image;
use steadyfs_format::nat::NatEntry;
use steadyfs_format::{Block, Ino, Lba, Nid, SegNo};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::volume::{failure, open_raw};

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
        /// Inode number
        ino: u32,
        #[command(flatten)]
        source: Source,
    },
    /// The entries of a directory, in the order in which they are stored
    Dir {
        /// Inode number
        ino: u32,
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

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut out = Printer { out: io::BufWriter::new(io::stdout().lock()) };
    let open = |source: &Source| open_raw(&source.device, source.image);
    match &args.what {
        What::Sb { source } => {
            superblock::print(&*crate::image::look(&source.device, source.image)?.device, &mut out)?
        }
        What::Cp { source } => checkpoint::print(&open(source)?, &mut out)?,
        What::Nat { nid, source } => tables::nat(&open(source)?, Nid(*nid), &mut out)?,
        What::Sit { segment, source } => tables::sit(&open(source)?, SegNo(*segment), &mut out)?,
        What::Ssa { segment, source } => tables::ssa(&open(source)?, SegNo(*segment), &mut out)?,
        What::Inode { ino, source } => inode::print(&open(source)?, Ino(*ino), &mut out)?,
        What::Dir { ino, source } => directory::print(&open(source)?, Ino(*ino), &mut out)?,
        What::Block { lba, source } => tables::block(&open(source)?, Lba(*lba), &mut out)?,
    }
    out.out.flush().map_err(|e| Failure::output(&e))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints lines of a name and a value.
struct Printer<W: Write> {
    out: W,
}

impl<W: Write> Printer<W> {
    fn field(&mut self, name: &str, value: impl Display) -> Result<(), Failure> {
        self.line(format_args!("{name:<26}{value}"))
    }

    fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        writeln!(self.out, "{line}").map_err(|e| Failure::output(&e))
    }

    /// Rows of 16 bytes with their offset; rows that repeat the one before are a single `*`.
    fn hex(&mut self, bytes: &[u8]) -> Result<(), Failure> {
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
    if !image.layout().in_main(lba) {
        let e = Error::Corrupt(format!("the NAT says block {lba}, which lies outside the main area"));
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
