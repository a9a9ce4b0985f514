//! 10,000 bad inputs for each parser of one structure.

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
        fn every_parser_is_here() {
            for target in steadyfs_fuzzing::TARGETS.iter().filter(|target| !target.volume) {
                assert!([$(stringify!($name)),*].contains(&target.name), "{} has no test", target.name);
            }
        }
    };
}

targets! { superblock checkpoint nat sit summary inode node dentries xattr quota acl cluster sparse }
