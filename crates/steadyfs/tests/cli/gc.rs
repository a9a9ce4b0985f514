//! `gc`: the plan, and what collecting then really does.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use steadyfs_core::{Fs, MountOptions, NewInode};
use steadyfs_device::{OpenOptions, open_image};
use steadyfs_testkit::{Rng, fsck_f2fs};

use crate::inspect::fails;
use crate::run::{Output, finish, steadyfs};

const PAGE: u64 = 4096;

/// A volume where a file was overwritten here and there, so that its segments hold more or less garbage.
fn with_garbage(dir: &Path) -> PathBuf {
    let image = dir.join("a.img");
    assert_eq!(finish(steadyfs().args(["mkfs", "-q"]).arg(&image).arg("256M")).code, 0);
    let device = open_image(&image, OpenOptions::default()).unwrap();
    let options = MountOptions::parse("background_gc=off,commit=0,gc=f2fs-lfs").unwrap();
    let fs = Fs::mount(device, options).unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.create(&fs.root().unwrap(), b"file", &new).unwrap();
    let pages = 80 * 256;
    let write = |page: u64| assert_eq!(fs.write(&file, page * PAGE, &[page as u8; 4096]).unwrap(), 4096);
    (0..pages).for_each(write);
    fs.sync().unwrap();
    // The lower a page, the more often it is written again.
    let mut random = Rng(1);
    for _ in 0..8000 {
        let unit = (random.bits() >> 33) as f64 / (1_u64 << 31) as f64;
        write((unit * unit * pages as f64) as u64);
    }
    drop(file);
    fs.unmount().unwrap();
    image
}

fn gc(args: &[&str], image: &Path) -> Output {
    finish(steadyfs().arg("gc").args(args).arg(image))
}

fn json(args: &[&str], image: &Path) -> Value {
    let out = gc(&[&["--json"], args].concat(), image);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""));
    serde_json::from_str(&out.stdout).unwrap()
}

fn of(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn free_segments(image: &Path) -> u64 {
    let out = finish(steadyfs().args(["info", "--json"]).arg(image)).stdout;
    of(&serde_json::from_str::<Value>(&out).unwrap()["space"], "free_segments")
}

#[test]
fn a_plan_writes_nothing_and_collecting_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let image = with_garbage(dir.path());
    let before = fs::read(&image).unwrap();
    let all = json(&["--plan"], &image);
    let text = gc(&["--plan"], &image).stdout;
    json(&["--plan", "--policy", "cost-benefit"], &image);
    assert!(fs::read(&image).unwrap() == before, "planning has changed the image");
    let victims = all["victims"].as_array().unwrap();
    assert!(victims.len() >= 20 && victims.len() as u64 == of(&all, "candidates"), "{all}");
    let valid: Vec<u64> = victims.iter().map(|v| of(v, "data") + of(v, "nodes")).collect();
    assert!(valid.is_sorted() && valid[0] + 20 < valid[valid.len() - 1], "{valid:?}");
    assert!(victims.iter().zip(&valid).all(|(v, valid)| of(v, "garbage") + valid == 512));
    assert!(victims.iter().zip(1..).all(|(v, place)| of(v, "greedy") == place));
    assert!(text.contains(&format!("frees {} sections and gains ", victims.len())), "{text}");
    for (number, policy) in [(1, "greedy"), (10, "greedy"), (10, "cost-benefit")] {
        let copy = dir.path().join("copy.img");
        fs::write(&copy, &before).unwrap();
        let args = ["--policy", policy, "--sections", &number.to_string()];
        let plan = json(&[&["--plan"], &args[..]].concat(), &copy);
        let column = policy.replace('-', "_");
        let places: Vec<u64> = plan["victims"].as_array().unwrap().iter().map(|v| of(v, &column)).collect();
        assert_eq!(places, (1..=number).collect::<Vec<_>>());
        let free = free_segments(&copy);
        let done = json(&args, &copy);
        assert_eq!(
            (of(&done, "sections_collected"), of(&done, "sections_freed")),
            (number, of(&plan, "sections_freed"))
        );
        for moved in ["data_moved", "nodes_moved"] {
            assert_eq!(of(&done, moved), of(&plan, moved), "{moved}, {policy}");
        }
        // Blocks go to segments that are open; whether the last of those is a new one is not in the plan.
        let gained = free_segments(&copy) as f64 - free as f64;
        let planned = plan["sections_gained"].as_f64().unwrap();
        assert!((gained - planned).abs() <= 2.0, "{gained} instead of {planned}");
        let waf = plan["waf"].as_f64().unwrap();
        let written = of(&plan, "blocks_written") as f64;
        assert!((waf - 1.0 - written / of(&plan, "garbage") as f64).abs() < 1e-9 && waf > 1.0, "{plan}");
        assert!(written >= (of(&plan, "data_moved") + of(&plan, "nodes_moved")) as f64);
        fsck_f2fs(&copy).unwrap();
    }
}

#[test]
fn what_cannot_be_planned() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("a.img");
    fails(&gc(&["--plan"], &image), 1, &["no such file"]);
    assert_eq!(finish(steadyfs().args(["mkfs", "-q"]).arg(&image).arg("64M")).code, 0);
    let out = gc(&["--plan"], &image);
    assert!(out.code == 0 && out.stdout.starts_with("nothing to collect: "), "{out:?}");
    assert_eq!(json(&["--plan"], &image)["candidates"], 0);
    assert_eq!(gc(&["--plan", "--sections", "1", "--segments", "1"], &image).code, 2);
    assert_eq!(gc(&["--policy", "best"], &image).code, 2);
    fails(&gc(&["--plan"], dir.path()), 1, &["it is a directory"]);
}
