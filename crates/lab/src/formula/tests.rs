//! Formulas: what they come to, what is refused and where, and that those of built-in policies order sections alike.

use super::Formula;
use crate::rng::Rng;
use proptest::prelude::*;
use steadyfs_core::{CostBenefit, Greedy, SectionState, VictimPolicy};

const SECTION: SectionState = SectionState { valid: 128, blocks: 512, age: 30, urgent: true };

fn formula(text: &str) -> Formula {
    Formula::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn score(text: &str) -> f64 {
    formula(text).score(&SECTION)
}

#[test]
fn a_formula_comes_to_what_it_says() {
    for (text, value) in [
        ("(1 - u) * age / (1 + u)", 18.0),
        ("valid + blocks*2", 1152.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("2 - 3 - 4", -5.0),
        ("24 / 4 / 2", 3.0),
        ("--2 * - 3", -6.0),
        ("1.5e2 + .5 + 2. + 1E+1 + 1e-1", 162.6),
        ("min(age, 7) + max(1, 2) * sqrt(16)", 15.0),
        ("log(1) + floor(2.9)", 2.0),
        ("floor(-0.5)", -1.0),
        ("if(urgent, 1, 2) + if(urgent - 1, 10, 20)", 21.0),
        ("\t( ( u ) )\n", 0.25),
    ] {
        assert!((score(text) - value).abs() < 1e-9, "{text}: {}", score(text));
    }
}

#[test]
fn what_is_no_formula_is_told_with_its_place() {
    for (text, column, why) in [
        ("", 1, "expected a number, a name or '(', found the end"),
        ("1 +", 4, "expected a number, a name or '(', found the end"),
        ("(1 - u", 7, "expected an operator or ')', found the end"),
        ("1 - u)", 6, "expected an operator or the end, found ')'"),
        ("2 u", 3, "expected an operator or the end, found 'u'"),
        ("1 * * 2", 5, "expected a number, a name or '(', found '*'"),
        ("agee + 1", 1, "unknown name 'agee': variables are u, age, valid, blocks, urgent; functions are min, max"),
        ("min(1)", 6, "expected an operator or ',', found ')'"),
        ("min(1, 2, 3)", 9, "expected an operator or ')', found ','"),
        ("sqrt 4", 6, "expected '(', found '4'"),
        ("1 + \u{e9}", 5, "found '\u{e9}'"),
        ("u \u{1b}[0m", 3, "found '\\u{1b}'"),
        ("1e", 1, "'1e' is no number"),
        ("1e999", 1, "'1e999' is no number"),
        (".", 1, "'.' is no number"),
        ("u == 1", 3, "found '='"),
    ] {
        let e = Formula::parse(text).unwrap_err();
        assert!(e.column == column && e.why.contains(why), "{text}: {e}");
    }
}

#[test]
fn a_formula_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(score(&nested(60)), 1.0);
    let right = |depth: usize| format!("{}1{}", "1+(".repeat(depth), ")".repeat(depth));
    assert_eq!(score(&right(31)), 32.0);
    for text in [nested(100), right(40), "-".repeat(200), "2^".repeat(300), "if(".repeat(300)] {
        let e = Formula::parse(&text).unwrap_err();
        assert!(e.why.contains("too deeply"), "{text}: {e}");
    }
    assert!(Formula::parse(&"1+".repeat(600)).unwrap_err().why.contains("at most 1000"));
    assert_eq!(score(&format!("{}1", "1+".repeat(400))), 401.0);
}

#[test]
fn higher_scores_cost_less_and_what_is_no_number_costs_most() {
    let rising = ["0/0", "-1/0", "-1e300", "-2", "-1", "-1e-300", "0", "1e-300", "0.5", "1", "2", "1e300", "1/0"];
    let costs = rising.map(|text| formula(text).cost(&SECTION));
    assert!(costs.windows(2).all(|pair| pair[0] > pair[1]), "{costs:?}");
    assert_eq!(formula("-0").cost(&SECTION), formula("0").cost(&SECTION));
    for text in ["sqrt(-1)", "log(-1)", "min(1, 0/0)", "max(0/0, 1)", "if(0/0, 1, 1)", "(-8)^0.5"] {
        assert_eq!(formula(text).cost(&SECTION), u64::MAX, "{text}");
    }
}

/// In whole numbers, as [`CostBenefit`]; docs/lab/EXPERIMENTS.md has it.
const F2FS: &str = "(age + 1) * floor((1000 - floor(1000 * u)) * 1000 / (1000 + floor(1000 * u)))";

/// Whether both order each two of these sections alike, equals included.
fn order_alike(built_in: &dyn VictimPolicy, text: &str, sections: &[SectionState]) {
    let formula = formula(text);
    let costs: Vec<(u64, u64)> =
        sections.iter().map(|section| (built_in.cost(section), formula.cost(section))).collect();
    for (at, a) in costs.iter().enumerate() {
        for (other, b) in costs[..at].iter().enumerate() {
            assert_eq!(a.0.cmp(&b.0), a.1.cmp(&b.1), "{:?} and {:?}", sections[at], sections[other]);
        }
    }
}

#[test]
fn formulas_of_the_built_in_policies_order_sections_as_they_do() {
    let mut rng = Rng::new(7, 0);
    for segments in [1, 2, 3, 7, 64] {
        let blocks = segments * 512;
        let mut any = |_| SectionState {
            valid: 1 + rng.below(blocks - 1),
            blocks,
            age: [rng.below(100), rng.below(1 << 32)][rng.below(2) as usize],
            urgent: false,
        };
        let sections: Vec<_> = (0..1000).map(&mut any).collect();
        order_alike(&Greedy, "1 - u", &sections);
        order_alike(&Greedy, "-valid", &sections);
        order_alike(&CostBenefit, F2FS, &sections);
    }
}

/// That the page says what the tests show.
#[test]
fn the_page_has_the_formula_of_the_built_in_policy() {
    assert!(include_str!("../../../../docs/lab/EXPERIMENTS.md").contains(&format!("`{F2FS}`")));
}

proptest! {
    #[test]
    fn any_text_is_a_formula_or_an_error_in_it(text in "[-+*/^(), .0-9a-z\u{e9}]{0,80}|(if|min|u|age|[-+*^(),0-9]){0,40}") {
        match Formula::parse(&text) {
            Ok(formula) => drop(formula.cost(&SECTION)),
            Err(e) => prop_assert!(e.column <= text.chars().count() + 1),
        }
    }
}
