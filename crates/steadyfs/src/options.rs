//! Mount options for users: the command's own table, and the lists of all tables for `--help`, manual and docs.
//!
//! Kept true: an option is listed exactly where its tier belongs, in the words of its row.

use steadyfs_core::MountOptions;
use steadyfs_core::option_rows::{Entry, Row, Tier, Values, entries};
use steadyfs_core::option_words;
use steadyfs_fuse::{Foreign, FuseOptions};

use crate::metrics::Endpoint;

/// What the options of this command say.
#[derive(Debug)]
pub(crate) struct OwnOptions {
    /// Where metrics are served.
    pub(crate) metrics: Option<Endpoint>,
    /// A mount that is there is to change.
    pub(crate) remount: bool,
    /// The server gives up the rights that it does not need.
    pub(crate) sandbox: bool,
    /// The partition that holds the volume.
    pub(crate) partition: Option<u32>,
}

impl Default for OwnOptions {
    fn default() -> Self {
        OwnOptions { metrics: None, remount: false, sandbox: true, partition: None }
    }
}

/// The options that this command itself understands.
pub(crate) static OPTIONS: &[Row<OwnOptions>] = &[
    Row {
        name: "metrics",
        aliases: &[],
        values: Values::Text {
            form: "ADDR|PATH",
            allowed: "127.0.0.1:PORT, another address with a port, or the path of a socket, which has a slash",
            set: |options, text| {
                options.metrics = Some(text.parse().ok()?);
                Some(())
            },
            get: |options| options.metrics.as_ref().map(Endpoint::to_string),
        },
        tier: Tier::Everyday,
        help: "as --metrics",
    },
    Row {
        name: "sandbox",
        aliases: &[],
        values: option_words!(Flags, sandbox, { "sandbox" => true, "nosandbox" => false }),
        tier: Tier::Everyday,
        help: "leave the server few capabilities, the system calls that it makes, and no core dumps; all of root's rights \
               only to look for faults in it",
    },
    Row {
        name: "partition",
        aliases: &[],
        values: Values::Number {
            unit: "N",
            least: 1,
            most: u32::MAX as u64,
            set: |options, number| options.partition = u32::try_from(number).ok(),
            get: |options| options.partition.map(u64::from),
        },
        tier: Tier::Everyday,
        help: "as --partition, for fstab",
    },
    Row {
        name: "remount",
        aliases: &[],
        values: option_words!(Flags, remount, { "remount" => true }),
        tier: Tier::F2fs,
        help: "change the flags of a mount that is there; only of mount(8)",
    },
];

/// What pages say of every option, each table in its order.
pub(crate) fn all() -> Vec<Entry> {
    let mut all = entries(steadyfs_core::OPTIONS, &MountOptions::default());
    all.extend(entries(steadyfs_fuse::OPTIONS, &FuseOptions::new("")));
    all.extend(entries(OPTIONS, &OwnOptions::default()));
    all
}

/// A list for `--help` and the manual.
fn list(title: &str, tier: Tier) -> String {
    let lines = all().into_iter().filter(|entry| entry.tier == tier);
    let lines = lines.map(|Entry { spelled, help, .. }| format!("\n  {spelled}\n          {help}"));
    format!("{title}:{}", lines.collect::<String>())
}

/// The options of `mount --help`.
pub(crate) fn for_help() -> String {
    let everyday = list("Options", Tier::Everyday);
    format!(
        "{everyday}\n\nThe manual page (`steadyfs man --dir DIR; man DIR/steadyfs-mount.1`) also has the options of F2FS and \
         FUSE, `steadyfs lab run --help` those for experiments."
    )
}

/// The options of the manual page of `mount`.
pub(crate) fn for_manual() -> String {
    let mut text = list("Options", Tier::Everyday) + "\n\n" + &list("Options of F2FS, mount(8) and FUSE", Tier::F2fs);
    text.push_str("\n\nAccepted without a meaning:");
    for (option, foreign) in Foreign::all() {
        match foreign {
            Foreign::Passed => text.push_str(&format!("\n  {option}")),
            Foreign::Ignored(why) => text.push_str(&format!("\n  {option}\n          {why}")),
            Foreign::Refused(_) => {}
        }
    }
    text + "\n\nOptions for experiments: see steadyfs-lab-run(1)."
}

