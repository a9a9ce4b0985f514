//! What a process that serves a volume gives up: capabilities, core dumps, and the system calls that it does not make.
//!
//! A fault in it that an attacker can use is worth what is left. Kept true:
//! - A thread has no more than the thread that started it.
//! - A thing given up does not come back.
//! - A call that is refused is an error (EPERM) of that call, and ends no process. A library that tries it in vain does
//!   without.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::io;

/// The capabilities that serving takes, of those that the process has.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN // to unmount; the kernel's knobs of the mount
    .union(CapabilitySet::SYS_PTRACE) // to ask what rights callers have
    .union(CapabilitySet::DAC_OVERRIDE); // images and directories of other users; to say who uses a mount

/// The last capability that this build knows; later ones are refused by the kernel where it has them not.
const LAST: u32 = 63;

/// Writes no core dump of this process from now on: it has the contents of every user's files. Other processes of its
/// user may no longer look into it either.
///
/// # Errors
/// What the system says.
pub fn dump_no_core() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not hold for a program that takes dumps.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Leaves the calling thread, and those that it starts, the few capabilities that serving a mount takes, if it has
/// them. Others of the process keep theirs: call it before there are any.
///
/// # Errors
/// What the system says.
pub fn keep_few_capabilities() -> io::Result<()> {
    for number in 0..=LAST {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // Who may not, or has no such capability, has nothing to lose.
        if !KEPT.contains(capability) && remove_capability_from_bounding_set(capability) == Err(Errno::INVAL) {
            break;
        }
    }
    clear_ambient_capability_set()?;
    let has = capabilities(None)?;
    let kept = has.permitted & KEPT;
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?)
}

