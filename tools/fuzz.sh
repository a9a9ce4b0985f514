#!/usr/bin/env bash
# Runs the cargo-fuzz targets: fuzz.sh SECONDS [TARGET...]. All of them if none is named, one after the other.
# Needs a nightly compiler and cargo-fuzz: rustup toolchain install nightly; cargo install cargo-fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
mapfile -t all < <(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' fuzz/Cargo.toml)
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")

cargo run --quiet -p steadyfs-fuzzing --example seeds -- fuzz/corpus
for target in "${targets[@]}"; do
  log=$(mktemp)
  # An input may take long only where something hangs; memory is bounded as in the tests.
  if ! cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=256 \
    -max_len=16384 -print_final_stats=1 >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$target: failed; the input is in fuzz/artifacts/$target" >&2
    exit 1
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
  echo "$target: $executions executions, $coverage"
  rm -f "$log"
done
