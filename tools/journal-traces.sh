#!/usr/bin/env bash
# Prints the calls by which real programs make names last: what the patterns of `steadyfs-bench journal` are taken from.
# journal-traces.sh [PROGRAM...]: git, sqlite, dpkg, maildrop, procmail, python, rocksdb; all of them if none is named.
# Debian: strace git sqlite3 dpkg maildrop procmail python3 rocksdb-tools.
set -euo pipefail

programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(git sqlite dpkg maildrop procmail python rocksdb)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
export HOME=$home

calls=creat,open,openat,write,pwrite64,writev,fsync,fdatasync,sync_file_range,sync,syncfs,rename,renameat,renameat2
calls=$calls,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,ftruncate

# Runs a command under strace and prints its changes below $home, each with paths relative to it.
traced() {
  strace -f -y -e trace="$calls" -o "$home/trace" "$@" >"$home/out" 2>&1 || { cat "$home/out" >&2; return 1; }
  sed -E "s/^[0-9]+ +//; s/\(AT_FDCWD(<[^>]*>)?, /(/; s/[0-9]+<([^>]*)>/\1/g; s|$home/||g; s/\"[^\"]{40,}\"(\.\.\.)?/\"..\"/" \
    "$home/trace" |
    grep -vE '= -1 |exited|resumed|/proc/|/dev/|/dpkg\.log|/LOG|^write\((pipe|anon|out)|^sync_file_range\(.*, 0, 0, 0\)' |
    grep -E '^[a-z]*sync|^(creat|pwrite64|writev?|rename|link|unlink|mkdir|rmdir|ftruncate|sync_file_range)|O_CREAT' |
    grep -vE "$home/out" | cut -c1-118 | uniq -c | sed -E 's/^ +1 /       /'
}

trace_git() {
  git --version
  git init -q repository
  cd repository
  git config user.name a && git config user.email a@b && git config core.fsync all && git config core.fsyncMethod fsync
  echo 1 >file && git add file && git commit -qm 1 && echo 2 >file
  traced git commit -qam 2
  cd ..
}

trace_sqlite() {
  sqlite3 --version | cut -c1-27
  sqlite3 database 'create table t(a)'
  traced sqlite3 database 'pragma journal_mode=delete; pragma synchronous=full; insert into t values(1);'
}

trace_dpkg() {
  dpkg --version | sed -n 1p
  mkdir -p package/DEBIAN package/opt/x root/var/lib/dpkg/{info,updates,triggers}
  touch root/var/lib/dpkg/status package/opt/x/file{1,2,3}
  printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n' >package/DEBIAN/control
  dpkg-deb --build package x.deb >/dev/null
  # The first makes dpkg's own files, and the package is removed again, so that the second is an installation, too.
  dpkg --root="$home/root" --install x.deb >/dev/null && dpkg --root="$home/root" --purge x >/dev/null
  # Images for containers are set up without these syncs.
  traced dpkg --no-force-unsafe-io --root="$home/root" --install x.deb
}

maildir() {
  mkdir -p maildir/{tmp,new,cur}
  printf 'From: a@b\nSubject: x\n\nbody\n' >message
}

trace_maildrop() {
  maildrop -v | sed -n 1p
  maildir
  echo "to \"$home/maildir\"" >filter && chmod 600 filter
  traced sh -c 'exec maildrop filter <message'
}

trace_procmail() {
  procmail -v 2>&1 | sed -n 1p
  maildir
  echo "DEFAULT=$home/maildir/" >recipe
  traced sh -c 'exec procmail -m recipe <message'
}

trace_python() {
  python3 --version
  maildir
  traced python3 -B -c "import mailbox; mailbox.Maildir('$home/maildir').add('From: a\n\nbody')"
}

trace_rocksdb() {
  # Two memtables of 64 KiB, records of 1,000 bytes.
  traced db_bench --benchmarks=fillrandom --sync=1 --num=110 --value_size=1000 --write_buffer_size=65536 --db="$home/db" \
    --compression_type=none
  sed -n 's/^\(RocksDB: .*\)/\1/p' out
}

for program in "${programs[@]}"; do
  echo "== $program"
  "trace_$program"
done
