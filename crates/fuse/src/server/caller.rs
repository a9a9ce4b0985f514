//! The process that asks: its groups and its memory. A request names its user, one group and its process; the rest stands in `/proc`.

use crate::wire::abi::InHeader;
use std::os::unix::fs::FileExt;

/// Whether the caller is in a group. Of a process that is gone, or in a namespace that this one does not see, the request's own group is all that is known.
pub(super) fn is_in_group(caller: &InHeader, group: u32) -> bool {
    caller.gid == group || (caller.pid != 0 && has_group(&status(caller.pid), group))
}

/// Bytes of the caller's memory. `None` where this process may not see them.
pub(super) fn memory<const N: usize>(caller: &InHeader, address: u64) -> Option<[u8; N]> {
    let memory = std::fs::File::open(format!("/proc/{}/mem", caller.pid)).ok()?;
    let mut bytes = [0; N];
    memory.read_exact_at(&mut bytes, address).ok().map(|()| bytes)
}

fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// Whether a process with this `/proc/PID/status` has the supplementary group.
fn has_group(status: &str, group: u32) -> bool {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    groups.is_some_and(|groups| groups.split_whitespace().any(|known| known.parse() == Ok(group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supplementary_groups_count() {
        let status = "Name:\tcat\nUid:\t1\t1\t1\t1\nGid:\t7\t7\t7\t7\nGroups:\t4 24 \nNStgid:\t9\n";
        assert!(has_group(status, 24) && !has_group(status, 2) && !has_group(status, 7) && !has_group("", 24));
    }
}
