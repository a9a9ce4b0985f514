//! The live view: what an [`App`] holds, on a screen of any size.
//!
//! Kept true: everything that a colour says a character says too. What does not fit is left out by its weight, never
//! cut in the middle of the screen: the map and the traffic come first, then space, checkpoints, collectors, locks and
//! latency.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use steadyfs_core::stats::VolumeStats;

use super::app::App;
use super::cells::{LEGEND, Look, looks};
use super::plain::{doing, ratio, size, state, time};
use super::{latency, logs};
use crate::size::human;

/// Below this width lines say less.
const NARROW: usize = 60;
/// Below this width there is no room for two lists side by side.
const TWO_LISTS: u16 = 70;
/// Lines of the lists of collectors and locks, with their titles, that come before a larger map.
const LIST_LINES: u16 = 6;
/// Likewise of the list of operations.
const LATENCY_LINES: u16 = 4;
/// Lines of requests that are held up, with their title.
const HELD_LINES: u16 = 4;

const HELP: [&str; 10] = [
    "q, Esc   leave",
    "p        pause, go on",
    "+ -      look less often, more often",
    "?        this help",
    "",
    "A cell of the map is some segments:",
    ". free   ~ emptied, free with a checkpoint",
    "0-9 tenths of its blocks valid   # all",
    "o written to   C being collected",
    "Of a collector: v victims, b blocks moved",
];

/// Lines that each part of the screen has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heights {
    pub(super) map: u16,
    pub(super) legend: u16,
    pub(super) space: u16,
    pub(super) traffic: u16,
    pub(super) latency: u16,
    pub(super) held: u16,
    pub(super) checkpoints: u16,
    pub(super) lists: u16,
    pub(super) keys: u16,
}

