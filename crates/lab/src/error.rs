//! What can go wrong in the laboratory.

/// Why an experiment could not be understood, run or reported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such experiment, neither built in nor as a file.
    #[error("there is no experiment '{name}'{}", like_it(near))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Experiments with names like it, the nearest first; often none.
        near: Vec<&'static str>,
    },
    /// The description of an experiment makes no sense.
    #[error("{place}: {why}")]
    Spec {
        /// The file or the setting.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file system refused something.
    #[error("{doing}: {source}")]
    Core {
        /// What was being done.
        doing: String,
        /// The file system's own words.
        source: steadyfs_core::Error,
    },
    /// The simulation ended before the experiment did.
    #[error("the simulation failed: {0}")]
    Simulation(#[from] steadyfs_rt::sim::SimFailure),
    /// What was measured is worth nothing: contents, volume or device are not what they must be.
    #[error("a check failed: {0}")]
    Check(String),
    /// A file of results.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file of results does not hold results.
    #[error("{path}: {why}")]
    Results {
        /// Which.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The names that may be meant, for the middle of a line.
fn like_it(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!(" (is it {}?)", near.join(" or ")) }
}

impl Error {
    /// An error of a description.
    pub(crate) fn spec(place: impl Into<String>, why: impl ToString) -> Self {
        Error::Spec { place: place.into(), why: why.to_string() }
    }

    /// For `map_err`: an error of the file system while `doing` something.
    pub(crate) fn core(doing: impl Into<String>) -> impl FnOnce(steadyfs_core::Error) -> Self {
        let doing = doing.into();
        move |source| Error::Core { doing, source }
    }

    /// Whether the description is at fault, and not what it describes.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Unknown { .. } | Error::Spec { .. })
    }
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
