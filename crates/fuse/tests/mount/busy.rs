//! A mount that somebody uses while it is told to stop.

use crate::harness::{Place, is_mounted, umount, until};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::time::Duration;

#[test]
fn a_busy_mount_says_who_uses_it_and_waits() {
    let place = Place::new();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("open")).unwrap();
    served.signal(Signal::TERM);
    let me = format!("is in use: process {} (", std::process::id());
    until("it says who", || served.log().contains(&me));
    assert!(served.log().contains(&format!("has open {}", place.at("open").display())), "{}", served.log());
    file.write_all(b"still served").unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    assert!(!served.has_ended() && is_mounted(&served.dir));
    assert_eq!(served.log().matches("is in use").count(), 2, "said more than once: {}", served.log());
    drop(file);
    assert_eq!(served.end(), 0, "{}", served.log());
    place.check();
    place.mounted("", |_| assert_eq!(fs::read(place.at("open")).unwrap(), b"still served"));
}

#[test]
fn the_second_signal_takes_it_out_of_sight() {
    let place = Place::new();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("open")).unwrap();
    served.signal(Signal::TERM);
    until("it waits", || served.log().contains("waiting to unmount"));
    served.signal(Signal::INT);
    until("out of sight", || !is_mounted(&served.dir));
    file.write_all(b"still served").unwrap();
    file.sync_all().unwrap();
    assert!(!served.has_ended());
    drop(file);
    assert_eq!(served.end(), 0, "{}", served.log());
    place.mounted("", |_| assert_eq!(fs::read(place.at("open")).unwrap(), b"still served"));
}

#[test]
fn the_third_signal_ends_it() {
    let place = Place::new();
    let mut served = place.mount("");
    let mut file = fs::File::create(place.at("open")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    for (signal, said) in
        [(Signal::TERM, "waiting to unmount"), (Signal::TERM, "until its last user is gone"), (Signal::TERM, "ending")]
    {
        served.signal(signal);
        until(said, || served.log().contains(said));
    }
    assert_eq!(served.end(), 0, "{}", served.log());
    assert!(file.write_all(b"nobody is there").and_then(|()| file.sync_all()).is_err());
    place.check();
    place.mounted("", |_| assert_eq!(fs::read(place.at("open")).unwrap(), b"synced"));
}

#[test]
fn a_mount_on_top_is_left_alone() {
    let place = Place::new();
    let mut served = place.mount("");
    let options: Option<&std::ffi::CStr> = None;
    rustix::mount::mount("on-top", &served.dir, "tmpfs", rustix::mount::MountFlags::empty(), options).unwrap();
    fs::write(place.at("on-top"), b"").unwrap();
    served.signal(Signal::TERM);
    until("it says what is there", || served.log().contains("on-top is mounted on "));
    served.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(700));
    assert!(place.at("on-top").exists(), "the other mount was taken away");
    umount(&served.dir);
    assert_eq!(served.end(), 0, "{}", served.log());
}

/// A mount namespace that was made while it was mounted has it, too, whoever unmounts it here.
#[test]
fn a_mount_that_another_namespace_holds_says_which() {
    let place = Place::alone();
    let mut served = place.mount("");
    let mut other = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sleep", "1000"])
        .spawn()
        .expect("unshare");
    let comm = format!("/proc/{}/comm", other.id());
    until("it is there", || fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep"));
    served.signal(Signal::TERM);
    let told = format!("in another mount namespace: process {} (sleep) has it on {}", other.id(), served.dir.display());
    until("it says who", || served.log().contains(&told));
    std::thread::sleep(Duration::from_millis(1200));
    assert!(!served.has_ended() && !is_mounted(&served.dir));
    assert_eq!(served.log().matches("another mount namespace").count(), 1, "said more than once: {}", served.log());
    other.kill().and_then(|()| other.wait()).unwrap();
    assert_eq!(served.end(), 0, "{}", served.log());
    place.check();
}
