//! The programs, and what of them is timed. Nothing is synced within the time unless the program does that itself.

use super::{Place, program, said, servers};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program on a file system.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What its rate counts a second.
    pub(super) unit: &'static str,
    /// The programs that have to be installed, and the packages of Debian that have it.
    pub(super) tools: &'static [(&'static str, &'static str)],
    /// Whether the peers can serve it: they have no links, and serve one user.
    pub(super) on_peers: bool,
    /// Whether it needs the source as a repository.
    pub(super) clones: bool,
    /// The least ratio to ext4 that is aimed at.
    pub(super) goal: Option<f64>,
    /// Does it, and gives its rate.
    pub(super) run: fn(&Place<'_>) -> Result<f64>,
}

/// All of them.
pub(super) const PROGRAMS: [Program; 10] = [
    Program {
        name: "git-clone",
        unit: "entries",
        tools: &[("git", "git")],
        on_peers: true,
        clones: true,
        goal: Some(0.5),
        run: |place| {
            let repository = format!("file://{}", place.source.repository.display());
            place.over_tree(program("git")?.args(["clone", "-q"]).arg(repository).arg(place.home.join("clone")))
        },
    },
    Program {
        name: "untar",
        unit: "entries",
        tools: &[("tar", "tar")],
        on_peers: true,
        clones: false,
        goal: Some(0.5),
        run: |place| place.over_tree(&mut place.untar()?),
    },
    Program {
        name: "rsync",
        unit: "entries",
        tools: &[("rsync", "rsync")],
        on_peers: true,
        clones: false,
        goal: None,
        run: |place| {
            let from = format!("{}/", place.source.tree.display());
            place.over_tree(program("rsync")?.arg("-a").arg(from).arg(place.home.join("copy")))
        },
    },
    Program {
        name: "ls-lR",
        unit: "entries",
        tools: &[("tar", "tar"), ("ls", "coreutils")],
        on_peers: true,
        clones: false,
        goal: None,
        run: |place| {
            said(&mut place.untar()?)?;
            place.over_tree(program("ls")?.arg("-lR").arg(place.home))
        },
    },
    Program {
        name: "rm-rf",
        unit: "entries",
        tools: &[("tar", "tar"), ("rm", "coreutils")],
        on_peers: true,
        clones: false,
        goal: None,
        run: |place| {
            said(&mut place.untar()?)?;
            place.over_tree(program("rm")?.arg("-rf").arg(place.home.join("tree")))
        },
    },
    Program {
        name: "cargo-build",
        unit: "builds",
        tools: &[("cargo", "cargo")],
        on_peers: false,
        clones: false,
        goal: None,
        run: |place| {
            let package = place.home.join("package");
            said(program("cp")?.arg("-r").arg(&place.source.package).arg(&package))?;
            let mut build = program("cargo")?;
            build.args(["build", "-q", "--offline", "--manifest-path"]).arg(package.join("Cargo.toml"));
            build.arg("--target-dir").arg(place.home.join("target"));
            rate(1, &mut build)
        },
    },
    Program {
        name: "sqlite-wal",
        unit: "transactions",
        tools: &[("sqlite3", "sqlite3")],
        on_peers: true,
        clones: false,
        goal: Some(1.0),
        run: |place| sqlite(place, "WAL"),
    },
    Program {
        name: "sqlite-delete",
        unit: "transactions",
        tools: &[("sqlite3", "sqlite3")],
        on_peers: true,
        clones: false,
        goal: None,
        run: |place| sqlite(place, "DELETE"),
    },
    Program {
        name: "pgbench",
        unit: "transactions",
        tools: &[("postgres", "postgresql"), ("pgbench", "postgresql"), ("setpriv", "util-linux")],
        on_peers: false,
        clones: false,
        goal: Some(1.0),
        run: servers::pgbench,
    },
    Program {
        name: "sysbench-mariadb",
        unit: "transactions",
        tools: &[("mariadbd", "mariadb-server"), ("sysbench", "sysbench")],
        on_peers: false,
        clones: false,
        goal: None,
        run: servers::sysbench,
    },
];

impl Place<'_> {
    /// The command that unpacks the tree.
    fn untar(&self) -> Result<Command> {
        let tree = self.home.join("tree");
        std::fs::create_dir(&tree)?;
        let mut tar = program("tar")?;
        tar.arg("-xf").arg(&self.source.archive).arg("-C").arg(tree);
        Ok(tar)
    }

    /// The rate of a command that does something to each entry of the tree.
    fn over_tree(&self, command: &mut Command) -> Result<f64> {
        rate(self.source.entries, command)
    }
}

/// How much a command does in a second, of which it does so much in all.
fn rate(amount: u64, command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    said(command)?;
    Ok(amount as f64 / began.elapsed().as_secs_f64())
}

/// Rows that are each inserted by a transaction, durable as SQLite makes them by default in this mode.
fn sqlite(place: &Place<'_>, journal: &str) -> Result<f64> {
    let database = place.home.join("data.db");
    ask_sqlite(
        &database,
        &format!("PRAGMA journal_mode={journal};\nCREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);\n"),
    )?;
    let insert = "INSERT INTO t(v) VALUES (randomblob(100));\n";
    let script = "PRAGMA synchronous=FULL;\n".to_owned() + &insert.repeat(usize::try_from(place.amounts.transactions)?);
    let began = Instant::now();
    ask_sqlite(&database, &script)?;
    Ok(place.amounts.transactions as f64 / began.elapsed().as_secs_f64())
}

fn ask_sqlite(database: &Path, script: &str) -> Result<()> {
    let mut sqlite = program("sqlite3")?;
    sqlite.arg("-bail").arg(database).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = sqlite.spawn().context("cannot run sqlite3")?;
    let mut input = child.stdin.take().context("sqlite3 has no input")?;
    // Where it fails it says so itself, and its status does.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "sqlite3 failed ({status})");
    Ok(())
}
