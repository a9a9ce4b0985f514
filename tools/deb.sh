#!/usr/bin/env bash
# Makes the Debian package of a program of SteadyFS that split-debug.sh stripped, below target/release-artifacts.
#
# deb.sh PROGRAM     needs dpkg-dev; asks lintian, if that is installed
# deb.sh --test      installs that package in a clean root, uses it, removes it, and looks for what is left. Needs root,
#                    and mmdebstrap with Debian's packages, once: the root is kept in target/deb/base.tar
#
# DEBFULLNAME and DEBEMAIL say who maintains the package, as for Debian's own tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
work=target/deb root=$PWD/target/deb/root
deb=target/release-artifacts/steadyfs_$version-1_$architecture.deb

# Which libraries of which versions the program needs.
depends() {
  local scratch
  scratch=$(mktemp -d)
  mkdir "$scratch/debian"
  printf 'Source: steadyfs\n\nPackage: steadyfs\nArchitecture: any\n' >"$scratch/debian/control"
  cp "$1" "$scratch/steadyfs"
  (cd "$scratch" && dpkg-shlibdeps -O steadyfs 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  rm -r "$scratch"
}

documents() {
  local doc=$root/usr/share/doc/steadyfs
  install -d "$doc" "$root/usr/share/lintian/overrides"
  tools/copyright.sh >"$doc/copyright"
  gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
  gzip -9n >"$doc/changelog.Debian.gz" <<CHANGES
steadyfs ($version-1) unstable; urgency=medium

  * SteadyFS $version: changelog.gz lists what it has.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGES
  install -m 644 service/debian/lintian-overrides "$root/usr/share/lintian/overrides/steadyfs"
  find "$root/usr/share/man" -type f -exec gzip -9n {} +
}

control() {
  local repository
  repository=$(sed -n 's/^repository = "\(..*\)"/\1/p' Cargo.toml)
  cat <<CONTROL
Package: steadyfs
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -k --apparent-size -s "$root/usr" | cut -f 1)
Depends: $(depends "$root/usr/bin/steadyfs")
Recommends: fuse3
Suggests: f2fs-tools
Section: admin
Priority: optional
${repository:+Homepage: $repository
}Description: log-structured file system in user space that speaks F2FS
 SteadyFS mounts F2FS volumes through FUSE, and reads, writes, makes and checks
 their images without mounting: no kernel driver of F2FS is needed, and for
 images no root. It keeps its write bandwidth steady while garbage is collected.
 .
 Its laboratory runs the designs of several papers on log-structured file
 systems in virtual time, and its crash explorer cuts the power at every write.
CONTROL
}

build() {
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
  export SOURCE_DATE_EPOCH
  maintainer="${DEBFULLNAME:-The SteadyFS developers} <${DEBEMAIL:-steadyfs@localhost}>"
  umask 022
  rm -rf "$root"
  mkdir -p "$root/DEBIAN" "$(dirname "$deb")"
  make -s install DESTDIR="$root" PREFIX=/usr SBINDIR=/usr/sbin ZSHDIR=/usr/share/zsh/vendor-completions STEADYFS="$1"
  documents
  control >"$root/DEBIAN/control"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  dpkg-deb --root-owner-group -Zxz --build "$root" "$deb" >/dev/null
  if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$deb"
  else
    echo "deb: lintian is not installed, and was not asked" >&2
  fi
  ls -l "$deb"
}

# Every path of the clean root but those where dpkg writes down what it did.
paths() {
  find "$clean" -xdev \( -path "$clean/var/lib/dpkg" -o -path "$clean/var/log" -o -path "$clean/proc" -o -path "$clean/work" \) -prune -o -print | sort
}

# In a mount namespace, where the clean root gets /proc and /dev.
try() {
  clean=$1
  mount -t proc proc "$clean/proc"
  mount --bind /dev "$clean/dev"
  mkdir "$clean/work"
  paths >"$clean.before"
  chroot "$clean" dpkg -i "/$(basename "$deb")" >/dev/null
  for path in usr/sbin/mkfs.steadyfs usr/share/man/man8/mkfs.steadyfs.8.gz usr/share/bash-completion/completions/steadyfs \
    usr/share/zsh/vendor-completions/_steadyfs usr/share/fish/vendor_completions.d/steadyfs.fish usr/lib/systemd/system/steadyfs@.service; do
    [ -e "$clean/$path" ] || { echo "deb: /$path is not there" >&2; exit 1; }
  done
  chroot "$clean" sh -e -c '
    cd /work
    steadyfs --version
    steadyfs mkfs -q a.img 100M
    steadyfs put /etc/. a.img /
    steadyfs ls a.img / | grep -qx passwd
    steadyfs cat a.img /passwd | cmp - /etc/passwd
    fsck.steadyfs -f a.img | tail -n 1
    mkfs.steadyfs -q b.img 100M
    dpkg --verify steadyfs
    # The first minutes, as they go: each line is printed before it runs.
    set -x
    steadyfs mount --background --create 200M steady.img ./mnt
    cp -a /usr/bin ./mnt/
    sync ./mnt/bin/sha256sum
    steadyfs info ./mnt | head -n 7
    steadyfs top --once ./mnt | head -n 12
    df -h ./mnt
    steadyfs umount ./mnt
    steadyfs fsck steady.img | tail -n 1
    steadyfs ls -lah steady.img / | head -n 4
    steadyfs get steady.img /bin out
    diff -r /usr/bin out
    set +x
    dpkg --purge steadyfs >/dev/null'
  paths >"$clean.after"
  diff "$clean.before" "$clean.after" || { echo "deb: these were left behind, or taken along" >&2; exit 1; }
}

case ${1:?deb.sh PROGRAM, or --test} in
  --test)
    command -v mmdebstrap >/dev/null || { echo "deb: a clean root needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }
    mkdir -p "$work"
    [ -e "$work/base.tar" ] || mmdebstrap --quiet --variant=essential "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/base.tar"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir "$scratch/root"
    tar -x -f "$work/base.tar" -C "$scratch/root" --exclude './dev/*'
    cp "$deb" "$scratch/root/"
    unshare --mount "$0" --try "$scratch/root"
    echo "deb: $deb was installed, used and removed; no file is left"
    ;;
  --try) try "$2" ;;
  *) build "$1" ;;
esac
