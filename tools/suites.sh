#!/usr/bin/env bash
# Runs others' suites on a mount: suites.sh [SUITE...], of pjdfstest, fsx (10,000 operations with each seed, in every way
# to cache) and stress-ng (its file system class); all of them if none is named. Needs root, and stress-ng the Debian
# package of its name; installs pjdfstest and fsx from crates.io below target/. `suites.sh --install` does only that.
# STEADYFS is the command to mount with, SUITES where the suites are installed, SEEDS what fsx runs with: 20 seeds, or a
# list.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
steadyfs=${STEADYFS:-target/release/steadyfs}
tools=${SUITES:-target/suites}

declare -A versions=([pjdfstest]=0.2.2 [fsx]=0.3.2)
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(pjdfstest fsx stress-ng)

# A fixed version and its own lock file, so that today's suite is tomorrow's. They wait for the kernel, so optimising
# them takes longer than it saves, but for fsx' own code, which makes and compares contents byte by byte; what both
# depend on is built once.
installed() {
  local version=${versions[$1]}
  [ -x "$tools/bin/$1" ] || CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" \
    --config 'profile.release.package.fsx.opt-level=2' "$1@$version"
}

if [ "${suites[*]}" = --install ]; then
  for suite in "${!versions[@]}"; do
    installed "$suite"
  done
  exit
fi

scratch=$(mktemp -d /dev/shm/steadyfs-suites-XXXXXX)
chmod 755 "$scratch" # the tests act as other users
image=$scratch/volume.img mnt=$scratch/mnt
cleanup() {
  local at
  for at in "$scratch"/*/; do
    mountpoint -q "$at" && umount -l "$at"
  done
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

run_pjdfstest() {
  installed pjdfstest
  mount_volume
  "$tools/bin/pjdfstest" -c tools/pjdfstest.toml -p "$mnt" >"$scratch/pjdfstest.log" || true
  tail -n 1 "$scratch/pjdfstest.log"
  grep -q ' 0 failed' "$scratch/pjdfstest.log" || { grep -i 'failed' "$scratch/pjdfstest.log"; exit 1; }
  skipped=$(sed -n 's/.* \([0-9]*\) skipped.*/\1/p' "$scratch/pjdfstest.log" | tail -n 1)
  [ "$skipped" -le 16 ] || { echo "$skipped tests were skipped, more than 16" >&2; exit 1; }
  unmount_volume
}

# One way to cache, on a volume of its own.
fsx_with() {
  local cache=$1
  image=$scratch/$cache.img mnt=$scratch/$cache
  mkdir "$mnt"
  "$steadyfs" mkfs --quiet "$image" 1G
  mount_volume -o "$cache"
  # fsx unmaps nothing. In a run of 100,000 operations the kernel goes through 20,000 mappings of the file for each of
  # the later ones, which takes five times as long as ten runs of 10,000.
  for seed in ${SEEDS:-$(seq 20)}; do
    echo "fsx: $cache, seed $seed"
    "$tools/bin/fsx" -N 10000 -S "$seed" -f tools/fsx.toml -P "$scratch" "$mnt/fsx-$seed"
  done
  unmount_volume
}

# fsx itself has no direct I/O: on the mount without a kernel cache all of it is (but for mapped files). All ways at
# once: each mostly waits for the kernel.
run_fsx() {
  installed fsx
  local cache failed="" runs=()
  for cache in writeback_cache writethrough direct_io; do
    fsx_with "$cache" >"$scratch/$cache.log" 2>&1 &
    runs+=("$cache:$!")
  done
  for run in "${runs[@]}"; do
    wait "${run#*:}" || failed+=" ${run%:*}"
    cat "$scratch/${run%:*}.log"
  done
  [ -z "$failed" ] || { echo "fsx failed:$failed" >&2; exit 1; }
}

run_stress-ng() {
  mount_volume
  stress-ng --temp-path "$mnt" --class filesystem --sequential 1 -t 1s --verify \
    -x bind-mount,binderfs,dnotify,eventfd,fanotify,inotify,ioprio,procfs,verity,getdent
  unmount_volume
}

mkdir "$mnt"
"$steadyfs" mkfs --quiet "$image" 4G # stress-ng writes files of 1 GiB
for suite in "${suites[@]}"; do
  [ "$(type -t "run_$suite")" = function ] || { echo "no suite '$suite': pjdfstest, fsx or stress-ng" >&2; exit 2; }
  echo "== $suite"
  "run_$suite"
done
echo "passed: ${suites[*]}"
