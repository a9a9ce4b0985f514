//! Runs a shell script in the real Linux kernel over disk images, for people: the same as the tests do through `testkit::Uml`.

use std::process::ExitCode;
use std::time::Duration;

use steadyfs_testkit::Uml;

const USAGE: &str = "usage: steadyfs-uml [--disk IMAGE]... [--read-only IMAGE]... [--module PATH]... [--seconds N] [--mem MIB] [--crash] [--log] SCRIPT
The script runs under sh -eu; $MNT is a mount point, $HOST a directory that is shared with the host and removed afterwards.
Example: steadyfs-uml --disk volume.img 'mount -t f2fs /dev/ubda $MNT; ls -lR $MNT'";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    run(&args).unwrap_or_else(|message| {
        eprintln!("steadyfs-uml: {message}");
        ExitCode::from(2)
    })
}

fn run(args: &[String]) -> Result<ExitCode, String> {
    let mut uml = Uml::new();
    let mut script = None;
    let mut log = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
        let number = |text: &String| text.parse::<u32>().map_err(|_| format!("not a number: {text}"));
        match arg.as_str() {
            "--disk" => uml = uml.disk(value()?),
            "--read-only" => uml = uml.disk_read_only(value()?),
            "--module" => uml = uml.module(value()?),
            "--seconds" => uml = uml.timeout(Duration::from_secs(number(value()?)?.into())),
            "--mem" => uml = uml.mem_mib(number(value()?)?),
            "--crash" => uml = uml.crash(),
            "--log" => log = true,
            body if !body.starts_with('-') && script.is_none() => script = Some(body),
            unknown => return Err(format!("unknown argument {unknown}\n{USAGE}")),
        }
    }
    let script = script.ok_or(USAGE)?;
    let out = uml.script(script).run_any().map_err(|e| e.to_string())?;
    if log {
        eprint!("{}", out.kernel);
    }
    print!("{}", out.stdout);
    for complaint in &out.complaints {
        eprintln!("kernel: {complaint}");
    }
    Ok(ExitCode::from(out.status.and_then(|s| u8::try_from(s).ok()).unwrap_or(1)))
}
