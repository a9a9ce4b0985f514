//! What Linux sees on a volume.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::manifest::{Manifest, Options};
use crate::programs;
use crate::uml::Uml;

/// The shell command that takes the manifest of `directory` into `$HOST/name`, for a [`Uml`] script.
pub fn manifest_command(directory: &str, name: &str, options: &Options) -> Result<String> {
    let program = programs::path("steadyfs-manifest")?;
    Ok(format!("{} {directory} --out $HOST/{name} {}", program.display(), options.as_args()))
}

/// Mounts the image in the real kernel with the given mount options (`""` for none), takes the manifest of the whole volume and unmounts.
/// The kernel may write: it replays what a crash left behind, and deletes orphans. The timeout is for the whole machine.
pub fn linux_manifest(
    image: impl AsRef<Path>,
    mount_options: &str,
    options: &Options,
    timeout: Duration,
) -> Result<Manifest> {
    let mount = if mount_options.is_empty() { "noatime".to_owned() } else { format!("noatime,{mount_options}") };
    let out = Uml::new()
        .disk(image)
        .timeout(timeout)
        .script(format!("mount -t f2fs -o {mount} /dev/ubda $MNT"))
        .script(manifest_command("$MNT", "manifest.json", options)?)
        .run()?;
    Manifest::load(out.file("manifest.json"))
}
