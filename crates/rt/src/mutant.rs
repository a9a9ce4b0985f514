//! Vital lines that a run of tests switches off, one at a time, to see that a test notices (docs/MUTANTS.md).
//!
//! Kept true: no build that ships can switch anything off. That takes the feature `mutants`, which only
//! dev-dependencies ask for, and assertions of the debug profile. Everywhere else [`mutated`] is false at compile time,
//! and the branch is gone.

/// Whether the line with this name is switched off, which `STEADYFS_MUTANT` says. Each name stands on the page once,
/// and once in the sources.
#[inline(always)]
pub fn mutated(name: &'static str) -> bool {
    #[cfg(all(feature = "mutants", debug_assertions))]
    return named() == Some(name);
    #[cfg(not(all(feature = "mutants", debug_assertions)))]
    {
        let _ = name;
        false
    }
}

/// The line that this process runs without.
#[cfg(all(feature = "mutants", debug_assertions))]
fn named() -> Option<&'static str> {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("STEADYFS_MUTANT").ok()).as_deref()
}
