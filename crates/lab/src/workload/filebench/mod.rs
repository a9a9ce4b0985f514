//! Filebench's personalities: the parameters have the names of its `.f` files, and the same defaults.
//!
//! `fileserver`, `varmail` and `webserver` are a file set, threads, and for each thread a list of flowops that it does
//! over and over ([`flowops`]); `oltp` is log writer, database writers and readers that hold each other back
//! ([`oltp`]). Facts are of filebench 1.5's personalities of version 3.0 (webserver 3.1) and its flowop library.
//!
//! What differs from the tool:
//! - Threads may have a set of files each (`private`).
//! - With no file left to create, or no space, a thread goes on with deleting, and it is counted. The tool ends the
//!   run.
//! - A file's last write is as long as the rest of the file.
//! - The part of files that the layout makes (`prealloc`) is exact.

mod fileset;
mod flowops;
mod oltp;
mod semaphore;

use super::{Act, Options, Plan};
use crate::spec::Size;
use crate::stage::Stage;
use flowops::{FileServer, Flowop};
use oltp::Oltp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Files do not become smaller than this with the scale; from there on they become fewer.
const SMALLEST_FILE: u64 = 16 << 10;

/// A personality.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "personality", rename_all = "lowercase")]
pub(crate) enum Filebench {
    /// Creates, writes, appends, reads, deletes and stats whole files.
    Fileserver(Files),
    /// A mail spool: small appends, each with an fsync, and reads.
    Varmail(Files),
    /// Reads of whole files, and a log that all append to.
    Webserver(Files),
    /// A database: a log writer, database writers, readers.
    Oltp(Oltp),
}

/// The parameters of the personalities that work on whole files. What is not given has the value of the personality's
/// `.f` file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Files {
    /// Files of the set.
    #[serde(default)]
    nfiles: Option<u32>,
    /// Mean size of a file.
    #[serde(default, alias = "meanfilesize")]
    filesize: Option<Size>,
    /// Shape of the sizes' gamma distribution; 0 for files of one size.
    #[serde(default)]
    filesizegamma: Option<f64>,
    /// Mean number of entries of a directory.
    #[serde(default)]
    meandirwidth: Option<u32>,
    #[serde(default)]
    nthreads: Option<u32>,
    /// Bytes of a read or write of a whole file.
    #[serde(default)]
    iosize: Option<Size>,
    /// Appends are of any length below this, all equally likely.
    #[serde(default)]
    meanappendsize: Option<Size>,
    /// Files in a hundred that the layout makes.
    #[serde(default)]
    prealloc: Option<u32>,
    /// Seconds.
    #[serde(default)]
    runtime: Option<f64>,
    /// A set of its own for each thread, where filebench has one for all.
    #[serde(default)]
    private: bool,
}

/// All parameters of one such personality.
#[derive(Clone, Debug)]
struct Settings {
    nfiles: u32,
    filesize: u64,
    filesizegamma: f64,
    meandirwidth: u32,
    nthreads: u32,
    iosize: u64,
    meanappendsize: u64,
    prealloc: u32,
    runtime: f64,
    private: bool,
    /// What each thread does, over and over.
    flowops: &'static [Flowop],
}

impl Filebench {
    /// The same with smaller files, or fewer where they would become tiny, and a shorter time.
    pub(super) fn scaled(self, factor: f64) -> Self {
        match self {
            Filebench::Oltp(oltp) => Filebench::Oltp(oltp.scaled(factor)),
            Filebench::Fileserver(_) | Filebench::Varmail(_) | Filebench::Webserver(_) => {
                let Some(full) = self.settings() else { return self };
                let filesize = ((full.filesize as f64 * factor) as u64).max(SMALLEST_FILE.min(full.filesize));
                let fewer = factor * full.filesize as f64 / filesize as f64;
                let nfiles = ((f64::from(full.nfiles) * fewer).round() as u32).max(1);
                let shrunk = |files: Files| Files {
                    filesize: Some(Size::of(filesize)),
                    nfiles: Some(nfiles),
                    runtime: Some(full.runtime * factor),
                    ..files
                };
                match self {
                    Filebench::Fileserver(files) => Filebench::Fileserver(shrunk(files)),
                    Filebench::Varmail(files) => Filebench::Varmail(shrunk(files)),
                    Filebench::Webserver(files) => Filebench::Webserver(shrunk(files)),
                    Filebench::Oltp(_) => self,
                }
            }
        }
    }

