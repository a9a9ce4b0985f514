//! What Linux sees on a volume, and how to let it write to one.

use std::path::Path;
use std::time::Duration;

use crate::corpus::Workload;
use crate::error::Result;
use crate::machine::Uml;
use crate::manifest::{Manifest, Options};
use crate::programs;

/// Disks that user-mode Linux has letters for.
const DISKS: usize = 16;

/// The shell command that takes the manifest of `directory` into `$HOST/name`, for a [`Uml`] script.
pub fn manifest_command(directory: &str, name: &str, options: &Options) -> Result<String> {
    let program = programs::path("steadyfs-manifest")?;
    Ok(format!("{} {directory} --out $HOST/{name} {}", program.display(), options.as_args()))
}

/// The shell command that does a workload to `directory`, for a [`Uml`] script.
pub fn corpus_command(directory: &str, workload: &Workload) -> Result<String> {
    let program = programs::path("steadyfs-corpus")?;
    let workload = serde_json::to_string(workload).expect("a workload has only numbers and flags");
    Ok(format!("{} {directory} '{workload}'", program.display()))
}

/// The shell command that makes an F2FS volume of a disk, such as `/dev/ubda`, with these options of mkfs.f2fs.
pub fn mkfs_command(disk: &str, options: &str) -> String {
    format!("mkfs.f2fs -q -f {options} {disk} >/dev/null")
}

/// The shell command that mounts a disk, such as `/dev/ubda`, at `$MNT` with these options (`""` for none) and without
/// changing access times.
pub fn mount_command(disk: &str, options: &str) -> String {
    let separator = if options.is_empty() { "" } else { "," };
    format!("mount -t f2fs -o noatime{separator}{options} {disk} $MNT")
}

/// Mounts the image in the real kernel with the given mount options, takes the manifest of the whole volume and
/// unmounts. The kernel may write, unless told `ro`: it replays what a crash left behind and deletes orphans. The
/// timeout is for the whole machine.
pub fn linux_manifest(
    image: impl AsRef<Path>,
    mount_options: &str,
    options: &Options,
    timeout: Duration,
) -> Result<Manifest> {
    Ok(linux_manifests(&[image], mount_options, options, timeout)?.remove(0))
}

/// As [`linux_manifest`], of several images one after the other in one machine, which has room for 16: to boot takes
/// longer than to look at a small volume.
pub fn linux_manifests<P: AsRef<Path>>(
    images: &[P],
    mount_options: &str,
    options: &Options,
    timeout: Duration,
) -> Result<Vec<Manifest>> {
    assert!(images.len() <= DISKS, "one machine has no room for {} images", images.len());
    let file = |number: usize| format!("manifest-{number}.json");
    let mut machine = Uml::new().timeout(timeout);
    for ((number, image), letter) in images.iter().enumerate().zip('a'..='p') {
        machine = machine
            .disk(image)
            .script(mount_command(&format!("/dev/ubd{letter}"), mount_options))
            .script(manifest_command("$MNT", &file(number), options)?)
            .script("umount $MNT");
    }
    let out = machine.run()?;
    (0..images.len()).map(|number| Manifest::load(out.file(&file(number)))).collect()
}
