//! Bad input: for every parser of SteadyFS one function that feeds it arbitrary bytes and uses whatever it accepts.
//!
//! [`TARGETS`] lists them. A target takes bytes and returns; the only way to fail is to panic, to hang or to allocate
//! more than the input justifies. `fuzz/` calls each from a cargo-fuzz target: coverage guided, for as long as somebody
//! lets it run. `tests/` runs 10,000 inputs per target (1,000 of `replay`) on every `make test`. Our own generator
//! makes these from fixed seeds, so that a failure can be repeated.
//!
//! Two kinds of input. Parsers of one structure get the structure's bytes, behind a byte or two of choices (such as
//! "repair the checksum first", without which nearly every change would end at the checksum). What reads whole volumes
//! gets a list of changes ([`volumes::overlay`]) that are made to a sound volume in memory, field by field where that
//! leads deeper.
//!
//! Keeps true: a target is a function of its bytes alone. Relies on: nothing but the public interfaces of the crates it
//! tests.

pub mod input;
pub mod mutate;
pub mod parsers;
pub mod rng;
pub mod volumes;

/// One parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: that of the cargo-fuzz target too.
    pub name: &'static str,
    /// Feeds it these bytes.
    pub run: fn(&[u8]),
    /// Inputs to start from: sound ones, which changes make unsound.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether it reads whole volumes: its input is a list of changes.
    pub volume: bool,
    /// Bytes that it may hold at one time, beyond its input.
    pub memory: usize,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    parsers::superblock::TARGET,
    parsers::checkpoint::TARGET,
    parsers::nat::TARGET,
    parsers::sit::TARGET,
    parsers::summary::TARGET,
    parsers::inode::TARGET,
    parsers::node::TARGET,
    parsers::dentries::TARGET,
    parsers::xattr::TARGET,
    parsers::quota::TARGET,
    parsers::acl::TARGET,
    parsers::cluster::TARGET,
    parsers::records::TARGET,
    parsers::sparse::TARGET,
    parsers::import::TARGET,
    volumes::image::TARGET,
    volumes::check::TARGET,
    volumes::mount::READ,
    volumes::mount::WRITE,
    volumes::replay::TARGET,
    volumes::infinite::CHECK,
    volumes::infinite::MOUNT,
    volumes::verdict::TARGET,
    volumes::verdict::INFINITE,
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Feeds bytes to the target of this name.
///
/// # Panics
/// If there is none; if the target finds a fault.
pub fn run(name: &str, bytes: &[u8]) {
    let found = target(name).unwrap_or_else(|| panic!("there is no target '{name}'"));
    (found.run)(bytes);
}
