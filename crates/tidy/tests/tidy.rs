//! The repository keeps the style rules, and each rule fires on a planted violation.

use std::path::Path;

use steadyfs_tidy::{Rule, SourceFile, Tree, Violation, check};

fn repository() -> Tree {
    Tree::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).expect("the repository is readable")
}

/// The violations that appear when `file` is added to a repository without any. Of the crates only the paths: parsing
/// all Rust files for each planted one would take long.
fn planted(file: SourceFile) -> Vec<Violation> {
    let mut tree = repository();
    let crates = tree.files.extract_if(.., |f| f.path.starts_with("crates/")).map(|f| f.path);
    tree.data.extend(crates);
    assert_eq!(check(&tree), []);
    check(&tree.with(file))
}

/// Asserts that the planted file breaks `rule`, at `line`, and nothing else.
#[track_caller]
fn fires(rule: Rule, line: usize, path: &str, text: &str) {
    let found = planted(SourceFile::new(path, text));
    assert_eq!(found.iter().map(|v| (v.rule, v.line)).collect::<Vec<_>>(), [(rule, line)], "{found:#?}");
}

#[track_caller]
fn silent(path: &str, text: &str) {
    assert_eq!(planted(SourceFile::new(path, text)), []);
}

#[test]
fn the_repository_is_tidy() {
    let tree = repository();
    assert!(tree.files.len() > 20, "the walk found only {} files", tree.files.len());
    let found = check(&tree);
    assert!(found.is_empty(), "{}", found.iter().map(|v| format!("\n{v}")).collect::<String>());
}

#[test]
fn lines_of_comments_and_pages() {
    let long = "word ".repeat(24) + "word";
    let url = format!("https://{}", "a".repeat(120));
    fires(Rule::LineLength, 2, "crates/rt/src/planted.rs", &format!("//! Head.\n/// {long}\nstruct A;\n"));
    fires(Rule::LineLength, 1, "docs/PLANTED.md", &format!("{long}\n"));
    silent("docs/PLANTED.md", &format!("| {long} |\n\n```\n{long}\n```\n\n- {url}\n"));
    silent("crates/rt/src/planted.rs", &format!("//! Head.\n//! {url}\n//! | {long} |\n"));
}

#[test]
fn arrows_between_the_rooms_of_core() {
    let head = |code: &str| format!("//! Head.\n{code}\n");
    let below = "crates/core/src/volume/nodes/planted.rs";
    silent(
        below,
        &head("use crate::error::Result;\nuse crate::volume::space::Space;\nuse crate::options::MountOptions;"),
    );
    silent(below, &head("//! As [`crate::files`] says.\n// crate::files\nconst T: &str = \"crate::fs\";"));
    silent(below, &head("#[cfg(test)]\nmod tests {\n    use crate::fs::Fs;\n}\n#[cfg(test)]\nuse crate::mkfs;"));
    silent("crates/core/src/volume/planted/tests.rs", &head("use crate::fs::Fs;"));
    fires(Rule::RoomArrow, 2, below, &head("use crate::files::inode::Inode;"));
    fires(Rule::RoomArrow, 3, below, &head("use crate::{\n    fs::Fs, error::Result};"));
    fires(Rule::RoomArrow, 2, below, &head("fn f() { g(crate::reclaim::Urgency::Low) }"));
    // What the crate shows to others has a home inside.
    fires(Rule::RoomArrow, 2, below, &head("use crate::Fs;"));
    fires(Rule::RoomArrow, 2, "crates/core/src/options/planted.rs", &head("use crate::volume::Volume;"));
    fires(Rule::RoomArrow, 0, "crates/core/src/newcomer/mod.rs", &head(""));
    // A floor knows those below it, and none above.
    silent("crates/core/src/durable/planted.rs", &head("use crate::files::Files;"));
    fires(Rule::RoomArrow, 2, "crates/core/src/files/planted.rs", &head("use crate::durable::Durable;"));
    fires(Rule::RoomArrow, 2, "crates/core/src/reclaim/planted.rs", &head("use crate::fs::Fs;"));
}

