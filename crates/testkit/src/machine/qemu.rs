//! QEMU without hardware support, with Debian's kernel: slow (about twenty seconds to boot), but its F2FS has
//! everything.
//!
//! The kernel is looked for in the directory `STEADYFS_TEST_KERNEL` (with `boot/vmlinuz-*` and `lib/modules/*` in it),
//! then in what [`fetch_kernel`] left below the target directory, then in `/`. QEMU and the kernel are not among the
//! packages that `make test` installs: only the making of golden images needs them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::initramfs::{Initramfs, module_files};
use super::{Kernel, Machine, Setup, link_disks, write_executable};
use crate::error::{Error, Result, io};
use crate::process::{self, Running};
use crate::programs;

const INIT: &str = include_str!("qemu.sh");
const FIRST_INIT: &str = include_str!("initramfs.sh");
/// What the initial RAM disk needs to find the host's files.
const BOOT_MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "9pnet_virtio", "9p"];
/// F2FS and what it asks the crypto layer for: checksums, hashes, encryption.
const F2FS_MODULES: [&str; 7] = ["crc32_generic", "quota_v2", "xts", "cts", "cbc", "sha512_generic", "f2fs"];
const KERNEL_PACKAGE: &str = "linux-image-amd64";

/// A machine of QEMU. Its disks are `/dev/vda`, `/dev/vdb`, ...
pub type Qemu = Machine<Debian>;

/// The kernel of [`Qemu`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Debian;

impl Kernel for Debian {
    const NAME: &'static str = "qemu";
    const LIMIT: Duration = Duration::from_secs(300);

    fn start(&self, setup: &Setup, scratch: &Path) -> Result<Running> {
        let qemu = process::find("qemu-system-x86_64", "qemu-system-x86")?;
        let (root, version) = find_kernel()?;
        initramfs(&root, &version, &scratch.join("initramfs"))?;
        let modules: Vec<&str> = F2FS_MODULES.into_iter().chain(setup.modules.iter().map(String::as_str)).collect();
        let init = INIT.replace("@KERNEL_ROOT@", &root.display().to_string()).replace("@MODULES@", &modules.join(" "));
        write_executable(&scratch.join("init.sh"), &init)?;
        let share = |tag: &str, path: &Path, mode: &str| {
            format!("local,path={},mount_tag={tag},security_model=none,multidevs=remap{mode}", path.display())
        };
        let mut args = [
            "-accel tcg,thread=multi -smp 2 -nodefaults -no-user-config -display none -no-reboot".to_owned(),
            format!("-m {}", setup.mem_mib),
            format!("-kernel {}", root.join(format!("boot/vmlinuz-{version}")).display()),
            format!("-initrd {}", scratch.join("initramfs").display()),
            // The kernel's log is our standard output, the script's output our standard error.
            "-serial stdio -chardev file,id=script,append=on,path=/proc/self/fd/2 -serial chardev:script".to_owned(),
            format!("-virtfs {}", share("root", Path::new("/"), ",readonly=on")),
            format!("-virtfs {}", share("host", scratch, "")),
        ]
        .join(" ")
        .split(' ')
        .map(str::to_owned)
        .collect::<Vec<_>>();
        args.extend(["-append".to_owned(), "console=ttyS0 panic=-1 mitigations=off lsm=yama".to_owned()]);
        for (image, writable) in link_disks(setup, scratch)? {
            let mode = if writable { "off" } else { "on" };
            args.push("-drive".to_owned());
            args.push(format!(
                "file={},format=raw,if=virtio,cache=unsafe,discard=unmap,readonly={mode}",
                image.display()
            ));
        }
        Running::start(&qemu, &args, &[])
    }
}

/// Downloads Debian's kernel by apt and unpacks it below the target directory, unless it is there. It is not installed.
pub fn fetch_kernel() -> Result<()> {
    let home = fetched();
    if find_kernel().is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(&home).map_err(io(format!("create {}", home.display())))?;
    let script = "cd \"$1\" && image=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1) && \
        { apt-get download \"$image-unsigned\" || apt-get download \"$image\"; } && dpkg-deb -x linux-image-*.deb . && \
        rm linux-image-*.deb && depmod -b . \"$(ls lib/modules)\"";
    let args = ["-c", script, "sh", &home.display().to_string()];
    let done = process::run(Path::new("/bin/sh"), &args, Duration::from_secs(600))?;
    match done.status {
        0 => Ok(()),
        status => Err(Error::Tool {
            command: "fetch Debian's kernel".to_owned(),
            verdict: format!("exit status {status}"),
            output: done.stdout + &done.stderr,
        }),
    }
}

fn fetched() -> PathBuf {
    programs::target_directory().join("testkit-kernel")
}

/// The root below which a kernel and its modules lie, and the kernel's version.
fn find_kernel() -> Result<(PathBuf, String)> {
    let chosen = std::env::var_os("STEADYFS_TEST_KERNEL").map(PathBuf::from);
    for root in chosen.into_iter().chain([fetched(), PathBuf::from("/")]) {
        let Ok(versions) = std::fs::read_dir(root.join("lib/modules")) else { continue };
        for version in versions.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            if root.join(format!("boot/vmlinuz-{version}")).is_file() {
                return Ok((root, version));
            }
        }
    }
    Err(Error::Missing { what: "a kernel for QEMU".to_owned(), package: KERNEL_PACKAGE })
}

fn initramfs(kernel_root: &Path, version: &str, path: &Path) -> Result<()> {
    let mut archive = Initramfs::default();
    for (program, package) in [("sh", "dash"), ("mount", "mount"), ("kmod", "kmod"), ("chroot", "coreutils")] {
        archive.program(program, package)?;
    }
    archive.symlink("bin/insmod", "kmod");
    for directory in ["dev", "proc", "sys", "host"] {
        archive.directory(directory);
    }
    let mut names = Vec::new();
    for module in BOOT_MODULES {
        for file in module_files(kernel_root, version, module)? {
            let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            if !names.contains(&name) {
                archive.copy(&file, &format!("modules/{name}"))?;
                names.push(name);
            }
        }
    }
    archive.file("init", FIRST_INIT.replace("@MODULES@", &names.join(" ")).as_bytes());
    archive.save(path)
}
