#!/usr/bin/env bash
# The workload of `lab run scalelfs-fig9` on the real F2FS, in user-mode Linux: what it writes, moves and checkpoints for it, beside what ours does (docs/lab/results/F2FS.md).
# usage: tools/real-f2fs.sh [MOUNT-OPTIONS [IPU-POLICY]]   for example: alloc_mode=default 16, or mode=lfs
# MIB (1920: the partition of Figure 9 at 1/16), JOBS (48) and PASSES (4: the share of the file that is written) are taken from the environment.
# MEM (700) is what the machine has in MiB: it decides how many pages are dirty in memory, and collection writes those for nothing.
# Needs the packages user-mode-linux, kmod, f2fs-tools and fio, and MIB of room in SCRATCH (/var/tmp). The rate is that of one CPU with slow system calls; the counts are what compares.
set -euo pipefail
options=${1:-mode=lfs} policy=${2:-}
mib=${MIB:-1920} jobs=${JOBS:-48} passes=${PASSES:-4}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release -q -p steadyfs-testkit
image=$(mktemp "${SCRATCH:-/var/tmp}/real-f2fs.XXXXXX")
trap 'rm -f "$image"' EXIT
truncate -s "${mib}M" "$image"
mkfs.f2fs -q -f -t 0 "$image"
# Volumes up to 16 GiB overwrite in place by default; a policy given here makes them do what larger ones do.
target/release/steadyfs-uml --disk "$image" --seconds 1800 --mem "${MEM:-700}" "
mount -t f2fs -o noatime,nodiscard,$options /dev/ubda \$MNT
kernel=/sys/fs/f2fs/ubda
[ -z '$policy' ] || echo '$policy' >\$kernel/ipu_policy
# As full as the experiment: 94 % of what is there to be used, root directory and all.
size=\$((\$(df -k --output=avail \$MNT | tail -1) * 943 / 1000 / $jobs / 4 * 4))
common=\"--directory=\$MNT --name=j --numjobs=$jobs --size=\${size}k --ioengine=psync --fallocate=none --end_fsync=1 --group_reporting\"
# In whole blocks of the size: a job that finds its file shorter than --size empties it before it begins.
fio \$common --rw=write --bs=4k >/dev/null 2>&1
[ \$(du -k --apparent-size \$MNT/j.0.0 | cut -f1) = \$size ] || echo \"the files are not whole\"
sync
counts() {
    (cd \$kernel && cat gc_foreground_calls moved_blocks_foreground cp_foreground_calls cp_background_calls)
    awk '{ print \$5, \$7 / 8, \$3 / 8 }' /sys/block/ubda/stat
}
echo 1 >\$kernel/iostat_enable
before=\$(counts)
while sleep 2; do awk '/^Dirty/ { print \$2 / 4 }' /proc/meminfo >>\$HOST/dirty; done &
watch=\$!
fio \$common --rw=randwrite --bs=4k --io_size=\$((size * $passes))k --norandommap --randrepeat=0 --eta=never | grep 'write: IOPS'
sync
kill \$watch
awk -F: '/WRITE/ { w = 1 } /READ/ { w = 0 } w && \$2 > 0 { printf \"blocks written: %-22s %d\\n\", \$1, \$2 / 4096 }' /proc/fs/f2fs/ubda/iostat_info
echo \"\$before\" \$(counts) | xargs | awk -v pages=\$((size * $passes / 4 * $jobs)) '{
    printf \"pages written by the application      %d\\n\", pages
    printf \"collections asked for by writers      %d\\n\", \$8 - \$1
    printf \"blocks moved                          %d\\n\", \$9 - \$2
    printf \"checkpoints                           %d\\n\", \$10 + \$11 - \$3 - \$4
    printf \"write requests                        %d\\n\", \$12 - \$5
    printf \"blocks written                        %d (%.2f for each page)\\n\", \$13 - \$6, (\$13 - \$6) / pages
    printf \"blocks read                           %d\\n\", \$14 - \$7
}'
awk -v pages=\$((size / 4 * $jobs)) '{ sum += \$1 } END { printf \"pages dirty in memory, on average       %d (%.1f of 100 pages)\\n\", sum / NR, sum / NR / pages * 100 }' \$HOST/dirty
umount \$MNT"
