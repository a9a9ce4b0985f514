//! File name patterns: `*`, `?`, `[a-z]`, `[!a-z]` and `\x`, on bytes.

/// Whether `name` as a whole matches `pattern`.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Only the last `*` ever has to be tried again: what an earlier one could do differently, a later one can do too.
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, n));
            p += 1;
            continue;
        }
        match one(&pattern[p..], name[n]) {
            Some(used) => (p, n) = (p + used, n + 1),
            None => match &mut retry {
                Some((star, from)) => {
                    *from += 1;
                    (p, n) = (*star + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Matches one byte against the head of `pattern` (not `*`): the length of the head, if it matches.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => match class(set) {
            Some((inside, negated, used)) => {
                (inside.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != negated).then_some(used + 1)
            }
            None => (byte == b'[').then_some(1), // no closing bracket: an ordinary byte
        },
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// Ranges of a set, whether it is negated, and its length with the closing bracket.
type Class = (Vec<(u8, u8)>, bool, usize);

/// Reads a set after its `[`.
fn class(set: &[u8]) -> Option<Class> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let first = usize::from(negated);
    let mut ranges = Vec::new();
    let mut at = first;
    loop {
        match set.get(at..)? {
            // A bracket that comes first is one of the set.
            [b']', ..] if at > first => return Some((ranges, negated, at + 1)),
            [low, b'-', high, ..] if *high != b']' => {
                ranges.push((*low, *high));
                at += 3;
            }
            [byte, ..] => {
                ranges.push((*byte, *byte));
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("*.tar.*", "x.tar.tar.gz", true),
            ("*a*b*c", "aXbXbXc", true),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("abc", "abcd", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        let hard = "a*".repeat(30) + "b";
        assert!(!matches(hard.as_bytes(), "a".repeat(2000).as_bytes()), "no exponential search");
    }
}
