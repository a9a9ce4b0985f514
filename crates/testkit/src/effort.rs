//! How much of what could be tried a test tries.

/// `few`, or `all` where the environment has `STEADYFS_TEST_ALL`: for tests that try many cases of one kind. Each build
/// tries cases of every kind; `make test-all` tries each case.
pub fn sampled<T>(few: T, all: T) -> T {
    if std::env::var_os("STEADYFS_TEST_ALL").is_some() { all } else { few }
}
