//! Logs of fio (`write_iolog`), versions 2 and 3.
//!
//! A line is `FILE ACTION [OFFSET LENGTH]`; version 3 has microseconds since the job began before that, version 2 has
//! `wait` with microseconds in the place of the offset. What a log does not say: how long an operation took, how large
//! a file was, and whether the page cache was used.

use super::Parser;
use super::event::{Event, Names, What, nanoseconds, number, shown};

const MICROSECOND: u64 = 1000;

/// Where in a log we are.
pub(super) struct Log {
    direct: bool,
    /// Not known before the first line.
    version: Option<u8>,
    files: Names,
    /// What the waits of version 2 add up to.
    now_ns: u64,
}

impl Log {
    pub(super) fn new(direct: bool) -> Self {
        Log { direct, version: None, files: Names::default(), now_ns: 0 }
    }

    fn file(&mut self, name: &str) -> Result<usize, String> {
        let last = name.rsplit('/').next().unwrap_or(name);
        self.files.number(name, last.len())
    }

    fn wait(&mut self, fields: &[&str]) -> Result<Option<Event>, String> {
        let [wait, _] = fields[..] else { return Err("say FILE wait MICROSECONDS 0".into()) };
        let until = nanoseconds("wait", wait, MICROSECOND).map(|ns| self.now_ns.checked_add(ns))?;
        self.now_ns = until.ok_or("the waits are too long")?;
        Ok(None)
    }

    fn action(&mut self, file: &str, action: &str, fields: &[&str]) -> Result<Option<Event>, String> {
        let what = match action {
            "read" => What::Read,
            "write" => What::Write,
            "trim" => What::Trim,
            "sync" => What::Sync,
            "datasync" => What::DataSync,
            "syncfs" => What::SyncAll,
            "sync_file_range" => What::Nothing,
            "open" => What::Open,
            "close" => What::Close,
            "add" => return self.file(file).map(|_| None),
            _ => return Err(format!("{} is no action of a file", shown(action))),
        };
        let file = self.file(file)?;
        let is_io = !matches!(what, What::Open | What::Close);
        let (offset, size) = match *fields {
            [offset, size] if is_io => (number("offset", offset)?, number("length", size)?),
            [] if !is_io => (0, 0),
            _ if is_io => return Err(format!("'{action}' needs an offset and a length, and nothing else")),
            _ => return Err(format!("'{action}' has no offset and no length")),
        };
        let at_ns = self.now_ns;
        Event { what, file, at_ns, took_ns: 0, offset, size, direct: self.direct }.check().map(Some)
    }
}

impl Parser for Log {
    fn line(&mut self, line: &str) -> Result<Option<Event>, String> {
        let Some(version) = self.version else {
            self.version = Some(match line.trim_ascii() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                other => return Err(format!("{} is not 'fio version 2 iolog', nor that of version 3", shown(other))),
            });
            return Ok(None);
        };
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let mut fields = &fields[..];
        if version == 3 {
            let [time, rest @ ..] = fields else { return Err("the time is missing".into()) };
            self.now_ns = nanoseconds("time", time, MICROSECOND)?;
            fields = rest;
        }
        match *fields {
            [_, "wait", ..] if version == 3 => Err("version 3 has no 'wait'".into()),
            [_, "wait", ref rest @ ..] => self.wait(rest),
            [file, action, ref rest @ ..] => self.action(file, action, rest),
            _ => Err("a file and an action are missing".into()),
        }
    }

    fn names(&self) -> &[usize] {
        self.files.lengths()
    }

    fn is_one_program(&self) -> bool {
        true
    }

    fn began(&self, _first_ns: u64) -> u64 {
        0
    }
}
