//! Rust tokens of what ships: a file without its test code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::SourceFile;

/// Whether the file as a whole is test code.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The tokens of a file, without items that only tests have; none if the file does not parse, which the rules of
/// tokens say.
pub(crate) fn shipped(file: &SourceFile) -> Vec<TokenTree> {
    file.text.parse::<TokenStream>().map(without_tests).unwrap_or_default()
}

/// The tokens without what `#[cfg(test)]` stands before. Groups within have to be asked again.
pub(crate) fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut out = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        if is_test_attribute(&tokens[i..]) {
            let end = tokens[i + 2..].iter().position(|token| match token {
                TokenTree::Punct(p) => p.as_char() == ';',
                TokenTree::Group(g) => g.delimiter() == Delimiter::Brace,
                _ => false,
            });
            i += end.map_or(tokens.len(), |end| end + 3);
        } else {
            out.push(tokens[i].clone());
            i += 1;
        }
    }
    out
}

/// `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(mark), TokenTree::Group(group), ..] = tokens else { return false };
    mark.as_char() == '#' && group.stream().to_string().replace(' ', "") == "cfg(test)"
}
