//! Collection inside the device under random 4 KiB overwrites: the device half of Figure 1 of D2FS (FAST'25), ours beside theirs.
//!
//! Theirs: a Samsung 970 Pro of 512 GB, all of it filled but 30 % of a partition of 256 GiB; one buffered fio job overwrites the filled part of
//! that partition at random, as a raw device. So 179 GiB are overwritten, 221 GiB lie still, and spare are the 77 GiB never filled and what the
//! device has beyond its capacity: 512 GiB of flash behind 512 GB. Ours: the same in all proportions, at a scale, by a writer that is given the speed at
//! which theirs filled the page cache, and by one without a limit.
//!
//! `cargo run --release -p steadyfs-flash --example devgc -- [SCALE [CSV]]`: the size is divided by SCALE (64); CSV is their series (time_s, and a column whose
//! name starts with devgc), bins of 2 s in thousands of writes per second.

use std::sync::Arc;
use std::time::Duration;
use steadyfs_device::{Device, Op, PageBuf, Request, StreamHint};
use steadyfs_flash::{EmulatedSsd, Preset, Stats};
use steadyfs_rt::sim::{Costs, SimConfig, run};
use steadyfs_rt::{Pending, now, sleep};

const GIB: f64 = (1u64 << 30) as f64;
/// Requests in the device at a time: write-back keeps its queue full.
const BATCH: u64 = 512;

/// Mean rates (thousands of writes per second) before and after the device began to collect, amplification and self-checks of one run.
struct Outcome {
    before: f64,
    after: f64,
    waf: f64,
    stats: Stats,
    checks: String,
    events: u64,
}

fn page(number: u64, version: u64) -> PageBuf {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed[8..].copy_from_slice(&version.to_le_bytes());
    PageBuf::synthetic(seed)
}

/// Writes pages and waits until all are complete.
fn write_all(ssd: &EmulatedSsd, writes: impl Iterator<Item = (u64, Vec<PageBuf>)>) {
    let pending = Arc::new(Pending::new());
    let batch: Vec<_> = writes
        .map(|(block, pages)| {
            let pending = Arc::clone(&pending);
            pending.add(1);
            let op = Op::Write { block, pages, hint: StreamHint::DataWarm, fua: false };
            Request::new(op, move |result| {
                assert!(result.is_ok(), "{result:?}");
                pending.done(1);
            })
        })
        .collect();
    ssd.submit(batch);
    pending.wait_zero();
}

/// A writer that never exceeds `limit` writes per second.
fn overwrite(ssd: &EmulatedSsd, hot: u64, writes: u64, random: &mut u64, limit: Option<f64>) {
    for batch in 0..writes / BATCH {
        let start = now();
        let one = |number| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let block = (u128::from(*random) * u128::from(hot)) >> 64;
            (block as u64, vec![page(block as u64, batch * BATCH + number)])
        };
        write_all(ssd, (0..BATCH).map(one));
        if let Some(limit) = limit {
            let due = Duration::from_secs_f64(BATCH as f64 / limit);
            sleep(due.saturating_sub(start.elapsed()));
        }
    }
}

fn experiment(scale: f64, limit: Option<f64>) -> Outcome {
    let costs = SimConfig { costs: Costs::free(), wake: Duration::ZERO, spin: Duration::ZERO, ..SimConfig::default() };
    let report = run(costs, move || {
        let mut parameters = Preset::Samsung970Pro.parameters();
        // As many lines as the real device has at full size (512 GB / 32 MiB = 15 k), as far as blocks can shrink.
        parameters = parameters.with_smaller_blocks(scale.clamp(1.0, 64.0) as u32);
        parameters.policy.over_provisioning = 512.0 * GIB / 512e9 - 1.0;
        let blocks = |bytes: f64| (bytes / scale / 4096.0) as u64 / 64 * 64;
        let capacity = blocks(512e9);
        let (partition, hot) = (blocks(256.0 * GIB), blocks(256.0 * 0.7 * GIB));
        let ssd = EmulatedSsd::new(parameters, capacity * 4096).unwrap_or_else(|error| panic!("{error}"));
        let fill = (0..hot).step_by(64).chain((partition..capacity).step_by(64));
        let starts: Vec<_> = fill.collect();
        for part in starts.chunks(64) {
            write_all(&ssd, part.iter().map(|&block| (block, (block..block + 64).map(|n| page(n, 0)).collect())));
        }
        let mut random = 1;
        let mut rate = |writes: u64| {
            let (start, before) = (now(), ssd.stats());
            overwrite(&ssd, hot, writes / BATCH * BATCH, &mut random, limit);
            let rate = (writes / BATCH * BATCH) as f64 / start.elapsed().as_secs_f64() / 1000.0;
            (rate, ssd.stats().waf_since(&before))
        };
        let (before, _) = rate(hot / 4);
        rate(hot * 2);
        let (after, waf) = rate(hot * 2);
        let checks = ssd.check().to_string();
        Outcome { before, after, waf, stats: ssd.stats(), checks, events: 0 }
    });
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    Outcome { events: report.events, ..report.value }
}

/// Mean of their series in a window of seconds.
fn theirs(csv: &str, from: f64, to: f64) -> Option<f64> {
    let mut lines = csv.lines();
    let column = lines.next()?.split(',').position(|name| name.starts_with("devgc"))?;
    let rows = lines.filter_map(|line| {
        let mut fields = line.split(',');
        let time: f64 = fields.next()?.parse().ok()?;
        let value: f64 = fields.nth(column - 1)?.parse().ok()?;
        (time >= from && time < to).then_some(value)
    });
    let values: Vec<f64> = rows.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let scale: f64 = arguments.next().map_or(64.0, |text| text.parse().unwrap_or_else(|_| panic!("SCALE is a number")));
    let csv = arguments.next().map(|path| std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}")));
    // Collection has begun by 240 s, and goes on to the end.
    let measured = csv.as_deref().and_then(|csv| Some((theirs(csv, 0.0, 180.0)?, theirs(csv, 300.0, 1200.0)?)));
    let limit = measured.map(|(before, _)| before * 1000.0);
    println!("scale 1/{scale}                before  after (k/s)  after/before  WAF");
    if let Some((before, after)) = measured {
        println!("theirs (real device)       {before:7.1} {after:7.1}        {:.2}          not known", after / before);
    }
    let runs = [("ours, host as theirs", limit), ("ours, host without limit", None)];
    for (name, limit) in runs.into_iter().filter(|(_, limit)| limit.is_some() == measured.is_some() || limit.is_none())
    {
        let Outcome { before, after, waf, stats, checks, events } = experiment(scale, limit);
        println!("{name:26} {before:7.1} {after:7.1}        {:.2}          {waf:.3}", after / before);
        println!("  {}\n  {checks}; {events} events", stats.to_string().replace('\n', "\n  "));
    }
}