/// The violations of these files of core alone, which import one another as they say.
fn circles(files: &[(&str, String)]) -> Vec<Violation> {
    let mut tree = repository();
    tree.files.retain(|file| !file.path.starts_with("crates/"));
    for (path, code) in files {
        tree = tree.with(SourceFile::new(path, format!("//! Head.\n{code}\n")));
    }
    check(&tree).into_iter().filter(|v| v.rule == Rule::Circle).collect()
}

/// So many files of a folder, each of which imports the next one, in this way.
fn ring(count: usize, import: impl Fn(usize) -> String) -> Vec<(&'static str, String)> {
    const NAMES: [&str; 10] = [
        "crates/core/src/volume/ring/mod.rs",
        "crates/core/src/volume/ring/n1.rs",
        "crates/core/src/volume/ring/n2.rs",
        "crates/core/src/volume/ring/n3.rs",
        "crates/core/src/volume/ring/n4.rs",
        "crates/core/src/volume/ring/n5.rs",
        "crates/core/src/volume/ring/n6.rs",
        "crates/core/src/volume/ring/n7/mod.rs",
        "crates/core/src/volume/ring/n8.rs",
        "crates/core/src/volume/ring/n9.rs",
    ];
    (0..count).map(|i| (NAMES[i], import((i + 1) % count))).collect()
}

#[test]
fn circles_of_imports() {
    let absolute = |next: usize| match next {
        0 => "use crate::volume::ring::Top;".to_owned(),
        n => format!("use crate::volume::ring::{{n{n}::{{self, Other}}}};"),
    };
    assert_eq!(circles(&ring(8, absolute)), []);
    let found = circles(&ring(9, absolute));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, "crates/core/src/volume/ring/mod.rs");
    assert!(found[0].what.starts_with("9 files") && found[0].what.contains("ring/n7/mod.rs"), "{found:?}");
    // Paths in code, from above, and of a module of its own.
    let relative = |next: usize| match next {
        0 => "fn f() { super::top() }".to_owned(),
        1 => "mod n1;\nuse n1::Other;".to_owned(),
        n => format!("fn f(_: &super::n{n}::Other) {{}}"),
    };
    // `n7` is a folder of its own, and so its `super` is the ring.
    assert_eq!(circles(&ring(9, relative)).len(), 1);
    // No import: a declaration, a comment, a text, how far something is seen, and a test.
    let reach = "pub(in crate::volume::ring::n1) struct Top;";
    for cut in ["mod n1;", "// crate::volume::ring::n1", "const T: &str = \"self::n1::Other\";", reach] {
        let broken = |next: usize| if next == 1 { cut.to_owned() } else { absolute(next) };
        assert_eq!(circles(&ring(10, broken)), [], "{cut}");
    }
    let in_tests = |next: usize| match next {
        1 => "#[cfg(test)]\nmod tests {\n    use super::n1::Other;\n}".to_owned(),
        next => absolute(next),
    };
    assert_eq!(circles(&ring(10, in_tests)), []);
}

#[test]
fn locks_that_the_ladder_lacks() {
    let class = |name: &str, rank: u32| {
        format!("//! Head.\npub(crate) static A: LockClass = LockClass::new(\"{name}\", {rank});\n")
    };
    let file = "crates/core/src/locks.rs";
    silent(file, &class("i_rwsem", 30));
    silent(file, &class("planted_lock", 99));
    fires(Rule::Ladder, 2, file, &class("planted_lock", 41));
    fires(Rule::Ladder, 2, file, &class("i_rwsem", 29));
}

#[test]
fn long_files() {
    let text = |lines: usize| format!("//! Head.\n{}", "// Line.\n".repeat(lines - 1));
    silent("crates/core/src/volume/planted.rs", &text(1000));
    fires(Rule::FileLength, 0, "crates/core/src/volume/planted.rs", &text(1001));
}

#[test]
fn missing_heads() {
    fires(Rule::FileHead, 1, "crates/core/src/volume/planted.rs", "// Not a head.\n");
    fires(Rule::FileHead, 1, "crates/rt/tests/planted.rs", "fn f() {}\n");
}

#[test]
fn long_functions() {
    let text = |lines: usize| {
        format!(
            "//! Head.\nstruct S;\nimpl S {{\n    fn f(&self) {{\n{}    }}\n}}\n",
            "        g();\n".repeat(lines - 2)
        )
    };
    silent("crates/fuse/src/planted.rs", &text(69));
    fires(Rule::FunctionLength, 4, "crates/fuse/src/planted.rs", &text(70));
    silent("crates/fuse/src/planted.rs", "//! Head.\ntype F = fn(u32);\ntrait T { fn f(); }\n");
}

