#!/usr/bin/env bash
# What the code of the real F2FS takes for a page and for a name, and the block layer for a request: Linux in user-mode Linux works on a RAM disk, and perf samples it from the host (docs/lab/PARAMETERS.md).
# usage: tools/real-f2fs-cpu.sh [ROUNDS]   (6)
# Prints nanoseconds a page, or a name: by the clock, and of that the kernel's own code, copies of pages, and the rest (user-mode Linux itself, its host, the RAM disk, waiting).
# Below some rows: what parts of that code take for one node, block or request. A part is a list of functions, without the locks that they take.
# FUNCTIONS is a regular expression: below each row, what the functions take by themselves that it matches. SCRIPTS names parts of the work (in_order, collecting, holes, names, requests).
# Names are made, looked up where nothing of the VFS is cached, and removed, in directories of 400; one more row looks for names that are not there, among 200.
# Requests are direct reads and writes of 4 KiB, one after the other, of a disk of user-mode Linux (blk-mq, no scheduler).
# As root, on an idle machine, with 3 GiB free in /dev/shm. Needs the packages user-mode-linux, kmod, f2fs-tools, fio, python3 and linux-perf.
set -euo pipefail
rounds=${1:-6}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release -q -p steadyfs-testkit
scratch=$(mktemp -d -p /dev/shm)
trap 'kill "${perf:-}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

dd if=/dev/zero of="$scratch/disk" bs=1M count=256 2>/dev/null

# Each prints a line: window, its name, when it began and ended (nanoseconds since 1970), pages.
cat >"$scratch/work.py" <<'PYTHON'
import fcntl, mmap, os, random, sys, time

what, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
file = os.open(path, os.O_RDWR | (os.O_DIRECT if path.startswith("/dev/") else 0))


def window(name, work):
    began = time.time_ns()
    pages = work()
    print("window", name, began, time.time_ns(), pages, flush=True)


def write():
    piece = os.urandom(1 << 20)
    places = list(range(os.fstat(file).st_size >> 20))
    random.Random(seed).shuffle(places)
    for place in places[:256]:
        os.pwrite(file, piece, place << 20)
    return 256 * 256


def collect():
    counters = ["/sys/fs/f2fs/ram0/moved_blocks_" + how for how in ("foreground", "background")]
    moved = lambda: sum(int(open(counter).read()) for counter in counters)
    before = moved()
    for _ in range(60):
        try:
            fcntl.ioctl(file, 0x4004F506, (1).to_bytes(4, "little"))  # F2FS_IOC_GARBAGE_COLLECT, and wait
        except OSError:
            break  # Nothing more to collect.
    return moved() - before


