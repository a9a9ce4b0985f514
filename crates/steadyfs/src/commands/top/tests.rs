//! The live view of real snapshots on screens of several sizes, and the keys.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use steadyfs_core::mkfs::{self, Infinite, MkfsOptions};
use steadyfs_core::stats::{Histogram, MAP_CELLS, SlowRequest};
use steadyfs_core::{Fs, MountOptions, NewInode, Urgency};
use steadyfs_device::MemDevice;

use super::app::App;
use super::cells::LEGEND;
use super::source::Snapshot;
use super::view::{Heights, draw};

/// A volume of 256 MiB with two collectors.
fn volume() -> Arc<Fs> {
    let device = MemDevice::new((256 << 20) / 4096);
    mkfs::format(&device, &MkfsOptions::new([7; 16], 0)).unwrap();
    let options = MountOptions::parse("commit=0,gc.collectors=2").unwrap();
    Fs::mount(Arc::new(device), options).unwrap()
}

/// Writes so many pages of a file, anew if they are there.
fn write(fs: &Fs, pages: impl Iterator<Item = u64>) {
    let root = fs.root().unwrap();
    let new = NewInode { mode: 0o100_644, ..NewInode::default() };
    let file = fs.lookup(&root, b"file").or_else(|_| fs.create(&root, b"file", &new)).unwrap();
    pages.for_each(|page| assert_eq!(fs.write(&file, page * 4096, &[1; 4096]).unwrap(), 4096));
    fs.sync().unwrap();
}

fn snapshot(fs: &Fs, mounted: bool) -> Snapshot {
    Snapshot { volume: "./mnt".into(), mounted, stats: fs.stats(), segments: fs.segment_map(MAP_CELLS) }
}

/// The view of a volume that was filled to a half, and half of that written again, and some of it collected.
fn app(colour: bool) -> App {
    let fs = volume();
    write(&fs, 0..20_000);
    let mut app = App::new(snapshot(&fs, true), Duration::from_secs(1), colour);
    write(&fs, (0..20_000).step_by(2));
    assert_eq!(fs.gc(3, Urgency::Foreground).unwrap().victims, 3);
    app.advance(snapshot(&fs, true));
    fs.unmount().unwrap();
    app
}

