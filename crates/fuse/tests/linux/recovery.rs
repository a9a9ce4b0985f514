//! Linux agrees on what a crash left: what it recovers of a volume that it wrote, we recover, and it goes on with what we made of it.

use super::{all_agree_at_last, fields, our_manifest};
use steadyfs_testkit::images::{self, Recipe};
use steadyfs_testkit::manifest::Fields;

/// Recovery makes names again, at its own time.
fn recovered_fields() -> Fields {
    Fields { dir_times: false, ..fields() }
}

fn recover(recipe: &Recipe) {
    let image = recipe.image().unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
    let copy = image.copy().unwrap();
    let path = copy.path();
    // First what a reader sees.
    let seen = our_manifest(&path, "ro");
    let diff = image.manifest.diff(&seen, &recovered_fields());
    assert!(diff.is_empty(), "{}: Linux recovers something else: {diff}", recipe.name);
    let ours = our_manifest(&path, "");
    let diff = image.manifest.diff(&ours, &recovered_fields());
    assert!(diff.is_empty(), "{}: Linux recovers something else: {diff}", recipe.name);
    all_agree_at_last(&path).assert_same(&ours, &fields());
}

#[test]
fn a_crashed_volume_of_linux_is_recovered_as_linux_does() {
    let only = std::env::var("STEADYFS_RECIPE").ok();
    let mut failed = Vec::new();
    for recipe in images::crashed() {
        if only.as_deref().is_some_and(|name| name != recipe.name) {
            continue;
        }
        println!("{}", recipe.name);
        if std::panic::catch_unwind(|| recover(&recipe)).is_err() {
            failed.push(recipe.name);
        }
    }
    assert!(failed.is_empty(), "recipes recovered differently: {failed:?}");
}