impl Heights {
    /// Shares out so many lines below the first. `lists` is how many lines the longer list has, `operations` how many
    /// operations there are, and `held` how many requests are held up; a volume that is not mounted has none, and no
    /// traffic.
    pub(super) fn of(lines: u16, lists: u16, operations: u16, held: u16, mounted: bool) -> Self {
        let mut left = lines;
        let mut take = |most: u16, least: u16| {
            let got = if left >= least { most.min(left) } else { 0 };
            left -= got;
            got
        };
        let live = |lines: u16| if mounted { lines } else { 0 };
        let list = live(lists + 1);
        let with_title = |rows: u16| if rows > 0 { live(rows + 1) } else { 0 };
        let (latency, held) = (with_title(operations), with_title(held));
        let mut heights = Heights { map: take(2, 1), traffic: take(live(3), live(3)), ..Heights::default() };
        heights.space = take(2, 2);
        heights.keys = take(1, 1);
        heights.held = take(held.min(HELD_LINES), 2);
        heights.checkpoints = take(live(2), live(2));
        heights.lists = take(list.min(LIST_LINES), live(3));
        heights.legend = take(1, 1);
        heights.latency = take(latency.min(LATENCY_LINES), 2);
        heights.map += take(6, 1);
        // However many collectors there are, two thirds of the screen are for the rest.
        heights.lists += take(list.min(lines / 3).saturating_sub(heights.lists), 0);
        heights.latency += take(latency.min(lines / 4).saturating_sub(heights.latency), 0);
        heights.map += left;
        heights
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let mut rest = frame.area();
    let stats = &app.now.stats;
    let lists = (stats.collectors.each.len() as u16 + 2).max(stats.locks.len() as u16);
    let operations = latency::rows(stats, app.before.as_ref().map(|before| &before.stats));
    let heights = Heights::of(
        rest.height.saturating_sub(1),
        lists,
        operations.len() as u16,
        stats.serving.slow.len() as u16,
        app.now.mounted,
    );
    let mut below = |height: u16| {
        let area = Rect { height: height.min(rest.height), ..rest };
        rest.y += area.height;
        rest.height -= area.height;
        area
    };
    let top = below(1);
    show(frame, top, vec![header(app, top.width)]);
    let map = below(heights.map);
    show(frame, map, map_lines(app, map));
    let legend = if logs::are_in(stats) { "a cell: # valid  ~ dead, to be discarded  . free" } else { LEGEND };
    show(frame, below(heights.legend), vec![Line::styled(legend, dim(app))]);
    let space = below(heights.space);
    show(frame, space, space_lines(app, space.width));
    let traffic = below(heights.traffic);
    show(frame, traffic, traffic_lines(app, traffic.width));
    show(frame, below(heights.held), held_up_lines(stats));
    show(frame, below(heights.latency), latency_lines(&operations));
    show(frame, below(heights.checkpoints), checkpoint_lines(app));
    draw_lists(frame, below(heights.lists), app);
    show(frame, below(heights.keys), vec![keys(app)]);
    if app.help {
        draw_help(frame);
    }
}

fn show(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

fn dim(app: &App) -> Style {
    if app.colour { Style::new().fg(Color::DarkGray) } else { Style::new() }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The state of the volume comes first: of a name that is too long, the end.
fn header(app: &App, width: u16) -> Line<'_> {
    let paused = if app.paused { "  PAUSED" } else { "" };
    let every = match app.now.mounted {
        true => format!("  every {} s", app.interval.as_secs_f64()),
        false => String::new(),
    };
    let state = format!("  {}{every}{paused}", state(&app.now));
    let (name, room) = (&app.now.volume, usize::from(width).saturating_sub(state.chars().count()));
    let cut = (name.chars().count() + 1).saturating_sub(room);
    let text = match cut {
        0 | 1 => format!("{name}{state}"),
        cut => format!("…{}{state}", name.chars().skip(cut).collect::<String>()),
    };
    Line::styled(text, bold())
}

fn keys(app: &App) -> Line<'_> {
    Line::styled("q quit  p pause  + - interval  ? help", dim(app))
}

/// As many lines as the area has, each as wide as it is.
fn map_lines(app: &App, area: Rect) -> Vec<Line<'static>> {
    if logs::are_in(&app.now.stats) {
        return held_lines(app, area);
    }
    let cells = looks(&app.now.segments, usize::from(area.width) * usize::from(area.height));
    let span =
        |look: &Look| Span::styled(look.letter().to_string(), if app.colour { heat(*look) } else { Style::new() });
    let line = |looks: &[Look]| Line::from(looks.iter().map(span).collect::<Vec<_>>());
    cells.chunks(usize::from(area.width.max(1))).map(line).collect()
}

/// Of an IPLFS volume, in the place of the map: what it may hold as cells, those that hold something first.
fn held_lines(app: &App, area: Rect) -> Vec<Line<'static>> {
    let (stats, width) = (&app.now.stats, usize::from(area.width));
    let cells = (width * usize::from(area.height)) as u64;
    let up_to = |blocks: u64| {
        (u128::from(blocks) * u128::from(cells)).div_ceil(u128::from(stats.logs.capacity.max(1))) as usize
    };
    let (valid, held) = (up_to(stats.space.blocks_valid), up_to(stats.space.blocks_valid + stats.logs.dead));
    let letter = |cell: usize| match cell {
        _ if cell < valid => '#',
        _ if cell < held => '~',
        _ => '.',
    };
    let line = |row: u16| (0..width).map(|column| letter(usize::from(row) * width + column)).collect::<String>();
    (0..area.height).map(|row| Line::raw(line(row))).collect()
}

/// From blue over green to red the more is valid; what happens stands out.
fn heat(look: Look) -> Style {
    let on = |colour: u8| Style::new().fg(Color::Indexed(16)).bg(Color::Indexed(colour));
    match look {
        Look::Free => Style::new().fg(Color::DarkGray),
        Look::Emptied => Style::new().fg(Color::Cyan),
        Look::Collected => Style::new().fg(Color::White).bg(Color::Magenta).add_modifier(Modifier::BOLD),
        Look::Open => Style::new().fg(Color::Black).bg(Color::White),
        Look::Valid(tenths) => on([33, 39, 44, 49, 84, 118, 154, 190, 220, 208, 196][usize::from(tenths.min(10))]),
    }
}

