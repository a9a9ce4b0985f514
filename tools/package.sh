#!/usr/bin/env bash
# Packs every crate that is published as crates.io would have it, and builds each of them from its package alone.
#
# package.sh [OPTION...]     options are those of `cargo package`: --offline, --allow-dirty, --no-verify, --list
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}

metadata=$("$cargo" metadata --format-version 1 --no-deps --locked)
mapfile -t unpublished < <(jq -r '.packages[] | select(.publish == []) | .name' <<<"$metadata")
# Cargo takes them as they come; crates.io does not.
if [ "$(jq -r '[.packages[] | select(.publish == null and (.repository // "") == "")] | length' <<<"$metadata")" -gt 0 ]; then
  echo "package: \`repository\` of [workspace.package] in Cargo.toml is empty: crates.io will refuse the packages" >&2
fi
# What the packages are checked with is thrown away: lines of backtraces are of no use to it.
CARGO_PROFILE_DEV_DEBUG=0 "$cargo" package --workspace "${unpublished[@]/#/--exclude=}" --locked "$@"

# The compiler does not ask for the licences.
packages=$(jq -r .target_directory <<<"$metadata")/package
case " $* " in *" --list "*) exit ;; esac
while read -r name version; do
  for text in LICENSE-MIT LICENSE-APACHE README.md; do
    tar -xOzf "$packages/$name-$version.crate" "$name-$version/$text" | grep . >/dev/null || { echo "package: $name has no $text" >&2; exit 1; }
  done
done < <(jq -r '.packages[] | select(.publish == null) | "\(.name) \(.version)"' <<<"$metadata")
echo "package: $(jq '[.packages[] | select(.publish == null)] | length' <<<"$metadata") crates, with their licences, in $packages"
