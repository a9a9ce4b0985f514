//! How an experiment's host collects, beyond what mount options say.

use super::{Experiment, VolumeKind};
use crate::formula::Formula;
use crate::workload::Subject;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `[gc]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Collection {
    /// The score of a section: the one with the highest is cleaned first. The built-in policies if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<Score>,
}

/// A formula as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Score(pub(crate) Formula);

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.text().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Formula::parse(&text).map(Score).map_err(|e| serde::de::Error::custom(format!("gc.score: {e}")))
    }
}

impl Experiment {
    /// Refuses a score where no host chooses victims.
    pub(super) fn check_collection(&self) -> Result<(), String> {
        let chooses = match self.workload.subject() {
            Subject::Volume(_) => self.volume.kind == VolumeKind::F2fs,
            Subject::Segments(_) => true,
            Subject::Device(_) | Subject::Lists(_) => false,
        };
        if self.gc.score.is_some() && !chooses {
            return Err("gc.score: no host chooses victims here; volume.kind = \"f2fs\" has one that does".into());
        }
        Ok(())
    }
}
