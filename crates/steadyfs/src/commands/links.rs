//! `steadyfs links`: the links by which mount(8), umount(8), fsck(8) and mkfs(8) find this program.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::Failure;

/// The names that they look for.
const NAMES: [&str; 7] = [
    "mkfs.steadyfs",
    "fsck.steadyfs",
    "mount.steadyfs",
    "mount.fuse.steadyfs",
    "umount.fuse.steadyfs",
    "umount.fuseblk.steadyfs",
    "dump.steadyfs",
];

/// Make the links by which mount(8), umount(8), fsck(8) and mkfs(8) find SteadyFS
///
/// With them `mount -t steadyfs`, `mkfs -t steadyfs` and entries of /etc/fstab with the type steadyfs work. mount(8)
/// and umount(8) look for helpers in /sbin and /usr/sbin only, fsck(8) and mkfs(8) in the directories of PATH, too.
/// fsck(8) goes by what it finds on a device, which is f2fs, and not by its option -t: it runs fsck.steadyfs for
/// volumes that /etc/fstab gives the type steadyfs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudo steadyfs links")]
pub(crate) struct Args {
    /// Replace other files of these names
    #[arg(short, long)]
    force: bool,
    /// Where to make them
    #[arg(default_value = "/usr/sbin")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::new("cannot find this program", e, "see that /proc is mounted"))?;
    for name in NAMES {
        let link = args.dir.join(name);
        if !leads_to(&link, &program) {
            make(&link, &program, args.force)?;
        }
        writeln!(io::stdout(), "{} -> {}", link.display(), program.display()).map_err(|e| Failure::output(&e))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether that is so already, by whatever path: a package's links are relative.
fn leads_to(link: &Path, program: &Path) -> bool {
    link.is_symlink() && fs::canonicalize(link).is_ok_and(|target| target == program)
}

fn make(link: &Path, program: &Path, force: bool) -> Result<(), Failure> {
    let what = || format!("cannot make the link {}", link.display());
    // A link that leads nowhere stands for a program that is gone: there is nothing to lose.
    let in_the_way = link.symlink_metadata().is_ok();
    if in_the_way && link.exists() && !force {
        return Err(Failure::new(what(), "there is another file of that name", "replace it with -f"));
    }
    let removed = if in_the_way { fs::remove_file(link) } else { Ok(()) };
    removed.and_then(|()| symlink(program, link)).map_err(|e| {
        let hint = match e.kind() {
            io::ErrorKind::PermissionDenied => "run it as root, or give a directory of your own",
            _ => "check the directory",
        };
        Failure::new(what(), e, hint)
    })
}