#[test]
fn unfinished_code() {
    for mark in [concat!("to", "do!()"), concat!("unimple", "mented!()")] {
        fires(Rule::Unfinished, 2, "crates/core/src/volume/planted.rs", &format!("//! Head.\nfn f() {{ {mark} }}\n"));
    }
    fires(Rule::Unfinished, 2, "crates/core/src/volume/planted.rs", concat!("//! Head.\n#[", "ignore]\nfn f() {}\n"));
    fires(Rule::Unfinished, 2, "crates/core/src/volume/planted.rs", concat!("//! Head.\n// FIX", "ME: later\n"));
    fires(Rule::Unfinished, 1, "tools/planted.sh", concat!("# X", "XX\n"));
    silent("crates/core/src/volume/planted.rs", concat!("//! Head.\nconst T: &str = \"fileX", "XX", "XX", "X\";\n"));
}

#[test]
fn paths_of_a_machine() {
    fires(Rule::MachinePath, 1, "docs/planted.md", concat!("see /", "work/notes\n"));
    silent("docs/planted.md", concat!("see docs/", "work/notes\n"));
}

#[test]
fn threads_locks_and_clocks() {
    let file = "crates/core/src/volume/planted.rs";
    fires(Rule::RtDoor, 2, file, "//! Head.\nuse std::thread;\n");
    fires(Rule::RtDoor, 2, file, "//! Head.\nuse std::sync::{Arc, atomic::AtomicU64, Mutex};\n");
    fires(Rule::RtDoor, 2, file, "//! Head.\nfn f(_: &::std::sync::RwLock<u8>) {}\n");
    fires(Rule::RtDoor, 3, file, "//! Head.\nfn f() {\n    let _ = std::time::Instant::now();\n}\n");
    fires(Rule::RtDoor, 3, file, "//! Head.\nfn f() {\n    assert!(g(std::time::SystemTime::now()));\n}\n");
    fires(Rule::RtDoor, 2, "crates/device/src/planted.rs", "//! Head.\nuse parking_lot::Mutex;\n");
    silent(
        file,
        "//! Head.\n//! Never std::thread.\nuse std::sync::{Arc, atomic::AtomicU64};\nuse std::time::Duration;\n",
    );
    silent("crates/rt/src/planted.rs", "//! Head.\nuse std::thread;\n");
    silent("crates/core/tests/planted.rs", "//! Head.\nuse std::thread;\n");
}

#[test]
fn unsafe_code() {
    let text = "//! Head.\nfn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";
    fires(Rule::Unsafe, 3, "crates/core/src/volume/planted.rs", text);
    fires(Rule::Unsafe, 3, "crates/steadyfs/src/planted.rs", text);
    silent("crates/device/src/planted.rs", text);
    silent("crates/core/src/volume/planted.rs", "//! Head.\n//! No unsafe here.\nconst WORD: &str = \"unsafe\";\n");
    let counted = check(&repository().with(SourceFile::new("crates/device/src/planted.rs", text)));
    let [one] = &counted[..] else { panic!("{counted:#?}") };
    assert!(one.rule == Rule::Unsafe && one.path == "SECURITY.md" && one.what.contains("`device`"), "{one}");
}

#[test]
fn arrows_that_point_up() {
    let manifest = |name: &str, rest: &str| {
        SourceFile::new(&format!("crates/{name}/Cargo.toml"), format!("[package]\nlicense.workspace = true\n{rest}"))
    };
    let rules = |file| planted(file).iter().map(|v| v.rule).collect::<Vec<_>>();
    for (name, import) in [
        ("format", "rt"),
        ("format", "device"),
        ("device", "core"),
        ("core", "fuse"),
        ("core", "flash"),
        ("flash", "format"),
        ("fuse", "lab"),
    ] {
        assert_eq!(
            rules(manifest(name, &format!("[dependencies]\nsteadyfs-{import}.workspace = true\n"))),
            [Rule::LayerArrow]
        );
    }
    assert_eq!(rules(manifest("fuse", "[dependencies]\nsteadyfs.workspace = true\n")), [Rule::LayerArrow]);
    assert_eq!(rules(manifest("core", "[dependencies]\nsteadyfs-tidy.workspace = true\n")), [Rule::LayerArrow]);
    assert_eq!(rules(manifest("newcomer", "")), [Rule::LayerArrow, Rule::Crates]);
    assert_eq!(
        rules(manifest("newcomer", "publish = false\n[dependencies]\nsteadyfs-core.workspace = true\n")),
        [Rule::Crates]
    );
    assert_eq!(
        rules(manifest(
            "core",
            "[dependencies]\nsteadyfs-format.workspace = true\n[dev-dependencies]\nsteadyfs-tidy.workspace = true\n"
        )),
        []
    );
}