/// The options of `lab run --help`.
pub(crate) fn for_lab() -> String {
    list("Mount options for experiments, beside those of `mount` (--set volume.mount=OPTIONS)", Tier::Research)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use steadyfs_core::option_rows::faults;

    #[test]
    fn each_row_parses_and_prints_each_of_its_values_and_refuses_others() {
        let samples: &[(&str, &[&str])] = &[("metrics", &["127.0.0.1:9000", "[::1]:1", "/run/a socket"])];
        assert_eq!(faults(OPTIONS, OwnOptions::default, samples), [""; 0]);
    }

    /// The names in a page: first words of lines that are indented as those of [`list`].
    fn listed(page: &str) -> Vec<&str> {
        let spelled = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        page.lines().filter(spelled).map(str::trim).collect()
    }

    #[test]
    fn each_option_is_on_the_page_of_its_tier() {
        let of = |tiers: &[Tier]| -> Vec<String> {
            let mut all = all();
            all.retain(|entry| tiers.contains(&entry.tier));
            all.sort_by_key(|entry| entry.tier);
            all.into_iter().map(|entry| entry.spelled).collect()
        };
        let foreign = Foreign::all().filter(|(_, foreign)| !matches!(foreign, Foreign::Refused(_)));
        let foreign: Vec<String> = foreign.map(|(name, _)| name).collect();
        assert_eq!(listed(&for_help()), of(&[Tier::Everyday]));
        assert_eq!(listed(&for_manual()), [of(&[Tier::Everyday, Tier::F2fs]), foreign].concat());
        assert_eq!(listed(&for_lab()), of(&[Tier::Research]));
    }

    /// The Rust files below a directory.
    fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, found);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_option_is_parsed_outside_the_tables() {
        let of_core = steadyfs_core::OPTIONS.iter().flat_map(Row::names);
        let names = of_core.chain(steadyfs_fuse::OPTIONS.iter().flat_map(Row::names));
        let forms = ["strip_prefix(\"NAME=", "starts_with(\"NAME=", " \"NAME\" =>"];
        let patterns: Vec<String> = names.flat_map(|name| forms.map(|form| form.replace("NAME", name))).collect();
        let mut files = Vec::new();
        for of in ["core/src", "fuse/src", "steadyfs/src"] {
            rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of), &mut files);
        }
        files.retain(|path| !path.ends_with("options/table.rs") && !path.ends_with("steadyfs/src/options.rs"));
        assert!(files.len() > 100, "{} files only", files.len());
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let found = patterns.iter().find(|pattern| text.contains(pattern.as_str()));
            assert_eq!(found, None, "{} parses an option", path.display());
        }
    }

    /// A table for a page in Markdown.
    fn table(entries: impl Iterator<Item = (String, String)>) -> String {
        let cell = |text: String| text.replace('|', "\\|");
        let row = |(spelled, says): (String, String)| format!("| `{}` | {} |\n", cell(spelled), cell(says));
        format!("| option | does |\n|---|---|\n{}", entries.map(row).collect::<String>())
    }

    #[test]
    fn the_page_of_options_has_each_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CONFIGURATION.md");
        let page = std::fs::read_to_string(page).unwrap();
        let of = |tier: Tier| {
            let entries = all().into_iter().filter(move |entry| entry.tier == tier);
            table(entries.map(|entry| (entry.spelled, entry.help)))
        };
        let foreign = |refused: bool| {
            let told = Foreign::all().filter_map(move |(option, foreign)| match foreign {
                Foreign::Passed if !refused => Some((option, "not for the file system".to_owned())),
                Foreign::Ignored(why) if !refused => Some((option, why.to_owned())),
                Foreign::Refused(why) if refused => Some((option, why.to_owned())),
                _ => None,
            });
            table(told)
        };
        let tables = [of(Tier::Everyday), of(Tier::F2fs), of(Tier::Research), foreign(false), foreign(true)];
        let missing: Vec<_> =
            tables.iter().filter(|table| !page.contains(table.as_str())).map(String::as_str).collect();
        assert!(missing.is_empty(), "docs/CONFIGURATION.md lacks these tables:\n\n{}", missing.join("\n"));
        let lines = |text: &str| text.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(lines(&page), lines(&tables.concat()), "an option that is in no table");
    }

    #[test]
    fn no_two_options_have_one_spelling() {
        let mut all: Vec<String> = all().into_iter().map(|entry| entry.spelled).collect();
        all.extend(Foreign::all().map(|(name, _)| name));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
