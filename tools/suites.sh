#!/usr/bin/env bash
# Runs others' suites on a mount: pjdfstest, fsx (100,000 operations in every way to cache) and stress-ng's file system class. Needs root, and the Debian
# package stress-ng; installs pjdfstest and fsx from crates.io below target/. `make suites` builds the command first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
steadyfs=${STEADYFS:-target/release/steadyfs}
tools=${SUITES:-target/suites}

for tool in pjdfstest fsx; do
  [ -x "$tools/bin/$tool" ] || cargo install --quiet --root "$tools" "$tool"
done

scratch=$(mktemp -d /dev/shm/steadyfs-suites-XXXXXX)
chmod 755 "$scratch" # the tests act as other users
image=$scratch/volume.img mnt=$scratch/mnt
cleanup() {
  mountpoint -q "$mnt" && umount -l "$mnt"
  rm -rf "$scratch"
}
trap cleanup EXIT

mount_volume() {
  "$steadyfs" mount "$@" "$image" "$mnt" &
  server=$!
  for _ in $(seq 100); do
    mountpoint -q "$mnt" && return
    sleep 0.1
  done
  echo "the volume was not mounted" >&2
  exit 1
}

unmount_volume() {
  umount "$mnt"
  wait "$server"
  "$steadyfs" fsck "$image"
}

mkdir "$mnt"
mount_volume --create 4G # stress-ng writes files of 1 GiB

echo "== pjdfstest"
"$tools/bin/pjdfstest" -c tools/pjdfstest.toml -p "$mnt" >"$scratch/pjdfstest.log" || true
tail -n 1 "$scratch/pjdfstest.log"
grep -q ' 0 failed' "$scratch/pjdfstest.log" || { grep -i 'failed' "$scratch/pjdfstest.log"; exit 1; }
skipped=$(sed -n 's/.* \([0-9]*\) skipped.*/\1/p' "$scratch/pjdfstest.log" | tail -n 1)
[ "$skipped" -le 16 ] || { echo "$skipped tests were skipped, more than 16" >&2; exit 1; }

unmount_volume

# fsx itself has no direct I/O: on the mount without a kernel cache all of it is (but for mapped files).
for cache in writeback_cache writethrough direct_io; do
  echo "== fsx, $cache"
  mount_volume -o "$cache"
  for seed in 1 2; do
    "$tools/bin/fsx" -N 100000 -S "$seed" -f tools/fsx.toml -P "$scratch" "$mnt/fsx-$seed"
  done
  unmount_volume
done

echo "== stress-ng"
mount_volume
stress-ng --temp-path "$mnt" --class filesystem --sequential 1 -t 1s --verify \
  -x bind-mount,binderfs,dnotify,eventfd,fanotify,inotify,ioprio,procfs,verity,getdent
unmount_volume
echo "all suites passed"