#[test]
fn kinds_of_volumes_beside_their_seams() {
    let arm = "//! Head.\nfn f(p: &Placement) {\n    if let Placement::Segments(_) = p {}\n}\n";
    fires(Rule::Seam, 3, "crates/core/src/files/planted.rs", arm);
    fires(Rule::Seam, 3, "crates/core/src/volume/planted.rs", arm);
    silent("crates/core/src/volume/placement/mod.rs", arm);
    silent("crates/core/src/mount/planted.rs", arm);
    silent(
        "crates/core/src/files/planted.rs",
        "//! Head.\nfn f(p: &Placement) -> bool {\n    p.is_address(Lba(1))\n}\n",
    );
    let route = "//! Head.\nfn f(r: Route) -> bool {\n    r == Route::Chain\n}\n";
    fires(Rule::Seam, 3, "crates/core/src/durable/planted.rs", route);
    silent("crates/core/src/durable/sync/planted.rs", route);
    fires(Rule::Seam, 2, "crates/core/src/durable/planted.rs", "//! Head.\nfn f(_: &SegTable) {}\n");
    let reclaim = "//! Head.\nfn f(r: &Arm) {\n    let Arm::Host(_) = r;\n}\n";
    fires(Rule::Seam, 3, "crates/core/src/files/planted.rs", reclaim);
    fires(Rule::Seam, 3, "crates/core/src/reclaim/host/planted.rs", reclaim);
    silent("crates/core/src/reclaim/mod.rs", reclaim);
    silent("crates/core/src/files/planted.rs", "//! Head.\nfn f(r: &Arm) {\n    r.admissions();\n}\n");
    let host = "//! Head.\nfn f(_: &HostReclaim) {}\n";
    fires(Rule::Seam, 2, "crates/core/src/reclaim/report.rs", host);
    silent("crates/core/src/reclaim/host/planted.rs", host);
    let layer = "//! Head.\nfn f(_: &mut Zns) {}\n";
    fires(Rule::Seam, 2, "crates/flash/src/engine.rs", layer);
    silent("crates/flash/src/ftl/planted.rs", layer);
    silent("crates/core/src/files/planted.rs", layer);
    silent("crates/core/src/durable/planted.rs", "//! Head.\nmod tests {\n    fn f(_: &SegTable) {}\n}\n");
}

#[test]
fn types_of_one_name() {
    let found = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| SourceFile::new(path, format!("//! Head.\n{text}\n"))).collect();
        let found = check(&Tree { files, ..Tree::default() }).into_iter().filter(|v| v.rule == Rule::TypeName);
        found.map(|v| (v.path, v.line)).collect::<Vec<_>>()
    };
    let held = ("crates/rt/src/a.rs", "pub(crate) struct Held(u8);");
    let broken = [("crates/rt/src/b.rs".to_owned(), 2)];
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "pub enum Held {}")]), broken);
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "pub(super) trait Held {}")]), broken);
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "mod within { pub type Held = u8; }")]), broken);
    // Of another crate, of its own module only, of tests, an associated type, no type at all, and two arms of a `cfg`.
    assert_eq!(found(&[held, ("crates/core/src/b.rs", "pub struct Held;")]), []);
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "struct Held;")]), []);
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "#[cfg(test)]\nmod tests { pub struct Held; }")]), []);
    assert_eq!(found(&[held, ("crates/rt/tests/b.rs", "pub struct Held;")]), []);
    assert_eq!(found(&[held, ("crates/rt/src/b.rs", "impl I for T { type Held = u8; }\npub use a::Held;")]), []);
    assert_eq!(found(&[("crates/rt/src/a.rs", "#[cfg(x)]\npub struct A;\n#[cfg(not(x))]\npub struct A;")]), []);
    assert_eq!(found(&[("crates/bench/src/bin/soak/a.rs", held.1), ("crates/bench/src/a.rs", held.1)]), []);
}

