//! `top` on a mount, on a device that is mounted, and on an image; as text, as JSON and on a terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
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

/// A terminal of its own for a program: what is typed into it, and what it shows.
struct Screen {
    keyboard: File,
    /// The program's side, to look at the terminal's modes.
    inside: File,
    shown: Arc<Mutex<String>>,
}

impl Screen {
    fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let inside = File::options().read(true).write(true).open(name).unwrap();
        let keyboard = File::from(master);
        tcsetwinsize(&keyboard, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let (shown, mut screen) = (Arc::new(Mutex::new(String::new())), keyboard.try_clone().unwrap());
        let into = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n) = screen.read(&mut bytes) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Screen { keyboard, inside, shown }
    }

    fn start(&self, args: &[&str], volume: &Path) -> Child {
        let side = || Stdio::from(self.inside.try_clone().unwrap());
        let mut command = steadyfs();
        command.arg("top").args(args).arg(volume).stdin(side()).stdout(side()).stderr(side());
        command.env_remove("NO_COLOR").spawn().unwrap()
    }

    /// Waits until it shows this word, after what it had shown before. Between words it may move the cursor instead of
    /// writing spaces.
    #[track_caller]
    fn wait_for(&self, what: &str) {
        let start = Instant::now();
        while !self.shown.lock().unwrap().contains(what) {
            assert!(start.elapsed() < Duration::from_secs(30), "no {what:?} in {:?}", self.shown.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.shown.lock().unwrap().clear();
    }

    fn press(&mut self, key: &str) {
        self.keyboard.write_all(key.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.inside).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

/// What takes a terminal back to what it showed before.
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn the_live_view_gives_the_terminal_back_however_it_ends() {
    let place = Place::new();
    let mount = place.serve(&["--create", "256M"]);
    let mut screen = Screen::new();
    let mut child = screen.start(&["--interval", "0.2"], &place.mnt());
    screen.wait_for("collectors");
    assert!(screen.is_raw());
    fs::write(place.mnt().join("file"), "text").unwrap();
    File::open(place.mnt().join("file")).unwrap().sync_all().unwrap();
    screen.wait_for("written");
    screen.press("?");
    screen.wait_for("Esc");
    screen.press("?p");
    screen.wait_for("PAUSED");
    tcsetwinsize(&screen.keyboard, Winsize { ws_row: 10, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    kill_process(Pid::from_child(&child), Signal::WINCH).unwrap();
    screen.wait_for("device");
    screen.press("q");
    screen.wait_for(LEAVE);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!screen.is_raw());
    let mut child = screen.start(&[], &place.mnt());
    screen.wait_for("mounted");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    screen.wait_for(LEAVE);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(!screen.is_raw());
    // The mount ends under it: that is said, on the terminal as it was.
    let mut child = screen.start(&["--interval", "0.2"], &place.mnt());
    screen.wait_for("mounted");
    ends_well(mount, Some(Signal::INT));
    screen.wait_for("no SteadyFS volume is mounted");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!screen.is_raw());
}
