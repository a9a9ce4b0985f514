//! Linux agrees: the real kernel reads what we wrote, we read what it wrote, then each goes on where the other stopped.
//!
//! Everything is seen through system calls: on our FUSE mount here, on the kernel's own F2FS in user-mode Linux. Needs
//! root and /dev/fuse, and the packages that `make deps` installs.

mod fsync;
mod journal;
mod library;
mod recovery;

use library::LibraryTarget;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadyfs_core::{Fs, MountOptions, why_read_only};
use steadyfs_device::{FileDevice, OpenOptions};
use steadyfs_fuse::{FuseOptions, Mounted, mount};
use steadyfs_testkit::corpus::{self, HostTarget, Spec};
use steadyfs_testkit::golden;
use steadyfs_testkit::images::{self, MANIFEST_OPTIONS, Recipe};
use steadyfs_testkit::linux::{manifest_command, mount_command};
use steadyfs_testkit::manifest::{Fields, Options};
use steadyfs_testkit::{Manifest, TempImage, Uml, fsck_f2fs, linux_manifests, mkfs_f2fs, sampled};

const FEATURES: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found";
const LIMIT: Duration = Duration::from_secs(300);
/// Volumes that one machine looks at.
const DISKS: usize = 8;
/// Inode flags through FUSE are not the kernel's own; they are compared through the library by other tests. Where holes
/// are is not compared (see [`fields`]), and to ask each file for them takes half of the calls.
const OPTIONS: Options = Options { flags: false, data: false, ..MANIFEST_OPTIONS };

/// What two views of one volume have in common. Not the map of holes: Linux calls reserved blocks data when asked for
/// the next hole and a hole when asked for the next data; here they are holes both times. Contents and allocated space
/// are compared.
fn fields() -> Fields {
    Fields { flags: false, data: false, ..Fields::all() }
}

fn open(image: &Path, options: &str) -> Arc<Fs> {
    let options = MountOptions::parse(options).unwrap();
    let dev = FileDevice::open(image, OpenOptions { read_only: options.read_only, ..OpenOptions::default() }).unwrap();
    Fs::mount(Arc::new(dev), options).unwrap()
}

/// Runs `f` on a directory where the image is mounted, and unmounts.
fn mounted<R>(image: &Path, options: &str, f: impl FnOnce(&Path) -> R) -> R {
    let dir = tempfile::tempdir().unwrap();
    let mount = mount(open(image, options), dir.path(), &FuseOptions::new(image)).unwrap();
    let out = f(dir.path());
    unmount(mount);
    out
}

