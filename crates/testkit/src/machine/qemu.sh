#!/bin/sh
# The second half of the init of a QEMU machine, in the host's root, which is mounted read-only. @NAME@ is filled in by qemu.rs.
exec >/dev/ttyS1 2>&1 </dev/null
stty -F /dev/ttyS1 -opost
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if ! modprobe -d @KERNEL_ROOT@ -a @MODULES@; then
    echo o >/proc/sysrq-trigger
    sleep 60
fi
. /run/host/run.sh
