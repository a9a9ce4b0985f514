//! One setting that is changed from run to run: each system is run with each of its values.

use super::{Experiment, Scale, System};
use serde::{Deserialize, Serialize};

/// What is changed, and to what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// What it is called: `cores`.
    pub name: String,
    /// The keys that get the value, as for [`Experiment::set`].
    pub keys: Vec<String>,
    /// The values.
    pub values: Vec<u64>,
    /// The keys get the value divided by this: 100 for hundredths.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub divide_by: u64,
    /// Figures to list for every value.
    pub show: Vec<String>,
}

fn one() -> u64 {
    1
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

impl Sweep {
    /// The settings that a value means.
    fn settings(&self, value: u64) -> impl Iterator<Item = String> + '_ {
        let value = if self.divide_by == 1 {
            value.to_string()
        } else {
            // With a decimal point in any case: keys that get parts are no whole numbers.
            format!("{:?}", value as f64 / self.divide_by as f64)
        };
        self.keys.iter().map(move |key| format!("{key}={value}"))
    }

    /// The name of a system with a value: `scalelfs@48`.
    fn name_of(system: &str, value: u64) -> String {
        format!("{system}@{value}")
    }

    /// System and value of such a name.
    pub fn split(name: &str) -> Option<(&str, u64)> {
        let (system, value) = name.rsplit_once('@')?;
        Some((system, value.parse().ok()?))
    }
}

impl Experiment {
    /// What is run: the systems, each with every value of the sweep if there is one.
    pub fn all_systems(&self) -> Vec<System> {
        let Some(sweep) = &self.sweep else { return self.systems.clone() };
        let nameless = [System { name: String::new(), set: Vec::new() }];
        let systems = if self.systems.is_empty() { &nameless[..] } else { &self.systems };
        let with = |system: &System, value: u64| System {
            name: Sweep::name_of(&system.name, value),
            set: system.set.iter().cloned().chain(sweep.settings(value)).collect(),
        };
        systems.iter().flat_map(|system| sweep.values.iter().map(move |value| with(system, *value))).collect()
    }

    /// The experiment with one system, at a scale: sizes that the system names become smaller with it, values of the
    /// sweep do not.
    pub(crate) fn of_system(&self, name: &str, scale: Scale) -> crate::error::Result<Self> {
        let Some((sweep, (system, value))) = self.sweep.as_ref().zip(Sweep::split(name)) else {
            return self.with_system(name)?.scaled(scale);
        };
        let without = Experiment { sweep: None, ..self.clone() };
        let mut one = without.with_system(system)?.scaled(scale)?;
        sweep.settings(value).try_for_each(|setting| one.set(&setting))?;
        Ok(one)
    }

    /// What cannot be right in a sweep.
    pub(super) fn check_sweep(&self) -> Result<(), String> {
        let Some(sweep) = &self.sweep else { return Ok(()) };
        if sweep.values.is_empty() || sweep.keys.is_empty() {
            return Err("sweep: say which keys get which values".into());
        }
        if !sweep.values.is_sorted_by(|a, b| a < b) {
            return Err("sweep.values: they do not rise".into());
        }
        if sweep.divide_by == 0 {
            return Err("sweep.divide_by: nothing is divided by 0".into());
        }
        match self.systems.iter().find(|system| system.name.contains('@')) {
            Some(system) => Err(format!("system '{}': '@' stands before the value of a sweep", system.name)),
            None => Ok(()),
        }
    }
}
