#!/bin/sh
# The init of user-mode Linux. @NAME@ is filled in by uml.rs. The root is the host's, read-only; @HOST@ is the only writable part of it.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mkdir -p /dev/shm /run/host /run/mnt
mount -t hostfs none /dev/shm -o /dev/shm
mount -t hostfs none /run/host -o @HOST@
exec >/dev/tty1 2>&1 </dev/null
stty -F /dev/tty1 -opost
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for module in @MODULES@; do
    if ! insmod "@MODULE_ROOT@/$module.ko"; then
        echo o >/proc/sysrq-trigger
        sleep 60
    fi
done
. /run/host/run.sh
