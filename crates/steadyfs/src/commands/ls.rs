//! `steadyfs ls`: lists directories of a volume, without mounting it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use steadyfs_core::{Attr, Error, InodeRef};
use steadyfs_format::Ino;
use steadyfs_format::dir::FileType;

use super::LongHelp;
use super::stat::ListedFile;
use crate::calendar;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::size::short;
use crate::text::{JsonArray, PathArg, mode_string, name, rdev};
use crate::volume::{Access, Volume, failure, show_absolute};

/// List files of a volume, without mounting it
///
/// Names that begin with a dot are always shown.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, after_help = "Example: steadyfs ls -lah image.img /etc")]
pub(crate) struct Args {
    /// One line per file: mode, links, owner, group, size, time (UTC)
    #[arg(short = 'l')]
    long: bool,
    /// `.` and `..`, too
    #[arg(short, long)]
    all: bool,
    /// Names that begin with a dot, as always
    #[arg(short = 'A', long, overrides_with = "all")]
    almost_all: bool,
    /// With -l: sizes for people, such as 1.5M
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// The newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// The largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,
    /// The last one first
    #[arg(short, long)]
    reverse: bool,
    /// One name per line, as always
    #[arg(short = '1')]
    one: bool,
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
    help: LongHelp,
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
            let entries = self.entries(&path, &dir)?;
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
                if self.args.recursive && inode.kind() == FileType::Dir && !matches!(&*name, b"." | b"..") {
                    below.push((child, ino));
                }
            }
            pending.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// What a directory holds, in the order that is asked for.
    fn entries(&self, path: &[u8], dir: &InodeRef) -> Result<Vec<(Vec<u8>, Ino)>, Failure> {
        let (args, fs) = (self.args, &self.volume.fs);
        let mut entries = self.volume.entries(dir).map_err(|e| cannot(path, &e))?;
        if args.all {
            let above = self.volume.find(&[path, b"/.."].concat(), true)?.ino();
            entries.splice(..0, [(b".".to_vec(), dir.ino()), (b"..".to_vec(), above)]);
        }
        if args.by_time || args.by_size {
            let mut keyed = Vec::with_capacity(entries.len());
            for (name, ino) in entries {
                let attr = fs.inode(ino).and_then(|inode| fs.attr(&inode)).map_err(|e| cannot(&name, &e))?;
                let time = (i128::from(attr.mtime.secs), attr.mtime.nanos);
                keyed.push((if args.by_time { time } else { (attr.size.into(), 0) }, name, ino));
            }
            // Those that are alike stay in the order of their names.
            keyed.sort_by_key(|(key, ..)| std::cmp::Reverse(*key));
            entries = keyed.into_iter().map(|(_, name, ino)| (name, ino)).collect();
        }
        if args.reverse {
            entries.reverse();
        }
        Ok(entries)
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
        write!(out, "{} ", long(&attr, args.human_readable)).map_err(output)?;
    }
    out.write_all(&name(shown)).map_err(output)?;
    if args.long && inode.kind() == FileType::Symlink {
        let target = volume.fs.readlink(inode).map_err(|e| cannot(shown, &e))?;
        out.write_all(b" -> ").and_then(|()| out.write_all(&name(&target))).map_err(output)?;
    }
    out.write_all(b"\n").map_err(output)
}

/// The fixed part of a long line.
fn long(attr: &Attr, human_readable: bool) -> String {
    let size = match attr.kind {
        FileType::CharDevice | FileType::BlockDevice => rdev(attr.rdev),
        _ if human_readable => short(attr.size),
        _ => attr.size.to_string(),
    };
    let mode = mode_string(attr.mode, attr.kind);
    let time = calendar::second(attr.mtime.secs);
    format!("{mode} {:>3} {:>5} {:>5} {size:>12} {time}", attr.nlink, attr.uid, attr.gid)
}

fn cannot(path: &[u8], e: &Error) -> Failure {
    failure(format!("cannot list {}", show_absolute(path)), e)
}
