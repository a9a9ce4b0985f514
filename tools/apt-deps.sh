#!/usr/bin/env bash
# Installs the Debian packages that the tests use, if any is missing. Says what to install where it cannot.
set -euo pipefail

packages=(f2fs-tools fuse3 systemd user-mode-linux kmod e2fsprogs attr acl libarchive-tools fio chromium jq)

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo)
  else
    echo "these Debian packages are missing: ${missing[*]}; install them: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
