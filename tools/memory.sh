#!/usr/bin/env bash
# Tells what memory the server of a mount takes: peak (VmHWM) and present after 200,000 files, random writes, a walk, and a removal. As root.
# Usage: tools/memory.sh [OPTIONS [FILES]]; OPTIONS are those of `mount -o`. Needs fio, and 2 GiB in /dev/shm at most.
set -euo pipefail

options=${1:-memory=low} files=${2:-200000} steadyfs=${STEADYFS:-target/release/steadyfs}
dir=$(mktemp -d -p /dev/shm)
trap 'umount "$dir/mnt" 2>/dev/null || true; rm -rf --one-file-system "$dir"' EXIT

"$steadyfs" mkfs -q "$dir/image" 2G
"$steadyfs" mount -o "$options" "$dir/image" "$dir/mnt" >"$dir/said" &
server=$!
until grep -q '^requests come' "$dir/said"; do kill -0 "$server"; sleep 0.1; done
tell() {
  awk -v what="$1" '/^VmHWM/ { peak = $2 } /^VmRSS/ { now = $2 } END { printf "%-16s peak %4d MiB, now %4d MiB\n", what, peak / 1024, now / 1024 }' \
    "/proc/$server/status"
}

tell mounted
for ((i = 0; i < files; i++)); do
  ((i % 1000)) || mkdir "$dir/mnt/$((i / 1000))"
  echo "$i" >"$dir/mnt/$((i / 1000))/$i"
done
tell "$files files"
fio --name=big --directory="$dir/mnt" --size=600m --rw=randwrite --bs=4k --fsync=2000 --io_size=240m --randseed=1 --output="$dir/fio"
tell "random writes"
find "$dir/mnt" -type f -size +0 | wc -l >"$dir/walked"
tell "walked"
rm -rf "$dir"/mnt/[0-9]*
tell "removed"
sleep 15
tell "15 s later"
umount "$dir/mnt"
wait "$server"
