//! Records as bytes: the operation, a mask of the fields that are not 0, and these as variable-length numbers; times as
//! differences.
//!
//! A number is little-endian in groups of 7 bits, the top bit says that another group follows.

use crate::record::{Name, Op, Record};

/// Fields of a record behind its times, in their order.
const FIELDS: usize = 11;

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let group = u64::from(first & 0x7F);
        if shift == 63 && group > 1 {
            return None;
        }
        value |= group << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A difference of either sign as a number that is small when it is.
fn zigzag(difference: i64) -> u64 {
    (difference.cast_unsigned() << 1) ^ (difference >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn fields(r: &Record) -> [u64; FIELDS] {
    [
        r.thread.into(),
        r.file,
        r.name.0,
        r.other,
        r.other_name.0,
        r.offset,
        r.other_offset,
        r.size,
        r.done,
        r.flags,
        r.error.into(),
    ]
}

/// Adds a record; `before` is when the one before it began, and becomes when this one did.
pub(crate) fn encode(record: &Record, before: &mut u64, out: &mut Vec<u8>) {
    let fields = fields(record);
    let mask = fields.iter().enumerate().fold(0u16, |mask, (at, value)| mask | u16::from(*value != 0) << at);
    out.push(record.op as u8);
    out.extend_from_slice(&mask.to_le_bytes());
    put(out, zigzag(record.start_ns.wrapping_sub(*before).cast_signed()));
    put(out, record.duration_ns);
    fields.iter().filter(|value| **value != 0).for_each(|value| put(out, *value));
    *before = record.start_ns;
}

/// The next record; `None` if the bytes hold none.
pub(crate) fn decode(bytes: &mut &[u8], before: &mut u64) -> Option<Record> {
    let (head, rest) = bytes.split_at_checked(3)?;
    *bytes = rest;
    let op = Op::from_number(head[0])?;
    let mask = u16::from_le_bytes([head[1], head[2]]);
    if mask >> FIELDS != 0 {
        return None;
    }
    let start_ns = before.wrapping_add(unzigzag(take(bytes)?).cast_unsigned());
    let duration_ns = take(bytes)?;
    let mut fields = [0; FIELDS];
    for (at, field) in fields.iter_mut().enumerate() {
        if mask >> at & 1 == 1 {
            *field = take(bytes)?;
        }
    }
    let [thread, file, name, other, other_name, offset, other_offset, size, done, flags, error] = fields;
    *before = start_ns;
    Some(Record {
        op,
        start_ns,
        duration_ns,
        thread: u32::try_from(thread).ok()?,
        file,
        name: Name(name),
        other,
        other_name: Name(other_name),
        offset,
        other_offset,
        size,
        done,
        flags,
        error: u32::try_from(error).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let number = || prop_oneof![Just(0), 1..1000u64, any::<u64>()];
        let times = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>());
        let places = proptest::array::uniform9(number());
        (0..Op::ALL.len(), times, places).prop_map(|(op, (start_ns, duration_ns, thread, error), p)| Record {
            op: Op::ALL[op],
            start_ns,
            duration_ns,
            thread,
            file: p[0],
            name: Name(p[1]),
            other: p[2],
            other_name: Name(p[3]),
            offset: p[4],
            other_offset: p[5],
            size: p[6],
            done: p[7],
            flags: p[8],
            error,
        })
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were(records in proptest::collection::vec(any_record(), 0..20)) {
            let (mut bytes, mut before) = (Vec::new(), 7);
            records.iter().for_each(|record| encode(record, &mut before, &mut bytes));
            let (mut rest, mut before) = (&bytes[..], 7);
            for record in &records {
                prop_assert_eq!(decode(&mut rest, &mut before), Some(*record));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn bytes_that_are_no_record_are_none(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let (mut rest, mut before) = (&bytes[..], 0);
            while decode(&mut rest, &mut before).is_some() {}
        }
    }

    #[test]
    fn a_small_record_is_small() {
        let mut bytes = Vec::new();
        let write = Record {
            offset: 1 << 20,
            size: 4096,
            done: 4096,
            start_ns: 9_000,
            duration_ns: 3_000,
            ..Record::new(Op::Write, 4711, 5)
        };
        encode(&write, &mut 0, &mut bytes);
        assert!(bytes.len() <= 18, "{}", bytes.len());
    }
}
