//! Faults planted on purpose, to see that tests find them. Without the feature `canary`, which only its tests switch
//! on, there are none and no way to plant one.

#[cfg(feature = "canary")]
use std::sync::OnceLock;
use steadyfs_journal::Fault;

/// A fault that can be planted (`-o canary=NAME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// `skip-flush`: the device is not flushed.
    SkipFlush,
    /// `early-reuse`: a block that was freed is used again before a checkpoint knows that it is free.
    EarlyReuse,
    /// `early-discard`: what a checkpoint will be without is discarded before it has committed.
    EarlyDiscard,
    /// `no-mark`: fsync leaves out its mark.
    NoMark,
    /// `blind-move`: a collector does not look again whether a block is still the newest.
    BlindMove,
    /// `move-unseen`: what collectors have moved is read from the device at once, whether it has arrived there or not.
    MoveUnseen,
    /// `stream-summary`: checkpoints do not save the summaries of open streams.
    StreamSummary,
    /// `drop-record`: a batch of the journal lacks a name that went.
    DropRecord,
    /// `names-first`: a file takes another's name in a batch, and nobody asks whether its contents are durable.
    NamesFirst,
    /// `early-ack`: an fsync by the journal returns before the device is flushed.
    EarlyAck,
    /// `skip-absorb`: a freeze leaves the journal what it has noted.
    SkipAbsorb,
    /// `absorb-early`: an fsync that finds a checkpoint under way returns, and does not wait for its commit.
    AbsorbEarly,
    /// `split-batch`: what a push took goes to two batches.
    SplitBatch,
    /// `mark-forgotten`: the superblock does not say that there is a journal.
    MarkForgotten,
    /// `nameless-skip`: fsync of a file without a name does nothing, whatever a crash or a link makes of it.
    NamelessSkip,
    /// `unchecked-contents`: a batch does not name the contents that were not flushed before it.
    UncheckedContents,
    /// One of the lists of what was committed (`stale-sequence`, `no-drain`, `zero-delta`, `lost-relog`,
    /// `reversed-order`, `late-estimate`).
    Lists(Fault),
    /// `herd`: writers do not look again whether there is room, once it is their turn to collect.
    Herd,
    /// `skip-log`: the discard log does not name what has died since the last freeze.
    SkipLog,
    /// `forget-in-flight`: the discard log does not name what is being discarded.
    ForgetInFlight,
    /// `past-limit`: logs run behind the limit that the checkpoint in force has.
    PastLimit,
    /// `reuse`: a log takes a block again that was discarded.
    Reuse,
    /// `complete-early`: records are completed before the checkpoint that contains them has committed.
    CompleteEarly,
    /// `stale-discards-new`: what a record leads to is discarded also where the volume has it.
    StaleDiscardsNew,
    /// `reuse-early`: sections are taken again before the records that name them are completed.
    ReuseEarly,
    /// `skip-record`: some records are passed over.
    SkipRecord,
    /// `trust-ssa`: checkpoints do not save the summaries of what the device has moved.
    TrustSsa,
    /// `half-record`: a checkpoint may contain half of a record.
    HalfRecord,
}

/// The fault of a volume, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    #[cfg(feature = "canary")]
    which: OnceLock<Canary>,
}

impl Planted {
    /// Plants a fault, before anything happens on the volume.
    #[cfg(feature = "canary")]
    pub(crate) fn plant(&self, canary: Canary) {
        let first = self.which.set(canary);
        assert!(first.is_ok(), "a volume has one fault");
    }

    /// The fault of the journal's lists that was planted, if it is one of those.
    pub(crate) fn of_lists(&self) -> Option<Fault> {
        #[cfg(feature = "canary")]
        if let Some(&Canary::Lists(fault)) = self.which.get() {
            return Some(fault);
        }
        None
    }

    /// Whether this fault was planted.
    pub(crate) fn is(&self, canary: Canary) -> bool {
        #[cfg(feature = "canary")]
        return self.which.get() == Some(&canary);
        #[cfg(not(feature = "canary"))]
        {
            let _ = canary;
            false
        }
    }
}
