//! `steadyfs mount`: serves a volume through FUSE until it is unmounted; also the helper that mount(8) calls.
//!
//! In the foreground one process does it all. With `--background`, and as a helper, this process starts another one
//! that serves, and waits only until the volume is mounted: a program with threads cannot fork.

mod told;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use steadyfs_core::option_rows::{Refusal, apply, split};
use steadyfs_core::stats::VolumeStats;
use steadyfs_core::{Error, Fs, MountOptions};
use steadyfs_device::{Device, OpenError, OpenOptions, open_image};
use steadyfs_fuse::{Access, Allow, Foreign, FuseOptions, Reopen, STATS_ATTRIBUTE, WRITABLE_ATTRIBUTE};

use crate::commands::mkfs;
use crate::emulated::Emulated;
use crate::failure::Failure;
use crate::image::{self, ImageArgs};
use crate::live;
use crate::memory;
use crate::metrics::{self, Endpoint, Served};
use crate::options::{self, OwnOptions};
use crate::readable;
use crate::sandbox::Sandbox;
use crate::service::Service;
use crate::size::Size;
use crate::talk::End;
use crate::text::warn;
use crate::volume::open_failure;
use told::Told;

const EXAMPLE: &str = "Example: steadyfs mount --create 4G image.img ./mnt";

/// How long to wait for the end of a mount before this one: it may be writing its last checkpoint, or have been killed
/// just now.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the serving process says when the volume is mounted; its words before are for the user who mounts.
const READY: &str = "ready";

/// Mount a volume through FUSE
///
/// Serves until Ctrl-C, SIGTERM or `umount DIR`; each ends with a checkpoint. As root nothing else is needed, as
/// another user the package fuse3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = long_help(), after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Make the image with a volume of this size if there is no such file
    #[arg(long, value_name = "SIZE")]
    create: Option<Size>,
    /// Options, separated by commas (listed by --help)
    #[arg(short = 'o', long, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,
    /// Let DEVICE take the time of an SSD: emu:970pro, emu:pm9a3 or emu:slow-emmc; with `,size=SIZE` as with --create
    #[arg(long = "device", value_name = "emu:PRESET")]
    emulate: Option<Emulated>,
    /// Write a trace of all operations into FILE, without names and contents (see `steadyfs trace`)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Serve the volume's numbers for Prometheus: at http://ADDR/metrics (127.0.0.1:PORT, or just PORT) to whoever
    /// reaches it, or on a socket of this PATH (with a slash) to its owner; and at http://ADDR/ a page that shows them
    #[arg(long, value_name = "ADDR|PATH")]
    metrics: Option<Endpoint>,
    /// Return when the volume is mounted, and serve it in the background
    #[arg(short, long)]
    background: bool,
    #[command(flatten)]
    pub(crate) end: End,
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    helper: HelperArgs,
    /// Image file or block device
    device: PathBuf,
    /// Where to mount; made if missing
    dir: PathBuf,
}

/// What mount(8) gives its helpers: `mount.TYPE DEVICE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
#[derive(Debug, clap::Args)]
struct HelperArgs {
    /// Called by mount(8)
    #[arg(long, hide = true)]
    helper: bool,
    /// Do everything but mount
    #[arg(short = 'f', hide = true, requires = "helper")]
    fake: bool,
    /// Tolerate options that are not known
    #[arg(short = 's', hide = true, requires = "helper")]
    sloppy: bool,
    /// Write no mtab (there is none)
    #[arg(short = 'n', hide = true, requires = "helper")]
    no_mtab: bool,
    /// mount(8) enters the namespace itself
    #[arg(short = 'N', hide = true, requires = "helper", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The type in the mount table
    #[arg(short = 't', hide = true, requires = "helper", value_name = "TYPE")]
    fs_type: Option<String>,
    /// This process serves, and says on standard output when the volume is mounted
    #[arg(long, hide = true)]
    serve: bool,
    /// The user wants to write: a write-protected device is refused
    #[arg(long, hide = true, requires = "serve")]
    writable: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let little_memory = memory::limit() < memory::LITTLE && !says_how_much_memory(args);
    let Options { core, fuse, own, ignored } = sort_options(args, little_memory)?;
    let image = image_args(args, &own)?;
    if args.helper.fake {
        return Ok(ExitCode::SUCCESS);
    }
    // Once: the serving process says nothing of it.
    if !args.helper.serve {
        ignored.iter().for_each(|(option, why)| tracing::warn!("the option `{option}` changes nothing here: {why}"));
    }
    if own.remount {
        return remount(args, &fuse);
    }
    if let Some(size) = args.create.or(args.emulate.and_then(|emulate| emulate.size))
        && !args.device.exists()
    {
        mkfs::create(&args.device, image, size)?;
    }
    // Once, too.
    let is_for_all = fuse.allow.map_or(rustix::process::geteuid().is_root(), |allow| allow == Allow::Everyone);
    if !args.helper.serve && is_for_all && readable::by_all(&args.device) {
        let device = args.device.display();
        warn(&format!("every user may read {device}, and so all files in it; `chmod go= {device}` ends that"));
    }
    prepare_dir(&args.dir, &fuse.subtype)?;
    if (args.background || args.helper.helper) && !args.helper.serve {
        return start(args);
    }
    if little_memory {
        tracing::warn!("memory is limited to {} MiB: mounting with memory=low", memory::limit() >> 20);
    }
    // A limit of addresses would be used up by the allocator's arenas alone.
    if little_memory || core.spare_bytes < MountOptions::default().spare_bytes || memory::addresses().is_some() {
        steadyfs_device::share_arenas();
    }
    serve(args, image, core, &fuse, &own)
}