#[test]
fn assertions_where_shared_state_changes() {
    let found = |file: &str, line: &str, lines: usize| {
        let text = format!("//! Head.\nfn f() {{\n{}}}\n", line.repeat(lines));
        let tree = Tree { files: vec![SourceFile::new(file, text)], ..Tree::default() };
        let found = check(&tree).into_iter().filter(|v| v.rule == Rule::Assertion).map(|v| v.path);
        found.collect::<Vec<_>>()
    };
    let file = "crates/core/src/volume/a.rs";
    let none = "    g();\n";
    assert_eq!(found(file, none, 1000), ["crates/core/src/volume/"]);
    assert_eq!(found(file, none, 900), [""; 0], "little code says nothing");
    assert_eq!(found(file, &(none.repeat(59) + "    assert!(a);\n"), 20), [""; 0], "16 in a thousand");
    assert_eq!(
        found(file, &(none.repeat(79) + "    assert!(a);\n"), 20),
        ["crates/core/src/volume/"],
        "12 in a thousand"
    );
    // Of tests, of comments, and those that are switched off in what ships.
    let other = "    // assert!(a);\n    debug_assert!(a);\n";
    assert_eq!(found(file, other, 1000), ["crates/core/src/volume/"]);
    let tests = format!("#[cfg(test)]\nmod tests {{ {} }}\n{none}", "fn t() { assert!(a); }\n".repeat(9));
    assert_eq!(found(file, &tests, 1000), ["crates/core/src/volume/"]);
    assert_eq!(found("crates/core/src/volume/tests.rs", none, 1000), [""; 0]);
    assert_eq!(found("crates/core/src/mkfs/a.rs", none, 1000), [""; 0]);
}

/// The places of violations of one rule, with these numbers and files alone.
fn by_numbers(rule: Rule, numbers: &str, files: &[(&str, String)]) -> Vec<String> {
    let numbers = ("crates/tidy/ratchet.toml", numbers.to_owned());
    let files = files.iter().chain([&numbers]).map(|(path, text)| SourceFile::new(path, text.as_str()));
    let found = check(&Tree { files: files.collect(), ..Tree::default() });
    found.into_iter().filter(|v| v.rule == rule).map(|v| format!("{}: {}", v.path, v.what)).collect()
}

#[test]
fn long_sentences_of_comments() {
    let words = |count: usize| vec!["word"; count].join(" ");
    let found = |text: String| {
        let found = by_numbers(Rule::LongSentence, "", &[("crates/rt/tests/a.rs", format!("//! Head.\n{text}\n"))]);
        found.into_iter().map(|what| what.replace("crates/rt/tests/a.rs: a sentence of ", "")).collect::<Vec<_>>()
    };
    assert_eq!(found(format!("// {}\n// end.\n// {} the end", words(39), words(38))), [""; 0]);
    assert_eq!(found(format!("// {}\n// the end.", words(39))), ["41 words, the most is 40"]);
    // Neither a colon nor a semicolon ends one.
    assert_eq!(found(format!("\n/// {}: {};\n/// end.", words(20), words(20))), ["41 words, the most is 40"]);
    // Ends of sentences, items, blank lines and tables; code, and one word between backticks.
    let half = words(30);
    assert_eq!(found(format!("//! {half}? {half}\n//! - {half}\n//! 2. {half}\n//!\n//! {half}")), [""; 0]);
    assert_eq!(found(format!("//! {half}\n//! | {half} {half} |\n//! {half}")), [""; 0]);
    assert_eq!(found(format!("// {half} (a.)\n// {half} `{half}`\n//\n// ```\n// {half} {half}\n// ```")), [""; 0]);
    assert_eq!(found(format!("// {half}\nstatic A: &str = \"{half}\"; // {half}\n// {half}")), [""; 0]);
}

