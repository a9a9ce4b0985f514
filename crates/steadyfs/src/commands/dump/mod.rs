//! `steadyfs dump`: the structures of a volume as they lie on the device, one `name value` per line.
//!
//! For whoever has to know why a volume is as it is: nothing is interpreted more than it takes to print it, and nothing is
//! written.

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
use steadyfs_format::{Ino, Lba, Nid, SegNo};

use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::raw::{RawDevice, RawVolume};

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
    let volume = |source: &Source| RawVolume::open(&source.device, source.image);
    match &args.what {
        What::Sb { source } => superblock::print(&RawDevice::open(&source.device, source.image)?, &mut out)?,
        What::Cp { source } => checkpoint::print(&volume(source)?, &mut out)?,
        What::Nat { nid, source } => tables::nat(&volume(source)?, Nid(*nid), &mut out)?,
        What::Sit { segment, source } => tables::sit(&volume(source)?, SegNo(*segment), &mut out)?,
        What::Ssa { segment, source } => tables::ssa(&volume(source)?, SegNo(*segment), &mut out)?,
        What::Inode { ino, source } => inode::print(&volume(source)?, Ino(*ino), &mut out)?,
        What::Dir { ino, source } => directory::print(&volume(source)?, Ino(*ino), &mut out)?,
        What::Block { lba, source } => tables::block(&volume(source)?, Lba(*lba), &mut out)?,
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
