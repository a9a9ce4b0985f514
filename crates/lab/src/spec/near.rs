//! Names that a mistyped one may stand for.

/// Most names that are worth showing.
const MOST: usize = 3;

/// Those of `known` that `name` may stand for, the nearest first: with few letters changed, or beginning or ending
/// alike.
pub(super) fn names(name: &str, known: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|other| (distance(name, other), other))
        .filter(|(changes, other)| *changes <= name.len() / 3 + 1 || name.len() >= 3 && other.contains(name))
        .collect();
    near.sort();
    near.into_iter().take(MOST).map(|(_, other)| other).collect()
}

/// How many letters have to be added, removed or replaced to make `b` of `a` (the distance of Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // Of each beginning of `b`, from what was read of `a`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (read, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], read + 1);
        for at in 0..b.len() {
            let replaced = diagonal + usize::from(b[at] != letter);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        for (a, b, changes) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("smoke", "smoke", 0), ("ab", "ba", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (changes, changes), "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_come_first_and_others_not_at_all() {
        let known = ["smoke", "scalelfs-fig2a", "scalelfs-fig2b", "scalelfs-fig4", "gc-streams"];
        assert_eq!(names("smok", known), ["smoke"]);
        assert_eq!(names("scalelfs-fig2", known), ["scalelfs-fig2a", "scalelfs-fig2b", "scalelfs-fig4"]);
        assert_eq!(names("streams", known), ["gc-streams"]);
        assert_eq!(names("nonsense", known), [""; 0]);
        assert_eq!(names("gc", known), [""; 0]);
    }
}