/// Makes the directory to mount on, if there is none, and takes a mount away whose process has gone.
fn prepare_dir(dir: &Path, subtype: &str) -> Result<(), Failure> {
    let mut may_die = true;
    loop {
        // A dead mount is no directory to make, and keeps its device from being opened.
        steadyfs_fuse::clear_dead(dir, subtype)
            .map_err(|e| Failure::new(format!("cannot mount at {}", dir.display()), e, "unmount what is there"))?;
        match if dir.exists() { Ok(()) } else { std::fs::create_dir(dir) } {
            // The process behind it ended since.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && may_die => may_die = false,
            made => {
                let what = || format!("cannot make {}", dir.display());
                return made.map_err(|e| Failure::new(what(), e, "make it, or mount elsewhere"));
            }
        }
    }
}

/// The options, by who understands them.
struct Options {
    core: MountOptions,
    fuse: FuseOptions,
    own: OwnOptions,
    /// Those of other file systems that mean nothing here, and why.
    ignored: Vec<(String, &'static str)>,
}

/// Where in the device the volume is: the arguments say so, or an option, as in fstab.
fn image_args(args: &Args, own: &OwnOptions) -> Result<ImageArgs, Failure> {
    let Some(partition) = own.partition else { return Ok(args.image) };
    if !args.image.is_whole() && args.image.partition != Some(partition) {
        let what = format!("cannot use the option `partition={partition}`");
        return Err(Failure::usage(what, "--partition or --offset says otherwise", "leave one of them out"));
    }
    Ok(ImageArgs { partition: Some(partition), ..args.image })
}

/// The options one by one.
fn single_options(args: &Args) -> impl Iterator<Item = &str> {
    args.options.iter().flat_map(|list| list.split(',')).filter(|option| !option.is_empty())
}

fn says_how_much_memory(args: &Args) -> bool {
    single_options(args).any(|option| ["memory", "cache", "node_cache"].contains(&split(option).0))
}

/// Sorts the options into those of the file system, those of the mount and those of the command; some are of several.
fn sort_options(args: &Args, little_memory: bool) -> Result<Options, Failure> {
    let mut core = MountOptions::default();
    let mut fuse = FuseOptions { offset: args.image.offset.0, ..FuseOptions::new(&args.device) };
    let (mut own, mut ignored) = (OwnOptions::default(), Vec::new());
    let by_itself = little_memory.then_some("memory=low");
    for option in by_itself.into_iter().chain(single_options(args)) {
        if args.helper.helper && is_shown(option) {
            continue;
        }
        let wrong =
            |why: &str| Failure::usage(format!("cannot use the option `{option}`"), why, "see `steadyfs mount --help`");
        let known = [core.set(option), fuse.take(option), apply(options::OPTIONS, &mut own, option)];
        let mut found = false;
        for known in known {
            found |= known.map_err(|refusal: Refusal| wrong(&refusal.allowed))?;
        }
        if own.remount && !args.helper.helper {
            return Err(wrong("only mount(8) can ask for it: `mount -o remount,...`"));
        }
        match Foreign::of(option) {
            _ if found => {}
            Some(Foreign::Passed) => {}
            Some(Foreign::Ignored(why)) => ignored.push((option.to_owned(), why)),
            Some(Foreign::Refused(why)) => return Err(wrong(why)),
            None if args.helper.sloppy => {}
            None => return Err(wrong("it is not known")),
        }
    }
    if let Some(subtype) = args.helper.fs_type.as_deref().and_then(|name| name.strip_prefix("fuse.")) {
        fuse.subtype = subtype.to_owned();
    }
    if args.trace.is_some() {
        fuse.trace = args.trace.clone();
    }
    if args.metrics.is_some() {
        own.metrics = args.metrics.clone();
    }
    Ok(Options { core, fuse, own, ignored })
}

/// An option that the kernel shows of a mount of ours, and that nobody gave: mount(8) hands it back when it is to
/// remount.
fn is_shown(option: &str) -> bool {
    const SHOWN: [&str; 4] = ["user_id", "group_id", "default_permissions", "blksize"];
    SHOWN.contains(&split(option).0)
}

/// Changes the flags of a mount that is there. What the serving process was told when it started stays.
fn remount(args: &Args, fuse: &FuseOptions) -> Result<ExitCode, Failure> {
    let what = || format!("cannot remount {}", args.dir.display());
    let stats: VolumeStats = live::read(&args.dir, STATS_ATTRIBUTE)?;
    if stats.read_only && !fuse.read_only {
        // The server first: it is the one that may find that nothing can be written.
        let refused: Option<String> = live::read(&args.dir, WRITABLE_ATTRIBUTE)?;
        if let Some(why) = refused {
            return Err(Failure::new(format!("{} for writing", what()), why, "mend that, or leave it read-only"));
        }
    }
    let hint = if fuse.read_only {
        "close what is open for writing there (see `fuser -m`)"
    } else {
        "unmount it, and mount it again"
    };
    steadyfs_fuse::remount(&args.dir, fuse).map_err(|e| Failure::new(what(), e, hint))?;
    Ok(ExitCode::SUCCESS)
}

/// Mounts, and serves until the end.
fn serve(
    args: &Args,
    image: ImageArgs,
    mut core: MountOptions,
    fuse: &FuseOptions,
    own: &OwnOptions,
) -> Result<ExitCode, Failure> {
    // Before any thread is started, so that all are such.
    steadyfs_fuse::become_io_flusher();
    let open = if core.read_only { image.for_reading(&args.device) } else { image.for_writing(&args.device) };
    let open = OpenOptions { leave_mountable: fuse.block_device, patience: PATIENCE, ..open? };
    let listening = own.metrics.as_ref().map(metrics::bind).transpose()?;
    let sandbox = own.sandbox.then(Sandbox::begin);
    let mut device = open_device(args, image, open, &mut core)?;
    if let Some(emulate) = args.emulate {
        device = emulate.over(device)?;
    }
    let options = core.clone();
    let fs = Fs::mount(device, core).map_err(|e: Error| open_failure(&args.device, &e))?;
    let served = Served::new(&fs);
    let (recovered, read_only) = (fs.recovered(), fs.is_read_only());
    let cannot = |e: steadyfs_fuse::Error| {
        Failure::new(
            format!("cannot mount {}", args.device.display()),
            e,
            "check that DIR is free and that you may use /dev/fuse",
        )
    };
    let metrics = listening.map(|listening| metrics::serve(listening, served.clone())).transpose()?;
    let reopen = options.read_only.then(|| reopening(args, open, options, served));
    let mut mounted = steadyfs_fuse::mount(fs, &args.dir, fuse).map_err(cannot)?;
    if let Some(reopen) = reopen {
        mounted.reopen_by(reopen);
    }
    mounted.heed_signals();
    // Before anybody is told that it is there.
    if let Some(sandbox) = sandbox {
        sandbox.close(&mounted);
    }
    let told = Told::new(args, &mounted, recovered, read_only);
    told.with_metrics(metrics.as_ref().map(metrics::Serving::url)).say(args.end);
    if args.helper.serve {
        detach().map_err(|e| Failure::new("cannot go to the background", e, "mount without --background"))?;
    } else {
        let service = Service::found();
        service.ready(&args.device, mounted.dir());
        mounted.at_stop(move || service.stopping());
    }
    mounted.wait().map_err(|e| {
        if args.helper.serve {
            tracing::error!("{} did not end as it should: {e}", args.device.display());
        }
        Failure::new(
            format!("{} did not end as it should", args.device.display()),
            e,
            "check the volume with `steadyfs fsck`",
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Opens what is to be mounted; for reading only if nothing else is possible, unless the user wants to write.
fn open_device(
    args: &Args,
    image: ImageArgs,
    open: OpenOptions,
    core: &mut MountOptions,
) -> Result<Arc<dyn Device>, Failure> {
    match open_image(&args.device, open) {
        Err(OpenError::WriteProtected { why, .. }) if !wants_to_write(args) => {
            warn(&format!("{} is write-protected ({why}); mounting it read-only", args.device.display()));
            core.read_only = true;
            image::open(&args.device, OpenOptions { patience: open.patience, ..image.for_reading(&args.device)? })
        }
        Err(OpenError::WriteProtected { why, .. }) => Err(Failure::new(
            format!("cannot mount {} for writing", args.device.display()),
            why,
            "make it writable, or mount it without `rw`",
        )),
        opened => opened.map_err(|e| image::open_failure(&args.device, &e)),
    }
}

/// How to open again a volume that was mounted read-only.
fn reopening(args: &Args, open: OpenOptions, options: MountOptions, served: Served) -> Reopen {
    // The working directory may change.
    let path = args.device.canonicalize().unwrap_or_else(|_| args.device.clone());
    let emulate = args.emulate;
    Box::new(move |access| {
        let read_only = access == Access::Read;
        let device = open_image(&path, OpenOptions { read_only, own_mount: true, ..open }).map_err(|e| match e {
            // The mount that the table has is this one.
            OpenError::InUse { .. } => "another process uses what is mounted".to_owned(),
            e => image::open_failure(&path, &e).why().to_owned(),
        })?;
        let device = match emulate {
            Some(emulate) => emulate.over(device).map_err(|e| e.why().to_owned())?,
            None => device,
        };
        let options = MountOptions { read_only, ..options.clone() };
        let fs = Fs::mount(device, options).map_err(|e| open_failure(&path, &e).why().to_owned())?;
        served.set(&fs);
        Ok(fs)
    })
}

/// Whether the user said so: mount(8) gives its helpers `rw` whenever nobody said `ro`.
fn wants_to_write(args: &Args) -> bool {
    let last = single_options(args).filter(|option| matches!(*option, "ro" | "rw")).last();
    args.helper.writable || (!args.helper.helper && last == Some("rw"))
}

/// Starts the serving process and waits until it has mounted, or has said on standard error why it cannot.
fn start(args: &Args) -> Result<ExitCode, Failure> {
    let cannot = |e: io::Error| Failure::new("cannot start the serving process", e, "mount without --background");
    let absolute = |path: &Path| path.canonicalize().map_err(cannot);
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg0("steadyfs").arg("mount").arg("--helper").arg("--serve");
    match args.image.partition {
        Some(number) => command.arg("--partition").arg(number.to_string()),
        None => command.arg("--offset").arg(args.image.offset.0.to_string()),
    };
    command.args(args.options.iter().flat_map(|list| ["-o", list]));
    if let Some(emulate) = args.emulate {
        command.arg(format!("--device={emulate}"));
    }
    if let Some(trace) = &args.trace {
        command.arg("--trace").arg(std::path::absolute(trace).map_err(cannot)?);
    }
    match &args.metrics {
        Some(Endpoint::Socket(path)) => {
            command.arg("--metrics").arg(std::path::absolute(path).map_err(cannot)?);
        }
        Some(address) => {
            command.arg("--metrics").arg(address.to_string());
        }
        None => {}
    }
    let said = [(args.end.json, "--json"), (args.end.talk.quiet, "-q"), (args.end.talk.verbose, "-v")];
    command.args(said.into_iter().filter(|(is_said, _)| *is_said).map(|(_, flag)| flag));
    if wants_to_write(args) {
        command.arg("--writable");
    }
    if args.helper.sloppy {
        command.arg("-s");
    }
    if let Some(fs_type) = &args.helper.fs_type {
        command.args(["-t", fs_type]);
    }
    let device = args.device.canonicalize().map_err(|source| {
        image::open_failure(&args.device, &OpenError::System { path: args.device.clone(), source })
    })?;
    command.arg("--").arg(device).arg(absolute(&args.dir)?);
    // It stays longer than the process that started it: it takes along what it uses, and nothing else.
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_used(name)));
    steadyfs_device::keep_descriptors();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(cannot)?;
            if line == READY {
                return Ok(ExitCode::SUCCESS);
            }
            // mount(8) says nothing when it succeeds.
            if !args.helper.helper {
                let _ = writeln!(io::stdout(), "{line}");
            }
        }
    }
    let status = child.wait().map_err(cannot)?;
    // It has not mounted, whatever it says.
    let code: Option<u8> = status.code().and_then(|code| code.try_into().ok()).filter(|code| *code != 0);
    Ok(ExitCode::from(code.unwrap_or(crate::failure::MOUNT_FAILED)))
}

/// Whether the serving process, or what it starts (fusermount3), uses this variable. The last two are for who looks for
/// faults in it.
fn is_used(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"STEADYFS_") || [&b"PATH"[..], b"RUST_BACKTRACE", b"LLVM_PROFILE_FILE"].contains(&name)
}

/// Says that the volume is mounted, and lets go of the terminal and the working directory.
fn detach() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    // Fails only for the leader of a process group, which a process that was just started is not.
    let _ = rustix::process::setsid();
    writeln!(io::stdout(), "{READY}")?;
    io::stdout().flush()?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    crate::log::to_system_log();
    Ok(())
}

/// The end of `--help`.
fn long_help() -> String {
    format!("{EXAMPLE}\n\n{}", options::for_help())
}

/// The end of the manual page, which lists more options.
pub(crate) fn manual() -> String {
    format!("{EXAMPLE}\n\n{}", options::for_manual())
}
