//! Numbers that may only go down, in [`FILE`]: more than the number breaks a rule, and so does a number that is too
//! high.

use std::collections::BTreeMap;

use crate::{Rule, Tree, Violation};

/// The file with a table for each rule.
const FILE: &str = "crates/tidy/ratchet.toml";

/// Numbers by the name of what is counted.
pub(crate) type Numbers = BTreeMap<String, usize>;

/// Holds counts against a table of the file: `what` is counted. A count that the table lacks has to be 0.
pub(crate) fn check(tree: &Tree, table: &str, rule: Rule, what: &str, counts: &Numbers, found: &mut Vec<Violation>) {
    let Some(file) = tree.get(FILE) else { return };
    let Ok(mut tables) = toml::from_str::<BTreeMap<String, Numbers>>(&file.text) else {
        found.push(Violation::new(Rule::Unreadable, FILE, 0, "is not tables of numbers"));
        return;
    };
    let mut numbers = tables.remove(table).unwrap_or_default();
    for (name, count) in counts {
        let most = numbers.remove(name).unwrap_or(0);
        if *count > most {
            found.push(Violation::new(rule, name, 0, format!("{count} {what}; {FILE} allows {most}")));
        } else if *count < most {
            found.push(Violation::new(rule, FILE, 0, format!("`{name}` is {most}: lower it to {count}")));
        }
    }
    for name in numbers.keys() {
        found.push(Violation::new(rule, FILE, 0, format!("there is no `{name}`")));
    }
}
