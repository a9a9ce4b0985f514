//! Runs a shell script in the real Linux kernel over disk images, for people: the same as the tests do through
//! `testkit::Uml`.

use std::process::ExitCode;
use std::time::Duration;

use steadyfs_testkit::machine::{Kernel, Machine};
use steadyfs_testkit::{Qemu, Uml};

const USAGE: &str = "usage: steadyfs-uml [--disk IMAGE]... [--read-only IMAGE]... [--module PATH]... [--seconds N] [--mem MIB] [--crash] [--log] [--qemu] SCRIPT
The script runs under sh -eu; $MNT is a mount point, $HOST a directory that is shared with the host and removed afterwards.
--qemu runs Debian's whole kernel instead, which takes long to boot and calls its disks /dev/vda, ...
Example: steadyfs-uml --disk volume.img 'mount -t f2fs /dev/ubda $MNT; ls -lR $MNT'";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = if args.iter().any(|a| a == "--qemu") { run(Qemu::new(), &args) } else { run(Uml::new(), &args) };
    outcome.unwrap_or_else(|message| {
        eprintln!("steadyfs-uml: {message}");
        ExitCode::from(2)
    })
}

fn run<K: Kernel>(mut machine: Machine<K>, args: &[String]) -> Result<ExitCode, String> {
    let mut script = None;
    let mut log = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
        let number = |text: &String| text.parse::<u32>().map_err(|_| format!("not a number: {text}"));
        match arg.as_str() {
            "--disk" => machine = machine.disk(value()?),
            "--read-only" => machine = machine.disk_read_only(value()?),
            "--module" => machine = machine.module(value()?),
            "--seconds" => machine = machine.timeout(Duration::from_secs(number(value()?)?.into())),
            "--mem" => machine = machine.mem_mib(number(value()?)?),
            "--crash" => machine = machine.crash(),
            "--log" => log = true,
            "--qemu" => {}
            body if !body.starts_with('-') && script.is_none() => script = Some(body),
            unknown => return Err(format!("unknown argument {unknown}\n{USAGE}")),
        }
    }
    let script = script.ok_or(USAGE)?;
    let out = machine.script(script).run_any().map_err(|e| e.to_string())?;
    if log {
        eprint!("{}", out.kernel);
    }
    print!("{}", out.stdout);
    for complaint in &out.complaints {
        eprintln!("kernel: {complaint}");
    }
    Ok(ExitCode::from(out.status.and_then(|s| u8::try_from(s).ok()).unwrap_or(1)))
}
