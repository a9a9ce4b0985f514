//! `steadyfs find`: prints the paths of a volume, those that match.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::ValueEnum;
use steadyfs_core::{Error, InodeRef};
use steadyfs_format::dir::FileType;

use super::stat::ListedFile;
use crate::failure::Failure;
use crate::glob;
use crate::image::ImageArgs;
use crate::text::{self, JsonArray, PathArg};
use crate::transfer::join;
use crate::volume::{Access, Volume, failure, show_absolute, trim_slashes};

/// Print the paths below a directory of a volume, without mounting it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: steadyfs find image.img /etc -name '*.conf' -type f -size +4k")]
pub(crate) struct Args {
    /// Only names that match the pattern (* ? [a-z])
    #[arg(long, value_name = "PATTERN")]
    name: Option<PathArg>,
    /// Only files of this kind
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<Letter>,
    /// Only files of N units of 512 bytes, rounded up; more than N with +N, less with -N; units: c, w, b, k, M, G
    #[arg(long, value_name = "[+|-]N[UNIT]", allow_hyphen_values = true)]
    size: Option<Length>,
    /// End each path with a NUL byte
    #[arg(short = '0', long)]
    print0: bool,
    /// Print a JSON array: path (path_hex, too, if that is not UTF-8), inode, kind, mode, uid, gid, links, size and
    /// allocated (bytes), device, target, modified
    #[arg(long, conflicts_with = "print0")]
    json: bool,
    #[command(flatten)]
    image: ImageArgs,
    /// Image file or block device
    device: PathBuf,
    /// Where to start
    #[arg(default_value = "/", hide_default_value = true)]
    path: PathArg,
}

/// The letters of find(1) for kinds.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Letter {
    /// regular file
    F,
    /// directory
    D,
    /// symbolic link
    L,
    /// character device
    C,
    /// block device
    B,
    /// fifo
    P,
    /// socket
    S,
}

impl Letter {
    fn kind(self) -> FileType {
        match self {
            Letter::F => FileType::Regular,
            Letter::D => FileType::Dir,
            Letter::L => FileType::Symlink,
            Letter::C => FileType::CharDevice,
            Letter::B => FileType::BlockDevice,
            Letter::P => FileType::Fifo,
            Letter::S => FileType::Socket,
        }
    }
}

/// A length that find(1) looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    order: Ordering,
    units: u64,
    /// Bytes of a unit.
    unit: u64,
}

impl Length {
    fn is(self, bytes: u64) -> bool {
        bytes.div_ceil(self.unit).cmp(&self.units) == self.order
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (order, rest) = match text.as_bytes().first() {
            Some(b'+') => (Ordering::Greater, &text[1..]),
            Some(b'-') => (Ordering::Less, &text[1..]),
            _ => (Ordering::Equal, text),
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[digits..] {
            "" | "b" => 512,
            "c" => 1,
            "w" => 2,
            "k" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return Err("the units are c (bytes), w, b (512 bytes), k, M and G".to_owned()),
        };
        let units = rest[..digits].parse().map_err(|_| "give a number, such as +10k".to_owned())?;
        Ok(Length { order, units, unit })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    Volume::with(&args.device, args.image, Access::Read, |volume| {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut array = args.json.then(|| JsonArray::new(io::BufWriter::new(io::stdout())));
        let top = trim_slashes(args.path.bytes());
        let mut pending = vec![(top.to_vec(), volume.find(top, false)?.ino())];
        let mut visited = std::collections::HashSet::new();
        while let Some((path, ino)) = pending.pop() {
            let cannot = |e| failure(format!("cannot list {}", show_absolute(&path)), &e);
            let inode = volume.fs.inode(ino).map_err(cannot)?;
            let wanted = args.wants(&path, inode.kind()) && args.has_size(volume, &inode).map_err(cannot)?;
            if let (true, Some(array)) = (wanted, &mut array) {
                array.push(&ListedFile::new(volume, &path, &inode).map_err(cannot)?)?;
            } else if wanted {
                print(&mut out, &path, args.print0).map_err(|e| Failure::output(&e))?;
            }
            // In a damaged volume a directory may lie below itself.
            if inode.kind() == FileType::Dir && visited.insert(ino) {
                let entries = volume.entries(&inode).map_err(cannot)?;
                pending.extend(entries.into_iter().rev().map(|(name, ino)| (below(&path, &name), ino)));
            }
        }
        array.map_or(Ok(()), JsonArray::end)?;
        out.flush().map_err(|e| Failure::output(&e))?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Args {
    fn wants(&self, path: &[u8], kind: FileType) -> bool {
        let (_, name) = crate::transfer::split(path);
        let named = self.name.as_ref().is_none_or(|pattern| glob::matches(pattern.bytes(), name));
        named && self.kind.is_none_or(|letter| letter.kind() == kind)
    }

    fn has_size(&self, volume: &Volume, inode: &InodeRef) -> Result<bool, Error> {
        self.size.map_or(Ok(true), |size| Ok(size.is(volume.fs.attr(inode)?.size)))
    }
}

/// The path of an entry; that of the root is empty here.
fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { [b"/", name].concat() } else { join(dir, name) }
}

fn print(out: &mut impl Write, path: &[u8], nul: bool) -> io::Result<()> {
    let shown = if path.is_empty() { b"/" } else { path };
    if nul {
        out.write_all(shown)?;
        out.write_all(b"\0")
    } else {
        out.write_all(&text::name(shown))?;
        out.write_all(b"\n")
    }
}
