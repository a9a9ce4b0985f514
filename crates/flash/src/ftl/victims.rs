//! [`Victims`]: full lines by how many valid pages they hold, so that the one with the fewest is found at once.
//!
//! A doubly linked list for every number of valid pages, threaded through two arrays by line number; all changes take
//! constant time, and the search for the minimum moves up only as far as changes have moved it down. Among equals the
//! line that came first goes first.

use crate::nand::Line;

const NONE: u32 = u32::MAX;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Victims {
    /// First and last line of each list, by number of valid pages.
    ends: Vec<(u32, u32)>,
    /// Neighbours of each line, and its list or NONE.
    links: Vec<(u32, u32)>,
    list: Vec<u32>,
    /// No list below is occupied.
    lowest: usize,
    count: u32,
}

impl Victims {
    pub(crate) fn new(lines: u32, line_pages: u32) -> Self {
        Victims {
            ends: vec![(NONE, NONE); line_pages as usize + 1],
            links: vec![(NONE, NONE); lines as usize],
            list: vec![NONE; lines as usize],
            lowest: 0,
            count: 0,
        }
    }

    /// Adds a line with `valid` valid pages.
    pub(crate) fn insert(&mut self, line: Line, valid: u32) {
        assert_eq!(self.list[line as usize], NONE, "line {line} is a candidate already");
        self.count += 1;
        self.list[line as usize] = valid;
        let (first, last) = &mut self.ends[valid as usize];
        self.links[line as usize] = (*last, NONE);
        match *last {
            NONE => *first = line,
            before => self.links[before as usize].1 = line,
        }
        *last = line;
        self.lowest = self.lowest.min(valid as usize);
    }

    /// Takes a line out; false if it is none of the candidates.
    pub(crate) fn remove(&mut self, line: Line) -> bool {
        let valid = std::mem::replace(&mut self.list[line as usize], NONE);
        if valid == NONE {
            return false;
        }
        self.count -= 1;
        let (before, after) = self.links[line as usize];
        let (first, last) = &mut self.ends[valid as usize];
        match before {
            NONE => *first = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => *last = before,
            after => self.links[after as usize].0 = before,
        }
        true
    }

    /// A candidate has another number of valid pages; other lines are left alone.
    pub(crate) fn update(&mut self, line: Line, valid: u32) {
        if self.list[line as usize] != NONE {
            assert!(self.remove(line), "it is in a list");
            self.insert(line, valid);
        }
    }

    /// The line with the fewest valid pages, and how many.
    pub(crate) fn fewest(&mut self) -> Option<(Line, u32)> {
        if self.count == 0 {
            return None;
        }
        while self.ends[self.lowest].0 == NONE {
            self.lowest += 1;
        }
        Some((self.ends[self.lowest].0, self.lowest as u32))
    }

    /// Number of candidates.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// What a candidate is listed under.
    pub(crate) fn listed(&self, line: Line) -> Option<u32> {
        Some(self.list[line as usize]).filter(|&valid| valid != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list.
        #[test]
        fn the_fewest_and_oldest_comes_first(steps in prop::collection::vec((0u32..12, 0u32..20, 0u8..4), 1..200)) {
            let (mut victims, mut model) = (Victims::new(12, 20), Vec::<(u32, u32)>::new());
            for (line, valid, what) in steps {
                let held = model.iter().position(|&(l, _)| l == line);
                match (what, held) {
                    (0, None) => {
                        victims.insert(line, valid);
                        model.push((line, valid));
                    }
                    (1, _) => {
                        prop_assert_eq!(victims.remove(line), held.is_some());
                        held.map(|at| model.remove(at));
                    }
                    (_, Some(at)) => {
                        victims.update(line, valid);
                        model.remove(at);
                        model.push((line, valid));
                    }
                    (_, None) => victims.update(line, valid),
                }
                let expected = model.iter().copied().min_by_key(|&(_, valid)| valid);
                prop_assert_eq!(victims.fewest(), expected);
                prop_assert_eq!(victims.count() as usize, model.len());
            }
        }
    }
}