#[test]
fn long_sentences_of_pages() {
    let words = |count: usize| vec!["word"; count].join(" ");
    let found = |number: usize, page: String| {
        by_numbers(Rule::LongSentence, &format!("[sentences]\n\"a.md\" = {number}\n"), &[("a.md", page)])
    };
    let text = format!("{}.\n{}. {}. End.\n\n| {} |\n\n# {}\n", words(26), words(25), words(26), words(50), words(30));
    assert_eq!(found(2, text.clone()), [""; 0]);
    assert_eq!(found(1, text.clone()), ["a.md: 2 sentences of more than 25 words; crates/tidy/ratchet.toml allows 1"]);
    assert_eq!(found(3, text.clone()), ["crates/tidy/ratchet.toml: `a.md` is 3: lower it to 2"]);
    let other = [("b.md", text), ("CHANGELOG.md", words(26))];
    let found = by_numbers(Rule::LongSentence, "[sentences]\n\"a.md\" = 1\n", &other);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("b.md: 2") && found[1].ends_with("there is no `a.md`"), "{found:?}");
}

#[test]
fn words_that_stand_for_a_name() {
    let found = |number: usize, path: &str, text: &str| {
        let text = format!("//! Head.\n{text}\n");
        by_numbers(Rule::Wording, &format!("[wording]\nrt = {number}\n"), &[(path, text)])
    };
    let file = "crates/rt/src/a.rs";
    let four = "/// What is it? Whoever asks so\n/// many times, asks anew.\nfn f() {}";
    assert_eq!(found(4, file, four), [""; 0]);
    let found_three = found(3, file, four);
    assert!(found_three[0].starts_with("rt: 4 ") && found_three.len() == 1, "{found_three:?}");
    assert_eq!(found(5, file, four), ["crates/tidy/ratchet.toml: `rt` is 5: lower it to 4"]);
    // Of tests, of code, in words that are right, and of tests within a file.
    let tests = format!("#[cfg(test)]\nmod tests {{\n{four}\n}}");
    assert_eq!(found(0, file, &tests), [""; 0]);
    assert_eq!(
        found(0, file, "const A: &str = \"whoever\";\n// What comes; so few of many; somewhat is. `anew`"),
        [""; 0]
    );
    for tests in ["crates/rt/tests/a.rs", "crates/rt/src/a/tests.rs"] {
        assert_eq!(by_numbers(Rule::Wording, "", &[(tests, four.to_owned())]), [""; 0]);
    }
}

#[test]
fn methods_of_a_giant() {
    let found = |number: usize| {
        let text = "//! Head.\nimpl Fs {\n    fn a(&self) {}\n    pub fn b(&self) {\n        fn inside() {}\n    }\n}\n\
                    impl Other {\n    fn c() {}\n}\n#[cfg(test)]\nimpl Fs {\n    fn d() {}\n}\n";
        let numbers = format!("[methods]\nFs = {number}\n");
        by_numbers(
            Rule::Giant,
            &numbers,
            &[("crates/core/src/a.rs", text.to_owned()), ("crates/rt/src/a.rs", text.to_owned())],
        )
    };
    assert_eq!(found(2), [""; 0]);
    assert_eq!(found(1), ["Fs: 2 methods; crates/tidy/ratchet.toml allows 1"]);
    assert_eq!(found(3), ["crates/tidy/ratchet.toml: `Fs` is 3: lower it to 2"]);
}

#[test]
fn licences_and_documents() {
    assert_eq!(
        planted(SourceFile::new("crates/rt/Cargo.toml", "[package]\nlicense = \"GPL-2.0\"\n"))[0].rule,
        Rule::Licence
    );
    for path in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        let mut found = check(&repository().without(path));
        found.retain(|v| v.rule != Rule::Link); // the README's
        assert_eq!(found.iter().map(|v| (v.rule, v.path.as_str())).collect::<Vec<_>>(), [(Rule::Licence, path)]);
    }
}

