#!/usr/bin/env bash
# Prints the licences of a binary of SteadyFS in the format of Debian's copyright files: those of SteadyFS, and of each
# crate that is linked in, with the lines of copyright that its own texts have.
#
# copyright.sh [--static]     with the C library, which a static binary holds, too
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}

cat <<HEAD
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: SteadyFS
Comment: The program holds the crates below and Rust's standard library. The
 paths are those of their sources as \`cargo vendor\` lays them.

Files: *
Copyright: $(sed -n 's/^Copyright (c) //p' LICENSE-MIT)
License: Expat or Apache-2.0
HEAD

# Who has the copyright by the texts of the crate in a folder: lines that name somebody, not those that tell how to.
holders() {
  cat "$1"/{LICENSE,LICENCE,COPYING,COPYRIGHT,NOTICE}* 2>/dev/null |
    sed -nE 's/^[ #*]*Copyright:? (\([cC]\)|©)? *([0-9].*|[A-Z][^[]*)$/\2/p' |
    grep -E '[A-Za-z]{3}' | grep -vE '^(License|LICENSE)|yyyy|[{[]' | sort -u | sed '2,$s/^/           /' || true
}

# An expression of SPDX as Debian writes it. Of a choice only what SteadyFS has itself, if that is offered.
debian_names() {
  local all ours
  all=$(sed -E -e 's/\bMIT\b/Expat/g' -e 's, */ *, OR ,g' -e 's/ WITH /-with-/g' -e 's/ OR / or /g' -e 's/ AND / and /g' <<<"$1")
  ours=$(sed 's/ or /\n/g' <<<"$all" | grep -xE 'Expat|Apache-2.0' | sed ':a;N;$!ba;s/\n/ or /g' || true)
  echo "${ours:-$all}"
}

metadata=$("$cargo" metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-gnu |
  jq -r '.packages[] | [.name, .version, .license, .manifest_path, (.authors | join(", "))] | @tsv')
# Where the text of each licence is.
declare -A texts=([Expat]=. [Apache-2.0]=.)
# Normal dependencies only: what helps to compile is not in the program.
while read -r name version; do
  IFS=$'\t' read -r _ _ licence manifest authors < <(grep -P "^\Q$name\E\t\Q$version\E\t" <<<"$metadata")
  folder=$(dirname "$manifest")
  named=$(holders "$folder")
  licence=$(debian_names "$licence")
  printf '\nFiles: vendor/%s-%s/*\nCopyright: %s\nLicense: %s\n' \
    "$name" "$version" "${named:-${authors:-the authors of $name}}" "$licence"
  for one in $(sed -E 's/[()]| or | and / /g' <<<"$licence"); do
    texts[$one]=${texts[$one]:-$folder}
  done
done < <("$cargo" tree --locked -p steadyfs -e normal,no-proc-macro --prefix none -f '{p}' |
  sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/p' | grep -v '^steadyfs' | sort -u)
printf '\nFiles: rust/library/*\nCopyright: The Rust Project Developers\nLicense: Expat or Apache-2.0\n'
if [ "${1:-}" = --static ]; then
  printf '\nFiles: glibc/*\nCopyright: Free Software Foundation, Inc.\nLicense: LGPL-2.1+\n'
  printf 'Comment: With the sources of SteadyFS, `make static` links it anew, with another C library if one likes.\n'
  printf '\nLicense: LGPL-2.1+\n https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html\n'
fi

# The paragraphs of a text as a field of that format has them.
field() {
  sed -e 's/[[:space:]]*$//' -e 's/^$/./' -e 's/^/ /'
}
for one in $(printf '%s\n' "${!texts[@]}" | sort); do
  printf '\nLicense: %s\n' "$one"
  case $one in
    Expat) sed -e '1,/^Copyright/d' LICENSE-MIT | sed '1{/^$/d}' | field ;;
    Apache-2.0) printf ' The text is in /usr/share/common-licenses/Apache-2.0 on Debian systems, and in\n LICENSE-APACHE beside other binaries.\n' ;;
    *) cat "${texts[$one]}"/LICEN[CS]E* | field ;;
  esac
done
