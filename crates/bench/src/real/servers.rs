//! Database servers: started on the file system that is measured, filled, asked, and stopped again.

use super::{Place, program, said};
use crate::arguments::let_others_through;
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Connections that ask at the same time.
const CLIENTS: &str = "4";
/// Rows of PostgreSQL's accounts, in units of 100,000.
const SCALE: &str = "5";
/// Rows of each of MariaDB's tables.
const ROWS: &str = "20000";

/// A command as another user.
fn by(user: &str, tool: &str) -> Result<Command> {
    let tool = program(tool)?;
    let mut command = program("setpriv")?;
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(tool.get_program());
    // Where nobody but root may be, a server says so and goes on; it is spared that.
    command.current_dir("/");
    Ok(command)
}

/// A directory of the file system that belongs to a user.
fn home_of(user: &str, place: &Place<'_>) -> Result<std::path::PathBuf> {
    let home = place.home.join(user);
    std::fs::create_dir(&home)?;
    said(program("chown")?.arg(format!("{user}:{user}")).arg(&home))?;
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700))?;
    Ok(home)
}

/// A server process that is killed unless it was stopped.
struct Server(Option<Child>);

impl Server {
    /// Starts it, and waits until it answers. Its output goes into a file in `dir`, and is told if it ends by itself.
    fn start(command: &mut Command, dir: &Path, mut answers: impl FnMut() -> Result<bool>) -> Result<Self> {
        let log = dir.join("log");
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let mut server = Server(Some(command.spawn().context("cannot start the server")?));
        for _ in 0..600 {
            if answers()? {
                return Ok(server);
            }
            if let Some(status) = server.0.as_mut().and_then(|child| child.try_wait().transpose()).transpose()? {
                let said = std::fs::read(&log).unwrap_or_default();
                bail!("the server ended by itself ({status}): {}", String::from_utf8_lossy(&said).trim());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server does not answer")
    }

    /// Waits for its end, after it was asked to stop.
    fn ended(mut self) -> Result<()> {
        if let Some(mut child) = self.0.take() {
            let status = child.wait()?;
            anyhow::ensure!(status.success(), "the server failed ({status})");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The number before or behind a word: `tps = 123.4`, `(123.4 per sec.)`.
fn number_near(text: &str, before: &str, behind: &str) -> Result<f64> {
    let found = text.split(before).skip(1).find_map(|rest| rest.split(behind).next()?.trim().parse().ok());
    found.with_context(|| format!("no figure in what it says: {}", text.trim()))
}

/// PostgreSQL and its own benchmark, much like TPC-B: transactions a second.
pub(super) fn pgbench(place: &Place<'_>) -> Result<f64> {
    const USER: &str = "postgres";
    let (home, sockets) = (home_of(USER, place)?, tempfile::tempdir_in(place.beside)?);
    let_others_through(sockets.path())?;
    said(program("chown")?.arg(USER).arg(sockets.path()))?;
    said(by(USER, "initdb")?.args(["-A", "trust", "-N", "-D"]).arg(&home))?;
    let mut postgres = by(USER, "postgres")?;
    postgres.arg("-D").arg(&home).arg("-k").arg(sockets.path());
    postgres.args(["-c", "listen_addresses=", "-c", "max_wal_size=256MB"]);
    let asks = |tool: &str| -> Result<Command> {
        let mut command = by(USER, tool)?;
        command.arg("-h").arg(sockets.path());
        Ok(command)
    };
    let mut answers = asks("pg_isready")?;
    let server =
        Server::start(&mut postgres, sockets.path(), || Ok(answers.stdout(Stdio::null()).status()?.success()))?;
    said(asks("pgbench")?.args(["-i", "-q", "-s", SCALE, "postgres"]))?;
    let seconds = place.amounts.seconds.to_string();
    let text = said(asks("pgbench")?.args(["-n", "-c", CLIENTS, "-j", "2", "-T", &seconds, "postgres"]))?;
    let rate = number_near(&text, "tps = ", " (")?;
    said(by(USER, "pg_ctl")?.arg("-D").arg(&home).args(["-m", "fast", "-w", "stop"]))?;
    server.ended()?;
    Ok(rate)
}

/// MariaDB under sysbench's mix of writes: transactions a second.
pub(super) fn sysbench(place: &Place<'_>) -> Result<f64> {
    const USER: &str = "mysql";
    let (home, sockets) = (home_of(USER, place)?, tempfile::tempdir_in(place.beside)?);
    let_others_through(sockets.path())?;
    said(program("chown")?.arg(USER).arg(sockets.path()))?;
    let socket = sockets.path().join("socket");
    let mut install = program("mariadb-install-db")?;
    install.args(["--no-defaults", "--auth-root-authentication-method=normal"]).arg(format!("--user={USER}"));
    said(install.arg(format!("--datadir={}", home.display())))?;
    let mut mariadb = by(USER, "mariadbd")?;
    mariadb.args(["--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=1", "--datadir"]).arg(&home);
    mariadb.arg("--socket").arg(&socket).arg("--pid-file").arg(sockets.path().join("pid"));
    let admin = |words: &[&str]| -> Result<Command> {
        let mut command = program("mariadb-admin")?;
        command.args(["--no-defaults", "-uroot", "--socket"]).arg(&socket).args(words);
        Ok(command)
    };
    let mut ping = admin(&["ping"])?;
    let mut answers = || Ok(ping.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success());
    let server = Server::start(&mut mariadb, sockets.path(), &mut answers)?;
    said(&mut admin(&["create", "sbtest"])?)?;
    let load = |words: &[&str]| -> Result<String> {
        let mut command = program("sysbench")?;
        command.args(["oltp_write_only", "--mysql-user=root", "--tables=2"]).arg(format!("--table-size={ROWS}"));
        said(command.arg(format!("--mysql-socket={}", socket.display())).args(words))
    };
    load(&["prepare"])?;
    let (threads, time) = (format!("--threads={CLIENTS}"), format!("--time={}", place.amounts.seconds));
    let text = load(&[&threads, &time, "run"])?;
    let transactions = text.lines().find(|line| line.trim_start().starts_with("transactions:")).unwrap_or_default();
    let rate = number_near(transactions, "(", " per sec")?;
    said(&mut admin(&["shutdown"])?)?;
    server.ended()?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_what_programs_say() {
        let pgbench = "latency average = 1.2 ms\ntps = 823.417 (without initial connection time)\n";
        assert_eq!(number_near(pgbench, "tps = ", " (").unwrap(), 823.417);
        assert_eq!(number_near("transactions:  1234   (123.40 per sec.)", "(", " per sec").unwrap(), 123.4);
        assert!(number_near("nothing", "tps = ", " (").is_err());
    }

    #[test]
    fn a_server_that_ends_by_itself_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo no room >&2; false"]);
        let error = Server::start(&mut fails, dir.path(), || Ok(false)).err().unwrap().to_string();
        assert!(error.contains("ended by itself") && error.contains("no room"), "{error}");
    }
}
