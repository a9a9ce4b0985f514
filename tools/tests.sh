#!/usr/bin/env bash
# Runs all test programs of the workspace and the tests of its documentation, one more at a time than there are cores,
# and ends with their sum.
#
# `cargo test` runs one program after the other, so a program with one long test, or one that waits for a kernel, leaves
# a core idle. Here the programs that take longest begin first: the order is that of the table of times in
# docs/TESTING.md. What a program says is printed when it has ended, whole. A program that takes longer than its limit is
# killed, with its process group.
#
# TEST_JOBS is how many run at a time, TEST_MINUTES the limit of each. TEST_TIMES names a file that the rows of the
# table go to. TEST_ONLY is an extended regular expression of names, such as '^(core|rt)/'.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO=${CARGO:-cargo}
# Volumes in memory, and their tables, are made and dropped by the thousand. As the allocator is, it maps large buffers
# anew each time, and the kernel clears each of their pages.
export MALLOC_MMAP_THRESHOLD_=$((32 << 20)) MALLOC_TRIM_THRESHOLD_=$((1 << 30))
# Images are gone with their tests: in memory, no disk has to write them.
room=$(df --output=avail -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9 || true)
if [ -z "${TMPDIR:-}" ] && [ "${room:-0}" -ge 8 ]; then
  export TMPDIR=/dev/shm
fi
jobs=${TEST_JOBS:-$(($(nproc) + 1))} minutes=${TEST_MINUTES:-20} only=${TEST_ONLY:-.} table=${TEST_TABLE:-docs/TESTING.md}
limit=$(awk -v minutes="$minutes" 'BEGIN { print minutes * 60 }')
began=$SECONDS

scratch=$(mktemp -d)
declare -A running=()
cleanup() {
  local pid
  # `timeout` passes the signal on to the group of its program.
  for pid in "${!running[@]}"; do
    pkill -TERM -P "$pid" || true
  done
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Lines of name, directory of the crate, how cargo calls it, and command, with tabs between.
programs() {
  "$CARGO" test --workspace --no-run --message-format=json-render-diagnostics >"$scratch/built" || return
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable != null)
    | (.manifest_path | sub("/Cargo.toml$"; "")) as $dir | ($dir | split("/") | last) as $crate
    | (.package_id | split("#") | last | if contains("@") then split("@")[0] else $crate end) as $package
    | (if .target.kind[0] == "test" then [.target.name, "--test " + .target.name]
       elif .target.kind[0] == "bin" then ["bin-" + .target.name, "--bin " + .target.name]
       else ["unit", "--lib"] end) as [$name, $flag]
    | [$crate + "/" + $name, $dir, "-p " + $package + " " + $flag, .executable] | @tsv' "$scratch/built"
  printf 'doctests\t%s\t--doc\t\n' "$PWD"
}

# The same lines, longest first. Programs that the table does not name come last.
longest_first() {
  awk -F'\t' -v OFS='\t' -v table="$table" '
    BEGIN {
      while ((getline line < table) > 0)
        if (split(line, cell, " *[|] *") >= 6 && cell[3] ~ /^[0-9]+$/) seconds[cell[2]] = cell[3]
    }
    { print ($1 in seconds ? seconds[$1] : 0), $0 }' | sort -s -t $'\t' -k1,1nr | cut -f2-
}

# Runs one program, and keeps what it said, its exit code and its times.
run() {
  local dir=$2 program=$4 code=0 TIMEFORMAT='%0R %0U %0S'
  # Crates that a test builds are not ours to lint.
  local command=(env -u RUSTC_WORKSPACE_WRAPPER "$program")
  [ -n "$program" ] || command=("$CARGO" test --workspace --doc --no-fail-fast)
  cd "$dir"
  export CARGO_MANIFEST_DIR=$dir
  {
    time timeout --signal=KILL "$limit" "${command[@]}" >"$scratch/$5.said" 2>&1 || code=$?
  } 2>"$scratch/$5.times"
  echo "$code" >"$scratch/$5.code"
}

failed=()
report() {
  local name=$1 flags=$3 number=$5 code wall user sys
  code=$(cat "$scratch/$number.code")
  read -r wall user sys < <(tail -n 1 "$scratch/$number.times")
  printf '\n     Running %s (%s)\n' "$name" "${4:-cargo test --doc}"
  cat "$scratch/$number.said"
  if [ "$code" -eq 137 ] && [ "$wall" -ge "${limit%.*}" ]; then
    echo "$name did not end in $minutes minutes, and was killed"
  elif [ "$code" -ne 0 ] && [ "$code" -ne 101 ]; then
    echo "$name ended with exit code $code"
  fi
  echo "$name took: $wall s (user $user s, sys $sys s)"
  echo "| $name | $wall | $user | $sys |" >>"$scratch/rows"
  if [ "$code" -ne 0 ]; then
    failed+=("$flags")
  elif ! grep -q '^test result: ' "$scratch/$number.said"; then
    echo "$name gave no result"
    code=1
    failed+=("$flags")
  fi
  # A program that was killed counts as one test that failed.
  if [ "$code" -ne 0 ] && ! grep -q '^test result: FAILED' "$scratch/$number.said"; then
    echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out' >>"$scratch/results"
  fi
  grep '^test result: ' "$scratch/$number.said" >>"$scratch/results" || true
}

end_one() {
  local pid
  wait -n -p pid "${!running[@]}" || true
  local line=${running[$pid]}
  unset "running[$pid]"
  local cells
  IFS='|' read -r -a cells <<<"$line"
  report "${cells[@]}"
}

all=$(programs)
wanted=$(longest_first <<<"$all" | awk -F'\t' -v only="$only" '$1 ~ only')
# Tests that start programs of the test kit need not have them built again.
kit=$(jq -r 'select(.target.name == "steadyfs-manifest") | .executable // empty' "$scratch/built")
[ -z "$kit" ] || export STEADYFS_PROGRAMS=${kit%/*}
[ "$(grep -vc '^doctests' <<<"$all")" -gt 0 ] && [ -n "$wanted" ] || { echo "no test program was found" >&2; exit 1; }
number=0
while IFS= read -r line; do
  [ "${#running[@]}" -lt "$jobs" ] || end_one
  number=$((number + 1))
  # The command of the doctests is empty: `read` would drop it between two tabs.
  IFS='|' read -r name dir flags program <<<"${line//$'\t'/|}"
  run "$name" "$dir" "$flags" "$program" "$number" &
  running[$!]="$name|$dir|$flags|$program|$number"
done <<<"$wanted"
while [ "${#running[@]}" -gt 0 ]; do
  end_one
done

[ -z "${TEST_TIMES:-}" ] || sort -t'|' -k3,3nr "$scratch/rows" >"$TEST_TIMES"
echo
if [ "${#failed[@]}" -gt 0 ]; then
  echo "error: ${#failed[@]} targets failed:"
  printf '    `%s`\n' "${failed[@]}"
fi
awk -v took="$((SECONDS - began))" '
  { passed += $4; failed += $6; ignored += $8; measured += $10; filtered += $12 }
  END {
    printf "test result: %s. %d passed; %d failed; %d ignored; %d measured; %d filtered out; finished in %d.00s\n",
      failed ? "FAILED" : "ok", passed, failed, ignored, measured, filtered, took
  }' "$scratch/results"
[ "${#failed[@]}" -eq 0 ]
