#!/usr/bin/env bash
# Tries volumes on a zoned block device of the kernel (null_blk, in memory) in a virtual machine that is thrown away: mkfs -m, mounts, more
# writes than it holds, zones that wear out, a server that is killed, fsck after each.
#
# usage: tools/zoned.sh [STEADYFS]     the command to try; without one it is built
#
# Needs Debian (apt-get), qemu-system-x86_64 and cpio; see tools/vm.sh. Without hardware support the machine is emulated, which takes about
# ten times as long.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/target/ring
mkdir -p "$work"
. tools/vm.sh

command=${1:-}
[ -n "$command" ] || { cargo build -p steadyfs; command=target/debug/steadyfs; }
root=$work/zoned-root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,tmp,mnt,lib/modules,etc}
put "$command" steadyfs
for program in bash mount umount sync cat grep mkdir insmod uname dmesg sleep dd md5sum tail seq; do
    put "$(command -v "$program")" "$program"
done
ln -s bash "$root/bin/sh"
modules=$(echo "$work"/kernel/usr/lib/modules/*/kernel)
xz -dc "$modules/fs/configfs/configfs.ko.xz" >"$root/lib/modules/configfs.ko"
xz -dc "$modules/drivers/block/null_blk/null_blk.ko.xz" >"$root/lib/modules/null_blk.ko"
printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
cat >"$root/init" <<'INIT'
#!/bin/bash
export PATH=/bin HOME=/tmp RUST_BACKTRACE=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
insmod /lib/modules/configfs.ko; mount -t configfs none /sys/kernel/config
insmod /lib/modules/null_blk.ko nr_devices=0
uname -r
bad=0
# A command that must succeed, and one that must be refused with these words.
must() { echo "== $*"; "$@" || { echo "FAILED: $*"; bad=$((bad + 1)); }; }
refused() {
    local words=$1; shift; echo "== refused: $*"
    "$@" >/tmp/out 2>&1 && { echo "FAILED: $* was not refused"; bad=$((bad + 1)); }
    grep -q "$words" /tmp/out || { cat /tmp/out; echo "FAILED: it does not say '$words'"; bad=$((bad + 1)); }
}
# A disk of so many MiB with zones of 4 MiB: so many conventional ones, and so many that may be partly written.
disk() {
    local at=/sys/kernel/config/nullb/$1
    mkdir $at
    echo 1 >$at/memory_backed; echo $2 >$at/size; echo 1 >$at/zoned; echo 4 >$at/zone_size; echo $3 >$at/zone_nr_conv
    echo $4 >$at/zone_max_active; echo $4 >$at/zone_max_open; echo 1 >$at/power
}
fill() { dd if=/dev/urandom of=/mnt/$1 bs=$2 count=$3 conv=notrunc,fsync seek=${4:-0} 2>/dev/null || { echo "FAILED: writing $1"; bad=$((bad + 1)); }; }
start_mount() {
    echo '== steadyfs mount /dev/nullb0 /mnt'
    steadyfs mount /dev/nullb0 /mnt &
    for n in $(seq 1 300); do grep -q ' /mnt fuse' /proc/mounts && return; sleep 0.2; done
    echo 'FAILED: it does not mount'; bad=$((bad + 1))
}
disk nullb0 512 24 12
disk nullb1 256 0 0
disk nullb2 256 24 4
refused 'a volume there takes -m' steadyfs mkfs /dev/nullb0
refused 'conventional zones' steadyfs mkfs -m /dev/nullb1
must steadyfs mkfs -m /dev/nullb2
refused 'logs' steadyfs mount /dev/nullb2 /mnt
must steadyfs mkfs -m /dev/nullb0
start_mount
for n in 1 2 3 4 5 6; do
    fill f$n 1M 25; fill g 64k 1200; fill f$n 4k 500 $((n * 37))
done
md5sum /mnt/f* /mnt/g >/tmp/sums
must steadyfs umount /mnt
must steadyfs fsck /dev/nullb0
start_mount
must md5sum --quiet -c /tmp/sums
for n in $(seq 1 12); do fill h 1M 60; done
must md5sum --quiet -c /tmp/sums
steadyfs top --json /mnt | grep -A6 '"zones": {'
must steadyfs umount /mnt
must steadyfs fsck /dev/nullb0
# Sectors: zones that nothing has reached yet, or that are reset by now.
echo $((120 * 8192)) >/sys/kernel/config/nullb/nullb0/zone_offline
echo $((119 * 8192)) >/sys/kernel/config/nullb/nullb0/zone_readonly
start_mount
fill late 4k 3000
md5sum /mnt/late >>/tmp/sums
steadyfs top --json /mnt | grep -A6 '"zones": {'
for at in /proc/[0-9]*; do grep -q steadyfs $at/comm 2>/dev/null && kill -9 ${at#/proc/}; done
sleep 1; umount -l /mnt; sleep 1
start_mount
must md5sum --quiet -c /tmp/sums
must steadyfs umount /mnt
must steadyfs fsck /dev/nullb0
dmesg | grep -i 'nullb\|blk_update\|I/O error' | tail -5
echo "ZONED-CHECKS $bad"
echo o >/proc/sysrq-trigger; sleep 60
INIT
chmod +x "$root/init"

run_machine "${RING_ACCELERATOR:-tcg,thread=multi}" 2 1700 "${ZONED_SECONDS:-900}"
grep -q '^ZONED-CHECKS 0$' "$work/log" || { echo "failed: $work/log" >&2; exit 1; }