/// Unmounts. Busy is tried again: a process that another test is just starting has a copy of every file that was open
/// here, until it executes its own program.
fn unmount(mut mount: Mounted) {
    let start = Instant::now();
    while let Err(error) = mount.unmount() {
        let busy =
            matches!(&error, steadyfs_fuse::Error::Unmount { source, .. } if source.kind() == ErrorKind::ResourceBusy);
        assert!(busy && start.elapsed() < LIMIT, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn our_manifest(image: &Path, options: &str) -> Manifest {
    mounted(image, options, |dir| Manifest::of(dir, &OPTIONS).unwrap())
}

/// The kernel, fsck.f2fs and our own read-only mount see the same on the volume.
fn all_agree(image: &Path) -> Manifest {
    all_agree_on(&[image.to_owned()]).remove(0)
}

/// The same of several volumes, in one machine.
fn all_agree_on(images: &[PathBuf]) -> Vec<Manifest> {
    let check = || images.iter().for_each(|image| drop(fsck_f2fs(image).unwrap()));
    check();
    let linux = linux_manifests(images, "", &OPTIONS, LIMIT).unwrap();
    check();
    for (image, linux) in images.iter().zip(&linux) {
        linux.assert_same(&our_manifest(image, "ro"), &fields());
    }
    linux
}

/// A volume of a recipe that we went on with, and what is on it if that is known.
struct Continued {
    recipe: &'static str,
    image: TempImage,
    tree: Option<Manifest>,
}

/// All agree on volumes that we went on with.
fn all_agree_at_last(volumes: &[Continued]) {
    let names = |few: &&[Continued]| few.iter().map(|volume| volume.recipe).collect::<Vec<_>>().join(", ");
    images::side_by_side(&volumes.chunks(DISKS).collect::<Vec<_>>(), names, |few| {
        let images: Vec<PathBuf> = few.iter().map(|volume| volume.image.path()).collect();
        for (volume, linux) in few.iter().zip(all_agree_on(&images)) {
            if let Some(tree) = &volume.tree {
                linux.assert_same(tree, &fields());
            }
        }
    });
}

fn fresh(dir: &tempfile::TempDir, features: &str, mib: u64) -> std::path::PathBuf {
    let image = dir.path().join("volume.img");
    let args: &[&str] = if features.is_empty() { &[] } else { &["-O", features] };
    mkfs_f2fs(&image, mib << 20, args).unwrap();
    image
}

/// The same tree, made on the host by the reference target.
fn reference(spec: &Spec) -> Manifest {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut host = HostTarget::open(dir.path()).unwrap();
    corpus::apply(spec.ops(), &mut host).unwrap();
    Manifest::of(dir.path(), &OPTIONS).unwrap()
}

#[test]
fn linux_reads_what_the_library_wrote() {
    let full = Spec { big_dir: sampled(30_000, 100_000), ..Spec::full() };
    for (features, spec) in [(FEATURES, full), ("", Spec::small())] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = fresh(&dir, features, if features.is_empty() { 256 } else { 1536 });
        let fs = open(&image, "");
        corpus::apply(spec.ops(), &mut LibraryTarget::new(Arc::clone(&fs))).unwrap();
        fs.unmount().unwrap();
        drop(fs);
        all_agree(&image);
    }
}

#[test]
fn linux_reads_what_the_mount_wrote() {
    // The kernel refuses the further modes of fallocate on every FUSE mount; far times do not fit what tmpfs keeps.
    let spec = Spec { falloc: false, sparse: false, far_times: false, ..Spec::small() };
    for features in [FEATURES, ""] {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let image = fresh(&dir, features, 256);
        mounted(&image, "", |mnt| {
            corpus::apply(spec.ops(), &mut HostTarget::open(mnt).unwrap()).unwrap();
        });
        let linux = all_agree(&image);
        if features.is_empty() {
            linux.assert_same(&reference(&spec), &Fields::portable());
        }
    }
}

/// What Linux wrote reads the same here; where the volume may be changed, we write to it.
fn exchange(recipe: &Recipe) -> Option<Continued> {
    let image = recipe.image().unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
    let copy = image.copy().unwrap();
    let path = copy.path();
    let ours = our_manifest(&path, "ro");
    let diff = image.manifest.diff(&ours, &fields());
    assert!(diff.is_empty(), "{}: what Linux wrote reads differently: {diff}", recipe.name);
    let dev = FileDevice::open(&path, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let raw = steadyfs_core::raw::Image::open(Arc::new(dev)).unwrap();
    if why_read_only(raw.superblock().features()).is_some() || recipe.name == "checkpoint-disabled" {
        return None;
    }
    drop(raw);
    mounted(&path, "", |mnt| {
        let sub = mnt.join("written-by-us");
        std::fs::create_dir(&sub).unwrap();
        let spec = Spec { falloc: false, sparse: false, ..Spec::tiny() };
        if let Err(e) = corpus::apply(spec.ops(), &mut HostTarget::open(&sub).unwrap()) {
            // The small volumes that Linux nearly filled have no room for all of it; but then they must be full.
            let free = rustix::fs::statvfs(mnt).unwrap().f_bfree;
            assert!(e.error.contains("No space left") && free < 64, "{e} with {free} blocks free");
        }
        overwrite_some(mnt);
        // The first file that may be removed: some are immutable.
        let mut files = std::fs::read_dir(mnt).unwrap().filter_map(|e| e.ok()).filter(|e| e.path().is_file());
        files.any(|file| std::fs::remove_file(file.path()).is_ok());
    });
    mend_quota(&path);
    Some(Continued { recipe: recipe.name, image: copy, tree: None })
}

/// Makes anew what we did not maintain: quota files are out of date, as the checkpoint says, and Linux mounts without
/// them (format section 14).
fn mend_quota(path: &Path) {
    if raw_quota(path) {
        let linux = Uml::new()
            .disk(path)
            .timeout(LIMIT)
            .expect("quota file may be corrupted, skip loading it")
            .script(mount_command("/dev/ubda", ""))
            .script(manifest_command("$MNT", "manifest.json", &OPTIONS).unwrap())
            .run()
            .unwrap();
        let linux = Manifest::load(linux.file("manifest.json")).unwrap();
        linux.assert_same(&our_manifest(path, "ro"), &fields());
        let repaired = std::process::Command::new("fsck.f2fs").arg("-a").arg(path).output().unwrap();
        assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stdout));
    }
}

/// Changes the first block of files of several blocks: what Linux noted about where they lie is wrong then.
fn overwrite_some(mnt: &Path) {
    let mut changed = 0;
    let mut dirs = vec![mnt.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().filter_map(|e| e.ok()).take(200) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && changed < 20 {
                dirs.push(entry.path());
            } else if kind.is_file() && entry.metadata().unwrap().len() > 8192 {
                let file = std::fs::OpenOptions::new().write(true).open(entry.path());
                changed += usize::from(file.is_ok_and(|f| f.write_all_at(&[0xA5; 4096], 0).is_ok()));
            }
        }
    }
    println!("{changed} files overwritten in part");
}

