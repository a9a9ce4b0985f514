# What every machine does once its file systems are mounted: runs the test's script and goes off. @NAME@ is filled in by mod.rs.
# Programs are slow to start in user-mode Linux (20 ms each), so as few as possible are.
# A machine that runs out of memory would crawl until its time is up.
echo 1 >/proc/sys/vm/panic_on_oom
export HOME=/run TMPDIR=/run LC_ALL=C
export HOST=/run/host MNT=/run/mnt
echo "@BEGIN@"
# The kernel's own driver: on a host that has SteadyFS, /sbin/mount.f2fs may be a link to it, and the machine sees the host's /sbin.
sh -euc 'mount() { command mount -i "$@"; }; . /run/host/script.sh'
status=$?
if [ "@UNMOUNT@" = yes ] && grep -q ' f2fs ' /proc/mounts; then
    umount -a -t f2fs || [ $status -ne 0 ] || status=@BUSY@
fi
echo "@END@ $status"
# Off at once: no sync, no unmount.
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
