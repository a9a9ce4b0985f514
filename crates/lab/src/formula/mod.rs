//! A policy that chooses victims, as a formula: `(1 - u) * age / (1 + u)`.
//!
//! The section with the highest value, its *score*, is cleaned first. `parse` makes of a text a list of steps for a
//! stack, once; a search then walks the list for each candidate.
//!
//! Kept true: the same numbers give the same score; a score that is no number (0 / 0) loses against every other one; a
//! formula that was accepted never needs more than its stack, whatever the numbers are.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::FormulaError;
use std::fmt;
use steadyfs_core::{Own, SectionState, VictimPolicy};

/// Values that a formula may have at hand at once.
const STACK: usize = 32;

/// What a formula knows of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Valid,
    Blocks,
    Share,
    Age,
    Urgent,
}

impl Variable {
    const ALL: [(&'static str, Variable); 5] = [
        ("u", Variable::Share),
        ("age", Variable::Age),
        ("valid", Variable::Valid),
        ("blocks", Variable::Blocks),
        ("urgent", Variable::Urgent),
    ];

    fn of(self, section: &SectionState) -> f64 {
        match self {
            Variable::Valid => section.valid as f64,
            Variable::Blocks => section.blocks as f64,
            Variable::Share => section.valid as f64 / section.blocks as f64,
            Variable::Age => section.age as f64,
            Variable::Urgent => f64::from(u8::from(section.urgent)),
        }
    }
}

/// A function of the topmost values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Negate,
    Sqrt,
    Log,
    Floor,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Min,
    Max,
    If,
}

impl Function {
    /// Those with a name.
    const NAMED: [(&'static str, Function); 6] = [
        ("min", Function::Min),
        ("max", Function::Max),
        ("sqrt", Function::Sqrt),
        ("log", Function::Log),
        ("floor", Function::Floor),
        ("if", Function::If),
    ];

    /// How many values it takes.
    fn arguments(self) -> usize {
        match self {
            Function::Negate | Function::Sqrt | Function::Log | Function::Floor => 1,
            Function::If => 3,
            _ => 2,
        }
    }

    /// What comes of the arguments that it takes, of these.
    fn of(self, a: f64, b: f64, c: f64) -> f64 {
        match self {
            Function::Negate => -a,
            Function::Sqrt => a.sqrt(),
            Function::Log => a.ln(),
            Function::Floor => a.floor(),
            Function::Add => a + b,
            Function::Subtract => a - b,
            Function::Multiply => a * b,
            Function::Divide => a / b,
            Function::Power => a.powf(b),
            // A value that is no number stays none: `f64::min` would hide it.
            Function::Min if a.is_nan() || b.is_nan() => f64::NAN,
            Function::Max if a.is_nan() || b.is_nan() => f64::NAN,
            Function::Min => a.min(b),
            Function::Max => a.max(b),
            Function::If if a.is_nan() => f64::NAN,
            Function::If => [b, c][usize::from(a == 0.0)],
        }
    }
}

/// One step of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Number(f64),
    Variable(Variable),
    Call(Function),
}

/// A formula that gives a section a score.
#[derive(Clone, PartialEq)]
pub struct Formula {
    text: String,
    steps: Vec<Step>,
}

impl Formula {
    /// The formula in a text.
    ///
    /// # Errors
    /// Where it is none, and what was expected there.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        Ok(Formula { text: text.to_owned(), steps: parse::steps(text)? })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same for good: options of a mount refer to policies that do not go.
    pub fn keep(self) -> Own<dyn VictimPolicy> {
        Own(Box::leak(Box::new(self)))
    }

    /// The score of a section; of those that a search sees, the one with the highest is taken.
    pub fn score(&self, section: &SectionState) -> f64 {
        let (mut stack, mut top) = ([0.0; STACK], 0);
        for step in &self.steps {
            let value = match *step {
                Step::Number(number) => number,
                Step::Variable(variable) => variable.of(section),
                Step::Call(function) => {
                    top -= function.arguments();
                    let at = |place: usize| stack.get(top + place).copied().unwrap_or(0.0);
                    function.of(at(0), at(1), at(2))
                }
            };
            stack[top] = value;
            top += 1;
        }
        assert!(top == 1, "a formula leaves one value");
        stack[0]
    }
}

impl VictimPolicy for Formula {
    /// Lower is better, and whole: the order of scores upside down.
    fn cost(&self, section: &SectionState) -> u64 {
        const SIGN: u64 = 1 << 63;
        let score = self.score(section);
        if score.is_nan() {
            return u64::MAX;
        }
        // 0 and -0 are one number. Bits of positive numbers rise with them, those of negative ones fall.
        let bits = (score + 0.0).to_bits();
        !if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
