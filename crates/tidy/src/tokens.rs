//! Rules that look at Rust tokens: function length, `unsafe`, and the one door to threads, locks and clocks.
//!
//! Tokens, not text: a comment or a string that mentions `unsafe` is not code. Tokens, not a syntax tree: what stands
//! inside a macro call is code too.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::{Rule, SourceFile, Violation};

/// A function has fewer lines than this, from `fn` to its closing brace.
pub(crate) const MAX_FUNCTION_LINES: usize = 70;

/// Crates whose code also runs in virtual time.
const SIMULATED: [&str; 4] = ["core", "device", "flash", "lab"];

/// What those crates get from `steadyfs_rt` instead.
const BEHIND_RT: [&str; 9] = [
    "std::thread",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
    "std::sync::mpsc",
    "std::time::Instant",
    "std::time::SystemTime",
    "parking_lot",
];

/// Crates that may hold `unsafe` code.
const UNSAFE_CRATES: [&str; 2] = ["rt", "device"];
/// Files elsewhere that may, one path each: lock-free structures, and memory that is shared with the kernel.
const UNSAFE_FILES: [&str; 4] = [
    "crates/core/src/ranges/list.rs",
    "crates/core/src/ranges/sync.rs",
    "crates/core/tests/ranges/sync.rs",
    "crates/fuse/src/session/ring/raw.rs",
];

pub(crate) fn check(file: &SourceFile, found: &mut Vec<Violation>) {
    let tokens: TokenStream = match file.text.parse() {
        Ok(tokens) => tokens,
        Err(e) => {
            found.push(Violation::new(Rule::Unreadable, &file.path, 0, format!("not Rust tokens: {e}")));
            return;
        }
    };
    let owner = file.crate_source();
    let unsafe_allowed =
        owner.is_some_and(|name| UNSAFE_CRATES.contains(&name)) || UNSAFE_FILES.contains(&file.path.as_str());
    let simulated = owner.is_some_and(|name| SIMULATED.contains(&name));
    let mut walk = Walk { file, unsafe_allowed, simulated, found };
    walk.stream(tokens);
}

struct Walk<'a> {
    file: &'a SourceFile,
    unsafe_allowed: bool,
    simulated: bool,
    found: &'a mut Vec<Violation>,
}

impl Walk<'_> {
    fn report(&mut self, rule: Rule, line: usize, what: String) {
        self.found.push(Violation::new(rule, &self.file.path, line, what));
    }

    fn stream(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        for (i, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "unsafe" && !self.unsafe_allowed => {
                    self.report(Rule::Unsafe, ident.span().start().line, "`unsafe` outside the listed crates".into());
                }
                TokenTree::Ident(ident) if ident == "fn" => self.function(&tokens[i..]),
                TokenTree::Ident(ident) if self.simulated && !follows_path_separator(&tokens, i) => {
                    let line = ident.span().start().line;
                    self.path(&tokens[i..], "", line);
                }
                TokenTree::Group(group) => self.stream(group.stream()),
                _ => {}
            }
        }
    }

    /// `tokens` begin with `fn`: finds the name and the body, if there are any, and measures.
    fn function(&mut self, tokens: &[TokenTree]) {
        let Some(TokenTree::Ident(name)) = tokens.get(1) else {
            return; // a function pointer type
        };
        let body = tokens.iter().find_map(|token| match token {
            TokenTree::Punct(p) if p.as_char() == ';' => Some(None),
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => Some(Some(g)),
            _ => None,
        });
        if let Some(Some(body)) = body {
            let first = tokens[0].span().start().line;
            let lines = body.span_close().end().line - first + 1;
            if lines >= MAX_FUNCTION_LINES {
                let what = format!("`{name}` has {lines} lines, the limit is {MAX_FUNCTION_LINES}");
                self.report(Rule::FunctionLength, first, what);
            }
        }
    }

    /// Reads the path (also a `use` tree) at the head of `tokens` and reports it, or each of its branches, if rt stands
    /// before it.
    fn path(&mut self, tokens: &[TokenTree], prefix: &str, line: usize) {
        let Some(TokenTree::Ident(first)) = tokens.first() else { return };
        let path = if prefix.is_empty() { first.to_string() } else { format!("{prefix}::{first}") };
        if BEHIND_RT.contains(&path.as_str()) {
            self.report(Rule::RtDoor, line, format!("`{path}`: take it from steadyfs_rt"));
            return;
        }
        match after_separator(tokens) {
            Some([TokenTree::Group(group), ..]) if group.delimiter() == Delimiter::Brace => self.branches(group, &path),
            Some(rest) => self.path(rest, &path, line),
            None => {}
        }
    }

    fn branches(&mut self, group: &Group, prefix: &str) {
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        for branch in tokens.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ',')) {
            if let Some(first) = branch.first() {
                self.path(branch, prefix, first.span().start().line);
            }
        }
    }
}

/// What follows `ident ::`.
fn after_separator(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [_, TokenTree::Punct(a), TokenTree::Punct(b), rest @ ..] if a.as_char() == ':' && b.as_char() == ':' => {
            Some(rest)
        }
        _ => None,
    }
}

fn follows_path_separator(tokens: &[TokenTree], i: usize) -> bool {
    let colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
    // `::std::x` begins with a separator that follows no name; it is a path of its own.
    i >= 3 && colon(&tokens[i - 1]) && colon(&tokens[i - 2]) && matches!(tokens[i - 3], TokenTree::Ident(_))
}