#[test]
fn texts_of_licences_that_a_package_lacks() {
    let manifest = |include: &str| format!("[package]\nlicense.workspace = true\ninclude = [{include}]\n");
    fires(Rule::Licence, 0, "crates/rt/Cargo.toml", &manifest("\"src/**\""));
    silent("crates/rt/Cargo.toml", &manifest("\"LICENSE-*\", \"src/**\""));
    let (copy, at) = ("crates/rt/LICENSE-MIT", "crates/rt/Cargo.toml");
    let mut small = repository();
    small.files.retain(|f| f.path == at || f.path.contains("LICENSE"));
    let found = |tree: Tree| check(&tree).into_iter().filter(|v| v.path == copy).map(|v| v.rule).collect::<Vec<_>>();
    assert_eq!(found(small.clone()), []);
    assert_eq!(found(small.clone().without(copy)), [Rule::Licence]);
    assert_eq!(found(small.with(SourceFile::new(copy, "Do as you like.\n"))), [Rule::Licence]);
}

#[test]
fn sections_and_pages_that_comments_cite() {
    let file = "crates/core/src/volume/planted.rs";
    silent(
        file,
        "//! Head (format\n//! section 12.3), see docs/TESTING.md.\n// Format sections 3.1, 6 and 7.2; 4 to 6.\n",
    );
    fires(Rule::Citation, 1, file, "//! Head. Format\n//! section 99.\n");
    fires(Rule::Citation, 3, file, "//! Head.\n\n/// As it is (format sections 3.1 and 7.9).\nstruct A;\n");
    fires(Rule::Citation, 3, file, concat!("//! Head.\n\n// Why: scale", "lfs.md, section 3.\n"));
    silent(file, "//! Head.\nconst T: &str = \"format section 99\";\n");
}

#[test]
fn links_that_lead_nowhere() {
    let page = "docs/internals/PLANTED.md";
    silent(
        page,
        "[a](../SEMANTICS.md#errors-of-the-device) [b](../internals) [c](https://x.y/z)\n[d](#e-f)\n\n## E, f\n",
    );
    silent(page, "`[a](b.md)`\n\n```\n[a](b.md)\n```\n`docs/TESTING.md` `crates/rt/src/lib.rs`\n");
    fires(Rule::Link, 2, page, "Text\n[a](SEMANTICS.md)\n");
    fires(Rule::Link, 1, page, "[a](../SEMANTICS.md#no-such-heading)\n");
    fires(Rule::Link, 1, page, "[a](#no-such-heading)\n");
    fires(Rule::Link, 1, page, "[a](../../../README.md)\n");
    fires(Rule::Link, 1, page, "the script `tools/no-such.sh`\n");
    fires(Rule::Link, 1, page, "`crates/rt/src/no_such.rs` `crates/rt/src/lib.rs`\n");
}

#[test]
fn commits_on_pages() {
    let page = "docs/internals/PLANTED.md";
    fires(Rule::Commit, 2, page, "Text\nAt 0a1b2c3 it took 5 s.\n");
    silent(page, "0x6d0ea4c1, 0123456789abcdef, 1234567, defaced, 0a1b2c\n");
    silent("CHANGELOG.md", "At 0a1b2c3 it took 5 s.\n");
}

#[test]
fn crates_that_the_page_does_not_name() {
    let manifest = "[package]\npublish = false\nlicense.workspace = true\n";
    fires(Rule::Crates, 0, "crates/newcomer/Cargo.toml", manifest);
    silent("crates/bench/Cargo.toml", manifest);
}

#[test]
fn messages_that_nothing_prints() {
    let page = "docs/TROUBLESHOOTING.md";
    let source = SourceFile::new(
        "crates/steadyfs/src/failure.rs",
        "//! Head.\nconst A: &str = \"cannot read {} \\\n    at all\";\nconst B: &str = \"it is gone\";\n",
    );
    let lines = |text: &str| {
        let tree = Tree { files: vec![source.clone(), SourceFile::new(page, text)], ..Tree::default() };
        let found = check(&tree).into_iter().filter(|v| v.rule == Rule::Message).map(|v| v.line);
        found.collect::<Vec<_>>()
    };
    assert_eq!(lines("| message | cause |\n| `cannot read ... at all: ...` | c |\n| `it is gone` | c |\n"), []);
    assert_eq!(lines("| `It was eaten`, from programs | c |\n"), []);
    assert_eq!(lines("| `cannot read ... at all` | c |\n| `it is lost` | c |\n| `...: ...` | c |\n"), [2, 3]);
}

