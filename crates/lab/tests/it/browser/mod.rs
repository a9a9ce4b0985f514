//! The page of results in a real browser: nothing throws, nothing overflows, lines are there to be seen, and what must
//! be said is said.

mod chromium;

use chromium::Chromium;
use std::path::Path;
use steadyfs_lab::{Batch, Experiment, Scale, builtin, page, run_seeds};

/// A function of the width of the screen: what is wrong with the page as it is shown, as a list of sentences.
const LOOK: &str = r#"(width => {
  const faults = [];
  document.querySelectorAll('details').forEach(d => d.open = true);
  if (document.documentElement.scrollWidth > width) faults.push('overflow: the page is ' + document.documentElement.scrollWidth + ' wide');
  for (const e of document.body.querySelectorAll('*')) {
    const box = e.getBoundingClientRect();
    if ((box.right > width + 0.5 || box.left < -0.5) && box.width > 0 && !e.closest('.scroll, pre, svg')) faults.push('overflow: ' + e.tagName + ' ends at ' + box.right);
  }
  const plots = document.querySelectorAll('figure > svg');
  if (plots.length === 0) faults.push('plots: there is none');
  const bodyColour = getComputedStyle(document.body).backgroundColor;
  for (const plot of plots) {
    const lines = plot.querySelectorAll('polyline');
    if (lines.length === 0) faults.push('plots: one has no line');
    plot.scrollIntoView();
    for (const line of lines) {
      const style = getComputedStyle(line), box = line.getBoundingClientRect();
      if (style.stroke === 'none' || style.stroke === bodyColour) faults.push('plots: a line has no colour');
      // An axis of powers of ten ends at whole ones.
      if (box.width < width / (plot.parentElement.dataset.over === 'latency' ? 5 : 3)) faults.push('plots: a line is ' + box.width + ' wide');
      let seen = 0;
      for (let i = 0; i < 20; i++) {
        const p = line.getPointAtLength(line.getTotalLength() * (i + 0.5) / 20).matrixTransform(line.getScreenCTM());
        const at = document.elementFromPoint(p.x, p.y);
        if (at && at.tagName === 'polyline') seen++;
      }
      if (seen < 10) faults.push('plots: of 20 points of a line ' + seen + ' can be seen');
    }
    for (const text of plot.querySelectorAll('text')) {
      const box = text.getBoundingClientRect(), all = plot.getBoundingClientRect();
      if (box.width > 0 && (box.left < all.left - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1 || box.top < all.top - 1)) faults.push('plots: the label ' + text.textContent + ' is cut off');
      if (box.width > 0 && box.height < 9) faults.push('plots: the label ' + text.textContent + ' is ' + box.height + ' high');
    }
    const labels = [...plot.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]).filter(([, b]) => b.width > 0);
    for (const [i, [t, a]] of labels.entries()) for (const [u, b] of labels.slice(i + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4) faults.push('plots: the labels ' + t.textContent + ' and ' + u.textContent + ' overlap');
  }
  const labelled = (plot, text) => [...plot.querySelectorAll('text.up')].filter(t => t.textContent === text).map(t => t.getBoundingClientRect().top)[0];
  // The path of a line in the picture, and how much it goes up and down.
  const points = line => line.getAttribute('points').split(' ').map(p => p.split(',').map(Number));
  const roughness = line => points(line).reduce((sum, p, i, all) => sum + (i ? Math.abs(p[1] - all[i - 1][1]) : 0), 0);
  const rgb = c => { const d = document.createElement('canvas').getContext('2d'); d.fillStyle = c; d.fillRect(0, 0, 1, 1); return [...d.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const far = (a, b) => Math.hypot(...rgb(a).map((v, i) => v - rgb(b)[i]));
  for (const figure of document.querySelectorAll('figure')) {
    const plot = figure.querySelector(':scope > svg');
    const key = [...figure.querySelectorAll('.key line')].map(l => [getComputedStyle(l).stroke, l.getAttribute('class')]);
    for (const [i, [a, dash]] of key.entries()) for (const [b, other] of key.slice(i + 1))
      if (dash === other && far(a, b) < 40) faults.push('colours: ' + a + ' and ' + b + ' look alike');
    for (const line of plot.querySelectorAll('polyline')) if (!key.some(([c]) => c === getComputedStyle(line).stroke)) faults.push('colours: a line is not in the key');
    const papers = [...plot.querySelectorAll('path.paper')].filter(p => p.getBoundingClientRect().width > 0 && getComputedStyle(p).visibility === 'visible').length;
    if (papers !== Number(figure.dataset.papers)) faults.push('papers: of ' + figure.dataset.papers + ' numbers ' + papers + ' can be seen');
    if (figure.dataset.over === 'latency') {
      const [one, tenth, hundredth] = ['1', '0.1', '0.01'].map(text => labelled(plot, text));
      if (!(hundredth > tenth) || Math.abs((hundredth - tenth) - (tenth - one)) > 2) faults.push('tail: no power of ten takes as much room as another');
      for (const line of plot.querySelectorAll('polyline.line')) if (!(line.getBoundingClientRect().bottom > hundredth + 8)) faults.push('tail: a line ends above 0.01');
    }
    if (figure.dataset.over === 'seconds') for (const line of plot.querySelectorAll('polyline.line')) {
      const raw = [...plot.querySelectorAll('polyline.raw')].find(r => getComputedStyle(r).stroke === getComputedStyle(line).stroke);
      if (points(line).length > 60 && !raw) faults.push('smoothed: nothing lies below a line');
      if (raw && roughness(line) > roughness(raw) + 1) faults.push('smoothed: a line is as rough as what was measured');
    }
  }
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  for (const e of document.querySelectorAll('p, td, th, h1, h2, dd, dt, li, summary, svg text')) {
    const style = getComputedStyle(e), ink = light(e.tagName === 'text' ? style.fill : style.color), paper = light(bodyColour);
    if ((Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05) < 4.5) faults.push('contrast: ' + e.tagName + ' ' + e.textContent.slice(0, 20));
  }
  return faults;
})"#;

