#!/bin/sh
# The first half of the init of a QEMU machine: from the initial RAM disk into the host's root. @MODULES@ is filled in by qemu.rs.
export PATH=/bin
for module in @MODULES@; do insmod "/modules/$module" || echo "insmod $module failed"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose root /host
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
mount -t tmpfs tmpfs /host/run
chroot /host mkdir -p /run/host /run/mnt
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /host/run/host
exec chroot /host /bin/sh /run/host/init.sh
