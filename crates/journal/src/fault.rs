//! Faults planted on purpose, to see that tests find them. Outside tests, and without the feature `canary`, there are
//! none.

/// A fault that can be planted. Several are those of the ScaleXFS artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A commit does not look again which list is the current one, once it has the lock of a list.
    StaleSequence,
    /// The items of a sealed list come in the opposite order.
    ReversedOrder,
    /// A seal does not wait for commits that are under way.
    NoDrain,
    /// A commit that adds no bytes leaves the list marked as empty.
    ZeroDelta,
    /// An item of the other list is not put into the current one.
    LostRelog,
    /// Strides are counted when they are full, not when they begin.
    LateEstimate,
}

/// The fault of one set of lists, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Planted(Option<Fault>);

impl Planted {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Planted(fault)
    }

    /// Whether this fault was planted.
    #[inline(always)]
    pub(crate) fn is(&self, fault: Fault) -> bool {
        cfg!(any(test, feature = "canary")) && self.0 == Some(fault)
    }
}
