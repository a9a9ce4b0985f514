//! What holds for every table of mount options; the tests of each table ask for it.

use crate::options::row::{Row, Values, apply, differences};
use std::collections::BTreeSet;
use std::fmt::Debug;

/// A value that no row allows.
const NONSENSE: &str = "nonsense,";

/// The faults of a table, a line each. `samples` has texts that [`Values::Text`] rows allow, by the row's name.
///
/// Each row has to parse every value, print what was set, and get the same target from the printed form. One value at
/// least has to change the target. A wrong value has to be refused with the ones that are allowed.
pub fn faults<T>(rows: &[Row<T>], default: fn() -> T, samples: &[(&str, &[&str])]) -> Vec<String>
where
    T: Debug,
{
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows {
        let options = options(row, samples);
        let usual = Some(format!("{:?}", default()));
        if !options.iter().any(|option| changed(rows, default, option) != usual) {
            found.push(format!("{}: no value changes anything", row.name));
        }
        for option in options {
            found.extend(fault_of_option(rows, row, default, &option));
            if !seen.insert(option.clone()) {
                found.push(format!("{option}: two rows know it"));
            }
        }
        found.extend(fault_of_refusal(rows, row, default));
    }
    found
}

/// Every option that this row allows; of numbers and sizes the least and the most.
fn options<T>(row: &Row<T>, samples: &[(&str, &[&str])]) -> Vec<String> {
    let names = || [row.name].into_iter().chain(row.aliases.iter().copied());
    let values: Vec<String> = match &row.values {
        Values::Flags { words, .. } => return words.iter().map(|word| (*word).to_owned()).collect(),
        Values::Words { words, .. } => words.iter().map(|word| (*word).to_owned()).collect(),
        Values::Number { least, most, .. } | Values::Size { least, most, .. } => {
            [least, most].map(u64::to_string).to_vec()
        }
        Values::Text { .. } => {
            let own = samples.iter().filter(|(name, _)| *name == row.name).flat_map(|(_, texts)| *texts);
            own.map(|text| (*text).to_owned()).collect()
        }
    };
    values.iter().flat_map(|value| names().map(move |name| format!("{name}={value}"))).collect()
}

fn changed<T: Debug>(rows: &[Row<T>], default: fn() -> T, option: &str) -> Option<String> {
    let mut target = default();
    (apply(rows, &mut target, option) == Ok(true)).then(|| format!("{target:?}"))
}

fn fault_of_option<T: Debug>(rows: &[Row<T>], row: &Row<T>, default: fn() -> T, option: &str) -> Option<String> {
    let mut target = default();
    let set = apply(rows, &mut target, option);
    if set != Ok(true) {
        return Some(format!("{option}: {set:?}"));
    }
    let expected = Some(format!("{target:?}"));
    let Some(printed) = row.print(&target) else { return Some(format!("{option}: set, and not printed")) };
    if changed(rows, default, &printed) != expected {
        return Some(format!("{option}: printed as {printed}, which is something else"));
    }
    let mut again = default();
    let list = differences(rows, &target, default());
    let all_known = list.iter().all(|option| apply(rows, &mut again, option) == Ok(true));
    (!all_known || Some(format!("{again:?}")) != expected).then(|| format!("{option}: listed as {list:?}"))
}

/// A wrong value has to be refused by what is allowed, and to change nothing.
fn fault_of_refusal<T: Debug>(rows: &[Row<T>], row: &Row<T>, default: fn() -> T) -> Option<String> {
    let wrong = format!("{}={NONSENSE}", row.name);
    let mut target = default();
    let refused = apply(rows, &mut target, &wrong);
    let named = refused.as_ref().is_err_and(|refusal| refusal.to_string().contains(&row.allowed()));
    let same = format!("{target:?}") == format!("{:?}", default());
    (!named || !same).then(|| format!("{wrong}: {refused:?}"))
}
