//! A model of a device that collects greedily and is told at once what is dead: what experiments are held against.

/// Flash, in lines that are written from their first page to their last.
pub(crate) struct Flash {
    pub(crate) lines: usize,
    /// Pages of a line.
    pub(crate) line: usize,
    /// Lines that are kept free: the collector's.
    pub(crate) kept: usize,
}

/// Pages that the flash programs for each that the host writes, of greedy collection: uniform overwrites of `live`
/// pages, of which none is written at first. Between amounts of pages written.
pub(crate) fn greedy(flash: &Flash, live: usize, windows: &[(u64, u64)]) -> Vec<f64> {
    let &Flash { lines, line, kept } = flash;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut place = vec![usize::MAX; live];
    let mut pages: Vec<Vec<usize>> = vec![Vec::new(); lines];
    let mut valid = vec![0; lines];
    let mut free: Vec<usize> = (1..lines).collect();
    let (mut open, mut copied) = (0, 0_u64);
    let mut counts = Vec::new();
    for written in 0..windows.last().map_or(0, |&(_, end)| end) {
        counts.push(copied);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut todo = vec![(random >> 33) as usize % live];
        while let Some(page) = todo.pop() {
            if pages[open].len() == line {
                if free.len() <= kept {
                    let full = (0..lines).filter(|&number| pages[number].len() == line);
                    let victim = full.min_by_key(|&number| valid[number]).unwrap();
                    let moved = std::mem::take(&mut pages[victim]);
                    let moved = moved.into_iter().filter(|&page| place[page] == victim);
                    let before = todo.len();
                    todo.extend(moved);
                    copied += (todo.len() - before) as u64;
                    for &page in &todo[before..] {
                        place[page] = usize::MAX;
                    }
                    valid[victim] = 0;
                    free.insert(0, victim);
                }
                open = free.pop().unwrap_or_else(|| panic!("no line is free after {written} pages"));
            }
            if place[page] != usize::MAX {
                valid[place[page]] -= 1;
            }
            place[page] = open;
            valid[open] += 1;
            pages[open].push(page);
        }
    }
    counts.push(copied);
    let share =
        |&(from, to): &(u64, u64)| 1.0 + (counts[to as usize] - counts[from as usize]) as f64 / (to - from) as f64;
    windows.iter().map(share).collect()
}
