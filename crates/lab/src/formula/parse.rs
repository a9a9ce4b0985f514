//! The text of a formula: sums of products of powers, with the usual precedence, parentheses and functions.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = sign { ("*" | "/") sign }
//! sign    = "-" sign | power
//! power   = atom [ "^" sign ]
//! atom    = NUMBER | VARIABLE | FUNCTION "(" sum { "," sum } ")" | "(" sum ")"
//! ```

use super::{Function, STACK, Step, Variable};

/// The longest text.
const LONGEST: usize = 1000;
/// How deep parentheses and signs may nest.
const DEEPEST: usize = 64;

/// Why a text is no formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {why}")]
pub struct FormulaError {
    /// Where, counted in characters from 1.
    pub column: usize,
    /// The fault there.
    pub why: String,
}

/// The steps that evaluate a text.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, FormulaError> {
    let mut parser = Parser { text, at: 0, nested: 0, height: 0, steps: Vec::new() };
    if text.len() > LONGEST {
        return Err(parser.wrong(format!("a formula has at most {LONGEST} characters")));
    }
    parser.sum()?;
    match parser.peek() {
        None => Ok(parser.steps),
        Some(_) => Err(parser.expected("an operator or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes.
    at: usize,
    nested: usize,
    /// Values on the stack by now.
    height: usize,
    steps: Vec<Step>,
}

type Parsed = Result<(), FormulaError>;

impl<'a> Parser<'a> {
    /// The rest of the text.
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    /// Takes the next character if it is this one.
    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn wrong(&self, why: String) -> FormulaError {
        FormulaError { column: self.text[..self.at].chars().count() + 1, why }
    }

    fn expected(&mut self, what: &str) -> FormulaError {
        let found = self.peek().map_or("the end".to_owned(), |c| format!("'{}'", c.escape_debug()));
        self.wrong(format!("expected {what}, found {found}"))
    }

    fn push(&mut self, step: Step) -> Parsed {
        let taken = if let Step::Call(function) = step { function.arguments() } else { 0 };
        self.height = self.height + 1 - taken;
        self.steps.push(step);
        if self.height > STACK { Err(self.wrong("it is nested too deeply".into())) } else { Ok(()) }
    }

    fn sum(&mut self) -> Parsed {
        self.product()?;
        loop {
            let function = match self.peek() {
                Some('+') => Function::Add,
                Some('-') => Function::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product()?;
            self.push(Step::Call(function))?;
        }
    }

    fn product(&mut self) -> Parsed {
        self.sign()?;
        loop {
            let function = match self.peek() {
                Some('*') => Function::Multiply,
                Some('/') => Function::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.sign()?;
            self.push(Step::Call(function))?;
        }
    }

    /// All that nests comes through here.
    fn sign(&mut self) -> Parsed {
        self.nested += 1;
        if self.nested > DEEPEST {
            return Err(self.wrong("it is nested too deeply".into()));
        }
        if self.take('-') {
            self.sign()?;
            self.push(Step::Call(Function::Negate))?;
        } else {
            self.atom()?;
            if self.take('^') {
                self.sign()?;
                self.push(Step::Call(Function::Power))?;
            }
        }
        self.nested -= 1;
        Ok(())
    }

    fn atom(&mut self) -> Parsed {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.sum()?;
                self.close("an operator or ')'")
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            _ => Err(self.expected("a number, a name or '('")),
        }
    }

    fn close(&mut self, expected: &str) -> Parsed {
        if self.take(')') { Ok(()) } else { Err(self.expected(expected)) }
    }

    fn number(&mut self) -> Parsed {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        if rest[end..].starts_with('.') {
            end += 1 + digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            end += 1 + sign + digits(end + 1 + sign);
        }
        let text = &rest[..end];
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += end;
                self.push(Step::Number(number))
            }
            _ => Err(self.wrong(format!("'{text}' is no number"))),
        }
    }

    fn name(&mut self) -> Parsed {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        if let Some((_, variable)) = Variable::ALL.iter().find(|(known, _)| *known == name) {
            self.at += end;
            return self.push(Step::Variable(*variable));
        }
        let Some((_, function)) = Function::NAMED.iter().find(|(known, _)| *known == name) else {
            let variables = Variable::ALL.map(|(name, _)| name).join(", ");
            let functions = Function::NAMED.map(|(name, _)| name).join(", ");
            let known = format!("variables are {variables}; functions are {functions}");
            return Err(self.wrong(format!("unknown name '{name}': {known}")));
        };
        self.at += end;
        self.call(*function)
    }

    fn call(&mut self, function: Function) -> Parsed {
        if !self.take('(') {
            return Err(self.expected("'('"));
        }
        for argument in 1..=function.arguments() {
            if argument > 1 && !self.take(',') {
                return Err(self.expected("an operator or ','"));
            }
            self.sum()?;
        }
        self.close("an operator or ')'")?;
        self.push(Step::Call(function))
    }
}