fn raw_quota(path: &Path) -> bool {
    let dev = FileDevice::open(path, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let raw = steadyfs_core::raw::Image::open(Arc::new(dev)).unwrap();
    raw.superblock().features().contains(steadyfs_format::Features::QUOTA)
}

#[test]
fn we_read_and_continue_what_linux_wrote() {
    let continued: Vec<_> = images::try_each(&images::matrix(), exchange).into_iter().flatten().collect();
    all_agree_at_last(&continued);
}

#[test]
fn a_crashed_volume_of_linux_can_be_read_at_its_checkpoint() {
    images::try_each(&images::crashed(), |recipe| {
        let image = recipe.image().unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
        let copy = image.copy().unwrap();
        let ours = our_manifest(&copy.path(), "ro,norecovery");
        let expected = image.at_checkpoint.as_ref().expect("a crashed volume has a checkpoint manifest");
        let diff = expected.diff(&ours, &fields());
        assert!(diff.is_empty(), "{}: {diff}", recipe.name);
    });
}

/// What every reader sees of a tree whose names are encrypted: each has its own stand-ins for the names.
fn nameless(manifest: &Manifest) -> Vec<String> {
    let mut all: Vec<_> = manifest
        .entries
        .iter()
        .map(|(path, e)| {
            let depth = path.matches('/').count();
            format!("{depth} {:?} {:o} {} {} {} {}", e.kind, e.mode, e.uid, e.gid, e.nlink, e.mtime)
        })
        .collect();
    all.sort();
    all
}

/// Images kept in the repository, with the trees that their makers saw. Those that need a key are compared without
/// contents and names.
#[test]
fn golden_images_show_their_trees() {
    let mut failed = Vec::new();
    for golden in golden::list() {
        let image = golden.unpack().unwrap();
        let at_checkpoint = golden.at_checkpoint().unwrap();
        let (expected, fields) =
            (golden.manifest().unwrap(), Fields { dir_times: at_checkpoint.is_none(), ..fields() });
        // Where the kernel's holes are not ours (see `fields`), all is read; elsewhere files of terabytes would take
        // for ever.
        let read_holes = golden.name.contains("compress");
        let options = Options { no_contents: !golden.has_contents, read_holes, ..OPTIONS };
        let ours = mounted(&image.path(), "ro", |dir| Manifest::of(dir, &options).unwrap());
        if let Some(expected) = at_checkpoint {
            expected.assert_same(
                &mounted(&image.path(), "ro,norecovery", |dir| Manifest::of(dir, &options).unwrap()),
                &fields,
            );
        }
        if !golden.has_contents {
            assert_eq!(nameless(&expected), nameless(&ours), "{}", golden.name);
            continue;
        }
        let diff = expected.diff(&ours, &fields);
        if !diff.is_empty() {
            println!("{}: {diff}", golden.name);
            failed.push(golden.name);
        }
    }
    assert!(failed.is_empty(), "golden images that read differently: {failed:?}");
}
