//! A test on many recipes: Linux takes one processor, so two machines run side by side.

use super::Recipe;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// How many recipes are tested at the same time.
const SIDE_BY_SIDE: usize = 2;

/// Runs a test on every recipe, or on the one that `STEADYFS_RECIPE` names; returns what it returned, in no order.
///
/// # Panics
/// With the names of the recipes on which the test panicked, once all have been tried.
pub fn try_each<R: Send>(recipes: &[Recipe], test: impl Fn(&Recipe) -> R + Sync) -> Vec<R> {
    let only = std::env::var("STEADYFS_RECIPE").ok();
    let recipes: Vec<&Recipe> =
        recipes.iter().filter(|recipe| only.as_deref().is_none_or(|name| name == recipe.name)).collect();
    side_by_side(&recipes, |recipe| recipe.name.to_owned(), |recipe| test(recipe))
}

/// Runs a test on every item, two at a time; returns what it returned, in no order.
///
/// # Panics
/// With the names of the items on which the test panicked, once all have been tried.
pub fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    name: impl Fn(&T) -> String + Sync,
    test: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, SeqCst)) {
            println!("{}", name(item));
            let result = catch_unwind(AssertUnwindSafe(|| test(item))).map_err(|_| name(item));
            results.lock().expect("no panic beside").push(result);
        }
    };
    std::thread::scope(|scope| (0..SIDE_BY_SIDE).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().expect("no panic beside");
    let failed: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "recipes without agreement: {failed:?}");
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::matrix;

    #[test]
    fn each_is_tried_once_and_those_that_fail_are_named() {
        let recipes = &matrix()[..5];
        let mut names = try_each(recipes, |recipe| recipe.name);
        names.sort_unstable();
        let mut expected: Vec<_> = recipes.iter().map(|recipe| recipe.name).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let tried = AtomicUsize::new(0);
        let failing = || {
            try_each(recipes, |recipe| {
                tried.fetch_add(1, SeqCst);
                assert_ne!(recipe.name, recipes[1].name, "planted");
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(failing)).expect_err("one fails");
        let text = panic.downcast_ref::<String>().expect("a message");
        assert_eq!(text, &format!("recipes without agreement: [{:?}]", recipes[1].name));
        assert_eq!(tried.into_inner(), recipes.len(), "the others all the same");
    }
}