#[test]
fn promises_and_the_tests_that_show_them() {
    let source = SourceFile::new(
        "crates/rt/tests/a.rs",
        "//! Head.\n#[test]\n/// Why.\nfn it_holds() {}\nfn a_helper() {}\nmod within {\n    #[test]\n    fn inside() {}\n}\n",
    );
    let lines = |path: &str, text: &str| {
        let tree = Tree { files: vec![source.clone(), SourceFile::new(path, text)], ..Tree::default() };
        let found = check(&tree).into_iter().filter(|v| v.rule == Rule::Promise).map(|v| v.line);
        found.collect::<Vec<_>>()
    };
    let table = "| promise | exception | test |\n|---|---|---|\n";
    let page = "docs/SEMANTICS.md";
    assert_eq!(lines(page, &format!("{table}| a | none | `crates/rt/tests/a.rs::it_holds` |\n\n| b | c | d |\n")), []);
    assert_eq!(lines(page, &format!("{table}| a | none | `crates/rt/tests/a.rs` |\n| b | none | |\n")), [3, 4]);
    assert_eq!(lines(page, &format!("{table}| a | none | `crates/rt/tests/a.rs::it_held` |\n")), [3]);
    assert_eq!(lines("docs/X.md", "`crates/rt/tests/a.rs::inside` `crates/rt/tests/a.rs::a_helper`\n"), [1]);
    assert_eq!(lines("docs/X.md", "`crates/rt/tests/a.rs::inside`\n"), []);
}

#[test]
fn lines_that_tests_run_without() {
    let asks = |names: &[&str]| -> String {
        let line =
            |name: &&str| format!("fn {name}() {{ if !{}(\"{name}\") {{ flush() }} }}\n", concat!("muta", "ted"));
        "//! Head.\n".to_owned() + &names.iter().map(line).collect::<String>()
    };
    let rows = |rows: &str| {
        let head = "| line | where | without it | noticed by | seconds |\n|---|---|---|---|---|\n";
        SourceFile::new("docs/MUTANTS.md", format!("{head}{rows}\n| none | of | the | table | 1 |\n"))
    };
    let found = |source: &str, page: SourceFile| {
        let files = vec![SourceFile::new("crates/rt/src/a.rs", source), page];
        let all = check(&Tree { files, ..Tree::default() });
        all.into_iter().filter(|v| v.rule == Rule::Mutant).map(|v| (v.path, v.line)).collect::<Vec<_>>()
    };
    let row =
        |name: &str| format!("| `{name}` | `crates/rt/src/a.rs` | no flush | `crates/rt/src/a.rs::test` | 0.1 |\n");
    let (source, page) = ("crates/rt/src/a.rs".to_owned(), "docs/MUTANTS.md".to_owned());
    assert_eq!(found(&asks(&["a", "b"]), rows(&(row("a") + &row("b")))), []);
    assert_eq!(found(&asks(&["a", "b"]), rows(&row("a"))), [(source.clone(), 3)]);
    assert_eq!(found(&asks(&["a", "a"]), rows(&row("a"))), [(source, 3)]);
    assert_eq!(found(&asks(&["a"]), rows(&(row("a") + &row("b")))), [(page.clone(), 4)]);
    assert_eq!(found(&asks(&["a"]), rows(&(row("a") + &row("a")))), [(page.clone(), 3), (page.clone(), 4)]);
    let untested = "| `a` | `crates/rt/src/a.rs` | no flush | a review | 0.1 |\n";
    assert_eq!(found(&asks(&["a"]), rows(untested)), [(page, 3)]);
    let manifest = |section: &str| {
        let asks = "steadyfs-rt = { workspace = true, features = [\"mutants\"] }";
        format!("[package]\nlicense.workspace = true\npublish = false\n\n[{section}]\n{asks}\n")
    };
    fires(Rule::Mutant, 6, "crates/bench/Cargo.toml", &manifest("dependencies"));
    silent("crates/bench/Cargo.toml", &manifest("dev-dependencies"));
}

#[test]
fn the_page_of_style_has_every_rule() {
    let tree = repository();
    let page = &tree.get("docs/STYLE.md").expect("the page is there").text;
    let rows: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(rows, Rule::ALL.map(|rule| format!("{rule:?}")));
}

#[test]
fn files_that_do_not_parse() {
    fires(Rule::Unreadable, 0, "crates/core/src/volume/planted.rs", "//! Head.\nfn f( {}\n");
}
