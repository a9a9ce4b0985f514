//! `fsck`: what it says, and the exit codes of fsck(8).

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FlockOperation, flock};

use crate::inspect::{Image, fails};
use crate::run::{finish, run_as, steadyfs};

#[test]
fn a_clean_volume() {
    let image = Image::new();
    for args in [&["fsck"][..], &["fsck", "-n"], &["fsck", "-f"], &["fsck", "-y"], &["fsck", "-j", "1"]] {
        let text = image.ok(args);
        assert!(text.ends_with("no errors\n"), "{args:?}: {text}");
        assert!(text.contains("0 files, 2 directories"), "{text}");
    }
    assert!(image.ok(&["fsck", "-p"]).contains("not checked"));
    assert!(image.ok(&["fsck", "-a", "-f"]).ends_with("no errors\n"));
    let json: serde_json::Value = serde_json::from_str(&image.ok(&["fsck", "--json"])).unwrap();
    assert_eq!(
        (&json["clean"], &json["exit_code"], &json["issues"]),
        (&true.into(), &0.into(), &serde_json::json!([]))
    );
    assert_eq!(json["counts"]["directories"], 2);
}

#[test]
fn errors_are_named_and_left_alone() {
    let image = Image::new();
    // The root directory's count of links.
    let mut links = [0; 4];
    let file = File::options().read(true).write(true).open(image.path()).unwrap();
    file.read_exact_at(&mut links, 4096 * 4096 + 12).unwrap();
    file.write_all_at(&[links[0] + 1], 4096 * 4096 + 12).unwrap();
    let before = std::fs::read(image.path()).unwrap();
    let out = image.run(&["fsck", "-y"]);
    assert_eq!((out.code, out.stderr.as_str()), (4, ""), "{}", out.stdout);
    assert!(out.stdout.lines().any(|line| line.starts_with("error: ")), "{}", out.stdout);
    assert!(out.stdout.contains("repairs nothing"), "{}", out.stdout);
    let out = image.run(&["fsck", "--json"]);
    assert_eq!(out.code, 4);
    let json: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&json["clean"], &json["exit_code"]), (&false.into(), &4.into()));
    let issue = &json["issues"][0];
    assert!(issue["code"].is_string() && issue["text"].is_string() && issue["fields"].is_object(), "{issue}");
    assert!(std::fs::read(image.path()).unwrap() == before, "the image has changed");
}

#[test]
fn volumes_that_cannot_be_checked() {
    let image = Image::new();
    image.cut(32 << 20);
    let out = image.run(&["fsck"]);
    assert_eq!(out.code, 8, "{}", out.stdout);
    assert!(out.stdout.contains("fatal: ") && out.stdout.contains("could not be checked"), "{}", out.stdout);
    image.cut(0);
    fails(&image.run(&["fsck"]), 8, &["0 bytes"]);
    let dir = tempfile::tempdir().unwrap();
    let on = |path: &std::path::Path| finish(steadyfs().arg("fsck").arg(path));
    fails(&on(&dir.path().join("missing")), 8, &["no such file"]);
    fails(&on(dir.path()), 8, &["a directory"]);
    let other = Image::new();
    let lock = File::open(other.path()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    fails(&other.run(&["fsck"]), 8, &["in use"]);
}

#[test]
fn usage_is_16_and_the_tools_name_works() {
    let image = Image::new();
    for args in [&["fsck"][..], &["fsck", "--bad", "x"], &["fsck", "-n", "-y", "x"]] {
        assert_eq!(crate::run::run(args).code, 16, "{args:?}");
    }
    fails(&image.run(&["fsck", "-C", "77"]), 16, &["descriptor 77"]);
    let out = run_as("/sbin/fsck.steadyfs", &["-a", "-C0", image.path().to_str().unwrap()]);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    assert_eq!(run_as("fsck.steadyfs", &["--bad"]).code, 16);
}

#[test]
fn progress_goes_where_it_is_asked_for() {
    let image = Image::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    // The descriptor that stands for progress is standard error here: the one that a test can hand over without more
    // ado.
    let out = finish(steadyfs().args(["fsck", "-C", "2"]).arg(image.path()).stderr(writer));
    assert_eq!(out.code, 0);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    let lines: Vec<Vec<u64>> = text.lines().map(|l| l.split(' ').map(|n| n.parse().unwrap()).collect()).collect();
    assert!(lines.len() >= 6 && lines.iter().all(|line| line.len() == 3 && line[1] <= line[2]), "{text}");
}

/// What fsck.f2fs says of the same image.
fn fsck_f2fs(args: &[&str], image: &Image) -> Option<i32> {
    let out = std::process::Command::new("fsck.f2fs").args(args).arg(image.path()).output();
    out.expect("fsck.f2fs is installed").status.code()
}

/// Each code of fsck(8) that a checker which repairs nothing can have; beside those where fsck.f2fs 1.15 has another
/// one.
#[test]
fn every_exit_code_of_fsck_8() {
    let destroy = |image: &Image, block: u64| {
        let file = File::options().write(true).open(image.path()).unwrap();
        file.write_all_at(&[0; 4096], block * 4096).unwrap();
    };
    let image = Image::new();
    assert_eq!((image.run(&["fsck"]).code, fsck_f2fs(&["--dry-run", "-f"], &image)), (0, Some(0)));
    // Wrong arguments: 16, which fsck.f2fs takes for "errors were corrected".
    assert_eq!((image.run(&["fsck", "--nonsense"]).code, fsck_f2fs(&["--nonsense"], &image)), (16, Some(1)));
    // The first superblock is gone: an error that is left alone, though the volume can be used. fsck.f2fs sees none.
    destroy(&image, 0);
    let out = image.run(&["fsck"]);
    assert_eq!((out.code, fsck_f2fs(&["--dry-run", "-f"], &image)), (4, Some(0)));
    assert!(out.stdout.contains("the superblock in block 0 is damaged"), "{}", out.stdout);
    // A checkpoint is gone, which no crash does: nobody knows whether it was the newer one.
    let single = Image::new();
    destroy(&single, 512 + 512);
    let out = single.run(&["fsck"]);
    assert_eq!(out.code, 4, "{}", out.stdout);
    assert!(out.stdout.contains("error: checkpoint pack 2 is destroyed"), "{}", out.stdout);
    assert!(out.stdout.contains("1 errors, 0 warnings"), "{}", out.stdout);
    assert_eq!(single.run(&["fsck", "-p"]).code, 4);
    // Both are gone: nothing could be checked.
    destroy(&image, 1);
    assert_eq!(image.run(&["fsck"]).code, 8);
    // Errors, and something that kept the check from its end, add up.
    let image = Image::new();
    destroy(&image, 0);
    image.cut(32 << 20);
    assert_eq!(image.run(&["fsck", "-f"]).code, 4 | 8, "{}", image.run(&["fsck", "-f"]).stdout);
    // A missing device is not a matter of arguments.
    std::fs::remove_file(image.path()).unwrap();
    assert_eq!(image.run(&["fsck"]).code, 8);
}
