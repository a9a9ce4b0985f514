//! How much room there is and how much is wanted: F2FS' arithmetic of free sections (docs/internals/collection.md).
//!
//! Kept true: nothing here waits or changes anything; each answer is of the moment.

use super::HostReclaim;
use crate::volume::Volume;

/// Rounds without gain before the gate stops trying.
pub(super) const HOPELESS_ROUNDS: u32 = 8;
/// Sections beyond the bare need at which collectors with threads of their own stop.
pub(super) const HYSTERESIS: u64 = 2;

impl Volume {
    /// Sections that are free, or will be with the next checkpoint.
    pub(super) fn sections_to_come(&self) -> u64 {
        self.segments().table.free_sections() + self.sections_awaiting()
    }

    /// How many sections have to be emptied for more than `wanted` free ones.
    pub(super) fn sections_missing(&self, wanted: u64) -> u64 {
        (wanted + 1).saturating_sub(self.sections_to_come())
    }

    /// Sections that the next checkpoint frees: empty ones, and those whose nodes it writes elsewhere.
    pub(super) fn sections_awaiting(&self) -> u64 {
        let segs = &self.segments().table;
        (segs.prefree.count() + segs.awaiting.count()) as u64 / u64::from(self.layout().segs_per_sec)
    }

    pub(super) fn prefree_sections(&self) -> u64 {
        self.segments().table.prefree.count() as u64 / u64::from(self.layout().segs_per_sec)
    }
}

impl HostReclaim {
    /// Free sections below which room is made: what a checkpoint would write now, what writers may take who have
    /// passed, and the reserve.
    pub(super) fn sections_needed(&self) -> u64 {
        self.sections_needed_for(self.vol.nodes.dirty_count())
    }

    fn sections_needed_for(&self, dirty_nodes: usize) -> u64 {
        let per_section = self.vol.layout().blocks_per_sec();
        let dents = self.budget.dirty_in_dirs();
        let nodes = dirty_nodes as u64 + dents;
        let placing = self.admissions.blocks() / per_section;
        nodes.div_ceil(per_section) + dents.div_ceil(per_section) + placing + self.reserved_sections
    }

    /// Whether writers need not wait.
    pub(super) fn writers_have_room(&self) -> bool {
        self.is_more_than_needed(self.vol.segments().table.free_sections() + self.grace)
    }

    /// Every change asks: dirty nodes are added up only where an estimate does not suffice.
    fn is_more_than_needed(&self, sections: u64) -> bool {
        sections > self.sections_needed_for(self.vol.nodes.dirty_at_most()) || sections > self.sections_needed()
    }

    /// Whether more sections are free than changes and a checkpoint need, by `extra`.
    pub(crate) fn free_sections_suffice(&self, extra: u64) -> bool {
        self.vol.segments().table.free_sections().checked_sub(extra).is_some_and(|free| self.is_more_than_needed(free))
    }

    /// What collectors keep free or free to come: fewer than [`HostReclaim::sections_needed`] by half of what writers
    /// may take of the reserve. Each section more would be one less in which blocks become invalid before they have to
    /// be moved.
    pub(super) fn sections_aimed_at(&self) -> u64 {
        self.sections_needed() - self.grace / 2
    }

    /// Whether collectors have nothing to do: enough is free, or will be, and no checkpoint is needed for it yet.
    /// Checkpoints write every node that has changed, so they are made late: when three quarters of what writers may
    /// take of the reserve are gone.
    pub(super) fn collectors_may_rest(&self, extra: u64) -> bool {
        let wanted = self.sections_aimed_at() + extra;
        self.vol.segments().table.free_sections() > wanted
            || (self.vol.sections_missing(wanted) == 0 && !self.checkpoint_is_due())
    }

    pub(super) fn checkpoint_is_due(&self) -> bool {
        self.vol.segments().table.free_sections() + self.grace * 3 / 4 <= self.sections_needed()
    }

    /// Whether a checkpoint alone would free enough for `extra` sections above what writers need.
    pub(super) fn checkpoint_frees_enough(&self, extra: u64) -> bool {
        self.vol.sections_awaiting() > 0 && self.vol.sections_missing(self.sections_needed() + extra) == 0
    }

    /// Whether so few sections are free that the next checkpoint must come now, before collection takes the last ones.
    pub(super) fn room_is_critical(&self) -> bool {
        let waiting = self.vol.prefree_sections() > 0 || self.vol.nodes.dirty_count() > 0;
        waiting && self.vol.segments().table.free_sections() <= self.sections_needed() - self.reserved_sections / 2
    }
}
