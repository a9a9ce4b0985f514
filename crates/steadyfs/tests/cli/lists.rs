//! `ls`, `find`, `du` and `df` of an image, with the flags that fingers know.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{Output, finish, steadyfs};

use rustix::process::Signal;

/// A volume with a tree: files of 0, 5, 5000 and 2 MiB bytes, the larger the older; names with a dot, and two of one.
fn volume() -> Place {
    let place = Place::formatted();
    let tree = place.dir.path().join("tree");
    fs::create_dir_all(tree.join("sub/.deep")).unwrap();
    for (name, size, age) in [(".none", 0, 10), ("b.txt", 5, 20), ("a.txt", 5000, 30), ("sub/c.bin", 2 << 20, 40)] {
        fs::write(tree.join(name), vec![7; size]).unwrap();
        let file = File::options().write(true).open(tree.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
    }
    fs::hard_link(tree.join("sub/c.bin"), tree.join("sub/.deep/d.bin")).unwrap();
    symlink("a.txt", tree.join("link")).unwrap();
    assert_eq!(run(&place, &["put", "tree", "@", "/"]).code, 0);
    place
}

fn run(place: &Place, args: &[&str]) -> Output {
    let args = args.iter().map(|arg| if *arg == "@" { "a.img" } else { arg });
    finish(steadyfs().args(args).current_dir(place.dir.path()))
}

#[track_caller]
fn ok(place: &Place, args: &[&str]) -> String {
    let out = run(place, args);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
    out.stdout
}

#[test]
fn ls_takes_the_flags_that_are_typed() {
    let place = volume();
    for (flags, names) in [
        ("-A", ".none a.txt b.txt link sub"),
        ("-a", ". .. .none a.txt b.txt link sub"),
        ("-1", ".none a.txt b.txt link sub"),
        ("-ar", "sub link b.txt a.txt .none .. ."),
        ("-Sr", ".none b.txt link a.txt sub"),
        ("-aA", ".none a.txt b.txt link sub"),
    ] {
        let names = format!("{}\n", names.replace(' ', "\n"));
        let listed = ok(&place, &["ls", flags, "@", "/tree"]);
        assert!(listed == names || flags == "-Sr" && sizes_ascend(&listed), "{flags}: {listed}");
    }
    let by_time: Vec<String> =
        ok(&place, &["ls", "-t", "@", "/tree"]).lines().filter(|l| l.contains('.')).map(str::to_owned).collect();
    assert_eq!(by_time, [".none", "b.txt", "a.txt"]);
    let long = ok(&place, &["ls", "-lah", "@", "/tree"]);
    let line = |name: &str| long.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap().to_owned();
    assert!(line("a.txt").contains(" 4.9K ") && line("b.txt").contains(" 5 "), "{long}");
    assert!(line("..").starts_with("drwx"), "{long}");
    // Neither of the two is gone into, and the root is its own parent.
    let deep = ok(&place, &["ls", "-aR", "@", "/"]);
    assert!(deep.starts_with("/:\n.\n..\ntree\n\n/tree:\n"), "{deep}");
    assert_eq!(deep.matches("/tree/sub/.deep:").count(), 1, "{deep}");
    assert!(ok(&place, &["ls", "--help"]).contains("Usage: steadyfs ls"));
}

fn sizes_ascend(listed: &str) -> bool {
    let at = |name: &str| listed.lines().position(|line| line == name).unwrap();
    at(".none") < at("b.txt") && at("b.txt") < at("a.txt")
}

#[test]
fn find_has_the_words_of_find() {
    let place = volume();
    for (args, paths) in [
        (&["find", "@", "/tree", "-name", "*.txt"][..], "/tree/a.txt /tree/b.txt"),
        (&["find", "-name", "*.txt", "@", "/tree"], "/tree/a.txt /tree/b.txt"),
        (
            &["find", "@", "/tree", "-type", "f", "-size", "+9", "-print"],
            "/tree/a.txt /tree/sub/.deep/d.bin /tree/sub/c.bin",
        ),
        (&["find", "@", "/tree", "-type", "f", "-size", "-6c"], "/tree/.none /tree/b.txt"),
        (&["find", "@", "/tree", "-size", "2M", "-name", "c*"], "/tree/sub/c.bin"),
        (&["find", "@", "--type", "l"], "/tree/link"),
    ] {
        assert_eq!(ok(&place, args), format!("{}\n", paths.replace(' ', "\n")), "{args:?}");
    }
    assert_eq!(run(&place, &["find", "@", "-size", "5x"]).code, 2);
}

/// As du(1) and df(1) say of a mount.
#[test]
fn du_and_df_say_what_a_mount_says() {
    let place = volume();
    let du = ok(&place, &["du", "@", "/tree"]);
    let (df, df_json) = (ok(&place, &["df", "@"]), ok(&place, &["df", "--json", "@"]));
    fs::create_dir(place.mnt()).unwrap();
    let child = place.serve(&["-o", "ro"]);
    let of_mount = finish(Command::new("du").arg("tree").current_dir(place.mnt())).stdout;
    let sizes = finish(Command::new("df").arg("--output=size,used,avail,pcent").arg(place.mnt())).stdout;
    ends_well(child, Some(Signal::INT));
    let lines = |text: &str, cut: &str| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(|line| line.replacen(cut, "\t", 1)).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&du, "\t/"), lines(&of_mount, "\t"));
    assert!(du.ends_with("\t/tree\n"), "{du}");
    let numbers =
        |text: &str| text.lines().nth(1).unwrap().split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(numbers(&df), numbers(&sizes));
    assert!(df_json.contains("\"available\": "), "{df_json}");
    assert_eq!(ok(&place, &["du", "-sh", "@", "/tree"]).lines().count(), 1);
    assert!(ok(&place, &["du", "-ah", "@", "/tree/sub"]).contains("2.1M\t/tree/sub\n"));
    // The second name costs nothing.
    assert!(ok(&place, &["du", "-a", "@", "/tree/sub"]).contains("0\t/tree/sub/c.bin\n"));
    assert!(ok(&place, &["df", "-h", "@"]).contains("a.img"));
    fails(&run(&place, &["du", "@", "/nothing"]), 1, &["cannot find /nothing"]);
}
