//! Blocks of a victim that are to move, and whether their pages are asked for.

use steadyfs_format::summary::Summary;

/// Whether a collector leaves alone what others work on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Blocks whose pages are held stay where they are.
    Yes,
    /// They move too: nothing else has gained anything.
    No,
}

/// A block of the victim that its owner refers to.
#[derive(Clone, Copy)]
pub(super) struct Live {
    pub(super) off: u32,
    pub(super) summary: Summary,
}