/// What makes a run short with many points: four jobs have a core each, and whoever takes samples finds one, too. On a
/// drive some wait much longer than most, so that a line of latencies is long.
const SHORT: [&str; 7] = [
    "device.preset=pm9a3",
    "device.smaller_blocks=8",
    "workload.io_size=8M",
    "workload.numjobs=4",
    "machine.cores=8",
    "interval=0.00002",
    "verify=false",
];

fn experiment() -> Experiment {
    let mut smoke = builtin("smoke").unwrap();
    for setting in SHORT {
        smoke.set(setting).unwrap();
    }
    smoke
}

/// Systems that differ in their jobs, over time, by latency and over a sweep, with claims in each plot.
const COMPARED: &str = r#"
[[system]]
name = "one"
set = ["workload.rwmixread=20"]
[[system]]
name = "two"
set = ["workload.rwmixread=22"]
[[system]]
name = "three"
set = ["workload.rwmixread=24"]
[[system]]
name = "four"
set = ["workload.rwmixread=26"]
[[system]]
name = "five"
set = ["workload.rwmixread=28"]
[[system]]
name = "six"
set = ["workload.rwmixread=30"]
[[system]]
name = "seven"
set = ["workload.rwmixread=32"]
[[claim]]
metric = "write_mb_s"
system = "one"
says = "so fast"
source = "Figure 1"
value = 1
[[claim]]
metric = "latency_p99_us"
system = "two"
over = "one"
says = "as long"
source = "Figure 2"
value = 1
[[plot]]
title = "What the jobs wrote"
series = ["app_write_mb_s"]
unit = "MB/s"
[[plot]]
title = "Latency"
over = "latency"
series = ["all"]
unit = "share of all"
"#;

/// Seven systems, whose paper has a number for two of them.
fn compared() -> Batch {
    let text = include_str!("../../../experiments/smoke.toml").split("[[claim]]").next().unwrap().to_owned() + COMPARED;
    let mut experiment = Experiment::parse("compared.toml", &text).unwrap();
    for setting in SHORT {
        experiment.set(setting).unwrap();
    }
    let runs = run_seeds(&experiment, Scale::FULL, &[0], 1, |_| ()).unwrap();
    experiment.claims[0].value = Some(runs[0].record.metrics["write_mb_s"]);
    Batch { experiment, scale: Scale::FULL, runs }
}

/// A batch of two seeds; the same shown as two experiments, one of them without a plot to itself; and one of seven
/// systems.
fn batches() -> Vec<Batch> {
    let experiment = experiment();
    let runs = run_seeds(&experiment, Scale::FULL, &[0, 1], 1, |_| ()).unwrap();
    let mut other = builtin("scalelfs-fig2a").unwrap();
    other.plots.iter_mut().for_each(|plot| plot.unit = "a unit with a long name".into());
    let long = Batch { experiment: other, scale: "1/64".parse().unwrap(), runs: runs.clone() };
    vec![Batch { experiment, scale: Scale::FULL, runs }, long, compared()]
}

/// All that is wrong with a page on a screen of this size.
fn faults(browser: &mut Chromium, dir: &Path, html: &str, width: u32, dark: bool) -> Vec<String> {
    let path = dir.join("index.html");
    std::fs::write(&path, html).unwrap();
    let mut faults = browser.open(&path, width, 900, dark);
    let seen: Vec<String> = serde_json::from_value(browser.evaluate(&format!("{LOOK}({width})"))).unwrap();
    faults.extend(seen);
    faults
}

