//! What is assumed of the machine and of the systems, and what each assumption is switched to.
//!
//! A row of [`SWITCHES`] is all that a switch takes. It changes the systems that have one of the values it replaces,
//! and leaves the others as they are: what one of the compared systems is about is no assumption.

use crate::device::parameters;
use crate::spec::Experiment;
use steadyfs_core::OPTIONS;

/// One assumption, and what is assumed instead.
pub(crate) struct Switch {
    /// Where it stands.
    pub(crate) place: Place,
    /// The values that are replaced; none: every other value, also where none is given.
    pub(crate) from: &'static [&'static str],
    /// What they become.
    pub(crate) to: &'static str,
    /// What is then so.
    pub(crate) what: &'static str,
}

/// Where a setting stands.
pub(crate) enum Place {
    /// A mount option.
    Mount(&'static str),
    /// A key of the experiment.
    Key(&'static str),
}

/// The switches.
pub(crate) const SWITCHES: &[Switch] = &[
    Switch {
        place: Place::Mount("writeback"),
        from: &["linux"],
        to: "together",
        what: "writers over the limit write back themselves, each its own files",
    },
    Switch {
        place: Place::Mount("writeback"),
        from: &["together"],
        to: "linux",
        what: "one thread writes back for the volume; writers over the limit sleep",
    },
    Switch {
        place: Place::Mount("gc.buffer"),
        from: &["cache"],
        to: "dedicated",
        what: "F2FS' collection has memory of its own, and reads a victim in runs",
    },
    Switch {
        place: Place::Mount("gc.search"),
        from: &["whole"],
        to: "bounded",
        what: "F2FS' search for a victim stops after 4096 candidates, also while writers wait",
    },
    Switch {
        place: Place::Mount("gc.hysteresis"),
        from: &["0"],
        to: "2",
        what: "a writer who collects goes on until two sections more are free, with fewer checkpoints than F2FS",
    },
    Switch {
        place: Place::Mount("discard"),
        from: &["runs:16"],
        to: "off",
        what: "volumes are mounted with nodiscard",
    },
    Switch {
        place: Place::Mount("cp_lock"),
        from: &["shared"],
        to: "cores",
        what: "changes are counted by each core for the checkpoint lock, not on one line",
    },
    Switch {
        place: Place::Mount("data_logs"),
        from: &["cores"],
        to: "1",
        what: "MAX writes to one data log, as its artifact does",
    },
    Switch {
        place: Place::Key("workload.layout"),
        from: &["fallocate", "none"],
        to: "written",
        what: "jobs find their files written in full",
    },
    Switch {
        place: Place::Key("workload.layout"),
        from: &["written", "fallocate"],
        to: "none",
        what: "jobs find their files empty",
    },
    Switch {
        place: Place::Key("workload.norandommap"),
        from: &["", "false"],
        to: "true",
        what: "jobs overwrite some pages twice before others once, where fio takes each once a pass",
    },
    Switch {
        place: Place::Key("device.preset"),
        from: &["pm9a3"],
        to: "970pro",
        what: "the device is a 970 PRO: fewer channels, another link",
    },
    Switch {
        place: Place::Key("device.preset"),
        from: &["970pro"],
        to: "pm9a3",
        what: "the device is a PM9A3: more channels, another link",
    },
    Switch {
        place: Place::Key("device.parameters.suspend"),
        from: &["off"],
        to: "both",
        what: "reads suspend programs and erases",
    },
    Switch {
        place: Place::Key("device.parameters.order"),
        from: &["fifo"],
        to: "read-first",
        what: "reads go before programs and erases that have not begun",
    },
    Switch {
        place: Place::Key("device.parameters.duplex"),
        from: &["full"],
        to: "half",
        what: "reads and writes share the rate of the link",
    },
    Switch {
        place: Place::Key("device.over_provisioning"),
        from: &[],
        to: "0.07",
        what: "the drive is no larger than the volume, so it collects, too",
    },
];

impl Switch {
    /// What it is called: `writeback=linux`.
    pub(crate) fn name(&self) -> String {
        let (Place::Mount(key) | Place::Key(key)) = self.place;
        format!("{key}={}", self.to)
    }

    /// The setting that switches it in an experiment with one system; `None` where there is nothing to switch, or it
    /// cannot be switched.
    pub(crate) fn setting(&self, one: &Experiment) -> Option<String> {
        let now = match self.place {
            Place::Mount(option) => mounted(one, option)?,
            Place::Key(key) => value_of(one, key)?,
        };
        if now == self.to || !(self.from.is_empty() || self.from.contains(&now.as_str())) {
            return None;
        }
        let setting = match self.place {
            Place::Mount(option) => {
                let before = one.volume.mount.trim_end_matches(',');
                let comma = if before.is_empty() { "" } else { "," };
                format!("volume.mount={before}{comma}{option}={}", self.to)
            }
            Place::Key(key) => format!("{key}={}", self.to),
        };
        one.clone().set(&setting).is_ok().then_some(setting)
    }
}

/// The value of a mount option, said or not; `None` if there is no volume.
fn mounted(one: &Experiment, option: &str) -> Option<String> {
    let options = one.plain_mount_options().ok().filter(|_| one.workload.has_volume())?;
    let rows = OPTIONS.iter().filter(|row| row.has_name(option));
    rows.filter_map(|row| row.print(&options)?.split_once('=').map(|(_, value)| value.to_owned())).next()
}

/// The value of a key; empty where it is not given, `None` where the part that it belongs to is not there. A number of
/// the drive is its preset's where it is not given.
fn value_of(one: &Experiment, key: &str) -> Option<String> {
    if let Some(name) = key.strip_prefix("device.parameters.") {
        let drive = parameters(&one.device, 0).ok()?;
        return drive.numbers().find(|(number, _)| *number == name).map(|(_, value)| value);
    }
    let mut at = toml::Value::try_from(one).ok()?;
    let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
    for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
        at = at.get(parent)?.clone();
    }
    // What fio chooses if nothing is said is a layout, too.
    if key == "workload.layout" {
        return one.workload.fio_layout();
    }
    Some(at.get(last).map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{builtin, builtins};
    use steadyfs_flash::Preset;

    /// A row whose option or value nobody has would never switch anything.
    #[test]
    fn every_switch_switches_something_in_an_experiment_that_is_built_in() {
        let all = builtins();
        for switch in SWITCHES {
            let systems = |e: &Experiment| super::super::each_system(e).unwrap();
            let switched = all.iter().any(|e| systems(e).iter().any(|(_, one)| switch.setting(one).is_some()));
            assert!(switched, "{}, which replaces {:?}", switch.name(), switch.from);
        }
    }

    #[test]
    fn what_a_system_is_about_is_left_to_it() {
        let table = builtin("scalelfs-table3").unwrap();
        let buffer = SWITCHES.iter().find(|switch| switch.name() == "gc.buffer=dedicated").unwrap();
        let setting = |name: &str| buffer.setting(&table.with_system(name).unwrap());
        assert_eq!(
            setting("baseline").as_deref(),
            Some("volume.mount=mode=lfs,gc=f2fs-lfs,writeback=linux,discard,gc.buffer=dedicated")
        );
        assert_eq!(setting("+dpb"), None);
    }

    #[test]
    fn numbers_of_a_drive_are_switched_from_what_its_preset_has() {
        let names = ["suspend=both", "order=read-first", "duplex=half"];
        let names = names.map(|name| format!("device.parameters.{name}"));
        let settings = |one: &Experiment| {
            let rows = names.each_ref().map(|name| SWITCHES.iter().find(|switch| switch.name() == *name).unwrap());
            rows.map(|row| row.setting(one))
        };
        let mut one = builtin("scalelfs-fig2a").unwrap();
        assert_eq!(settings(&one), names.clone().map(Some));
        names.iter().for_each(|name| one.set(name).unwrap());
        assert_eq!(settings(&one), [None, None, None], "they are so already");
        let mut one = builtin("scalelfs-fig2a").unwrap();
        one.set("device.preset=slow-emmc").unwrap();
        assert_eq!(settings(&one), [Some(names[0].clone()), Some(names[1].clone()), None], "one bus");
        one.set("device.preset=memory").unwrap();
        assert_eq!(settings(&one), [None, None, None], "no drive");
    }

    #[test]
    fn a_drive_no_larger_than_the_volume_has_the_over_provisioning_of_its_preset() {
        let switch = SWITCHES.iter().find(|switch| matches!(switch.place, Place::Key("device.over_provisioning")));
        let own = Preset::ALL.map(|preset| preset.parameters().policy.over_provisioning.to_string());
        assert!(own.iter().any(|own| own == switch.unwrap().to), "{own:?}");
    }
}
