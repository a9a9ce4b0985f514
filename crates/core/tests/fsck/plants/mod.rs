//! For each issue a test that plants exactly its fault in a whole volume and gets exactly that issue.
//!
//! A plant changes the volume and says what it expects: the issue, and after it those that cannot be avoided, with the
//! reason beside them. The last test makes sure that no variant of [`Issue`] was forgotten.

mod checkpoint;
mod dirs;
mod infinite;
mod inodes;
mod nodes;
mod quota;
mod regions;
mod tables;
mod volume;
mod xattrs;
mod zones;

use crate::editor::Editor;
use crate::images::{featured, fresh, plain, run, run_with};
use steadyfs_core::fsck::{CheckOptions, Issue};
use steadyfs_device::MemDevice;
use steadyfs_fuzzing::volumes::verdict;

/// Which volume a fault is planted in.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// Filled by Linux, no features: nothing has a checksum.
    Plain,
    /// Filled by Linux, with the features that change inodes, and quota files.
    Featured,
    /// Just the root directory.
    Fresh,
}

/// A fault: the code of its issue, the volume, and what it does to it; returns what must be found.
type Plant = (&'static str, Base, fn(&Editor) -> Vec<Issue>);

impl Base {
    fn volume(self) -> MemDevice {
        match self {
            Base::Plain => plain(),
            Base::Featured => featured(),
            Base::Fresh => fresh(),
        }
    }
}

/// Plants each fault and compares.
fn check_plants(plants: &[Plant]) {
    for (code, base, plant) in plants {
        let before = run(base.volume()).issues;
        let editor = Editor::new(base.volume());
        let expected = plant(&editor);
        assert!(
            expected.first().is_some_and(|issue| issue.code() == *code),
            "{code}: the plant expects its own issue first"
        );
        let found = run(editor.dev.fork()).issues;
        let mut unexpected = found.clone();
        for issue in expected.iter().chain(&before) {
            match unexpected.iter().position(|other| other == issue) {
                Some(at) => drop(unexpected.remove(at)),
                None => panic!("{code} in {base:?}: not found: {issue:?}\nfound: {found:#?}"),
            }
        }
        assert!(unexpected.is_empty(), "{code} in {base:?}: not expected: {unexpected:#?}");
        verdict::judge(&editor.dev);
        // Which of two owners of a block comes second depends on the threads; nothing else does.
        if *code != "BlockShared" {
            let many = CheckOptions { threads: 4, ..CheckOptions::default() };
            assert_eq!(run_with(editor.dev.fork(), &many).issues, found, "{code} with four threads");
        }
    }
}

#[test]
fn no_issue_is_without_a_plant() {
    let tables: [&[Plant]; 7] = [
        checkpoint::PLANTS,
        tables::PLANTS,
        nodes::PLANTS,
        inodes::PLANTS,
        quota::PLANTS,
        dirs::PLANTS,
        xattrs::PLANTS,
    ];
    let planted = tables.into_iter().flatten().map(|(code, ..)| *code);
    let planted = planted.chain(volume::CODES).chain(infinite::CODES).chain(regions::CODES).chain(zones::CODES);
    let planted: std::collections::BTreeSet<_> = planted.collect();
    let all: std::collections::BTreeSet<_> = Issue::CODES.iter().copied().collect();
    assert_eq!(planted, all);
}

#[test]
fn issues_describe_themselves() {
    let editor = Editor::new(plain());
    let ino = editor.ino("p/inline");
    editor.inode(ino, |inode| inode.set_links(7));
    let report = run(editor.dev.fork());
    let [issue] = &report.issues[..] else { panic!("{:?}", report.issues) };
    assert_eq!(issue.code(), "InodeLinks");
    assert_eq!(issue.to_string(), format!("inode {ino} counts 7 links, 1 were found"));
    assert_eq!((issue.location().ino, issue.location().lba), (Some(ino), None));
    let fields: Vec<_> = issue.fields().into_iter().map(|(name, _)| name).collect();
    assert_eq!(fields, ["ino", "stored", "found"]);
    assert_eq!((report.exit_code(), report.is_clean()), (4, false));
}
