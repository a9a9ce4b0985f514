#!/usr/bin/env bash
# Makes what is given to others of the version in Cargo.toml, in target/release-artifacts: docs/HACKING.md, "Releases".
#
# TAG=1 makes the tag vVERSION, too. Without it this is a rehearsal: changes that are not released yet are taken for
# those of the version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tag=${TAG:-}
out=target/release-artifacts

stop() {
  echo "release: $1" >&2
  exit 1
}

[ -z "$(git status --porcelain)" ] || stop "files differ from the commit: commit or remove them (git status)"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Crates name each other with the version, which crates.io goes by.
others=$(sed -n 's/^steadyfs.* version = "\([^"]*\)".*/\1/p' Cargo.toml | grep -vxF "$version" || true)
[ -z "$others" ] || stop "Cargo.toml names crates of version $(sort -u <<<"$others" | xargs), not $version: make them the same"

# The section of one version, without its heading.
section() {
  awk -v heading="## [$1]" 'index($0, "## [") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md
}
notes=$(section "$version")
if [ -n "$tag" ]; then
  [ -n "$notes" ] || stop "CHANGELOG.md has no section [$version]: name [Unreleased] so, with the date"
  ! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || stop "there is a tag v$version: raise the version"
elif [ -z "$notes" ]; then
  echo "release: CHANGELOG.md has no section [$version]; [Unreleased] is taken, and no tag would be made" >&2
  notes=$(section Unreleased)
fi

rm -rf "$out"
mkdir -p "$out"
make -s deb static
name=steadyfs-$version-$(uname -m)-linux
# Licences go with each program.
for kind in "" -static; do
  mkdir -p "$out/$name$kind.d"
  mv "$out/$name$kind" "$out/$name$kind.d/steadyfs"
  cp LICENSE-MIT LICENSE-APACHE "$out/$name$kind.d"
  tools/copyright.sh ${kind:+-$kind} >"$out/$name$kind.d/copyright"
  mv "$out/$name$kind.d" "$out/$name$kind"
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -c "$name$kind" |
    gzip -9n >"$out/$name$kind.tar.gz"
  rm -r "${out:?}/$name$kind"
done
git archive --format=tar.gz --prefix="steadyfs-$version/" -o "$out/steadyfs-$version.tar.gz" HEAD
printf '%s\n' "$notes" >"$out/CHANGES.md"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
ls -l "$out"
if [ -n "$tag" ]; then
  { printf 'SteadyFS %s\n' "$version"; printf '%s\n' "$notes"; } | git tag --cleanup=whitespace -a -F - "v$version"
  echo "release: tagged v$version; \`git push\` it, and \`cargo publish --workspace\` (docs/HACKING.md)"
fi
