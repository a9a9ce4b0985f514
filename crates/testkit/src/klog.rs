//! Reads a kernel log for signs that the kernel is not content.
//!
//! The console shows no priorities, so F2FS's messages are judged by a list of those that a sound volume causes: any
//! other one is a complaint, also one that we have never seen.

/// What F2FS says at notice or information priority about volumes that are in order, also after a crash.
const SOUND_F2FS: [&str; 18] = [
    "Mounted with checkpoint version",
    "Found nat_bits in checkpoint",
    "Disable nat_bits due to no space",
    "Rebuild and enable nat_bits",
    "checkpoint: version",
    "recover_inode: ",
    "recover_dentry: ",
    "recover_data: ",
    "recover xattr in inode",
    "Start checkpoint disabled!",
    "Ignore s_resuid",
    "write access unavailable, skipping recovery",
    "recover fsync data on readonly fs",
    "drop all fsynced data",
    "orphan cleanup on readonly fs",
    "Disable nat_bits due to incorrect cp_ver",
    "Using encoding defined by superblock",
    "Test dummy encryption mode enabled",
];

/// Parts of lines by which the kernel reports a fault of its own, a fault of a device or a hang.
const FAULTS: [&str; 19] = [
    "BUG:",
    "kernel BUG at",
    "WARNING:",
    "Oops",
    "Kernel panic",
    "general protection fault",
    "Unable to handle kernel",
    "Call Trace",
    "UBSAN",
    "KASAN",
    "refcount_t:",
    "list_add corruption",
    "list_del corruption",
    "blocked for more than",
    "soft lockup",
    "I/O error",
    "VFS: Busy inodes",
    "Quota error",
    "Out of memory",
];

/// The log without what user-mode Linux prints about its own terminals, and with plain line ends.
pub fn tidy(console: &str) -> String {
    let mut log = String::with_capacity(console.len());
    for line in console.lines().map(|l| l.trim_end_matches('\r')).filter(|l| !l.starts_with("epollctl add err")) {
        log.push_str(line);
        log.push('\n');
    }
    log
}

/// What the kernel said once it had started init; everything, if it did not come that far.
pub fn after_boot(log: &str) -> &str {
    log.split_once(" as init process\n").map_or(log, |(_, rest)| rest)
}

/// The lines that a sound volume on a sound device does not cause, less those that contain one of `expected`.
pub fn complaints(log: &str, expected: &[String]) -> Vec<String> {
    let known = |line: &str| expected.iter().any(|part| line.contains(part.as_str()));
    log.lines().filter(|line| is_complaint(line) && !known(line)).map(str::to_owned).collect()
}

fn is_complaint(line: &str) -> bool {
    if FAULTS.iter().any(|fault| line.contains(fault)) {
        return true;
    }
    let Some((_, rest)) = line.split_once("F2FS-fs") else { return false };
    let message = rest.split_once("): ").map_or(rest, |(_, message)| message);
    // A recovery message ends in an error number, 0 if all went well.
    let failed = message.starts_with("recover") && message.contains("err") && !ends_in_zero(message);
    failed || !SOUND_F2FS.iter().any(|sound| message.trim_start_matches([':', ' ']).starts_with(sound))
}

fn ends_in_zero(message: &str) -> bool {
    let number = message.trim_end_matches(')').rsplit(|c: char| !c.is_ascii_digit() && c != '-').next();
    number.is_some_and(|n| n == "0")
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn sound_volumes_cause_no_complaint() {
        let log = "F2FS-fs (ubda): Found nat_bits in checkpoint\n\
            F2FS-fs (ubda): recover_inode: ino = 1ae, name = a, inline = 1\n\
            F2FS-fs (ubda): recover_dentry: ino = 1ae, name = a, dir = 3, err = 0\n\
            F2FS-fs (ubda): recover_data: ino = 1ae (i_size: recover) recovered = 10, err = 0\n\
            F2FS-fs (ubda): recover xattr in inode (430), error(0)\n\
            F2FS-fs (ubda): Mounted with checkpoint version = 1c3\n\
            audit: initializing netlink subsys (disabled)\n";
        assert_eq!(complaints(log, &[]), Vec::<String>::new());
    }

    #[test]
    fn faults_are_complaints() {
        for line in [
            "F2FS-fs (ubda): inconsistent node block, nid:5",
            "F2FS-fs (ubda): recover_data: ino = 1ae (i_size: keep) recovered = 1, err = -117",
            "F2FS-fs (ubda): recover xattr in inode (430), error(-12)",
            "F2FS-fs error (device ubda): something new",
            "WARNING: CPU: 0 PID: 1 at fs/f2fs/node.c:12",
            "kernel BUG at fs/f2fs/segment.c:1!",
            "Kernel panic - not syncing: Attempted to kill init!",
            "Buffer I/O error on dev ubda, logical block 3",
        ] {
            assert_eq!(complaints(&format!("boot\n{line}\n"), &[]), [line]);
        }
    }

    #[test]
    fn expected_complaints_are_none() {
        let log = "F2FS-fs (ubda): Magic Mismatch, valid(0xf2f52010) - read(0x0)\nWARNING: other";
        assert_eq!(complaints(log, &["Magic Mismatch".to_owned()]), ["WARNING: other"]);
    }
}
