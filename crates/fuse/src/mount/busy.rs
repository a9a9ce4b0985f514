//! What keeps a mount from being unmounted.

use super::table;
use std::fs;
use std::path::{Path, PathBuf};

/// Most reasons that are worth naming.
const MOST: usize = 5;

/// Why the mount with this device number at `dir` is busy, in words: mounts on and in it, and processes that use
/// something below it, as far as this user may see. Reads only `/proc`, never the mount.
pub(super) fn reasons(dir: &Path, device: Option<&str>) -> Vec<String> {
    let mounts = table::below(dir).into_iter().filter(|entry| Some(entry.device.as_str()) != device);
    let mounts = mounts.map(|entry| format!("{} is mounted on {}", entry.source.display(), entry.point.display()));
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    mounts.chain(pids.filter_map(|pid| holder(pid, dir))).take(MOST).collect()
}

/// Where the file system with this device number is mounted in other mount namespaces, in words: for each of these a
/// process in it, as far as this user may see.
pub(super) fn elsewhere(device: &str) -> Vec<String> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut seen: Vec<PathBuf> = namespace("self").into_iter().collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some(space) = namespace(&pid.to_string()).filter(|space| !seen.contains(space)) else { continue };
        seen.push(space);
        let mounts = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        // Number, parent, device number, root, mount point.
        let point = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            (fields.get(2) == Some(&device)).then(|| fields.get(4).copied().unwrap_or_default().to_owned())
        });
        if let Some(point) = point {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("process {pid} ({}) has it on {point}", name.trim()));
        }
    }
    found.truncate(MOST);
    found
}

/// How a process uses something below `dir`.
fn holder(pid: u32, dir: &Path) -> Option<String> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let below = |link: PathBuf| fs::read_link(link).ok().filter(|path| path.starts_with(dir));
    let open_file = || {
        let mut files = fs::read_dir(proc.join("fd")).ok()?.flatten();
        files.find_map(|entry| below(entry.path()))
    };
    let mapped = || {
        let maps = fs::read_to_string(proc.join("maps")).ok()?;
        let path = |line: &str| Some(PathBuf::from(&line[line.find('/')?..]));
        maps.lines().filter_map(path).find(|path| path.starts_with(dir))
    };
    let (what, path) = below(proc.join("cwd"))
        .map(|path| ("the working directory", path))
        .or_else(|| below(proc.join("root")).map(|path| ("the root directory", path)))
        .or_else(|| below(proc.join("exe")).map(|path| ("the program", path)))
        .or_else(|| open_file().map(|path| ("open", path)))
        .or_else(|| mapped().map(|path| ("mapped", path)))?;
    let name = fs::read_to_string(proc.join("comm")).unwrap_or_default();
    Some(format!("process {pid} ({}) has {what} {}", name.trim(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_what_it_has_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let none: [String; 0] = [];
        assert_eq!(reasons(&path, None), none);
        let file = fs::File::create(path.join("file")).unwrap();
        let found = reasons(&path, None);
        assert_eq!(found.len(), 1);
        let (start, end) = (format!("process {} (", std::process::id()), format!(" has open {}/file", path.display()));
        assert!(found[0].starts_with(&start) && found[0].ends_with(&end), "{found:?}");
        drop(file);
        assert_eq!(reasons(&path, None), none);
    }

    #[test]
    fn mounts_below_are_named() {
        let found = reasons(Path::new("/proc"), None);
        assert!(found.iter().any(|reason| reason.ends_with(" is mounted on /proc")), "{found:?}");
    }
}
