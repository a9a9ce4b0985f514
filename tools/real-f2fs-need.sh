#!/usr/bin/env bash
# Runs a command that starts user-mode Linux, whose F2FS then needs as many free sections in mode=lfs as that of Linux 6.0.
# usage: tools/real-f2fs-need.sh COMMAND...    for example: tools/real-f2fs-need.sh tools/real-f2fs.sh mode=lfs
# Kernels since August 2025 count pages of data that are dirty in memory as well, stable ones too (1acd73edbbfe, "f2fs: fix to account dirty data in __get_secs_required()").
# The papers' kernels do not (docs/lab/results/F2FS.md). What counts them is a jump that is taken in other modes: a copy of the module takes it always.
# Needs root, and the package user-mode-linux. The copy is mounted over the module, for the command alone.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
if [ -z "${F2FS_NEED_NAMESPACE:-}" ]; then
  F2FS_NEED_NAMESPACE=1 exec unshare --mount "$0" "$@"
fi
unset F2FS_NEED_NAMESPACE
module=$(find "/usr/lib/uml/modules/$(linux.uml --version)" -name f2fs.ko)
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
python3 - "$module" "$copy" <<'EOF'
import re, sys
code = bytearray(open(sys.argv[1], 'rb').read())
# cmpl $1, mode(%reg); then, within a few instructions, jne over what reads the number of dirty pages of data.
mode, dirty, jumps = rb'\x14\x05\x00\x00', rb'\x7c\x04\x00\x00', 0
for test in re.finditer(rb'\x83[\xb8-\xbf]' + mode + rb'\x01', bytes(code)):
    after = re.match(rb'.{0,16}?(?=\x75.[\x41\x44\x45]?\x8b.' + dirty + rb')', bytes(code[test.end():]), re.DOTALL)
    if after:
        code[test.end() + after.end()] = 0xeb
        jumps += 1
if jumps != 7:
    sys.exit(f'{sys.argv[1]}: {jumps} places count dirty pages, not the 7 of 6.1.176: this kernel is another one')
open(sys.argv[2], 'wb').write(code)
EOF
mount --bind "$copy" "$module"
"$@"
