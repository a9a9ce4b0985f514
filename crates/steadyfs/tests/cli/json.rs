//! `--json` of the commands that look: each is one JSON value with the documented fields, whatever names hold.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::inspect::fails;
use crate::run::{Output, finish, run_as, steadyfs};

struct Tree {
    dir: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Tree { dir: tempfile::tempdir().unwrap() };
        let top = tree.dir.path().join("top");
        fs::create_dir_all(top.join("d")).unwrap();
        fs::write(top.join("d/123"), "hello").unwrap();
        fs::write(top.join(OsStr::from_bytes(b"d/\xff\x1b")), "").unwrap();
        symlink("d/123", top.join("link")).unwrap();
        assert_eq!(tree.run(&["mkfs", "-q", "-l", "42", "a.img", "64M"]).code, 0);
        assert_eq!(tree.run(&["put", "top/.", "a.img", "/"]).code, 0);
        tree
    }

    fn run(&self, args: &[&str]) -> Output {
        finish(steadyfs().args(args).current_dir(self.dir.path()))
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let out = self.run(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!out.stdout.contains('\x1b'), "{args:?}: {}", out.stdout);
        serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", out.stdout))
    }
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

#[test]
fn lists() {
    let tree = Tree::new();
    let all = tree.json(&["ls", "-R", "--json", "a.img"]);
    assert_eq!(paths(&all), ["/d", "/link", "/d/123", "/d/\u{fffd}\u{1b}"]);
    let (link, file, odd) = (&all[1], &all[2], &all[3]);
    assert_eq!((&link["kind"], &link["target"]), (&"symbolic link".into(), &"d/123".into()));
    assert_eq!((&file["size"], &file["links"], &file["kind"]), (&5.into(), &1.into(), &"regular file".into()));
    assert!(file["inode"].is_u64() && file["mode"].is_string() && file["modified"].is_string(), "{file}");
    assert_eq!((&odd["path_hex"], &file["path_hex"]), (&"2f642fff1b".into(), &Value::Null));
    assert_eq!(paths(&tree.json(&["ls", "-d", "--json", "a.img", "/d"])), ["/d"]);
    assert_eq!(paths(&tree.json(&["find", "--json", "--name", "1*", "a.img"])), ["/d/123"]);
    assert_eq!(tree.json(&["find", "--json", "--name", "none", "a.img"]), Value::Array(Vec::new()));
    let whole = tree.json(&["stat", "--json", "a.img", "/d/123"]);
    for (field, value) in file.as_object().unwrap() {
        assert_eq!(&whole[0][field], value, "{field}");
    }
}

#[test]
fn structures() {
    let tree = Tree::new();
    let inode = tree.json(&["dump", "inode", "--json", "/d/123", "a.img"]);
    assert_eq!((&inode["i_name"], &inode["i_size"]), (&"123".into(), &5.into()));
    let number = inode["inode"].to_string();
    assert_eq!(tree.json(&["dump", "inode", "--json", &number, "a.img"]), inode);
    assert_eq!(
        tree.run(&["dump", "inode", "d/123", "a.img"]).stdout,
        tree.run(&["dump", "inode", &number, "a.img"]).stdout
    );
    fails(&tree.run(&["dump", "inode", "/none", "a.img"]), 1, &["cannot find /none"]);
    let dir = tree.json(&["dump", "dir", "--json", "/d", "a.img"]);
    let names: Vec<&str> =
        dir["entries"].as_array().unwrap().iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert!(names.contains(&"123") && names.contains(&"."), "{dir}");
    assert!(dir["entries"].as_array().unwrap().iter().any(|entry| entry["name_hex"] == "ff1b"), "{dir}");
    assert_eq!(tree.json(&["dump", "sb", "--json", "a.img"])["volume_name"], "42");
    let cp = tree.json(&["dump", "cp", "--json", "a.img"]);
    assert!(cp["valid_inode_count"].is_u64() && cp["ckpt_flags"].is_string(), "{cp}");
    let block = tree.json(&["dump", "block", "--json", "0", "a.img"]);
    assert_eq!((block["bytes"].as_str().unwrap().len(), &block["area"]), (8192, &"superblock".into()));
    let sit = tree.json(&["dump", "sit", "--json", "0", "a.img"]);
    assert!(sit["valid blocks"].is_u64(), "{sit}");
    assert!(tree.json(&["dump", "ssa", "--json", "0", "a.img"])["type"].is_string());
    assert_eq!(tree.json(&["dump", "nat", "--json", "3", "a.img"])["free"], false);
}

/// dump.f2fs' own flags, for those who call the tool by its name.
#[test]
fn flags_of_dump_f2fs() {
    let tree = Tree::new();
    let image = tree.dir.path().join("a.img");
    let image = image.to_str().unwrap();
    let out = run_as("dump.steadyfs", &["-i", "3", image]);
    assert_eq!((out.code, out.stdout), (0, tree.run(&["dump", "inode", "3", "a.img"]).stdout));
    assert_eq!(run_as("/sbin/dump.steadyfs", &["-b", "0", image]).code, 0);
}
