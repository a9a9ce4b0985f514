#!/usr/bin/env bash
# Runs tests of the mount with requests through io_uring, in a virtual machine that is thrown away: some of them kill serving processes, which
# on a ring may leave a mount that nothing ends but `abort` in /sys/fs/fuse/connections, or a reboot.
#
# usage: tools/ring.sh [FILTER...]     tests of `cargo test -p steadyfs-fuse --test mount`; without one, plain::, concurrent::, ends::, kill::, race::, journal::
#
# Needs Debian (apt-get), qemu-system-x86_64 and cpio. The kernel is the newest 6.18 of trixie-backports, below target/ring. Without hardware
# support the machine is emulated, which takes about ten times as long. RING_TESTS names a program of tests that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
filters=("$@")
[ ${#filters[@]} -gt 0 ] || filters=(plain:: concurrent:: ends:: kill:: race:: journal::)
memory=${RING_MEMORY:-3072} processors=${RING_PROCESSORS:-2} seconds=${RING_SECONDS:-1500}
work=$PWD/target/ring
mkdir -p "$work"

. tools/vm.sh

tests=${RING_TESTS:-}
[ -n "$tests" ] || tests=$(cargo test -p steadyfs-fuse --test mount --no-run --message-format=json | grep -o '"executable":"[^"]*mount-[^"]*"' | cut -d'"' -f4 | tail -1)
root=$work/root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,tmp,lib/modules,etc}
put "$tests" mount-tests
for program in bash env mount umount sync cp cat ls grep mkdir insmod fsck.f2fs losetup uname dmesg sleep chattr dd fio; do
    put "$(command -v "$program")" "$program"
done
ln -s bash "$root/bin/sh"
modules=$(echo "$work"/kernel/usr/lib/modules/*/kernel/drivers/block)
xz -dc "$modules/loop.ko.xz" >"$root/lib/modules/loop.ko"
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
cat >"$root/init" <<INIT
#!/bin/bash
export PATH=/bin HOME=/tmp STEADYFS_TEST_RING=1 RUST_BACKTRACE=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/shm; mount -t tmpfs -o size=75% shm /dev/shm
mount -t tmpfs tmp /tmp; mount -t fusectl none /sys/fs/fuse/connections
insmod /lib/modules/loop.ko max_loop=16
echo Y >/sys/module/fuse/parameters/enable_uring
uname -r
mount-tests ${filters[*]} --test-threads=1
echo "RING-TESTS \$?"
echo o >/proc/sysrq-trigger; sleep 60
INIT
chmod +x "$root/init"

log=$work/log
run_machine "${RING_ACCELERATOR:-tcg,thread=multi}" "$processors" "$memory" "$seconds" | grep --line-buffered -E '^(test |running|RING|[0-9]+\.[0-9]+\.|    |----|thread|failures)' || true
grep -q '^RING-TESTS 0$' "$log" || { echo "failed: $log" >&2; exit 1; }
