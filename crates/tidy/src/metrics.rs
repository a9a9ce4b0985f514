//! The rule of docs/METRICS.md: it names exactly the metrics that a mount exports.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{Rule, Tree, Violation};

const PAGE: &str = "docs/METRICS.md";
/// Where the metrics are made.
const SOURCE: &str = "crates/steadyfs/src/metrics/exposition.rs";

pub(crate) fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let (Some(page), Some(source)) = (tree.get(PAGE), tree.get(SOURCE)) else { return };
    let Ok(tokens) = source.text.parse::<TokenStream>() else { return }; // the rules of tokens say so
    let mut exported = Vec::new();
    families(tokens, &mut exported);
    let rows = page.text.lines().enumerate().filter_map(|(i, line)| {
        let name = line.strip_prefix("| `steadyfs_")?.split('`').next()?;
        Some((i + 1, name.to_owned()))
    });
    let rows: Vec<(usize, String)> = rows.collect();
    for (line, name) in &rows {
        if !exported.contains(name) {
            found.push(Violation::new(Rule::Metric, PAGE, *line, format!("nothing exports `steadyfs_{name}`")));
        }
    }
    for name in exported.iter().filter(|name| !rows.iter().any(|(_, row)| row == *name)) {
        found.push(Violation::new(Rule::Metric, PAGE, 0, format!("lacks `steadyfs_{name}`")));
    }
}

/// The names of `.counter("NAME", ..)`, `.gauge("NAME", ..)` and `.family(COUNTER, "NAME", ..)`, as they are exported.
fn families(stream: TokenStream, names: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let method = i.checked_sub(1).and_then(|before| match &tokens[before] {
            TokenTree::Ident(method) => Some(method.to_string()),
            _ => None,
        });
        let called = i >= 2 && matches!(&tokens[i - 2], TokenTree::Punct(dot) if dot.as_char() == '.');
        if called
            && group.delimiter() == Delimiter::Parenthesis
            && let Some(method) = method
        {
            names.extend(family(&method, group.stream()));
        }
        families(group.stream(), names);
    }
}

fn family(method: &str, arguments: TokenStream) -> Option<String> {
    let mut arguments = arguments.into_iter();
    let counter = match method {
        "counter" => true,
        "gauge" => false,
        "family" => match (arguments.next()?, arguments.next()?) {
            (TokenTree::Ident(kind), _) => kind == "COUNTER",
            _ => return None,
        },
        _ => return None,
    };
    let TokenTree::Literal(name) = arguments.next()? else { return None };
    let name = name.to_string().trim_matches('"').to_owned();
    Some(if counter { name + "_total" } else { name })
}
