//! Files that are mapped into memory and written there.

use crate::harness::{CACHES, Place};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// Writes a thousand letters behind the end of a file through a mapping, then allocates. By numbers of system calls:
/// mmap, read, fallocate.
#[cfg(target_arch = "x86_64")]
const MAP_AND_ALLOCATE: &str = r#"
my ($path, $letters, $mode, $from, $length) = @ARGV;
open(my $file, "+<", $path) && open(my $source, "<", $letters) or die "open: $!";
my $memory = syscall(9, 0, 4096, 3, 1, fileno($file), 0);
$memory > 0 && syscall(0, fileno($source), $memory + 200, 1000) == 1000 or die "mapping: $!";
syscall(285, fileno($file), $mode + 0, $from + 0, $length + 0) == 0 or die "fallocate: $!";
"#;

/// What was written there is in the kernel's page only, and is not to be seen when the file grows.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_a_mapping_wrote_behind_the_end_does_not_come_to_light_by_an_allocation() {
    const ZERO_RANGE: &str = "16";
    let place = Place::new();
    let letters = tempfile::NamedTempFile::new().unwrap();
    fs::write(letters.path(), [b'Z'; 1000]).unwrap();
    for cache in CACHES {
        place.mounted(cache, |_| {
            let ways = [(true, ["0", "0", "8192"]), (false, ["0", "0", "8192"]), (true, [ZERO_RANGE, "5000", "3192"])];
            for (synced, asked) in ways {
                let path = place.at("file");
                let open = fs::File::create(&path).unwrap();
                (&open).write_all(&[1; 100]).unwrap();
                if synced {
                    open.sync_all().unwrap();
                }
                let mut perl = Command::new("perl");
                let out = perl.args(["-e", MAP_AND_ALLOCATE]).arg(&path).arg(letters.path()).args(asked).output();
                let out = out.expect("perl");
                assert!(out.status.success(), "{cache} {asked:?}: {out:?}");
                let expected = [vec![1; 100], vec![0; 8092]].concat();
                assert!(fs::read(&path).unwrap() == expected, "{cache} {asked:?}");
                open.sync_all().unwrap();
                fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
                assert!(fs::read(&path).unwrap() == expected, "{cache} {asked:?}, from the volume");
            }
        });
    }
    place.check();
}

#[test]
fn a_file_opened_past_the_cache_can_be_mapped_shared() {
    let place = Place::new();
    for cache in CACHES {
        place.mounted(cache, |_| {
            let path = place.at(cache);
            let status = Command::new("fio")
                .args(["--name=mapped", "--ioengine=mmap", "--direct=1", "--rw=write", "--bs=4k", "--size=64k"])
                .args(["--buffer_pattern=0x5a", "--end_fsync=1"])
                .arg(format!("--filename={}", path.display()))
                .stdout(Stdio::null())
                .status();
            assert!(status.expect("fio is installed").success(), "{cache}");
            assert_eq!(fs::read(&path).unwrap(), [0x5a; 64 << 10], "{cache}");
        });
    }
    place.check();
}
