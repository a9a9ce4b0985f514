# Sourced by tools that run something in a virtual machine which is thrown away. $work is a directory for the kernel, $root that of the machine.
# Needs Debian (apt-get), qemu-system-x86_64 and cpio. The kernel is the newest 6.18 of trixie-backports.

for program in qemu-system-x86_64 cpio dpkg-deb apt-get; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt-get install qemu-system-x86 cpio" >&2; exit 1; }
done

# The kernel: an index of its own, so that this system's packages stay as they are.
fetch_kernel() {
    mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main" >"$work/apt/sources.list"
    local apt=(-q -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/apt/lists"
        -o "Dir::Cache=$work/apt" -o APT::Sandbox::User=root)
    apt-get update "${apt[@]}" >/dev/null
    local package
    package=$(apt-cache search "${apt[@]:1}" '^linux-image-6\.18\.[0-9]+\+deb13-cloud-amd64$' | cut -d' ' -f1 | sort -V | tail -1)
    [ -n "$package" ] || { echo "no kernel 6.18 in trixie-backports" >&2; exit 1; }
    (cd "$work" && rm -f linux-image-*.deb && apt-get download "${apt[@]}" "$package" >/dev/null && dpkg-deb -x linux-image-*.deb kernel)
}
[ -n "$(ls "$work"/kernel/boot/vmlinuz-* 2>/dev/null)" ] || fetch_kernel

# A program with what it is linked to.
put() {
    cp -L "$1" "$root/bin/$2"
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        mkdir -p "$root$(dirname "$library")"
        cp -Lu "$library" "$root$library"
    done
}

# Runs the machine: accelerator, processors, memory in MiB, seconds at most. What it prints comes out, and goes to $work/log.
run_machine() {
    (cd "$root" && find . | cpio --quiet -o -H newc) | gzip -1 >"$work/initrd.gz"
    timeout "$4" qemu-system-x86_64 -accel "$1" -cpu max -smp "$2" -m "$3" -nographic -no-reboot \
        -kernel "$(ls "$work"/kernel/boot/vmlinuz-* | tail -1)" -initrd "$work/initrd.gz" -append "console=ttyS0 quiet panic=1 mitigations=off" \
        </dev/null 2>&1 | stdbuf -o0 tr -d '\r' | tee "$work/log"
}
