//! The soak for a quarter or half of a minute: 24 writers, 32 collectors, a volume kept 95 % full, and everybody's look
//! at what is left.

use std::process::Command;
use steadyfs_testkit::sampled;

#[test]
fn load_leaves_nothing_wrong() {
    let out =
        Command::new(env!("CARGO_BIN_EXE_soak")).args(["--seconds", sampled("15", "30")]).output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    println!("{stdout}");
    assert!(out.status.success() && stdout.ends_with("nothing wrong\n"), "{stdout}{stderr}");
    assert!(stdout.contains("32, of which 32 worked"), "{stdout}");
}
