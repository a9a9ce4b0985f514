//! What can be wrong with bytes that claim to be F2FS, and with what a caller asks to be stored in them.

/// The crate's error. The text is one line that names the structure, the field and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A magic number is missing: the bytes are something else.
    #[error("{structure}: no F2FS magic (found {found:#010x})")]
    Magic {
        /// Which structure was expected.
        structure: &'static str,
        /// The number found in its place.
        found: u32,
    },
    /// An IPLFS volume where an F2FS volume was expected.
    #[error("an IPLFS volume, no F2FS volume")]
    Infinite,
    /// A volume whose blocks have another size than 4 KiB. Nothing is wrong with it.
    #[error("it has blocks of {} KiB, and only blocks of 4 KiB are read", 1 << (log - 10))]
    BlockSize {
        /// Base-2 logarithm of the bytes of a block, 10 or more.
        log: u32,
    },
    /// A volume on several devices. Nothing is wrong with it.
    #[error("the volume lies on {} devices ({}), and only volumes on one are read", names.len(), names.join(", "))]
    Devices {
        /// Their paths, as mkfs stored them.
        names: Vec<String>,
    },
    /// A stored checksum does not match the bytes.
    #[error("{structure}: checksum is {stored:#010x}, the bytes give {computed:#010x}")]
    Checksum {
        /// Which structure.
        structure: &'static str,
        /// The stored checksum.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A field breaks a rule of the format.
    #[error("{structure}: {field} = {value} breaks the rule: {rule}")]
    Field {
        /// Which structure.
        structure: &'static str,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What must hold.
        rule: &'static str,
    },
    /// Neither checkpoint pack can be used.
    #[error("no usable checkpoint: pack 1: {first}; pack 2: {second}")]
    NoCheckpoint {
        /// Why pack 1 was refused.
        first: Box<FormatError>,
        /// Why pack 2 was refused.
        second: Box<FormatError>,
    },
    /// There is no room left for what should be stored.
    #[error("{structure}: no room for {need} more bytes or slots ({free} free)")]
    NoRoom {
        /// Which structure is full.
        structure: &'static str,
        /// The bytes needed.
        need: usize,
        /// The bytes free.
        free: usize,
    },
    /// A name or value that the caller wants stored has a length the format cannot express.
    #[error("{what} of {length} bytes: the format allows {min} to {max}")]
    Length {
        /// The structure with the length.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The smallest allowed.
        min: usize,
        /// The largest allowed.
        max: usize,
    },
    /// A name that the caller gave is not known here.
    #[error("unknown {what} '{name}'")]
    Unknown {
        /// What kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A request that the format cannot satisfy.
    #[error("{0}")]
    Refused(String),
}

impl FormatError {
    /// A field that breaks a rule.
    pub fn field(structure: &'static str, field: &'static str, value: impl Into<u64>, rule: &'static str) -> Self {
        Self::Field { structure, field, value: value.into(), rule }
    }
}

/// Returns `Err` with the field unless the rule holds.
pub(crate) fn require(
    holds: bool,
    structure: &'static str,
    field: &'static str,
    value: impl Into<u64>,
    rule: &'static str,
) -> Result<(), FormatError> {
    if holds { Ok(()) } else { Err(FormatError::field(structure, field, value, rule)) }
}
