//! Writes the inputs that each target starts from to DIR/TARGET/, for cargo-fuzz.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds DIR");
        std::process::exit(2);
    };
    for target in steadyfs_fuzzing::TARGETS {
        let directory = directory.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}
