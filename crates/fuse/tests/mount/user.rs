//! A user who is not root mounts through fusermount3.

use crate::harness::{Place, SERVE};
use std::process::Command;

/// Runs as root in mount namespace of its own, where everyone may open `/dev/fuse` (as on every ordinary system);
/// Everything that is mounted goes with the namespace.
const SCRIPT: &str = r#"
set -e
dev=$BASE/fuse; mknod -m 666 "$dev" c 10 229; mount --bind "$dev" /dev/fuse
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
$as_user "$PROGRAM" harness::serve --exact --nocapture --test-threads=1 >"$BASE/log" 2>&1 &
pid=$!
for i in $(seq 600); do grep -q MOUNTED "$BASE/log" && break; kill -0 $pid 2>/dev/null || break; sleep 0.05; done
grep " $MNT " /proc/self/mounts || { cat "$BASE/log"; exit 1; }
$as_user sh -c 'umask 022; echo contents > "$MNT/file"; cat "$MNT/file"; stat -c "%u %a" "$MNT/file"'
cat "$MNT/file" 2>&1 | sed 's/.*: //'
kill -TERM $pid; wait $pid; echo "ended $?"
grep -c " $MNT " /proc/self/mounts || true
"#;

#[test]
fn a_user_mounts_and_keeps_the_others_out() {
    let place = Place::alone();
    for path in [place.source.clone(), place.dir(), place.source.parent().unwrap().to_owned()] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    // The volume's root belongs to root; the option makes it look like the user's.
    let serve = format!("{}\n{}\nuid=65534,gid=65534,subtype=photos", place.source.display(), place.dir().display());
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", SCRIPT])
        .env("BASE", place.source.parent().unwrap())
        .env("MNT", place.dir())
        .env("PROGRAM", std::env::current_exe().unwrap())
        .env(SERVE, serve)
        .output()
        .expect("unshare (package util-linux)");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = text.lines().collect();
    let [mount, contents, stat, others, ended, left] = lines[..] else {
        panic!("{said}");
    };
    assert!(mount.contains(" fuse.photos rw,nosuid,nodev,") && mount.contains("user_id=65534"), "{said}");
    assert_eq!(
        [contents, stat, others, ended, left],
        ["contents", "65534 644", "Permission denied", "ended 0", "0"],
        "{said}"
    );
    place.check();
}
