//! The experiments that are part of the program: each file of `experiments`, by its name. `build.rs` lists them.

use super::{Experiment, near};
use crate::error::{Error, Result};

/// Name and text of each, in the order of the names.
pub(super) const BUILTIN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The experiments that are part of the program.
pub fn builtins() -> Vec<Experiment> {
    BUILTIN.iter().filter_map(|(name, _)| builtin(name).ok()).collect()
}

/// One of them.
///
/// # Errors
/// There is none of this name.
pub fn builtin(name: &str) -> Result<Experiment> {
    let (_, text) = BUILTIN.iter().find(|(known, _)| *known == name).ok_or_else(|| Error::Unknown {
        name: name.to_owned(),
        near: near::names(name, BUILTIN.iter().map(|(name, _)| *name)),
    })?;
    Experiment::parse(name, text)
}

/// The text of one of them, to begin an experiment of one's own with.
///
/// # Errors
/// There is none of this name.
pub fn builtin_text(name: &str) -> Result<&'static str> {
    builtin(name)?;
    Ok(BUILTIN.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_experiments_is_built_in() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let files = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = files.map(|file| file.trim_end_matches(".toml").to_owned()).collect();
        names.sort();
        let built_in: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
        assert_eq!(built_in, names);
        for (name, text) in BUILTIN {
            assert_eq!(*text, std::fs::read_to_string(dir.join(format!("{name}.toml"))).unwrap(), "{name}");
        }
    }
}
