//! The page at `/`: one file with its style and script, which asks for `/stats.json` every second.
//!
//! Kept true: it loads nothing from elsewhere, and its policy lets a browser load and run nothing else. A nonce, new
//! for each answer, names what may run.

use std::hash::{BuildHasher, Hasher, RandomState};

use steadyfs_core::stats::LATENCY_LIMITS_US;

/// The page, and the value of its `Content-Security-Policy`.
pub(super) fn page() -> (String, String) {
    let nonce = nonce();
    let limits = LATENCY_LIMITS_US.map(|us| us.to_string()).join(", ");
    let text = include_str!("page.html").replace("NONCE", &nonce).replace("[LIMITS]", &format!("[{limits}]"));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    (text, policy)
}

/// 128 bits that nobody can guess: the keys of hash tables come from the system's source of randomness.
fn nonce() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_leads_nowhere_and_runs_only_what_is_in_it() {
        let (text, policy) = page();
        // Comments of the script are between stars.
        for elsewhere in
            ["http:", "https:", "//", "url(", "@import", "innerHTML", "eval(", "style=", "onclick", "NONCE", "LIMITS]"]
        {
            assert!(!text.contains(elsewhere), "{elsewhere}");
        }
        let nonce = policy.split('\'').nth(3).and_then(|word| word.strip_prefix("nonce-")).unwrap();
        assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "a style and a script");
        assert_eq!((text.matches("<style").count(), text.matches("<script").count()), (1, 1));
        assert!(!policy.contains("unsafe") && policy.starts_with("default-src 'none'; "), "{policy}");
        assert_ne!(page().1, policy, "each answer has its own");
    }
}
