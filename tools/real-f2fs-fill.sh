#!/usr/bin/env bash
# Write amplification of the real F2FS, in user-mode Linux, by how full the volume is: random overwrites of 4 KiB by one job, 64 of them written back at a time (docs/lab/results/F2FS.md). `lab run f2fs-fill` is the same on ours.
# usage: tools/real-f2fs-fill.sh [MOUNT-OPTIONS [IPU-POLICY]]   for example: mode=lfs, or alloc_mode=default 16
# MIB (512: the volume), SHARES (50 60 70 80 90 96: hundredths of the users' space that the file takes) and PASSES (2: what is overwritten before it counts, and again while it does, in sizes of the volume) are taken from the environment.
# The file has whole MiB: fio writes whole blocks of 1 MiB, and a job that finds its file shorter than --size empties it before it begins.
# Discards are off, and writes go through the page cache: with discards on, or direct, this kernel runs out of segments in mode=lfs, and panics or goes on for ever.
# Needs the packages user-mode-linux, kmod, f2fs-tools and fio, and MIB of room in SCRATCH (/var/tmp).
set -euo pipefail
options=${1:-mode=lfs} policy=${2:-}
mib=${MIB:-512} passes=${PASSES:-2} shares=${SHARES:-50 60 70 80 90 96}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release -q -p steadyfs-testkit
image=$(mktemp "${SCRATCH:-/var/tmp}/real-f2fs.XXXXXX")
trap 'rm -f "$image"' EXIT
echo "full  blocks written  for each page  moved  checkpoints"
for share in $shares; do
    truncate -s 0 "$image"
    truncate -s "${mib}M" "$image"
    mkfs.f2fs -q -f -t 0 "$image"
    target/release/steadyfs-uml --disk "$image" --seconds 3600 --mem "${MEM:-400}" "
mount -t f2fs -o noatime,nodiscard,$options /dev/ubda \$MNT
kernel=/sys/fs/f2fs/ubda
[ -z '$policy' ] || echo '$policy' >\$kernel/ipu_policy
size=\$((\$(df -k --output=avail \$MNT | tail -1) * $share / 100 / 1024 * 1024))
common=\"--directory=\$MNT --name=j --size=\${size}k --ioengine=psync --fallocate=none --end_fsync=1\"
fio \$common --rw=write --bs=1M >/dev/null 2>&1
kept() {
    [ \$(du -k --apparent-size \$MNT/j.0.0 | cut -f1) = \$size ] && [ \$(du -k \$MNT/j.0.0 | cut -f1) -ge \$size ] || echo \"$share: the file is not whole: \$(du -k \$MNT/j.0.0)\"
}
kept
counts() {
    sync
    (cd \$kernel && cat moved_blocks_foreground moved_blocks_background cp_foreground_calls cp_background_calls)
    awk '{ print \$7 / 8 }' /sys/block/ubda/stat
}
overwrite() {
    fio \$common --rw=randwrite --bs=4k --sync_file_range=write:64 --io_size=$((mib * passes))m --norandommap --randseed=\$1 --eta=never >/dev/null
}
overwrite 1
before=\$(counts)
overwrite 2
kept
echo \"\$before\" \$(counts) | xargs | awk -v pages=$((mib * passes * 256)) '{
    printf \"$share  %d  %.3f  %d  %d\\n\", \$10 - \$5, (\$10 - \$5) / pages, \$6 + \$7 - \$1 - \$2, \$8 + \$9 - \$3 - \$4
}'
umount \$MNT"
done
