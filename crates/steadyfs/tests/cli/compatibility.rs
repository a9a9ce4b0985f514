//! docs/COMPATIBILITY.md says what the program does: every feature bit is tried.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use steadyfs_format::Features;

use crate::run::run;

/// The rows of the table: bit, name, class.
fn table() -> Vec<(u32, String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/COMPATIBILITY.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| 0x")).map(cells);
    rows.map(|row| (u32::from_str_radix(&row[1][2..], 16).unwrap(), row[2].clone(), row[3].clone())).collect()
}

/// A volume with the feature: made so, or with the bit set afterwards where mkfs does not make it.
fn make(image: &Path, name: &str, bit: u32) {
    let path = image.to_str().unwrap();
    let features = format!("extra_attr,{name}");
    if run(&["mkfs", "-q", "-O", features.as_str(), path, "64M"]).code == 0 {
        return;
    }
    assert_eq!(run(&["mkfs", "-q", "-O", "extra_attr", path, "64M"]).code, 0);
    set_bit(image, bit);
}

fn set_bit(image: &Path, bit: u32) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    for copy in [0, 4096] {
        let mut bits = [0; 4];
        file.read_exact_at(&mut bits, copy + 1024 + 2180).unwrap();
        file.write_all_at(&(u32::from_le_bytes(bits) | bit).to_le_bytes(), copy + 1024 + 2180).unwrap();
    }
}

/// What the program does with the volume, and what it says.
fn class(image: &Path) -> (&'static str, String) {
    let path = image.to_str().unwrap();
    let (read, write) = (run(&["ls", path]), run(&["mkdir", path, "/new"]));
    match (read.code, write.code) {
        (0, 0) => ("write", String::new()),
        (0, 1) => ("read", write.stderr),
        (1, 1) => ("refused", read.stderr),
        other => panic!("exit codes {other:?}: {} {}", read.stderr, write.stderr),
    }
}

#[test]
fn the_table_is_true() {
    let table = table();
    let known: Vec<_> = Features::ALL.iter().map(|(name, bit)| (bit.bits(), (*name).to_owned())).collect();
    assert_eq!(table.iter().map(|(bit, name, _)| (*bit, name.clone())).collect::<Vec<_>>(), known);
    let dir = tempfile::tempdir().unwrap();
    for (bit, name, expected) in table {
        let image = dir.path().join(&name);
        make(&image, &name, bit);
        let (found, said) = class(&image);
        assert_eq!(found, expected, "{name}: {said}");
        assert!(found == "write" || said.contains(&name), "the feature {name} is not named: {said}");
    }
}

#[test]
fn other_bits_are_refused_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let known = Features::ALL.iter().fold(0, |all, (_, bit)| all | bit.bits());
    for bit in (0..32).map(|n| 1u32 << n).filter(|bit| known & bit == 0) {
        let image = dir.path().join("image");
        let _ = fs::remove_file(&image);
        make(&image, "none", bit);
        let (found, said) = class(&image);
        assert_eq!(found, "refused", "{bit:#x}");
        assert!(said.contains(&format!("{bit:#x}")), "{said}");
    }
}
