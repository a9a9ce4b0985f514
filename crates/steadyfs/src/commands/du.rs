//! `steadyfs du`: how much space files of a volume take, as du(1) counts it.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::{Attr, Error};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;

use super::LongHelp;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::size::short;
use crate::text::{PathArg, name};
use crate::transfer::join;
use crate::volume::{Access, Volume, failure, show_absolute, trim_slashes};

/// Show how much space files of a volume take, without mounting it
///
/// One line per directory: what it and all below it take, in KiB, and its path. A file with several names counts once.
/// Contents that lie within an inode take nothing.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = "Example: steadyfs du -sh image.img /var")]
pub(crate) struct Args {
    /// A line for each file, too
    #[arg(short, long, conflicts_with = "summarize")]
    all: bool,
    /// Only the line for PATH
    #[arg(short, long)]
    summarize: bool,
    /// Sizes for people: 1.5M
    #[arg(short = 'h', long)]
    human_readable: bool,
    #[command(flatten)]
    help: LongHelp,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Path in the volume
    #[arg(default_value = "/", hide_default_value = true)]
    path: PathArg,
}

/// A directory whose sum is not yet known.
struct Open {
    path: Vec<u8>,
    /// What of it is still to be looked at, the next one last.
    entries: Vec<(Vec<u8>, Ino)>,
    bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let mut sums = Sums { args, volume, out: io::BufWriter::new(io::stdout().lock()), counted: HashSet::new() };
        sums.below(trim_slashes(args.path.bytes()))?;
        sums.out.flush().map_err(|e| Failure::output(&e))?;
        Ok(ExitCode::SUCCESS)
    })
}

struct Sums<'a, W> {
    args: &'a Args,
    volume: &'a Volume,
    out: W,
    /// Directories, which in a damaged volume may lie below themselves, and files with several names.
    counted: HashSet<Ino>,
}

impl<W: Write> Sums<'_, W> {
    /// Sums of everything below `top`, children first.
    fn below(&mut self, top: &[u8]) -> Result<(), Failure> {
        let found = self.volume.find(top, false)?;
        let (bytes, is_dir) = self.own(top, found.ino())?;
        if !is_dir {
            return self.line(top, bytes);
        }
        let mut open = vec![self.open(top.to_vec(), found.ino(), bytes)?];
        while let Some(dir) = open.last_mut() {
            let Some((name, ino)) = dir.entries.pop() else {
                let Some(done) = open.pop() else { break };
                if let Some(above) = open.last_mut() {
                    above.bytes += done.bytes;
                }
                if !self.args.summarize || open.is_empty() {
                    self.line(&done.path, done.bytes)?;
                }
                continue;
            };
            let path = if dir.path.is_empty() { [b"/", &*name].concat() } else { join(&dir.path, &name) };
            let (bytes, is_dir) = self.own(&path, ino)?;
            if is_dir {
                open.push(self.open(path, ino, bytes)?);
            } else {
                dir.bytes += bytes;
                if self.args.all {
                    self.line(&path, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn open(&self, path: Vec<u8>, ino: Ino, bytes: u64) -> Result<Open, Failure> {
        let list = || self.volume.entries(&self.volume.fs.inode(ino)?);
        let mut entries = list().map_err(|e| cannot(&path, &e))?;
        entries.reverse();
        Ok(Open { path, entries, bytes })
    }

    /// Bytes of an inode alone, 0 if they have been counted, and whether it is a directory to go into.
    fn own(&mut self, path: &[u8], ino: Ino) -> Result<(u64, bool), Failure> {
        let attr = || -> Result<Attr, Error> { self.volume.fs.attr(&self.volume.fs.inode(ino)?) };
        let attr = attr().map_err(|e| cannot(path, &e))?;
        let is_dir = attr.kind == FileType::Dir;
        let is_new = !(is_dir || attr.nlink > 1) || self.counted.insert(ino);
        Ok((if is_new { attr.blocks * 512 } else { 0 }, is_dir && is_new))
    }

    fn line(&mut self, path: &[u8], bytes: u64) -> Result<(), Failure> {
        let size = if self.args.human_readable { short(bytes) } else { bytes.div_ceil(1024).to_string() };
        let path = if path.is_empty() { b"/" } else { path };
        let written = write!(self.out, "{size}\t").and_then(|()| self.out.write_all(&name(path)));
        written.and_then(|()| self.out.write_all(b"\n")).map_err(|e| Failure::output(&e))
    }
}

fn cannot(path: &[u8], e: &Error) -> Failure {
    failure(format!("cannot list {}", show_absolute(path)), e)
}
