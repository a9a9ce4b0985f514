//! The journal area of a summary block: a few NAT or SIT entries that override their tables. Format section 3.5.
//!
//! Only two journals are in use: the NAT journal in the hot-data summary and the SIT journal in the cold-data summary
//! of a checkpoint pack. The hot-node summary keeps a statistic in the same bytes. Which of these the bytes are is not
//! recorded in them; the caller knows.

use crate::error::{FormatError, require};
use crate::nat::{NatEntry, RawNatEntry};
use crate::sit::SitEntry;
use crate::{Nid, SegNo};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the journal area.
pub const JOURNAL_BYTES: usize = 507;
/// Entries that a NAT journal holds.
pub const MAX_NAT_JOURNAL: usize = 38;
/// Entries that a SIT journal holds.
pub const MAX_SIT_JOURNAL: usize = 6;

/// The bytes of a journal area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Journal {
    /// Number of entries.
    count: U16,
    body: [u8; JOURNAL_BYTES - 2],
}

const _: () = assert!(size_of::<Journal>() == JOURNAL_BYTES);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNatRecord {
    nid: U32,
    entry: RawNatEntry,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSitRecord {
    segno: U32,
    entry: SitEntry,
}

const _: () = assert!(size_of::<RawNatRecord>() == 13 && size_of::<RawSitRecord>() == 78);
const _: () = assert!(2 + MAX_NAT_JOURNAL * 13 <= JOURNAL_BYTES && 2 + (MAX_NAT_JOURNAL + 1) * 13 > JOURNAL_BYTES);
const _: () = assert!(2 + MAX_SIT_JOURNAL * 78 <= JOURNAL_BYTES && 2 + (MAX_SIT_JOURNAL + 1) * 78 > JOURNAL_BYTES);

impl Default for Journal {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl Journal {
    /// A NAT journal with these entries.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] for more than [`MAX_NAT_JOURNAL`].
    pub fn from_nat(entries: &[(Nid, NatEntry)]) -> Result<Self, FormatError> {
        Self::encode("NAT journal", MAX_NAT_JOURNAL, entries, |&(nid, entry)| RawNatRecord {
            nid: nid.get().into(),
            entry: entry.into(),
        })
    }

    /// A SIT journal with these entries.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] for more than [`MAX_SIT_JOURNAL`].
    pub fn from_sit(entries: &[(SegNo, SitEntry)]) -> Result<Self, FormatError> {
        Self::encode("SIT journal", MAX_SIT_JOURNAL, entries, |&(segment, entry)| RawSitRecord {
            segno: segment.get().into(),
            entry,
        })
    }

    /// The entries of a NAT journal, in order; of two with the same id the first one counts.
    ///
    /// # Errors
    /// If the count is larger than a journal holds.
    pub fn nat(&self) -> Result<Vec<(Nid, NatEntry)>, FormatError> {
        let records = self.decode::<RawNatRecord>("NAT journal", MAX_NAT_JOURNAL)?;
        Ok(records.iter().map(|record| (Nid(record.nid.get()), record.entry.into())).collect())
    }

    /// The entries of a SIT journal, in order.
    ///
    /// # Errors
    /// If the count is larger than a journal holds.
    pub fn sit(&self) -> Result<Vec<(SegNo, SitEntry)>, FormatError> {
        let records = self.decode::<RawSitRecord>("SIT journal", MAX_SIT_JOURNAL)?;
        Ok(records.iter().map(|record| (SegNo(record.segno.get()), record.entry)).collect())
    }

    /// The statistic in the hot-node summary: KiB written over the volume's life.
    pub fn kbytes_written(&self) -> u64 {
        U64::read_from_prefix(&self.body).map_or(0, |(value, _)| value.get())
    }

    /// The journal area of a hot-node summary.
    pub fn from_kbytes_written(kbytes: u64) -> Self {
        let mut journal = Self::default();
        journal.body[..8].copy_from_slice(&kbytes.to_le_bytes());
        journal
    }

    fn encode<T, R: IntoBytes + Immutable>(
        structure: &'static str,
        max: usize,
        entries: &[T],
        record: impl Fn(&T) -> R,
    ) -> Result<Self, FormatError> {
        if entries.len() > max {
            return Err(FormatError::NoRoom { structure, need: entries.len(), free: max });
        }
        let mut journal = Self { count: (entries.len() as u16).into(), ..Self::default() };
        for (place, entry) in journal.body.chunks_exact_mut(size_of::<R>()).zip(entries) {
            place.copy_from_slice(record(entry).as_bytes());
        }
        Ok(journal)
    }

    fn decode<R: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
        structure: &'static str,
        max: usize,
    ) -> Result<&[R], FormatError> {
        let count = self.count.get();
        require(usize::from(count) <= max, structure, "count", count, "is at most 38 (NAT) or 6 (SIT)")?;
        match <[R]>::ref_from_prefix_with_elems(&self.body, usize::from(count)) {
            Ok((records, _)) => Ok(records),
            Err(_) => unreachable!("a full journal fits its area, asserted above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ino, Lba, Log};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nat_journals_survive_the_round_trip(entries in prop::collection::vec((any::<u32>(), any::<u8>(), any::<u32>(), 0..u32::MAX - 1), 0..40)) {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(nid, version, ino, lba)| (Nid(nid), NatEntry { version, ino: Ino(ino), lba: Lba(u64::from(lba)) }))
                .collect();
            match Journal::from_nat(&entries) {
                Ok(journal) => prop_assert_eq!(journal.nat().unwrap(), entries),
                Err(_) => prop_assert!(entries.len() > 38),
            }
        }

        #[test]
        fn sit_journals_survive_the_round_trip(entries in prop::collection::vec((any::<u32>(), 0u8..6, any::<u8>(), any::<u64>()), 0..8)) {
            let entries: Vec<_> = entries
                .into_iter()
                .map(|(seg, log, fill, mtime)| (SegNo(seg), SitEntry::new(Log::from_number(log).unwrap(), [fill; 64], mtime)))
                .collect();
            match Journal::from_sit(&entries) {
                Ok(journal) => prop_assert_eq!(journal.sit().unwrap(), entries),
                Err(_) => prop_assert!(entries.len() > 6),
            }
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 507), count in 0u8..50) {
            let mut bytes = bytes;
            bytes[..2].copy_from_slice(&[count, 0]);
            let journal = Journal::read_from_bytes(&bytes).unwrap();
            prop_assert_eq!(journal.nat().is_ok(), count <= 38);
            prop_assert_eq!(journal.sit().is_ok(), count <= 6);
            prop_assert_eq!(Journal::from_kbytes_written(journal.kbytes_written()).kbytes_written(), journal.kbytes_written());
        }
    }
}
