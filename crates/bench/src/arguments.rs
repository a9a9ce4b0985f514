//! Parts of arguments that several commands take.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};

/// The entries of `table` whose names are among `wanted`, in the table's order; all of them if `wanted` is empty.
///
/// # Errors
///
/// A name that the table lacks; `kind` says in the message what it should have been.
pub(crate) fn chosen<'a, T>(
    kind: &str,
    table: &'a [T],
    name: impl Fn(&T) -> &'static str,
    wanted: &[String],
) -> Result<Vec<&'a T>> {
    for asked in wanted {
        let known: Vec<_> = table.iter().map(&name).collect();
        ensure!(known.contains(&asked.as_str()), "no {kind} '{asked}'; there are: {}", known.join(", "));
    }
    Ok(table.iter().filter(|entry| wanted.is_empty() || wanted.iter().any(|asked| asked == name(entry))).collect())
}

/// Lets other users come through a directory that only its owner may enter.
pub(crate) fn let_others_through(dir: &Path) -> Result<()> {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
