//! A cell of the segment map as a character: readable without colour.

use steadyfs_core::stats::{Cell, SegmentMap};

/// What the characters mean, for legends.
pub(super) const LEGEND: &str = ". free  ~ emptied  0-9 tenths valid  # full  o written to  C collected";

/// What a cell is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing but free segments.
    Free,
    /// Nothing but free segments and emptied ones.
    Emptied,
    /// Somebody collects in it.
    Collected,
    /// Somebody writes to it.
    Open,
    /// So many tenths of its blocks are valid; 10: all.
    Valid(u8),
}

impl Look {
    /// How a cell looks: what happens in it comes before what it holds.
    pub(super) fn of(cell: &Cell, blocks_per_segment: u64) -> Self {
        if cell.claimed > 0 {
            return Look::Collected;
        }
        if cell.free == cell.segments {
            return Look::Free;
        }
        if cell.free + cell.prefree == cell.segments {
            return Look::Emptied;
        }
        // In a cell of many segments one that is written to says little.
        if cell.open > 0 && cell.open * 4 >= cell.segments {
            return Look::Open;
        }
        Look::Valid((cell.validity(blocks_per_segment) * 10.0) as u8)
    }

    /// The character.
    pub(super) fn letter(self) -> char {
        match self {
            Look::Free => '.',
            Look::Emptied => '~',
            Look::Collected => 'C',
            Look::Open => 'o',
            Look::Valid(tenths @ 0..=9) => char::from(b'0' + tenths),
            Look::Valid(_) => '#',
        }
    }
}

/// The looks of a map in at most `most` cells.
pub(super) fn looks(map: &SegmentMap, most: usize) -> Vec<Look> {
    let map = map.in_cells(most);
    map.cells().map(|cell| Look::of(&cell, map.blocks_per_segment)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_look_like_what_is_in_them() {
        let cell = |valid, free, prefree, open, claimed| Cell { segments: 8, valid, free, prefree, open, claimed };
        let letter = |cell: Cell| Look::of(&cell, 512).letter();
        assert_eq!(letter(cell(0, 8, 0, 0, 0)), '.');
        assert_eq!(letter(cell(0, 7, 1, 0, 0)), '~');
        assert_eq!(letter(cell(1, 7, 0, 0, 0)), '0');
        assert_eq!(letter(cell(2048, 4, 0, 1, 0)), '5');
        assert_eq!(letter(cell(2048, 4, 0, 2, 0)), 'o');
        assert_eq!(letter(cell(4095, 0, 0, 0, 0)), '9');
        assert_eq!(letter(cell(4096, 0, 0, 0, 0)), '#');
        assert_eq!(letter(cell(2048, 4, 0, 4, 1)), 'C');
    }
}
