//! What happened in a run, for people: steps and what reached the device, in the order of its log.

use crate::explore::Volumes;
use crate::lang::Workload;
use crate::run::{RunError, run};
use std::fmt::Write;
use steadyfs_device::{Op, Record};

/// Runs a workload and tells of it, a line per event: its tick, the writer and step where one begins (`>`) or returns
/// (`<`), or what the device was asked and what came of it. With a schedule, or with a single writer on a device that
/// ends requests at once, every run tells the same.
///
/// # Errors
/// The workload makes no sense, or the file system does not do what the model allows.
pub fn trace(workload: &Workload, volumes: &Volumes) -> Result<String, RunError> {
    let run = run(workload, &volumes.get(workload)?)?;
    // A note at a tick comes after the write that took it, and steps in their order.
    let mut events: Vec<(u64, usize, String)> = Vec::new();
    for (at, (step, span)) in run.done.steps.iter().zip(&run.spans).enumerate() {
        let result = if run.refused.contains(&at) { ": refused" } else { "" };
        events.push((span.start, 2 * at + 1, format!("{}> {}", step.writer, step.op)));
        events.push((span.end, 2 * at + 2, format!("{}< {}{result}", step.writer, step.op)));
    }
    for record in &run.trace.records {
        let what = what(record);
        if let Some(completed) = record.completed {
            let result = if record.failed { "refused" } else { "done" };
            events.push((completed, 0, format!("   {what}: {result}")));
        }
        events.push((record.submitted, 0, format!("   {what}")));
    }
    events.sort_by_key(|(tick, order, _)| (*tick, *order));
    let mut out = String::new();
    for (tick, _, event) in events {
        let _infallible = writeln!(out, "{tick:>6} {event}");
    }
    Ok(out)
}

fn what(record: &Record) -> String {
    let (first, count) = record.extent;
    match &record.op {
        Op::Write { hint, fua, .. } => {
            format!("write {first}+{count} {hint:?}{}", if *fua { " through" } else { "" })
        }
        Op::Flush => "flush".to_owned(),
        Op::Discard { .. } => format!("discard {first}+{count}"),
        other => format!("{:?} {first}+{count}", other.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_tells_of_steps_and_of_the_device_in_order() {
        let text = "schedule 2 5\nmkdir w1\nmkdir w2\n---\n1: creat w1/a\n1: fsync w1/a\n2: creat w2/b\n2: sync\n";
        let workload: Workload = text.parse().expect("parses");
        let first = trace(&workload, &Volumes::default()).expect("runs");
        assert_eq!(first, trace(&workload, &Volumes::default()).expect("runs"));
        let place = |what: &str| {
            first.lines().position(|line| line.ends_with(what)).unwrap_or_else(|| panic!("{what}: {first}"))
        };
        assert!(place("1> creat w1/a") < place("1< creat w1/a") && place("1< creat w1/a") < place("1> fsync w1/a"));
        assert!(place("flush: done") < place("1< fsync w1/a"), "{first}");
        assert!(first.contains("write ") && first.contains("NodeWarm"), "{first}");
    }
}