/// A bar of so many cells, as much of it filled as `part` of `whole`.
fn bar(part: u64, whole: u64, width: usize) -> String {
    let filled = (part * width as u64).checked_div(whole).unwrap_or(0).min(width as u64) as usize;
    format!("[{}{}]", "|".repeat(filled), " ".repeat(width - filled))
}

fn space_lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let (space, sections, segments) = (&app.now.stats.space, &app.now.stats.sections, &app.now.stats.segments);
    let used = space.blocks - space.blocks_free;
    let of = |n: u64| n * 100 / segments.total.max(1);
    let room = usize::from(width);
    if logs::are_in(&app.now.stats) {
        return logs::lines(&app.now).iter().map(|(name, words)| Line::raw(format!("{name:<9} {words}"))).collect();
    }
    let counts = format!(
        "segments  free {} ({} %)  emptied {}  dirty {} ({} %)  used {}",
        segments.free,
        of(segments.free),
        segments.prefree,
        segments.dirty,
        of(segments.dirty),
        segments.used
    );
    let files = format!("{} of {}", size(used), size(space.blocks));
    let free = format!("free sections {}, need {}", sections.free, sections.needed);
    let bars = room.saturating_sub(files.len() + free.len() + 15).clamp(0, 40);
    let line = format!("space     {} {files}  {free}", bar(used, space.blocks, bars));
    let line = if room < NARROW { format!("free {} of {}, {files}", sections.free, sections.total) } else { line };
    vec![Line::raw(line), Line::raw(counts)]
}

/// The latest rates as a row of bars, the highest as high as a line.
fn sparks(rates: impl ExactSizeIterator<Item = f64>, width: usize, most: f64) -> String {
    let skip = rates.len().saturating_sub(width);
    let level = |rate: f64| ((rate / most.max(1.0) * 8.0).ceil() as usize).min(8);
    rates.skip(skip).map(|rate| [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][level(rate)]).collect()
}

fn traffic_lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let stats = &app.now.stats;
    let rates = app.rates();
    let rate = |of: fn(&super::plain::Rates) -> f64| {
        rates.as_ref().map_or_else(|| "-".to_owned(), |rates| format!("{}/s", human(of(rates) as u64)))
    };
    let most = app.history.iter().map(|(app, device)| app.max(*device)).fold(0.0, f64::max);
    let room = usize::from(width).saturating_sub(52);
    let row = |name: &str, written: String, read: String, sparks: String| match usize::from(width) < NARROW {
        true => Line::raw(format!("{name:<7}w {written:>10}  r {read:>10}")),
        false => Line::raw(format!("{name:<9} write {written:>12}  read {read:>12}  {sparks}")),
    };
    let lately = app.before.as_ref().and_then(|before| stats.waf_since(&before.stats));
    let totals = format!(
        "WAF       {} now, {} since the mount; {} written, {} to the device",
        ratio(lately),
        ratio(stats.waf()),
        human(stats.app.written_bytes),
        human(stats.device_written_bytes())
    );
    let short = format!("WAF {} now, {} since the mount", ratio(lately), ratio(stats.waf()));
    vec![
        row("app", rate(|r| r.app_written), rate(|r| r.app_read), sparks(app.history.iter().map(|h| h.0), room, most)),
        row(
            "device",
            rate(|r| r.device_written),
            rate(|r| r.device_read),
            sparks(app.history.iter().map(|h| h.1), room, most),
        ),
        Line::raw(if usize::from(width) < totals.len() { short } else { totals }),
    ]
}