    /// The parameters, with the defaults of the personality; `None` for `oltp`, which has others.
    fn settings(&self) -> Option<Settings> {
        const K: u64 = 1 << 10;
        let (files, flowops, nfiles, filesize, meandirwidth, nthreads, prealloc) = match self {
            Filebench::Fileserver(files) => (files, flowops::FILESERVER, 10_000, 128 * K, 20, 50, 80),
            Filebench::Varmail(files) => (files, flowops::VARMAIL, 1000, 16 * K, 1_000_000, 16, 80),
            Filebench::Webserver(files) => (files, flowops::WEBSERVER, 1000, 16 * K, 20, 100, 100),
            Filebench::Oltp(_) => return None,
        };
        let size = |given: Option<Size>, default: u64| given.map_or(default, Size::bytes);
        Some(Settings {
            nfiles: files.nfiles.unwrap_or(nfiles),
            filesize: size(files.filesize, filesize),
            filesizegamma: files.filesizegamma.unwrap_or(1.5),
            meandirwidth: files.meandirwidth.unwrap_or(meandirwidth),
            nthreads: files.nthreads.unwrap_or(nthreads),
            iosize: size(files.iosize, 1 << 20),
            meanappendsize: size(files.meanappendsize, 16 * K),
            prealloc: files.prealloc.unwrap_or(prealloc),
            runtime: files.runtime.unwrap_or(60.0),
            private: files.private,
            flowops,
        })
    }
}

impl Options for Filebench {
    fn check(&self) -> Result<(), String> {
        let settings = match self {
            Filebench::Oltp(oltp) => return oltp.check(),
            _ => self.settings(),
        };
        settings.map_or(Ok(()), |settings| settings.check())
    }

    fn file_bytes(&self) -> u64 {
        match self {
            Filebench::Oltp(oltp) => oltp.file_bytes(),
            _ => self.settings().map_or(0, |settings| settings.file_bytes()),
        }
    }
}

impl Plan for Filebench {
    fn act(&self, stage: &Arc<Stage>) -> Box<dyn Act> {
        match (self, self.settings()) {
            (Filebench::Oltp(oltp), _) => oltp.act(stage),
            (_, Some(settings)) => Box::new(FileServer::new(settings, stage)),
            (_, None) => unreachable!("only oltp has no file server's settings"),
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), String> {
        let counts = [
            ("nfiles", self.nfiles, 1 << 24),
            ("nthreads", self.nthreads, 4096),
            ("meandirwidth", self.meandirwidth, 1 << 24),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(format!("workload.{name}: {value} is not between 1 and {most}"));
            }
        }
        check_size("filesize", self.filesize, 1, 1 << 40)?;
        check_size("iosize", self.iosize, 1, 1 << 30)?;
        check_size("meanappendsize", self.meanappendsize, 2, 1 << 30)?;
        if !(0.0..=1000.0).contains(&self.filesizegamma) {
            return Err(format!("workload.filesizegamma: {} is not between 0 and 1000", self.filesizegamma));
        }
        if self.prealloc > 100 {
            return Err(format!("workload.prealloc: {} of a hundred", self.prealloc));
        }
        check_runtime(self.runtime)
    }

    /// As the layout makes them, at mean.
    fn file_bytes(&self) -> u64 {
        self.preallocated().saturating_mul(self.filesize).saturating_mul(self.sets())
    }

    /// How many sets there are.
    fn sets(&self) -> u64 {
        if self.private { u64::from(self.nthreads) } else { 1 }
    }

    /// Files of a set that the layout makes.
    fn preallocated(&self) -> u64 {
        u64::from(self.nfiles) * u64::from(self.prealloc) / 100
    }
}

/// Refuses a size outside these bounds.
fn check_size(name: &str, bytes: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&bytes) {
        return Ok(());
    }
    Err(format!("workload.{name}: {bytes} bytes are not between {least} and {most}"))
}

/// Refuses what is no time to run for.
fn check_runtime(seconds: f64) -> Result<(), String> {
    if seconds > 0.0 && seconds < 1e7 {
        return Ok(());
    }
    Err(format!("workload.runtime: {seconds} is no number of seconds above 0"))
}

#[cfg(test)]
mod tests;
