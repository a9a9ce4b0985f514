#!/bin/sh
# The init of the user-mode kernel: prepares the machine, runs the test's script, ends the machine. @NAME@ is filled in by uml/mod.rs.
# The root is the host's, read-only; @HOST@ (seen as $HOST) is the only writable part of it. Programs are slow to start here
# (20 ms each), so as few as possible are.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mkdir -p /dev/shm /run/host /run/mnt
mount -t hostfs none /dev/shm -o /dev/shm
mount -t hostfs none /run/host -o @HOST@
# A machine that runs out of memory would crawl until its time is up.
echo 1 >/proc/sys/vm/panic_on_oom
exec >/dev/tty1 2>&1 </dev/null
stty -F /dev/tty1 -opost
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C
export HOST=/run/host MNT=/run/mnt
for module in @MODULES@; do insmod "@MODULE_ROOT@/$module.ko" || echo "insmod $module failed"; done
echo "@BEGIN@"
sh -eu /run/host/script.sh
status=$?
if [ "@UNMOUNT@" = yes ] && grep -q ' f2fs ' /proc/mounts; then
    umount -a -t f2fs || [ $status -ne 0 ] || status=@BUSY@
fi
echo "@END@ $status"
# Off at once: no sync, no unmount.
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