/// Requests that are held up, the oldest first.
fn held_up_lines(stats: &VolumeStats) -> Vec<Line<'static>> {
    let words = |[operation, lasted, cause, who]: [String; 4]| format!("{operation:<16}{lasted:>10}  {cause:<10}{who}");
    let title = words(["held up", "for", "waits for", ""].map(str::to_owned));
    let rows = stats.serving.slow.iter().map(|request| Line::raw(words(latency::held(request))));
    [Line::styled(title, bold())].into_iter().chain(rows).collect()
}

/// Operations with the times of the last interval; before there was one, of all since the mount.
fn latency_lines(operations: &[latency::Row]) -> Vec<Line<'static>> {
    let words = |name: &str, [number, p50, p99, longest]: [String; 4]| {
        format!("{name:<16}{number:>10}{p50:>10}{p99:>10}{longest:>10}")
    };
    let title = words("requests", ["number", "p50", "p99", "longest"].map(str::to_owned));
    let rows = operations.iter().map(|row| Line::raw(words(&row.operation, row.words())));
    [Line::styled(title, bold())].into_iter().chain(rows).collect()
}

fn checkpoint_lines(app: &App) -> Vec<Line<'static>> {
    let checkpoints = &app.now.stats.checkpoints;
    let mut causes: Vec<_> = checkpoints.causes.iter().filter(|(_, n)| **n > 0).collect();
    causes.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let causes: Vec<String> = causes.into_iter().map(|(cause, n)| format!("{cause} {n}")).collect();
    let first = format!(
        "checkpts  {}, last {}, longest freeze {}",
        checkpoints.committed,
        time(checkpoints.last),
        time(checkpoints.longest_freeze)
    );
    vec![Line::raw(first), Line::raw(format!("          {}", causes.join(", ")))]
}

fn draw_lists(frame: &mut Frame<'_>, area: Rect, app: &App) {
    if area.width < TWO_LISTS {
        return show(frame, area, collector_lines(app, area));
    }
    let half = area.width / 2;
    let left = Rect { width: half - 1, ..area };
    show(frame, left, collector_lines(app, left));
    show(frame, Rect { x: area.x + half, width: area.width - half, ..area }, lock_lines(app));
}

fn collector_lines(app: &App, area: Rect) -> Vec<Line<'static>> {
    let (gc, now) = (&app.now.stats.gc.done, &app.now.stats.collectors);
    let title = format!("collectors {}, {} at work, {} writers wait", now.number, now.working, now.writers_waiting);
    let mut lines = vec![Line::styled(title, bold())];
    let row = |name: String, c: &steadyfs_core::stats::CollectorStats| {
        Line::raw(format!("{name:<5}{:<15}{:>5} v {:>7} b", doing(c), c.victims, c.data_moved + c.nodes_moved))
    };
    lines.extend(now.each.iter().enumerate().map(|(i, c)| row(i.to_string(), c)));
    lines.push(row("else".to_owned(), &now.alone));
    let s = gc.skipped;
    let causes = format!("{} gone, {} moved, {} late, {} held", s.gone, s.moved, s.late, s.held);
    let skipped = if usize::from(area.width) < NARROW { s.total().to_string() } else { causes };
    let total = format!("{} freed of {}; skipped {skipped}", gc.sections_freed, gc.victims);
    // The sums are the last line that there is room for.
    lines.truncate(usize::from(area.height.saturating_sub(1)).max(1));
    lines.push(Line::raw(total));
    lines
}

fn lock_lines(app: &App) -> Vec<Line<'static>> {
    let title = format!("{:<20}{:>9}{:>10}", "waits for locks", "waits", "in all");
    let mut lines = vec![Line::styled(title, bold())];
    lines.extend(app.now.stats.locks.iter().map(|lock| {
        Line::raw(format!("{:<20}{:>9}{:>10}", lock.name, lock.waits, time(Duration::from_micros(lock.wait_us))))
    }));
    lines
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = (HELP.iter().map(|line| line.len()).max().unwrap_or(0) as u16 + 4).min(area.width);
    let height = (HELP.len() as u16 + 2).min(area.height);
    let at = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    let lines: Vec<Line<'_>> = HELP.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), at);
}
