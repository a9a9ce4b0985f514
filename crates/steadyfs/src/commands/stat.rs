//! `steadyfs stat`: everything the volume keeps about a file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use steadyfs_core::{Attr, Error, InodeRef};
use steadyfs_format::dir::FileType;
use steadyfs_format::inode::Time;
use steadyfs_format::quote::quote;

use crate::calendar;
use crate::failure::Failure;
use crate::image::ImageArgs;
use crate::text::{PathArg, json_name, mode_string, rdev};
use crate::volume::{Access, Volume, failure, show_absolute};

/// Show what a volume keeps about a file: attributes, times, xattrs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs stat image.img /etc/hostname")]
pub(crate) struct Args {
    /// Print a JSON array: path (path_hex, too, if that is not UTF-8), inode, kind, mode, uid, gid, links, size and
    /// allocated (bytes), device, target, generation, flags, project, accessed, modified, changed, created, xattrs
    /// (names with values in hexadecimal)
    #[arg(long)]
    json: bool,
    /// Follow a symlink at the end of the path
    #[arg(short = 'L', long)]
    dereference: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Paths in the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

/// The JSON form of a file in a list; bytes that are not UTF-8 become U+FFFD.
#[derive(Serialize)]
pub(super) struct ListedFile {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    inode: u32,
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    allocated: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    modified: String,
}

/// The JSON form of a file with all that there is.
#[derive(Serialize)]
struct Stat {
    #[serde(flatten)]
    entry: ListedFile,
    generation: u32,
    flags: u32,
    project: u32,
    accessed: String,
    changed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// Names with values in hexadecimal.
    xattrs: Vec<(String, String)>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let mut all = Vec::new();
        for path in &args.paths {
            let inode = volume.find(path.bytes(), args.dereference)?;
            let cannot = |e: Error| failure(format!("cannot read {}", show_absolute(path.bytes())), &e);
            let attr = volume.fs.attr(&inode).map_err(cannot)?;
            let stat = Stat::new(volume, path.bytes(), &inode, &attr).map_err(cannot)?;
            if args.json {
                all.push(stat);
            } else {
                stat.print(&attr).map_err(|e| Failure::output(&e))?;
            }
        }
        if args.json {
            crate::text::print_json(&all)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl ListedFile {
    pub(super) fn new(volume: &Volume, path: &[u8], inode: &InodeRef) -> Result<Self, Error> {
        Self::with(volume, path, inode, &volume.fs.attr(inode)?)
    }

    fn with(volume: &Volume, path: &[u8], inode: &InodeRef, attr: &Attr) -> Result<Self, Error> {
        let device = matches!(attr.kind, FileType::CharDevice | FileType::BlockDevice).then(|| rdev(attr.rdev));
        let target = match attr.kind {
            FileType::Symlink => Some(json_name(&volume.fs.readlink(inode)?).0),
            _ => None,
        };
        let (path, path_hex) = json_name(&[if path.starts_with(b"/") { b"" } else { &b"/"[..] }, path].concat());
        Ok(ListedFile {
            path,
            path_hex,
            inode: attr.ino.get(),
            kind: kind_name(attr.kind),
            mode: format!("{:04o}", attr.mode & 0o7777),
            uid: attr.uid,
            gid: attr.gid,
            links: attr.nlink,
            size: attr.size,
            allocated: attr.blocks * 512,
            device,
            target,
            modified: time(attr.mtime),
        })
    }
}

impl Stat {
    fn new(volume: &Volume, path: &[u8], inode: &InodeRef, attr: &Attr) -> Result<Self, Error> {
        let mut xattrs = Vec::new();
        for name in volume.fs.listxattr(inode)? {
            let value = volume.fs.getxattr(inode, &name)?;
            xattrs.push((json_name(&name).0, value.iter().map(|b| format!("{b:02x}")).collect()));
        }
        Ok(Stat {
            entry: ListedFile::with(volume, path, inode, attr)?,
            generation: attr.generation,
            flags: attr.flags,
            project: attr.project,
            accessed: time(attr.atime),
            changed: time(attr.ctime),
            created: attr.crtime.map(time),
            xattrs,
        })
    }

    fn print(&self, attr: &Attr) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let target = self.entry.target.as_ref().map(|t| format!(" -> {}", quote(t))).unwrap_or_default();
        writeln!(out, "file        {}{target}", quote(&self.entry.path))?;
        let device = self.entry.device.as_ref().map(|d| format!(" {d}")).unwrap_or_default();
        writeln!(out, "kind        {}{device}", self.entry.kind)?;
        writeln!(
            out,
            "inode       {}  links {}  generation {:#x}",
            self.entry.inode, self.entry.links, self.generation
        )?;
        writeln!(out, "size        {}  allocated {}", self.entry.size, self.entry.allocated)?;
        let mode = mode_string(attr.mode, attr.kind);
        writeln!(
            out,
            "mode        {} ({mode})  uid {}  gid {}  project {}",
            self.entry.mode, self.entry.uid, self.entry.gid, self.project
        )?;
        writeln!(out, "flags       {:#x}", self.flags)?;
        writeln!(out, "accessed    {}", self.accessed)?;
        writeln!(out, "modified    {}", self.entry.modified)?;
        writeln!(out, "changed     {}", self.changed)?;
        if let Some(created) = &self.created {
            writeln!(out, "created     {created}")?;
        }
        for (name, value) in &self.xattrs {
            writeln!(out, "xattr       {} = {value}", quote(name))?;
        }
        Ok(())
    }
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "regular file",
        FileType::Dir => "directory",
        FileType::CharDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::Symlink => "symbolic link",
    }
}

fn time(time: Time) -> String {
    format!("{} UTC", calendar::full(time.secs, time.nanos))
}
