//! How much memory this process may use, and what a mount does where that is little.

use std::fs;
use std::path::Path;

/// Below this many bytes a mount takes `memory=low`: with its own limits it may hold 600 MiB.
pub(crate) const LITTLE: u64 = 640 << 20;

/// Where the two versions of control groups say how much memory there may be: how `/proc/self/cgroup` names them, where
/// they are mounted, and the file.
const CONTROLLERS: [(&str, &str, &str); 3] =
    [("", "", "memory.max"), ("", "unified", "memory.max"), ("memory", "memory", "memory.limit_in_bytes")];

/// The least of what the machine has and what the control groups and the limits of this process allow, in bytes.
pub(crate) fn limit() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").ok().map(|text| groups(&text, Path::new("/sys/fs/cgroup")));
    machine.into_iter().chain(groups).chain(addresses()).min().unwrap_or(u64::MAX)
}

/// How many addresses this process may have (`ulimit -v`), in bytes, if they are limited.
pub(crate) fn addresses() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// `MemTotal` of `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The least limit of the process' groups and those above them, below `root`. `cgroup` is the text of
/// `/proc/self/cgroup`: `NUMBER:CONTROLLERS:/GROUP`.
fn groups(cgroup: &str, root: &Path) -> u64 {
    let lines: Vec<(&str, &str)> = cgroup.lines().filter_map(|line| line.split_once(':')?.1.split_once(":/")).collect();
    let limits = CONTROLLERS.iter().flat_map(|(name, dir, file)| {
        let group = lines.iter().find(|(names, _)| names.split(',').any(|n| n == *name)).map(|(_, group)| *group);
        let above = group.into_iter().flat_map(|group| Path::new(group).ancestors());
        above.filter_map(move |group| {
            let text = fs::read_to_string(root.join(dir).join(group).join(file)).ok()?;
            text.trim().parse().ok() // else it is `max`
        })
    });
    limits.min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        let limit = || groups("1:name=systemd:/\n0::/outer/inner\n", root.path());
        assert_eq!(limit(), u64::MAX);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(), u64::MAX);
        fs::write(root.path().join("outer/memory.max"), "134217728\n").unwrap();
        assert_eq!(limit(), 128 << 20);
        fs::write(inner.join("memory.max"), "67108864\n").unwrap();
        assert_eq!(limit(), 64 << 20);
        assert_eq!(groups("", root.path()), u64::MAX);
        let first = root.path().join("memory/a/b");
        fs::create_dir_all(&first).unwrap();
        fs::write(first.join("memory.limit_in_bytes"), "1048576\n").unwrap();
        let first_version = "4:cpu,memory:/a/b\n1:cpu:/\n0::/\n";
        assert_eq!(groups(first_version, root.path()), 1 << 20);
        assert_eq!(machine("MemFree: 1 kB\nMemTotal:       24682496 kB\n"), Some(24_682_496 << 10));
        assert_eq!(machine("MemTotal: much"), None);
    }
}
