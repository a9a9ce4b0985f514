#!/usr/bin/env bash
# Splits a program into what runs, OUT, and what only debuggers and backtraces read, OUT.debug, which OUT names.
#
# usage: split-debug.sh PROGRAM OUT
#
# Both find OUT.debug beside OUT; a debugger finds it below /usr/lib/debug/.build-id, too, by the id that both have.
set -euo pipefail
program=$1 out=$2
mkdir -p "$(dirname "$out")"
objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$out.debug"
objcopy --strip-all --add-gnu-debuglink="$out.debug" "$program" "$out"
chmod 644 "$out.debug"
