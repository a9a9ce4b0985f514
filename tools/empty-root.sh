#!/usr/bin/env bash
# Uses a static program of SteadyFS where nothing else is: in an empty root directory. Needs root.
#
# usage: empty-root.sh PROGRAM
set -euo pipefail
program=$1
if readelf -l "$program" | grep -q INTERP; then
  echo "empty-root: $program asks for a dynamic linker" >&2
  exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -m 755 "$program" "$root/steadyfs"
inside() {
  chroot "$root" /steadyfs "$@"
}
inside --version
inside mkfs -q /a.img 100M
# Copying in and out asks /proc, which is not here.
inside mkdir /a.img /today
inside ls /a.img / | grep -x today >/dev/null
inside fsck /a.img | tail -n 1
inside lab run smoke >"$root/said" || { cat "$root/said"; exit 1; }
echo "empty-root: $program ran mkfs, mkdir, ls, fsck and the experiment smoke in an empty directory"
