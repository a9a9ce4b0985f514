//! `top` on a mount, on a device that is mounted, and on an image.

use std::fs::{self, File};
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, steadyfs};

fn top(args: &[&str], volume: &Path) -> Output {
    finish(steadyfs().arg("top").args(args).arg(volume))
}

fn json(volume: &Path) -> Value {
    let out = top(&["--once", "--json"], volume);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    serde_json::from_str(&out.stdout).unwrap()
}

fn sum(numbers: &Value) -> u64 {
    numbers.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
}

#[test]
fn a_mount_and_the_image_it_leaves_show_the_same_segments() {
    let place = Place::new();
    let child = place.serve(&["--create", "512M"]);
    fs::write(place.mnt().join("file"), vec![7; 32 << 20]).unwrap();
    File::open(place.mnt().join("file")).unwrap().sync_all().unwrap();
    let live = json(&place.mnt());
    assert_eq!(live["mounted"], true);
    assert_eq!(live["stats"]["app"]["written_bytes"], 32 << 20);
    assert_eq!(live["volume"].as_str(), place.mnt().to_str());
    let device = json(&place.image());
    assert_eq!(device["volume"], live["volume"], "the image is mounted: what is shown is the mount");
    assert!(device["stats"]["mounted_us"].as_u64() > live["stats"]["mounted_us"].as_u64());
    let text = top(&["--once"], &place.mnt()).stdout;
    for part in [
        "mounted for 0:00:",
        "application  32.0 MiB written",
        "collectors ",
        "WAF ",
        "checkpoints ",
        "segments in a cell",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 160), "{text}");
    ends_well(child, Some(Signal::INT));
    let before = fs::read(place.image()).unwrap();
    let image = json(&place.image());
    assert_eq!((&image["mounted"], &image["volume"]), (&false.into(), &place.image().to_str().into()));
    let valid = |of: &Value| sum(&of["segments"]["valid"]);
    assert_eq!(valid(&image), image["stats"]["space"]["blocks_valid"].as_u64().unwrap());
    // Of 32 MiB there are 8192 blocks of data, and the nodes for them.
    assert!(valid(&image) > 8192 && valid(&image) < 8300, "{}", valid(&image));
    let text = top(&[], &place.image()).stdout;
    assert!(text.contains(": not mounted\n") && text.contains("##########"), "{text}");
    assert!(fs::read(place.image()).unwrap() == before, "looking has changed the image");
}

#[test]
fn what_is_no_volume_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fails(&top(&[], dir.path()), 1, &["no SteadyFS volume is mounted", "name an image"]);
    fails(&top(&["--once"], &dir.path().join("nothing")), 1, &["no such file"]);
    fs::write(dir.path().join("file"), vec![0; 64 << 20]).unwrap();
    fails(&top(&["--json"], &dir.path().join("file")), 1, &["no F2FS volume"]);
    for interval in ["0", "-1", "x", "nan", "1e9"] {
        assert_eq!(top(&[&format!("--interval={interval}")], dir.path()).code, 2, "{interval}");
    }
}
