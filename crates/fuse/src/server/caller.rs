//! The process that asks: its groups, its capabilities and its memory. A request names its user, one group and its
//! process; the rest stands in `/proc`.

use crate::wire::abi::InHeader;
use std::os::unix::fs::FileExt;

/// Whether the caller is in a group. Of a process that is gone, or in a namespace that this one does not see, the
/// request's own group is all that is known.
pub(super) fn is_in_group(caller: &InHeader, group: u32) -> bool {
    caller.gid == group || (caller.pid != 0 && has_group(&status(caller.pid), group))
}

/// The number of `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether the caller may administer the system: it is root, has `CAP_SYS_ADMIN`, and has it where this process lives,
/// not in a user namespace of its own. Not if that cannot be seen.
///
/// Only root's capabilities are believed. They are those that the process has now, and one of another user may have
/// become something else since it asked.
pub(super) fn is_administrator(caller: &InHeader) -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
    caller.uid == 0
        && caller.pid != 0
        && has_capability(&status(caller.pid), CAP_SYS_ADMIN)
        && namespace(&caller.pid.to_string()).is_some_and(|theirs| namespace("self") == Some(theirs))
}

/// Whether a process with this `/proc/PID/status` has the capability.
fn has_capability(status: &str, capability: u32) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> capability & 1 == 1)
}

/// Bytes of the caller's memory. `None` where this process may not see them. Waits for pages that are not in memory:
/// no gate may be held.
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
    fn capabilities_are_bits() {
        let status =
            |set| format!("Name:\tcat\nCapPrm:\t000001ffffffffff\nCapEff:\t{set}\nCapBnd:\t000001ffffffffff\n");
        assert!(has_capability(&status("0000000000200000"), CAP_SYS_ADMIN));
        assert!(!has_capability(&status("000001ffffdfffff"), CAP_SYS_ADMIN));
        assert!(!has_capability(&status("x"), CAP_SYS_ADMIN) && !has_capability("", CAP_SYS_ADMIN));
    }

    #[test]
    fn supplementary_groups_count() {
        let status = "Name:\tcat\nUid:\t1\t1\t1\t1\nGid:\t7\t7\t7\t7\nGroups:\t4 24 \nNStgid:\t9\n";
        assert!(has_group(status, 24) && !has_group(status, 2) && !has_group(status, 7) && !has_group("", 24));
    }
}
