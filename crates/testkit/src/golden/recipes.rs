//! What the golden images are and how each is made.

use super::Golden;
use crate::corpus::{Spec, Workload};
use crate::images::{Ending, Recipe};

/// How a golden image comes about.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// By mkfs.f2fs alone.
    Mkfs { mib: u64, options: &'static str },
    /// By user-mode Linux.
    Uml(Box<Recipe>),
    /// By Debian's kernel in QEMU. `mount` is the option of the mount for the manifest. The script has the tools
    /// `$CORPUS` (a workload's program) and `$DISK`.
    Qemu { mib: u64, options: &'static str, script: &'static str },
}

const ALL_FEATURES: &str =
    "-O extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr,lost_found,project_quota,quota";

/// The tree of corner cases with fewer of everything that comes in numbers.
fn tree() -> Workload {
    Workload::Corners(Spec { big_dir: 60, depth: 5, links: 3, ..Spec::tiny() })
}

pub(super) fn all() -> Vec<Golden> {
    let golden = |name, about, source| Golden { name, about, has_contents: true, source };
    let uml = |recipe| Source::Uml(Box::new(recipe));
    let plain = |name| Recipe { mib: 64, workload: tree(), ..Recipe::new(name) };
    let crashed = |name, workload| Recipe { workload, ending: Ending::PowerOff, mib: 1024, ..Recipe::new(name) };
    vec![
        golden("mkfs-default", "mkfs.f2fs, nothing else", Source::Mkfs { mib: 64, options: "" }),
        golden(
            "mkfs-features",
            "mkfs.f2fs with every feature that every kernel has, among them quota files",
            Source::Mkfs { mib: 64, options: ALL_FEATURES },
        ),
        golden("linux-default", "Linux, the tree of corner cases", uml(plain("linux-default"))),
        golden(
            "linux-features",
            "Linux, the tree with extra attributes, checksums, creation times, quota, in LFS mode",
            uml(Recipe { mkfs: ALL_FEATURES, mount: "mode=lfs", ..plain("linux-features") }),
        ),
        golden(
            "linux-noinline",
            "Linux, the tree without inline data, directories and attributes",
            uml(Recipe { mount: "noinline_data,noinline_dentry,noinline_xattr", ..plain("linux-noinline") }),
        ),
        golden(
            "linux-sections",
            "Linux, sections of two segments, zones of three sections, large NAT bitmap",
            uml(Recipe { mib: 256, mkfs: "-s 2 -z 3 -i", workload: Workload::FsyncChain, ..plain("linux-sections") }),
        ),
        golden(
            "linux-crashed",
            "Linux, a power failure with a chain of fsynced nodes to roll forward",
            uml(crashed("linux-crashed", Workload::FsyncChain)),
        ),
        golden(
            "linux-orphans",
            "Linux, a power failure with orphans in the checkpoint",
            uml(Recipe { mib: 64, ..crashed("linux-orphans", Workload::Orphans { count: 60 }) }),
        ),
        golden(
            "linux-compressed",
            "Linux, files compressed by LZ4, LZ4HC, LZO, LZO-RLE and ZSTD, in clusters of several sizes, some released",
            Source::Qemu { mib: 128, options: "-O extra_attr,inode_checksum,compression", script: COMPRESSED },
        ),
        golden(
            "linux-casefold",
            "Linux, directories in which names of different case are one",
            Source::Qemu { mib: 64, options: "-O casefold -C utf8", script: CASEFOLD },
        ),
        golden(
            "linux-verity",
            "Linux, files with fs-verity",
            Source::Qemu { mib: 64, options: "-O extra_attr,verity", script: VERITY },
        ),
        Golden {
            has_contents: false,
            ..golden(
                "linux-encrypted",
                "Linux, everything encrypted, seen without the key",
                Source::Qemu { mib: 64, options: "-O encrypt", script: ENCRYPTED },
            )
        },
    ]
}

const COMPRESSED: &str = r#"
    by() {
        mount -t f2fs -o "compress_algorithm=$2,compress_log_size=$3,compress_extension=*$4" $DISK $MNT
        $CORPUS $MNT '{"Compressible":{"dir":"'$1'"}}'
        umount $MNT
    }
    by lz4 lz4 2 ""
    by lz4hc lz4:9 3 ",compress_chksum"
    by lzo lzo 2 ""
    by lzo-rle lzo-rle 2 ",compress_chksum"
    by zstd zstd 4 ",compress_chksum"
    by zstd-15 zstd:15 8 ""
    mount -t f2fs $DISK $MNT
    # Given back what compression saved: the files become immutable to writes.
    for algorithm in lz4 zstd; do
        f2fs_io release_cblocks $MNT/$algorithm/text-300000
    done
    mkdir $MNT/by-flag
    chattr +c $MNT/by-flag
    $CORPUS $MNT/by-flag '{"Compressible":{"dir":"default"}}'
    umount $MNT
"#;

const CASEFOLD: &str = r#"
    mount -t f2fs $DISK $MNT
    mkdir $MNT/exact $MNT/folded
    f2fs_io setflags casefold $MNT/folded
    for directory in exact folded; do
        for name in README Readme.MD 'Straße' 'ÅNGSTRÖM' 'İstanbul' 'ΣΊΣΥΦΟΣ' 'ﬁle' 'ＦＵＬＬ' 'ﷺ' 'é' '한글' a B; do
            echo "$name" >"$MNT/$directory/$name"
        done
        printf 'not utf8' >"$MNT/$directory/$(printf '\377\376')"
        mkdir $MNT/$directory/Many
        for n in $(seq 400); do : >$MNT/$directory/Many/Name-$n; done
    done
    # A name is found, and replaced, in whatever case.
    echo replaced >$MNT/folded/readme
    mv $MNT/folded/b $MNT/folded/b.tmp
    umount $MNT
"#;

const VERITY: &str = r#"
    mount -t f2fs $DISK $MNT
    $CORPUS $MNT '{"Compressible":{"dir":"v"}}'
    for file in $MNT/v/*; do fsverity enable $file; done
    echo plain >$MNT/plain
    umount $MNT
"#;

const ENCRYPTED: &str = r#"
    mount -t f2fs -o test_dummy_encryption=v2 $DISK $MNT
    mkdir $MNT/dir
    echo secret >$MNT/dir/file
    echo secret >$MNT/dir/a-name-of-more-than-the-hundred-and-forty-nine-bytes-up-to-which-the-name-that-is-shown-without-the-key-holds-the-whole-of-the-encrypted-name-and-not-a-digest
    head -c 100000 /dev/zero >$MNT/large
    ln -s dir/file $MNT/symlink
    mkfifo $MNT/fifo
    for n in $(seq 300); do : >$MNT/dir/$n; done
    umount $MNT
"#;
