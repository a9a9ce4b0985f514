//! Where and when a figure was measured; no figure goes without it.

use serde::Serialize;
use std::fs::read_to_string;
use std::process::Command;

/// What the figures depend on.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    /// Of this program; `+` if there were uncommitted changes.
    pub(crate) commit: String,
    pub(crate) processor: String,
    pub(crate) cpus: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// Load average of the last minute at the start, and at the end.
    pub(crate) load: [String; 2],
    /// Processes that competed for the processors at the start, beside this one.
    pub(crate) busy_with_others: bool,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn look() -> Self {
        let uname = rustix::system::uname();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let load = load();
        Machine {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: commit(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| uname.machine().to_string_lossy().into()),
            cpus,
            memory_gib: memory_gib(),
            kernel: uname.release().to_string_lossy().into(),
            busy_with_others: load.parse::<f64>().is_ok_and(|load| load > 0.3 * cpus as f64),
            load: [load, String::new()],
        }
    }

    /// Notes the load at the end.
    pub(crate) fn finish(&mut self) {
        self.load[1] = load();
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Machine { date, commit, processor, cpus, memory_gib, kernel, load: [first, last], .. } = self;
        let others = if self.busy_with_others { "; THE MACHINE WAS BUSY WITH OTHER WORK" } else { "" };
        format!(
            "{date}, commit {commit}, {processor}, {cpus} CPUs, {memory_gib} GiB, Linux {kernel}, load {first} before, \
             {last} after{others}"
        )
    }
}

fn load() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn memory_gib() -> u64 {
    let kib = field("/proc/meminfo", "MemTotal").and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default().div_ceil(1 << 20)
}

/// The value behind the first `name:` of a file.
fn field(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let (key, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    (!key.is_empty()).then(|| value.trim().to_owned())
}

fn commit() -> String {
    let hash = said("git", &["rev-parse", "--short", "HEAD"]);
    let changed = !said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    match hash.as_str() {
        "" => "unknown".to_owned(),
        hash if changed => format!("{hash}+"),
        hash => hash.to_owned(),
    }
}

/// What a program prints; nothing if it fails.
fn said(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output();
    out.map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
