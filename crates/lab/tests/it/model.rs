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
    let mut log = Log::new(flash, live, 1);
    let end = windows.iter().map(|&(_, end)| end).max().unwrap_or(0);
    let mut placed = vec![0];
    for page in random().map(|random| random % live).take(end as usize) {
        log.write(page);
        placed.push(log.placed);
    }
    let share = |&(from, to): &(u64, u64)| (placed[to as usize] - placed[from as usize]) as f64 / (to - from) as f64;
    windows.iter().map(share).collect()
}

/// The same numbers each time.
fn random() -> impl Iterator<Item = usize> {
    let next = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(0x9E37_79B9_7F4A_7C15_u64), next).skip(1).map(|x| (x >> 33) as usize)
}

/// Pages in memory that overwrites wait in.
pub(crate) struct Memory {
    /// Most pages that are dirty.
    pub(crate) dirty: usize,
    /// Files of the same size; the flusher writes what is dirty of one, and then of the next.
    pub(crate) files: usize,
}

/// As [`greedy`], of a file system that overwrites `live` pages in memory: pages that it places for each that is
/// overwritten, from the middle of so many overwrites on. The file is written in full before. What collection comes
/// across that is dirty it writes as it is in memory, and the flusher need not.
pub(crate) fn greedy_through_memory(flash: &Flash, live: usize, memory: &Memory, overwrites: u64) -> f64 {
    let mut log = Log::new(flash, live, 2);
    (0..live).for_each(|page| log.write(page));
    let (per_file, mut file, mut before) = (live / memory.files, 0, 0);
    for (number, random) in (0..overwrites).zip(random()) {
        if number == overwrites / 2 {
            before = log.placed;
        }
        let page = random % (per_file * memory.files);
        log.dirty_pages += usize::from(!std::mem::replace(&mut log.dirty[page], true));
        while log.dirty_pages > memory.dirty {
            for page in file * per_file..(file + 1) * per_file {
                if log.dirty[page] {
                    log.make_room();
                    // Collection may have written it.
                    if std::mem::take(&mut log.dirty[page]) {
                        log.dirty_pages -= 1;
                        log.place(page, 0);
                    }
                }
            }
            file = (file + 1) % memory.files;
        }
    }
    (log.placed - before) as f64 / (overwrites - overwrites / 2) as f64
}

/// Lines that logs fill: the first what is written, the last what is moved.
struct Log {
    line: usize,
    kept: usize,
    /// Where each page is.
    places: Vec<usize>,
    pages: Vec<Vec<usize>>,
    valid: Vec<usize>,
    free: Vec<usize>,
    open: Vec<usize>,
    dirty: Vec<bool>,
    dirty_pages: usize,
    placed: u64,
}

impl Log {
    fn new(flash: &Flash, live: usize, logs: usize) -> Self {
        Log {
            line: flash.line,
            kept: flash.kept,
            places: vec![usize::MAX; live],
            pages: vec![Vec::new(); flash.lines],
            valid: vec![0; flash.lines],
            free: (logs..flash.lines).collect(),
            open: (0..logs).collect(),
            dirty: vec![false; live],
            dirty_pages: 0,
            placed: 0,
        }
    }

    fn write(&mut self, page: usize) {
        self.make_room();
        self.place(page, 0);
    }

    fn make_room(&mut self) {
        while self.free.len() <= self.kept {
            let full = (0..self.pages.len()).filter(|&n| self.pages[n].len() == self.line && !self.open.contains(&n));
            let victim = full.min_by_key(|&number| self.valid[number]).unwrap();
            for page in std::mem::take(&mut self.pages[victim]) {
                if self.places[page] == victim {
                    self.dirty_pages -= usize::from(std::mem::take(&mut self.dirty[page]));
                    self.place(page, self.open.len() - 1);
                }
            }
            self.free.push(victim);
        }
    }

    fn place(&mut self, page: usize, log: usize) {
        if self.pages[self.open[log]].len() == self.line {
            self.open[log] = self.free.pop().expect("a line is free");
        }
        let open = self.open[log];
        if self.places[page] != usize::MAX {
            self.valid[self.places[page]] -= 1;
        }
        self.places[page] = open;
        self.pages[open].push(page);
        self.valid[open] += 1;
        self.placed += 1;
    }
}
