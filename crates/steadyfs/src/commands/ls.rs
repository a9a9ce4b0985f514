//! `steadyfs ls`: lists directories of a volume, without mounting it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::{Attr, Error, InodeRef};
use steadyfs_format::dir::FileType;

use super::stat::ListedFile;
use crate::calendar;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::{JsonArray, PathArg, mode_string, name, rdev};
use crate::volume::{Access, Volume, failure, show_absolute};

/// List files of a volume, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs ls -lR image.img /etc")]
pub(crate) struct Args {
    /// One line per file: mode, links, owner, group, size, time (UTC)
    #[arg(short = 'l')]
    long: bool,
    /// Directories below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The directory itself, not what is in it
    #[arg(short = 'd', long)]
    directory: bool,
    /// Inode numbers in front
    #[arg(short = 'i', long)]
    inode: bool,
    /// Print a JSON array: path (path_hex, too, if that is not UTF-8), inode, kind, mode, uid, gid, links, size and
    /// allocated (bytes), device, target, modified
    #[arg(long, conflicts_with_all = ["long", "inode"])]
    json: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Path in the volume
    #[arg(default_value = "/", hide_default_value = true)]
    path: PathArg,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let path = args.path.bytes();
        // Like ls: a symlink is followed unless it is looked at itself.
        let found = volume.find(path, !args.long && !args.directory)?;
        let out = io::BufWriter::new(io::stdout().lock());
        let out = if args.json { Out::Json(JsonArray::new(out)) } else { Out::Text(out) };
        let mut list = List { args, volume, out };
        if found.kind() != FileType::Dir || args.directory {
            list.entry(path, path, &found)?;
        } else {
            list.directories(path, found)?;
        }
        match list.out {
            Out::Text(mut out) => out.flush().map_err(|e| Failure::output(&e))?,
            Out::Json(array) => array.end()?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

struct List<'a, W> {
    args: &'a Args,
    volume: &'a Volume,
    out: Out<W>,
}

/// The form of the list.
enum Out<W> {
    Text(W),
    Json(JsonArray<W>),
}

impl<W: Write> List<'_, W> {
    /// Lists a directory, and with `-R` all below it.
    fn directories(&mut self, path: &[u8], top: InodeRef) -> Result<(), Failure> {
        let mut pending = vec![(path.to_vec(), top.ino())];
        let mut visited = std::collections::HashSet::new();
        let mut first = true;
        while let Some((path, ino)) = pending.pop() {
            if !visited.insert(ino) {
                return Err(cannot(&path, &Error::Corrupt("the directory lies below itself".into())));
            }
            let dir = self.volume.fs.inode(ino).map_err(|e| cannot(&path, &e))?;
            let entries = self.volume.entries(&dir).map_err(|e| cannot(&path, &e))?;
            if let (true, Out::Text(out)) = (self.args.recursive, &mut self.out) {
                let gap = if first { "" } else { "\n" };
                heading(out, gap, &path).map_err(|e| Failure::output(&e))?;
            }
            first = false;
            let mut below = Vec::new();
            for (name, ino) in entries {
                let child = crate::transfer::join(crate::volume::trim_slashes(&path), &name);
                let inode = self.volume.fs.inode(ino).map_err(|e| cannot(&child, &e))?;
                self.entry(&child, &name, &inode)?;
                if self.args.recursive && inode.kind() == FileType::Dir {
                    below.push((child, ino));
                }
            }
            pending.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// A file: for people its name as it is `shown`.
    fn entry(&mut self, path: &[u8], shown: &[u8], inode: &InodeRef) -> Result<(), Failure> {
        match &mut self.out {
            Out::Json(array) => array.push(&ListedFile::new(self.volume, path, inode).map_err(|e| cannot(path, &e))?),
            Out::Text(out) => line(self.args, self.volume, out, shown, inode),
        }
    }
}

/// The name of a directory, above what it holds.
fn heading(out: &mut impl Write, gap: &str, path: &[u8]) -> io::Result<()> {
    let path = crate::volume::trim_slashes(path);
    let slash: &[u8] = if path.first() == Some(&b'/') { b"" } else { b"/" };
    out.write_all(gap.as_bytes())?;
    out.write_all(&name(&[slash, path].concat()))?;
    out.write_all(b":\n")
}

fn line(args: &Args, volume: &Volume, out: &mut impl Write, shown: &[u8], inode: &InodeRef) -> Result<(), Failure> {
    let output = |e: io::Error| Failure::output(&e);
    if args.inode {
        write!(out, "{:>10} ", inode.ino()).map_err(output)?;
    }
    if args.long {
        let attr = volume.fs.attr(inode).map_err(|e| cannot(shown, &e))?;
        write!(out, "{} ", long(&attr)).map_err(output)?;
    }
    out.write_all(&name(shown)).map_err(output)?;
    if args.long && inode.kind() == FileType::Symlink {
        let target = volume.fs.readlink(inode).map_err(|e| cannot(shown, &e))?;
        out.write_all(b" -> ").and_then(|()| out.write_all(&name(&target))).map_err(output)?;
    }
    out.write_all(b"\n").map_err(output)
}

/// The fixed part of a long line.
fn long(attr: &Attr) -> String {
    let size = match attr.kind {
        FileType::CharDevice | FileType::BlockDevice => rdev(attr.rdev),
        _ => attr.size.to_string(),
    };
    let mode = mode_string(attr.mode, attr.kind);
    let time = calendar::second(attr.mtime.secs);
    format!("{mode} {:>3} {:>5} {:>5} {size:>12} {time}", attr.nlink, attr.uid, attr.gid)
}

fn cannot(path: &[u8], e: &Error) -> Failure {
    failure(format!("cannot list {}", show_absolute(path)), e)
}