#[test]
fn the_page_is_whole_on_wide_and_narrow_screens_by_day_and_by_night() {
    let (mut browser, dir) = (Chromium::start(), tempfile::tempdir().unwrap());
    let html = page(&batches());
    for (width, dark) in [(375, false), (375, true), (320, false), (1280, false), (1280, true)] {
        assert_eq!(faults(&mut browser, dir.path(), &html, width, dark), [""; 0], "{width} wide, dark {dark}");
        let background = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        assert_eq!(background, if dark { "rgb(20, 23, 27)" } else { "rgb(255, 255, 255)" });
    }
}

#[test]
fn what_must_be_said_of_each_figure_can_be_read_on_a_telephone() {
    let (mut browser, dir) = (Chromium::start(), tempfile::tempdir().unwrap());
    let batches = batches();
    assert_eq!(faults(&mut browser, dir.path(), &page(&batches), 375, false), [""; 0]);
    for (number, batch) in batches[..2].iter().enumerate() {
        // What a reader sees: text that is hidden is not in it.
        let text = browser.evaluate(&format!("document.getElementById('e{number}').innerText"));
        let text = text.as_str().unwrap();
        let cost = &batch.runs[0].cost;
        let cpu: f64 = batch.runs.iter().map(|run| run.cost.cpu_seconds).sum();
        for part in [
            &cost.machine,
            &cost.commit,
            &format!("{cpu:.1} CPU seconds"),
            "2, seeds 0 to 1",
            "faint: 1 other seed",
            &format!("at scale {}", batch.scale),
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        for judgement in batch.judgements() {
            assert!(text.contains(&judgement.claim.says) && text.contains(&judgement.in_words()), "{judgement:?}");
            let (mean, least, most) = judgement.ours.unwrap_or_default();
            let number = steadyfs_lab::number;
            if judgement.ours.is_some() {
                let spread = format!("{} to {}", number(least), number(most));
                assert!(text.contains(&number(mean)) && text.contains(&spread), "{spread} in {text}");
            }
        }
        for plot in &batch.experiment.plots {
            assert!(
                text.contains(&plot.title) && text.contains(&plot.unit) && text.contains("seconds of virtual time")
            );
        }
    }
}

/// What this test is for is seen: faults planted in the page are told.
#[test]
fn planted_faults_are_found() {
    let (mut browser, dir) = (Chromium::start(), tempfile::tempdir().unwrap());
    let html = page(&batches());
    for (what, from, to) in [
        ("throws", "</body>", "<script>throw new Error('planted')</script></body>"),
        ("console", "</body>", "<script>console.error('planted')</script></body>"),
        ("overflow", "<h1>", "<h1 style=\"width:30rem\">"),
        (
            "overflow",
            ".cards tr:first-child{display:none}",
            "td{white-space:nowrap;overflow-wrap:normal}.scroll{overflow-x:visible}",
        ),
        ("can be seen", "polyline{fill:none;", "polyline{fill:none;visibility:hidden;"),
        ("no colour", "stroke=\"var(--c0)\"", "stroke=\"var(--bg)\""),
        ("has no line", "<polyline", "<metadata"),
        ("is cut off", "svg text{font-size:21px}", "svg text{font-size:40px}"),
        ("overlap", "svg .odd{display:none}", "svg text{letter-spacing:1em}"),
        ("contrast", "--mute:#5b6470", "--mute:#c0c0c0"),
        ("look alike", "var(--c1)", "var(--c0)"),
        ("look alike", "var(--c6)", "hsl(212 78% 46%)"),
        (
            "not in the key",
            "<polyline class=\"line d0\" stroke=\"var(--c3)\"",
            "<polyline class=\"line d0\" stroke=\"red\"",
        ),
        ("as much room", "class=\"up\">0.01<", "class=\"up\">0.99<"),
        ("ends above 0.01", "polyline{fill:none;", "polyline{fill:none;transform:scaleY(0.3);"),
        ("numbers", "<path class=\"paper\"", "<metadata class=\"paper\""),
        ("nothing lies below", "class=\"raw d", "class=\"gone d"),
        ("as rough", "twins", "twins"),
    ] {
        let planted = match what {
            // The smoothed line and what was measured change places.
            "as rough" => html.replace("class=\"raw d", "class=\"? d").replace("class=\"line d", "class=\"raw d"),
            _ => html.replace(from, to),
        };
        let planted = planted.replace("class=\"? d", "class=\"line d");
        assert!(planted != html, "{from} is not in the page");
        let found = faults(&mut browser, dir.path(), &planted, 375, false);
        assert!(found.iter().any(|fault| fault.contains(what)), "{from} -> {to}: {found:?}");
    }
}
