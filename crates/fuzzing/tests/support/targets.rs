//! A test for each target that a file names, and one that none is missing.

/// `targets! { VOLUME: NAME ... }`: the targets that read whole volumes, or those that do not.
macro_rules! targets {
    ($volume:literal: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                support::run_all(steadyfs_fuzzing::target(stringify!($name)).expect("the target is in the list"));
            }
        )*

        #[test]
        fn every_target_is_here() {
            for target in steadyfs_fuzzing::TARGETS.iter().filter(|target| target.volume == $volume) {
                assert!([$(stringify!($name)),*].contains(&target.name), "{} has no test", target.name);
            }
        }
    };
}
