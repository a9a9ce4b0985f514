#!/usr/bin/env bash
# Runs tests without vital lines, one at a time, and expects them to fail (docs/MUTANTS.md).
#
#   tools/mutants.sh                all lines of the page: each test first with the line, then without
#   tools/mutants.sh NAME...        these lines
#   tools/mutants.sh --sample 10    so many, without the runs that have to pass, which `make test` does anyway
#
# A sample is drawn by the tree of HEAD: one tree always draws the same lines, so a verdict can be had again, and the
# next commit draws others.
#
# MUTANTS_PACKAGES is what cargo builds (`-p steadyfs-core`; all of the workspace otherwise), MUTANTS_JOBS how many tests
# run at a time, MUTANTS_SECONDS the limit of each, MUTANTS_PAGE another page. MUTANTS_FIGURES=1 writes the seconds that
# the tests took to fail into the page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page=${MUTANTS_PAGE:-docs/MUTANTS.md} jobs=${MUTANTS_JOBS:-$(nproc)} cargo=${CARGO:-cargo}
export SECONDS_EACH=${MUTANTS_SECONDS:-120} SAMPLED=
# Crates that a test builds are not ours to lint. Images are gone with their tests: in memory, no disk has to write them.
room=$(df --output=avail -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9 || true)
if [ -z "${TMPDIR:-}" ] && [ "${room:-0}" -ge 8 ]; then
  export TMPDIR=/dev/shm
fi
export MALLOC_MMAP_THRESHOLD_=$((32 << 20)) MALLOC_TRIM_THRESHOLD_=$((1 << 30))
began=$SECONDS
export scratch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# Lines of name, crate, test program of the crate, name of the test, and whether it hangs, one for each test of a row.
rows() {
  awk -F' *[|] *' '
    $0 == "| line | where | without it | noticed by | seconds |" { table = NR }
    table && NR > table + 1 && !/^[|]/ { table = 0 }
    table && NR > table + 1 {
      gsub("`", "", $2)
      cells = split($5, cell, "`")
      for (i = 2; i <= cells; i += 2) {
        split(cell[i], test, "::"); split(test[1], part, "/")
        program = part[3] == "src" ? "unit" : part[4]; sub(/[.]rs$/, "", program)
        print $2, part[2], program, test[2], (cell[i + 1] ~ /hangs/ ? "hangs" : "fails")
      }
    }' "$page"
}

sampled() {
  local seed
  seed=$(git rev-parse 'HEAD^{tree}' 2>/dev/null || cksum <"$page")
  while read -r row; do
    printf '%s %s\n' "$(cksum <<<"$seed ${row%% *}" | cut -d' ' -f1)" "$row"
  # Reads all that sort writes: under pipefail, a reader that ends early makes an error of the signal that sort gets.
  done | sort -n | sed -n "1,$1p" | cut -d' ' -f2-
}

# The names of the test programs, as in the table of times, their crates' directories, and where they are.
programs() {
  # shellcheck disable=SC2086 # several words
  "$cargo" test ${MUTANTS_PACKAGES:---workspace} --no-run --message-format=json-render-diagnostics >"$scratch/built"
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable != null)
    | (.manifest_path | sub("/Cargo.toml$"; "")) as $dir
    | (if .target.kind[0] == "test" then .target.name elif .target.kind[0] == "bin" then "bin" else "unit" end) as $name
    | [($dir | split("/") | last) + "/" + $name, $dir, .executable] | @tsv' "$scratch/built"
}

# Runs one test of one row, with the line and then without; says how it ended.
run() {
  local name=$1 program=$2/$3 test=$4 expected=$5 dir='' executable='' code=0 said seconds
  said=$scratch/$name.$2.$3.$test
  IFS=$'\t' read -r _ dir executable < <(grep -P "^$program\t" "$scratch/programs") || true
  verdict() { printf '%s\t%s\t%s\t%s\n' "$name" "$1" "$2" "$program $test${3:+: $3}"; }
  [ -n "$executable" ] || { verdict error 0 'there is no such program'; return; }
  cd "$dir"
  export CARGO_MANIFEST_DIR=$dir
  if [ -z "$SAMPLED" ]; then
    timeout --signal=KILL "$SECONDS_EACH" "$executable" "$test" >"$said" 2>&1 || code=$?
    if [ "$code" -ne 0 ] || ! grep -q '^test result: ok. [1-9]' "$said"; then
      verdict error 0 'it does not pass with the line'
      return
    fi
  fi
  code=0 seconds=$(date +%s%N)
  STEADYFS_MUTANT=$name timeout --signal=KILL "$SECONDS_EACH" "$executable" "$test" >"$said" 2>&1 || code=$?
  seconds=$(awk -v from="$seconds" -v to="$(date +%s%N)" 'BEGIN { printf "%.1f", (to - from) / 1e9 }')
  if [ "$code" -eq 0 ]; then
    verdict survived "$seconds" 'it passes without the line'
  elif [ "$code" -eq 137 ] && [ "$expected" != hangs ]; then
    verdict error "$seconds" 'it hangs without the line, which the page does not say'
  else
    verdict noticed "$seconds"
  fi
}
export -f run

case ${1:-} in
  --sample) SAMPLED=1; rows | sampled "$2" >"$scratch/rows" ;;
  '') rows >"$scratch/rows" ;;
  *) rows | grep -E "^($(IFS='|'; echo "$*")) " >"$scratch/rows" || true ;;
esac
[ -s "$scratch/rows" ] || { echo "$page has no such line" >&2; exit 1; }
programs >"$scratch/programs"
unset RUSTC_WORKSPACE_WRAPPER
xargs -P "$jobs" -L 1 bash -c 'run "$@"' run <"$scratch/rows" >"$scratch/verdicts"
sort "$scratch/verdicts"

if [ -n "${MUTANTS_FIGURES:-}" ]; then
  awk -F'\t' 'NR == FNR { if ($2 == "noticed") seconds[$1] = seconds[$1] ? seconds[$1] ", " $3 : $3; next }
    split($0, cell, "`") && (cell[2] in seconds) && /^[|] `/ { sub(/[|][^|]*[|]$/, "| " seconds[cell[2]] " |") } { print }' \
    "$scratch/verdicts" FS='\n' "$page" >"$scratch/page"
  cat "$scratch/page" >"$page"
fi
noticed=$(grep -cP '^[^\t]*\tnoticed\t' "$scratch/verdicts" || true) all=$(wc -l <"$scratch/rows")
echo "mutants: $noticed of $all noticed, in $((SECONDS - began)) s"
[ "$noticed" -eq "$all" ]
