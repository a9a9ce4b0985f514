//! Makes golden images again. Needs the packages zstd and, for some, qemu-system-x86 and fsverity; a kernel for the
//! latter is downloaded.

use std::path::Path;
use std::time::Duration;

use super::recipes::Source;
use super::{Golden, directory};
use crate::error::{Error, Result, io};
use crate::images::MANIFEST_OPTIONS;
use crate::linux::{linux_manifest, manifest_command, mkfs_command};
use crate::machine::{Qemu, Uml, qemu};
use crate::manifest::{Manifest, Options};
use crate::sparse::{TempImage, create_sparse};
use crate::tools::fsck_f2fs;
use crate::{process, programs};

const LIMIT: Duration = Duration::from_secs(1200);

/// Makes a golden image and its manifests and writes them into the repository. Returns the sizes of the files.
pub fn make(golden: &Golden) -> Result<Vec<(String, u64)>> {
    let image = TempImage::new()?;
    let (manifest, at_checkpoint) = match &golden.source {
        Source::Mkfs { mib, options } => (by_mkfs(&image.path(), *mib, options)?, None),
        Source::Uml(recipe) => recipe.make(&image.path())?,
        Source::Qemu { mib, options, script } => (by_qemu(&image.path(), *mib, options, script, golden)?, None),
    };
    fsck_f2fs(image.path())?;
    std::fs::create_dir_all(directory()).map_err(io("create the directory of golden images"))?;
    let mut sizes = vec![compress(&image.path(), &golden.file("img"))?];
    sizes.push(save(&manifest, &golden.file("json"))?);
    match at_checkpoint {
        Some(at_checkpoint) if at_checkpoint != manifest => {
            sizes.push(save(&at_checkpoint, &golden.file("checkpoint.json"))?);
        }
        _ => {}
    }
    Ok(sizes)
}

// mkfs.f2fs writes the version of the kernel that it runs on into the volume: here always that of a guest.

fn by_mkfs(image: &Path, mib: u64, options: &str) -> Result<Manifest> {
    create_sparse(image, mib << 20)?;
    Uml::new().disk(image).script(mkfs_command("/dev/ubda", options)).run()?;
    linux_manifest(TempImage::copy_of(image)?.path(), "ro", &MANIFEST_OPTIONS, LIMIT)
}

fn by_qemu(image: &Path, mib: u64, options: &str, script: &str, golden: &Golden) -> Result<Manifest> {
    qemu::fetch_kernel()?;
    create_sparse(image, mib << 20)?;
    let mkfs = mkfs_command("/dev/vda", options);
    let corpus = programs::path("steadyfs-corpus")?;
    // What cannot be opened without the key tells nothing but what stat tells.
    let options = match golden.has_contents {
        // Compressed files: see Options::read_holes.
        true => Options { read_holes: true, data: false, ..MANIFEST_OPTIONS },
        false => Options { no_contents: true, data: false, flags: false, ..MANIFEST_OPTIONS },
    };
    let out = Qemu::new()
        .disk(image)
        .timeout(LIMIT)
        .script(format!("DISK=/dev/vda CORPUS={}", corpus.display()))
        .script(mkfs)
        .script(script)
        .script("mount -t f2fs -o ro,noatime $DISK $MNT")
        .script(manifest_command("$MNT", "manifest.json", &options)?)
        .run()?;
    Manifest::load(out.file("manifest.json"))
}

fn save(manifest: &Manifest, to: &Path) -> Result<(String, u64)> {
    let dir = tempfile::tempdir().map_err(io("create a directory"))?;
    let file = dir.path().join("manifest.json");
    manifest.save(&file)?;
    compress(&file, to)
}

fn compress(from: &Path, to: &Path) -> Result<(String, u64)> {
    let zstd = process::find("zstd", "zstd")?;
    let (from, target) = (from.display().to_string(), to.display().to_string());
    let done = process::run(&zstd, &["-q", "-f", "-19", "-o", &target, &from], LIMIT)?;
    if done.status != 0 {
        return Err(Error::Tool {
            command: format!("zstd {from}"),
            verdict: done.status.to_string(),
            output: done.stderr,
        });
    }
    let size = std::fs::metadata(to).map_err(io(format!("measure {target}")))?.len();
    Ok((target, size))
}
