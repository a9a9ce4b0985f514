//! See `steadyfs_fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steadyfs_fuzzing::run("import", bytes));
