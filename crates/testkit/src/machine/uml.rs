//! User-mode Linux: Debian's 6.1 kernel as an ordinary process, as any user, at native speed except for system calls,
//! with one CPU. Its F2FS has no compression, casefolding, encryption and verity.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Kernel, Machine, Setup, link_disks, uml_kernel, write_executable};
use crate::error::{Error, Result};
use crate::process::{self, Running};

const PACKAGE: &str = "user-mode-linux";
const INIT: &str = include_str!("uml.sh");
/// Modules that every script finds loaded: F2FS, the checksum that it asks the crypto layer for, and the format of its
/// quota files.
const F2FS_MODULES: [&str; 4] = ["crypto/crc32_generic", "fs/quota/quota_tree", "fs/quota/quota_v2", "fs/f2fs/f2fs"];

/// A machine of user-mode Linux. Its disks are `/dev/ubda`, `/dev/ubdb`, ...
pub type Uml = Machine<UserMode>;

/// The kernel of [`Uml`].
#[derive(Debug, Clone, Copy, Default)]
pub struct UserMode;

impl Kernel for UserMode {
    const NAME: &'static str = "uml";
    const LIMIT: Duration = Duration::from_secs(120);

    fn start(&self, setup: &Setup, scratch: &Path) -> Result<Running> {
        let kernel = process::find("linux.uml", PACKAGE)?;
        process::find("insmod", "kmod")?;
        let root = module_root()?;
        let modules: Vec<&str> = F2FS_MODULES.into_iter().chain(setup.modules.iter().map(String::as_str)).collect();
        for module in &modules {
            let file = root.join(format!("{module}.ko"));
            if !file.is_file() {
                return Err(Error::Missing { what: file.display().to_string(), package: PACKAGE });
            }
        }
        let init = INIT
            .replace("@HOST@", &scratch.display().to_string())
            .replace("@MODULES@", &modules.join(" "))
            .replace("@MODULE_ROOT@", &root.display().to_string());
        write_executable(&scratch.join("init.sh"), &init)?;
        // UML looks at TMPDIR for the file that is its memory; /dev/shm, its default, is memory.
        Running::start(&uml_kernel::path(&kernel)?, &command_line(setup, scratch)?, &[("TMPDIR", "/dev/shm")])
    }
}

fn command_line(setup: &Setup, scratch: &Path) -> Result<Vec<String>> {
    let mut args = vec![
        format!("mem={}M", setup.mem_mib),
        "root=/dev/root rootfstype=hostfs rootflags=/ ro".to_owned(),
        // The host's /dev until init mounts its own: init.sh may lie in /dev/shm.
        "devtmpfs.mount=0".to_owned(),
        // What the kernel measures at each boot takes longer than all else that it does there: how fast it loops and
        // computes parities.
        "lpj=20000000 initcall_blacklist=raid6_select_algo,calibrate_xor_blocks".to_owned(),
        // No SELinux: it would add xattrs of its own.
        "lsm=yama".to_owned(),
        format!("uml_dir={}", scratch.display()),
        "umid=uml".to_owned(),
        // The kernel's log is our standard output, the script's output our standard error.
        "con=null con0=null,fd:1 con1=null,fd:2 ssl=null".to_owned(),
        format!("init={}", scratch.join("init.sh").display()),
    ];
    for (n, (image, writable)) in link_disks(setup, scratch)?.iter().enumerate() {
        args.push(format!("ubd{n}{}={}", if *writable { "" } else { "r" }, image.display()));
    }
    Ok(args.iter().flat_map(|a| a.split(' ')).map(str::to_owned).collect())
}

/// The version of the kernel, such as `6.1.176`.
pub fn kernel_version() -> Result<String> {
    let kernel = process::find("linux.uml", PACKAGE)?;
    Ok(process::run(&kernel, &["--version"], Duration::from_secs(10))?.stdout.trim().to_owned())
}

/// The directory with the modules of this very kernel.
fn module_root() -> Result<PathBuf> {
    let root = PathBuf::from(format!("/usr/lib/uml/modules/{}/kernel", kernel_version()?));
    if root.is_dir() { Ok(root) } else { Err(Error::Missing { what: root.display().to_string(), package: PACKAGE }) }
}
