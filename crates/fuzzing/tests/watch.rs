//! The watch itself: a target that panics, one whose thread panics, and one that takes too much memory are found out.

mod support;

use std::panic::catch_unwind;
use steadyfs_fuzzing::Target;

fn seeds() -> Vec<Vec<u8>> {
    vec![vec![1, 2, 3]]
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, seeds, volume: false, memory: 1 << 20 }
}

/// What the run of a target says at its end.
fn verdict(target: &'static Target) -> String {
    let result = catch_unwind(|| support::run_all(target));
    match result {
        Ok(()) => "nothing".to_owned(),
        Err(payload) => payload.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

#[test]
fn faults_are_found() {
    static SOUND: Target = target("sound", |_| ());
    assert_eq!(verdict(&SOUND), "nothing");
    static PANICS: Target = target("panics", |bytes| assert!(bytes.first() != Some(&9), "nine"));
    assert!(verdict(&PANICS).contains("nine"));
    static THREAD: Target = target("thread", |bytes| {
        let nine = bytes.first() == Some(&9);
        let thread =
            std::thread::Builder::new().name("steadyfs-test".into()).spawn(move || assert!(!nine, "elsewhere"));
        let _ = thread.expect("a thread").join();
    });
    assert!(verdict(&THREAD).contains("elsewhere"));
    static GREEDY: Target = target("greedy", |bytes| {
        let length = if bytes.first() == Some(&9) { 2 << 20 } else { 1000 };
        assert_eq!(std::hint::black_box(vec![1u8; length]).len(), length);
    });
    assert!(verdict(&GREEDY).contains("held more than"));
}
