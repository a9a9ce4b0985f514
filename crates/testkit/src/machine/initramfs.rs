//! An initial RAM disk: a cpio archive ("newc") of a few of the host's programs with their libraries, and some kernel
//! modules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result, io};
use crate::process;

/// The archive while it is written.
#[derive(Debug, Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
    paths: BTreeSet<String>,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;

impl Initramfs {
    /// An empty directory, and those above it.
    pub(super) fn directory(&mut self, path: &str) {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            self.entry(&path[..end], DIRECTORY, &[]);
        }
    }

    /// An executable file with the given contents.
    pub(super) fn file(&mut self, path: &str, contents: &[u8]) {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory);
        }
        self.entry(path, FILE, contents);
    }

    /// A symbolic link.
    pub(super) fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK, target.as_bytes());
    }

    /// A copy of one of the host's files.
    pub(super) fn copy(&mut self, from: &Path, to: &str) -> Result<()> {
        let contents = std::fs::read(from).map_err(io(format!("read {}", from.display())))?;
        self.file(to, &contents);
        Ok(())
    }

    /// A program of the host as `/bin/NAME`, with the libraries that it is linked with.
    pub(super) fn program(&mut self, name: &str, package: &'static str) -> Result<()> {
        let program = process::find(name, package)?;
        self.copy(&program, &format!("bin/{name}"))?;
        let listed = process::run(Path::new("/usr/bin/ldd"), &[&program], Duration::from_secs(20))?;
        let libraries = listed.stdout.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries {
            let inside = library.trim_start_matches('/');
            if !self.paths.contains(inside) {
                self.copy(Path::new(library), inside)?;
            }
        }
        Ok(())
    }

    /// Writes the archive.
    pub(super) fn save(mut self, path: &Path) -> Result<()> {
        self.entry("TRAILER!!!", 0, &[]);
        std::fs::write(path, &self.bytes).map_err(io(format!("write {}", path.display())))
    }

    /// Header of 110 bytes in hexadecimal digits, name with NUL, contents; both padded to 4 bytes. A path is added
    /// once.
    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        if !self.paths.insert(path.to_owned()) {
            return;
        }
        self.entries += 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
        assert_eq!(self.bytes.len() % 4, 0);
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The files of `module` and of everything that it depends on, in the order of loading.
pub(super) fn module_files(kernel_root: &Path, version: &str, module: &str) -> Result<Vec<PathBuf>> {
    let modprobe = process::find("modprobe", "kmod")?;
    let root = kernel_root.display().to_string();
    let args = ["-d", &root, "-S", version, "--show-depends", module];
    let listed = process::run(&modprobe, &args, Duration::from_secs(20))?;
    if listed.status != 0 {
        let command = format!("modprobe {}", args.join(" "));
        return Err(Error::Tool { command, verdict: format!("exit status {}", listed.status), output: listed.stderr });
    }
    let files = listed.stdout.lines().filter_map(|line| line.strip_prefix("insmod "));
    Ok(files.map(|file| PathBuf::from(file.trim())).collect())
}
