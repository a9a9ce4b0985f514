//! Makes golden images again: `cargo run -p steadyfs-testkit --bin steadyfs-golden -- all`, or names of some.
//!
//! Needs the Debian packages that the tests need and zstd, qemu-system-x86 and fsverity; downloads Debian's kernel into
//! the target directory. The files in `crates/testkit/golden/` change with every making: commit them only when they
//! shall have other contents.

use std::process::ExitCode;

use steadyfs_testkit::golden::{self, Golden};

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    match run(&names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("steadyfs-golden: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        println!("usage: steadyfs-golden all | NAME...");
        golden::list().iter().for_each(|g| println!("  {:18} {}", g.name, g.about));
        return Ok(());
    }
    let chosen: Vec<Golden> = if names == ["all"] {
        golden::list()
    } else {
        names.iter().map(|name| golden::find(name).map_err(|e| e.to_string())).collect::<Result<_, _>>()?
    };
    for golden in chosen {
        let files = golden::make(&golden).map_err(|e| format!("{}: {e}", golden.name))?;
        for (file, size) in files {
            println!("{size:8} {file}");
        }
    }
    Ok(())
}