/// Refuses all threads of this process, and those to come, the system calls that serving a mount does not make. No
/// program that it starts can gain rights from then on, and none is started: that is refused, too.
///
/// # Errors
/// The kernel has no filters, or not for this processor.
pub fn refuse_other_system_calls() -> io::Result<()> {
    apply_filter_all_threads(&filter().map_err(io::Error::other)?).map_err(io::Error::other)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ANY.iter().map(|call| (*call, Vec::new())).collect();
    for (call, conditions) in limited() {
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    }
    let refused = SeccompAction::Errno(Errno::PERM.raw_os_error().unsigned_abs());
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Calls that are allowed with some arguments only: each line is one way.
fn limited() -> Vec<(i64, Vec<SeccompCondition>)> {
    let when = |argument: u8, len: SeccompCmpArgLen, is: SeccompCmpOp, value: u64| {
        SeccompCondition::new(argument, len, is, value).ok()
    };
    let own = u64::from(std::process::id());
    let executable = libc::PROT_EXEC.cast_unsigned().into();
    // The kind of a socket, without flags.
    const KIND: u64 = 0xf;
    // Whose an ioctl is: block devices, loop devices, FUSE.
    const WHOSE: u64 = 0xff00;
    const PR_SET_VMA: u64 = 0x5356_4d41;
    let ways = [
        (libc::SYS_mmap, vec![when(2, Dword, MaskedEq(executable), 0)]),
        (libc::SYS_mprotect, vec![when(2, Dword, MaskedEq(executable), 0)]),
        // For messages to the system's log and the service manager.
        (
            libc::SYS_socket,
            vec![
                when(0, Dword, Eq, libc::AF_UNIX.cast_unsigned().into()),
                when(1, Dword, MaskedEq(KIND), libc::SOCK_DGRAM.cast_unsigned().into()),
            ],
        ),
        (libc::SYS_ioctl, vec![when(1, Dword, MaskedEq(WHOSE), 0x12 << 8)]),
        (libc::SYS_ioctl, vec![when(1, Dword, MaskedEq(WHOSE), 0x4c << 8)]),
        (libc::SYS_ioctl, vec![when(1, Dword, MaskedEq(WHOSE), 229 << 8)]),
        // The standard library's way to say that nothing waits, and that a program gets no descriptor.
        (libc::SYS_ioctl, vec![when(1, Dword, Eq, libc::FIONBIO)]),
        (libc::SYS_ioctl, vec![when(1, Dword, Eq, libc::FIOCLEX)]),
        // Names of threads and of memory.
        (libc::SYS_prctl, vec![when(0, Dword, Eq, libc::PR_SET_NAME.cast_unsigned().into())]),
        (libc::SYS_prctl, vec![when(0, Dword, Eq, libc::PR_GET_NAME.cast_unsigned().into())]),
        (libc::SYS_prctl, vec![when(0, Dword, Eq, PR_SET_VMA)]),
        // To abort.
        (libc::SYS_tgkill, vec![when(0, Dword, Eq, own)]),
        // To look, not to set.
        (libc::SYS_prlimit64, vec![when(0, Dword, Eq, 0), when(2, Qword, Eq, 0)]),
    ];
    ways.into_iter().map(|(call, conditions)| (call, conditions.into_iter().flatten().collect())).collect()
}

/// Calls that are allowed with any arguments.
const ANY: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_setsid,
    libc::SYS_sigaltstack,
    // Time, numbers, the machine.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Files that are open.
    libc::SYS_close,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_sync_file_range,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    // Files by their names: those of chunks and of D2FS devices, /proc, the image of a mount that becomes writable.
    libc::SYS_chdir,
    libc::SYS_faccessat,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umount2,
    libc::SYS_unlinkat,
    // Metrics, and messages.
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Older spellings, which the C library uses.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socket};
    use rustix::process::{Pid, Signal, getpid, kill_process};
    use std::process::Command;
    use std::sync::Arc;
    use steadyfs_rt::queue::Queue;
    use steadyfs_rt::spawn;

    /// Set in the process that gives its rights up.
    const INSIDE: &str = "STEADYFS_TEST_SANDBOX";

    fn status(thread: &str) -> String {
        std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap()
    }

    fn refused<T>(result: rustix::io::Result<T>) -> bool {
        result.is_err_and(|errno| errno == Errno::PERM)
    }

    /// What is left in a process of its own, also to a thread that was there before.
    fn look_around() {
        let confined = Arc::new(Queue::unbounded());
        let told = Arc::clone(&confined);
        let other = spawn("other", move || {
            assert_eq!(told.pop(), Some(()));
            refused(socket(AddressFamily::PACKET, SocketType::RAW, None).map(drop))
        });
        dump_no_core().unwrap();
        keep_few_capabilities().unwrap();
        refuse_other_system_calls().unwrap();
        confined.push(()).unwrap();
        assert!(other.join().unwrap(), "a thread that was there");
        for thread in std::fs::read_dir("/proc/self/task").unwrap() {
            let status = status(thread.unwrap().file_name().to_str().unwrap());
            assert!(status.contains("\nNoNewPrivs:\t1\n") && status.contains("\nSeccomp:\t2\n"), "{status}");
        }
        let own = status(&rustix::thread::gettid().as_raw_nonzero().to_string());
        let set = |name: &str| {
            let line = own.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            CapabilitySet::from_bits_retain(u64::from_str_radix(line.trim(), 16).unwrap())
        };
        assert!(
            KEPT.contains(set("CapEff:")) && KEPT.contains(set("CapPrm:")) && KEPT.contains(set("CapBnd:")),
            "{own}"
        );
        assert_eq!(set("CapInh:") | set("CapAmb:"), CapabilitySet::empty(), "{own}");
        // Programs, other processes, networks, mounts, users.
        assert!(Command::new("/bin/true").status().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied));
        let traced = Errno::from_io_error(&crate::private::trace_me().unwrap_err());
        assert_eq!(traced, Some(Errno::PERM));
        assert!(refused(kill_process(getpid(), Signal::CONT)));
        assert!(refused(kill_process(Pid::INIT, Signal::CONT)));
        for (family, kind) in [
            (AddressFamily::PACKET, SocketType::RAW),
            (AddressFamily::INET, SocketType::STREAM),
            (AddressFamily::NETLINK, SocketType::RAW),
            (AddressFamily::UNIX, SocketType::STREAM),
        ] {
            assert!(refused(socket(family, kind, None)), "{family:?} {kind:?}");
        }
        assert!(socket(AddressFamily::UNIX, SocketType::DGRAM, None).is_ok());
        assert!(refused(rustix::mount::mount_bind("/", "/")));
        assert!(refused(rustix::fs::chownat(rustix::fs::CWD, "/nothing", None, None, rustix::fs::AtFlags::empty())));
        assert!(refused(rustix::thread::set_no_new_privs(false)));
        // Memory with code, and a terminal's input.
        assert!(crate::private::map_code().is_err());
        assert!(refused(rustix::termios::tcgetattr(io::stdin()).map(drop)));
        // What goes on.
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        socket.set_nonblocking(true).unwrap();
        assert_eq!(spawn("later", || vec![7u8; 10 << 20].len()).join().unwrap(), 10 << 20);
        assert!(std::fs::read("/proc/self/mountinfo").is_ok() && std::env::current_dir().is_ok());
        assert!(spawn("panics", || panic!("{}", std::backtrace::Backtrace::force_capture())).join().is_err());
    }

    #[test]
    fn other_calls_are_refused_to_every_thread() {
        if std::env::var_os(INSIDE).is_some() {
            look_around();
            return;
        }
        let test = "sandbox::tests::other_calls_are_refused_to_every_thread";
        let mut inside = Command::new(std::env::current_exe().unwrap());
        let out = inside.args([test, "--exact", "--nocapture"]).env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_call_is_in_one_list_once() {
        let mut all = ANY.to_vec();
        all.extend(limited().into_iter().map(|(call, _)| call).collect::<std::collections::BTreeSet<_>>());
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        // What must never be there.
        for call in [libc::SYS_execve, libc::SYS_execveat, libc::SYS_ptrace, libc::SYS_mount, libc::SYS_bpf] {
            assert!(!all.contains(&call));
        }
        assert!(limited().iter().all(|(_, conditions)| !conditions.is_empty()), "a condition was no condition");
    }
}