fn screen(app: &App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> Vec<String> {
    let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(line).collect()
}

#[track_caller]
fn has(lines: &[String], parts: &[&str]) {
    for part in parts {
        assert!(lines.iter().any(|line| line.contains(part)), "{part} is missing in:\n{}", lines.join("\n"));
    }
}

#[test]
fn a_usual_terminal_has_room_for_everything() {
    let app = app(false);
    for (width, height) in [(80, 24), (120, 40)] {
        let lines = text(&screen(&app, width, height));
        has(&lines, &["./mnt  mounted for 0:00:0", "every 1 s", LEGEND, "####", "555", "....", "q quit  p pause"]);
        has(
            &lines,
            &["78.2 MiB of ", "free sections ", "segments  free ", "app       write ", "device    write ", "MiB/s"],
        );
        has(&lines, &["WAF       1.", "since the mount", "checkpts  ", "sync 2", "mount 1"]);
        has(
            &lines,
            &[
                "collectors 2, 0 at work, 0 writers wait",
                "else",
                "else idle               3 v     768 b",
                "3 freed of 3; skipped",
                "waits for locks",
            ],
        );
        assert!(lines[0].starts_with("./mnt"), "{}", lines[0]);
        assert!(lines[usize::from(height) - 1].starts_with("q quit"), "{lines:#?}");
    }
    // The map takes what is left: on a larger screen it is larger.
    assert!(Heights::of(59, 4, 0, 0, true).map >= Heights::of(23, 4, 0, 0, true).map + 30);
}

#[test]
fn requests_are_shown_by_operation_with_their_times() {
    let mut app = app(false);
    let (read, write) = (Histogram::new(), Histogram::new());
    let advance = |app: &mut App| {
        let mut next = app.now.clone();
        next.stats.mounted_us += 1_000_000;
        next.stats.serving.latency =
            [("read".to_owned(), read.latency()), ("write".to_owned(), write.latency())].into();
        app.advance(next);
    };
    (0..500).for_each(|_| read.note(Duration::from_micros(40)));
    write.note(Duration::from_millis(1500));
    advance(&mut app);
    let lines = text(&screen(&app, 80, 24));
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: Vec<String> = lines.iter().map(words).collect();
    has(&shown, &["requests number p50 p99 longest", "write 1.0/s 1.5 s 1.5 s 1.5 s", "read 500/s"]);
    has(&lines, &["checkpts  ", "waits for locks", LEGEND]);
    app.now.stats.serving.slow.push(SlowRequest {
        operation: "fsync".to_owned(),
        user: 1000,
        process: 4242,
        inode: 17,
        lasted_us: 2_500_000,
        waits_for: Some("commit".to_owned()),
    });
    let lines = text(&screen(&app, 80, 24));
    has(
        &lines,
        &["held up ", "fsync                2.5 s  commit    inode 17, user 1000, process 4242", "read   ", LEGEND],
    );
    let plain = super::plain::text(&app.now, app.before.as_ref());
    has(&[plain], &["  fsync            for 2.5 s, waits for commit; inode 17, user 1000, process 4242\n"]);
    app.now.stats.serving.slow.clear();
    advance(&mut app);
    let lines = text(&screen(&app, 80, 24));
    assert!(!lines.iter().any(|line| line.starts_with("read")), "nobody asked: {lines:#?}");
}

#[test]
fn a_tiny_terminal_has_what_counts_most() {
    let lines = text(&screen(&app(false), 40, 10));
    has(&lines, &["./mnt  mounted for", "##", "app    w ", "device w ", "WAF ", "free ", "q quit"]);
    assert!(!lines.iter().any(|line| line.contains("waits for locks")), "{lines:#?}");
}

#[test]
fn no_size_is_too_small() {
    let mut app = app(true);
    for help in [false, true] {
        app.help = help;
        for (width, height) in (0..100).step_by(3).flat_map(|width| (0..30).map(move |height| (width, height))) {
            screen(&app, width, height);
        }
    }
}

#[test]
fn lines_are_shared_out_to_the_last() {
    for (lines, lists, mounted) in (0..80).flat_map(|l| [0, 3, 12, 258].map(|n| (l, n, true))).chain([(30, 9, false)]) {
        let h = Heights::of(lines, lists, lists, lists, mounted);
        let sum = h.map + h.legend + h.space + h.traffic + h.latency + h.held + h.checkpoints + h.lists + h.keys;
        assert_eq!(sum, lines, "{h:?}");
        assert!(h.map > 0 || lines == 0, "{lines}: {h:?}");
        assert!(lines < 23 || lists < 3 || (h.lists >= 4) == mounted, "{h:?}");
        assert!(h.lists <= (lines / 3).max(6) && h.latency <= (lines / 4).max(4), "{h:?}");
    }
}

#[test]
fn a_volume_that_is_not_mounted_has_a_map_and_no_traffic() {
    let fs = volume();
    write(&fs, 0..4000);
    let app = App::new(snapshot(&fs, false), Duration::from_secs(1), false);
    let lines = text(&screen(&app, 80, 24));
    has(&lines, &["./mnt  not mounted", "##", LEGEND, "free sections "]);
    assert!(!lines.iter().any(|line| line.contains("WAF") || line.contains("collectors")), "{lines:#?}");
    fs.unmount().unwrap();
}

#[test]
fn colours_say_nothing_that_letters_do_not() {
    let (mut app, plain) = (app(true), screen(&app(false), 80, 24));
    assert!(plain.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    let coloured = screen(&app, 80, 24);
    let backgrounds: std::collections::BTreeSet<_> =
        coloured.content().iter().map(|cell| (format!("{:?}", cell.bg), cell.symbol().to_owned())).collect();
    // Of each background colour there is one letter only.
    for (colour, letter) in backgrounds.iter().filter(|(colour, _)| colour != "Reset") {
        assert!(backgrounds.iter().filter(|(other, _)| other == colour).all(|(_, l)| l == letter), "{backgrounds:?}");
    }
    assert!(backgrounds.iter().filter(|(colour, _)| colour != "Reset").count() >= 3, "{backgrounds:?}");
    app.colour = false;
    assert_eq!(text(&screen(&app, 80, 24)), text(&coloured));
}

#[test]
fn keys_do_what_the_help_says() {
    let mut app = app(false);
    let mut press = |code| {
        app.press(KeyEvent::new(code, KeyModifiers::NONE));
        (app.paused, app.interval.as_millis(), app.help, app.ended)
    };
    assert_eq!(press(KeyCode::Char('p')), (true, 1000, false, false));
    assert_eq!(press(KeyCode::Char('p')), (false, 1000, false, false));
    assert_eq!(press(KeyCode::Char('+')), (false, 2000, false, false));
    for _ in 0..20 {
        press(KeyCode::Char('-'));
    }
    assert_eq!(press(KeyCode::Char('?')), (false, 100, true, false));
    assert_eq!(press(KeyCode::Esc), (false, 100, false, false), "the help goes first");
    assert_eq!(press(KeyCode::Char('x')), (false, 100, false, false));
    assert_eq!(press(KeyCode::Esc), (false, 100, false, true));
    app.ended = false;
    app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(app.ended);
    app.help = true;
    has(&text(&screen(&app, 80, 24)), &["pause, go on", "tenths of its blocks valid"]);
    app.paused = true;
    has(&text(&screen(&app, 80, 24)), &["every 0.1 s  PAUSED"]);
    // A name that is too long leaves room for the state.
    app.now.volume = format!("/a/{}end", "long/".repeat(20));
    has(&text(&screen(&app, 80, 24)), &["…", "long/end  ", "every 0.1 s  PAUSED"]);
}

#[test]
fn an_iplfs_volume_shows_what_it_holds_instead_of_segments() {
    let chosen = Infinite::new(8192);
    let device = MemDevice::new(chosen.device_blocks());
    mkfs::format(&device, &MkfsOptions { infinite: Some(chosen), ..MkfsOptions::new([7; 16], 0) }).unwrap();
    let fs = Fs::mount(Arc::new(device), MountOptions::parse("commit=0").unwrap()).unwrap();
    write(&fs, 0..4096);
    let app = App::new(snapshot(&fs, true), Duration::from_secs(1), false);
    for (width, height) in [(80, 24), (120, 40), (40, 12)] {
        let lines = text(&screen(&app, width, height));
        let cells = |letter: char| lines.iter().flat_map(|line| line.chars()).filter(|c| *c == letter).count();
        let wide = usize::from(width);
        assert!(cells('#') >= wide / 2 && cells('.') >= wide / 2, "{lines:#?}");
    }
    let lines = text(&screen(&app, 120, 40));
    has(&lines, &["held      16.", " of 32.0 MiB that it may hold", "before one is used up", "~ dead"]);
    assert!(!lines.iter().any(|line| line.contains("segments")), "{lines:#?}");
    fs.unmount().unwrap();
}