def sync():
    dirty = next(int(line.split()[1]) // 4 for line in open("/proc/meminfo") if line.startswith("Dirty:"))
    os.sync()
    return dirty


def each(work):
    """Of 64 directories with 400 names each. Paths have no other directories, which other file systems would look up."""
    for n in range(64):
        os.chdir(f"{os.path.dirname(path)}/d{n}")
        for m in range(400):
            work(f"f{m:03}")
    return 64 * 400


def make():
    for n in range(64):
        os.makedirs(f"{os.path.dirname(path)}/d{n}", exist_ok=True)
    return lambda: each(lambda name: os.mknod(name))


def missing():
    os.chdir(f"{os.path.dirname(path)}/d0")
    for n in range(200):
        os.mknod(f"g{n:03}")

    def work():
        for n in range(20000):
            os.path.lexists(f"h{n}")
        return 20000

    return work


def requests(one):
    page, blocks = mmap.mmap(-1, 4096), os.lseek(file, 0, os.SEEK_END) >> 12
    for block in random.Random(seed).choices(range(blocks), k=40000):
        one(file, [page], block << 12)
    return 40000


work = {"write": lambda: write, "move": lambda: collect, "make": make, "look": lambda: lambda: each(os.stat)}
work.update({"remove": lambda: lambda: each(os.unlink), "missing": missing})
work.update({"disk-read": lambda: lambda: requests(os.preadv), "disk-write": lambda: lambda: requests(os.pwritev)})
window(what, work.get(what.split(",")[0], lambda: sync)())
PYTHON

# volume OPTIONS HUNDREDTHS: a volume on the RAM disk, and a file in it that takes so much of the users' space.
common="
insmod \$(find /usr/lib/uml -name brd.ko) rd_nr=1 rd_size=1048576
dd if=/dev/zero of=/dev/ram0 bs=1M 2>/dev/null || true
cat /proc/kallsyms >$scratch/symbols
echo 90 >/proc/sys/vm/dirty_ratio
echo 89 >/proc/sys/vm/dirty_background_ratio
echo 360000 >/proc/sys/vm/dirty_expire_centisecs
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
volume() {
    mkfs.f2fs -q -f -t 0 /dev/ram0 >/dev/null
    mount -t f2fs -o noatime,nodiscard,background_gc=off,\$1 /dev/ram0 \$MNT
    size=\$((\$(df -k --output=avail \$MNT | tail -1) * \$2 / 100 / 1024 * 1024))
    fio=\"fio --directory=\$MNT --name=j --size=\${size}k --ioengine=psync --fallocate=none --end_fsync=0\"
    \$fio --rw=write --bs=1M >/dev/null
    sync
}
at_random() { \$fio --rw=randwrite --bs=4k --io_size=\$1k --norandommap --randseed=\$round >/dev/null; }
work() { python3 $scratch/work.py \$1 \${2:-\$MNT/j.0.0} \$round; }
rounds=\$(seq $rounds)
"
in_order="volume mode=lfs 45
for round in \$rounds; do work write,cached; sync; echo 3 >/proc/sys/vm/drop_caches; work write; sync; \$fio --rw=write --bs=1M >/dev/null; work in-order; at_random \$size; work at-random; done"
collecting="volume mode=lfs 70
for round in \$rounds; do at_random 200000; sync; work move,cached; at_random 200000; sync; echo 3 >/proc/sys/vm/drop_caches; work move; done"
holes="volume alloc_mode=default 94
echo 16 >/sys/fs/f2fs/ram0/ipu_policy
for round in \$rounds; do at_random 400000; work holes; done"
names="volume mode=lfs 5
for round in \$rounds; do work make; echo 2 >/proc/sys/vm/drop_caches; work look; work remove; work missing; rm -r \$MNT/d0; sync; done"
requests="echo none >/sys/block/ubda/queue/scheduler
for round in \$rounds; do work disk-read /dev/ubda; work disk-write /dev/ubda; done"

printf '%-14s %10s %10s %10s %10s %10s %10s %10s\n' 'ns of one' clock code 'of F2FS' searches copies rest number
for script in ${SCRIPTS:-in_order collecting holes names requests}; do
    script=${!script}
    perf record -q -a -k CLOCK_REALTIME -e cpu-clock -F 1999 -o "$scratch/samples" -- sleep 3600 >/dev/null 2>&1 &
    perf=$!
    target/release/steadyfs-uml --disk "$scratch/disk" --mem 2500 --seconds 600 "$common$script" | grep '^window' >"$scratch/windows"
    kill -INT "$perf"
    wait "$perf" || true
    perf script -i "$scratch/samples" --ns -F time,ip 2>/dev/null | sed 's/://' >"$scratch/times"
    python3 - "$scratch" "${FUNCTIONS:-}" <<'PYTHON'
import bisect, collections, re, sys

# User-mode Linux itself: how it bars interrupts, waits, and reaches the memory of its processes (paths byte by byte).
machine = re.compile(
    "um_|os_|.*signals|arch_local_|userspace|virt_to_pte|maybe_map|do_op_one_page|buffer_op|sig_|idle|str(n)?cpy"
    "|handle_|interrupt|get_fp_reg|syscall_|.*regs|hostfs|irq|do_IRQ|timer_|tick_|hrtimer|scheduler_tick"
)
copies = re.compile("memcpy|memset|copy_chunk")
# Rows, how many of them a page or request has, and functions. A file of more than 2959 pages has its nodes in three
# levels; a page's walks of an xarray are for those three, and for its two changes of tags.
write_back, walk = "in-order|at-random", "xas_load|xas_start|xas_descend|xa_is_node"
parts = {
    "page look-up": ("write.*", 1, "__filemap_get_folio|" + walk),
    "node, its page": (
        write_back, 3,
        "__filemap_get_folio|.*_node_page|.*_nid_range|get_n.*|F2FS_NODE|f2fs_.*_dnode.*|f2fs_put_page",
    ),
    "node, walk": (write_back, 5, walk),
    "block": (
        write_back, 1,
        "f2fs_allocate_data_block|.*get_segment_type|__add_sum_entry.*|__refresh_next_blkoff|new_curseg",
    ),
    "block's segment": (
        write_back, 2,
        ".*sit_entry.*|.*seg_entry.*|f2fs_test_.*bit|.*_in_seg|.*_mtime.*|.*locate_dirty_.*|get_ckpt_.*",
    ),
    "completion": (
        "disk.*", 1,
        "blk_mq_(end|free|put|finish|tags_from)_.*|__blk_mq_(end|free)_.*|blk_update_request"
        "|bio_(endio|put|free|uninit|.*folio)|(__)?bio_release.*|blk_account_io_(done|completion)|update_io_ticks"
        "|__rq_qos_done.*|wbt_done|blk_st.*|sbitmap_queue_clear|__handle_irq.*|generic_handle_irq|note_interrupt"
        "|__irq_exit.*|add_interrupt_.*|fast_mix.*",
    ),
    "submission": (
        "disk.*", 1,
        "(__)?submit_bio.*|(__)?blk_.*|(__)?bio_.*|.*sbitmap.*|update_alloc_.*|.*rq_qos.*|wbt.*|rwb_.*|blkcg_.*"
        "|.*blkg.*|kthread_blkcg|percpu_ref.*|bdev_.*|io_schedule_prepare",
    ),
}
read = lambda name: (line.split() for line in open(f"{sys.argv[1]}/{name}"))
symbols = sorted((int(f[0], 16), f[2], " ".join(f[3:])) for f in read("symbols"))
starts = [address for address, *_ in symbols]
samples = sorted((int(f[0].replace(".", "")), int(f[1], 16)) for f in read("times") if len(f) == 2)
times = [time for time, _ in samples]
asked = re.compile(sys.argv[2]) if sys.argv[2] else None
sums, alone, divided = (collections.defaultdict(collections.Counter) for _ in range(3))
for _, name, began, ended, pages in read("windows"):
    sums[name]["clock"] += int(ended) - int(began)
    sums[name]["pages"] += int(pages)
    for _, address in samples[bisect.bisect(times, int(began)) : bisect.bisect(times, int(ended))]:
        at = bisect.bisect(starts, address) - 1
        if at < 0 or address - starts[at] > 1 << 16:
            continue  # The host's kernel, another program, or nothing.
        _, function, module = symbols[at]
        if machine.match(function) or module == "[brd]":
            continue
        sums[name]["copies" if copies.match(function) else "code"] += 1
        sums[name]["f2fs"] += module == "[f2fs]"
        sums[name]["searches"] += function == "f2fs_find_target_dentry"
        if asked and asked.fullmatch(function):
            alone[name][function] += 1
        found = [part for part, (row, _, of) in parts.items() if re.fullmatch(row, name) and re.fullmatch(of, function)]
        divided[name].update(found[:1])
for name, of in sums.items():
    sampled = {kind: of[kind] * 1e9 / 1999 / of["pages"] for kind in ("code", "f2fs", "searches", "copies")}
    clock = of["clock"] / of["pages"]
    rest = clock - sampled["code"] - sampled["copies"]
    row = [clock, *(sampled[kind] for kind in ("code", "f2fs", "searches", "copies")), rest, of["pages"]]
    print(f"{name:14}", *(f"{figure:10.0f}" for figure in row))
    for part, samples in divided[name].items():
        print(f"  {part:34} {samples * 1e9 / 1999 / of['pages'] / parts[part][1]:7.0f}")
    for function, samples in alone[name].most_common():
        print(f"    {function:32} {samples * 1e9 / 1999 / of['pages']:7.0f}")
PYTHON
done
