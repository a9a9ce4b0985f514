//! 10,000 bad volumes for everything that reads whole ones.

mod support;

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                support::run_all(steadyfs_fuzzing::target(stringify!($name)).expect("the target is in the list"));
            }
        )*

        #[test]
        fn every_reader_is_here() {
            for target in steadyfs_fuzzing::TARGETS.iter().filter(|target| target.volume) {
                assert!([$(stringify!($name)),*].contains(&target.name), "{} has no test", target.name);
            }
        }
    };
}

targets! { image fsck mount_read mount_write }
