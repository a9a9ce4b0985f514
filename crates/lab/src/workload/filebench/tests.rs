//! Parameters: defaults, scale, and what is refused.

use super::*;

fn filebench(text: &str) -> Filebench {
    toml::from_str(text).unwrap()
}

#[test]
fn personalities_have_the_defaults_of_their_files() {
    let settings = |personality: &str| filebench(&format!("personality = '{personality}'")).settings().unwrap();
    let fileserver = settings("fileserver");
    assert_eq!((fileserver.nfiles, fileserver.filesize, fileserver.nthreads), (10_000, 131_072, 50));
    assert_eq!((fileserver.iosize, fileserver.meanappendsize, fileserver.prealloc), (1 << 20, 16 << 10, 80));
    let varmail = settings("varmail");
    assert_eq!((varmail.nfiles, varmail.meandirwidth, varmail.nthreads), (1000, 1_000_000, 16));
    assert_eq!((settings("webserver").nthreads, settings("webserver").flowops.len()), (100, 31));
    let given = filebench("personality = 'varmail'\nnfiles = 5\nmeanfilesize = '28M'\nruntime = 2");
    assert_eq!(given.settings().map(|s| (s.nfiles, s.filesize, s.runtime)), Some((5, 28 << 20, 2.0)));
}

#[test]
fn sizes_shrink_with_the_scale_and_then_numbers_do() {
    let large = filebench("personality = 'fileserver'\nnfiles = 500\nfilesize = '64M'").scaled(1.0 / 16.0);
    let settings = large.settings().unwrap();
    assert_eq!((settings.nfiles, settings.filesize, settings.runtime), (500, 4 << 20, 3.75));
    let small = filebench("personality = 'varmail'\nnfiles = 8000\nfilesize = '32K'").scaled(1.0 / 16.0);
    let settings = small.settings().unwrap();
    assert_eq!((settings.nfiles, settings.filesize), (1000, 16 << 10));
    let oltp = filebench("personality = 'oltp'\nfilesize = '1000M'").scaled(0.1);
    assert!((oltp.file_bytes() as f64 / (10.0 * f64::from(101 << 20)) - 1.0).abs() < 0.01, "{}", oltp.file_bytes());
}

#[test]
fn nonsense_is_refused_by_name() {
    for (text, part) in [
        ("personality = 'fileserver'\nnfiles = 0", "workload.nfiles"),
        ("personality = 'fileserver'\nprealloc = 101", "workload.prealloc"),
        ("personality = 'varmail'\nruntime = 0", "workload.runtime"),
        ("personality = 'varmail'\nfilesizegamma = -1", "workload.filesizegamma"),
        ("personality = 'oltp'\nndbwriters = 0", "workload.ndbwriters"),
        ("personality = 'oltp'\nfilesize = '1K'", "workload.filesize"),
    ] {
        let why = filebench(text).check().unwrap_err();
        assert!(why.contains(part), "{why}");
    }
    for (text, parts) in [
        ("personality = 'mailserver'", ["mailserver", "varmail"]),
        ("personality = 'oltp'\nnthreads = 3", ["nthreads", "nshadows"]),
        ("personality = 'varmail'\nnshadows = 3", ["nshadows", "nthreads"]),
    ] {
        let e = toml::from_str::<Filebench>(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| e.contains(part)), "{e}");
    }
}
