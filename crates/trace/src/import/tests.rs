//! Foreign texts: what becomes of each line, and that whatever is wrong has its number.

use super::{Format, ImportError, Imported, Options, Plan};
use crate::file::{self, Trace};
use crate::record::{DATA_ONLY, DIRECT, Op, Record};
use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

const PIECE: u64 = 64 << 10;

fn import_with(text: &[u8], options: Options) -> Result<(Imported, Trace), ImportError> {
    let (mut from, mut out) = (Cursor::new(text), Vec::new());
    let imported = Plan::of(&mut from, options)?.write(&mut from, &mut out)?;
    Ok((imported, file::read(&mut &out[..]).unwrap()))
}

fn import(text: &str) -> (Imported, Trace) {
    import_with(text.as_bytes(), Options::default()).unwrap()
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, format: Option<Format>, why: &str) {
    let options = Options { format, ..Options::default() };
    let error = import_with(text.as_ref(), options).unwrap_err().to_string();
    assert!(error.contains(why), "{error}, not {why}");
    assert!(error.chars().all(|c| !c.is_control()) && error.len() < 200, "{error:?}");
}

/// Operation, inode, offset, size, flags.
fn what(records: &[Record]) -> Vec<(Op, u64, u64, u64, u64)> {
    records.iter().map(|r| (r.op, r.file, r.offset, r.size, r.flags)).collect()
}

#[test]
fn a_log_of_version_3_is_one_program_with_its_times() {
    let (imported, trace) = import(
        "fio version 3 iolog\n20 /mnt/a add\n21 /mnt/b add\n30 /mnt/a open\r\n40 /mnt/a write 8192 4096\n\n\
         50 /mnt/b read 512 1000\n60 /mnt/a sync 8192 0\n70 /mnt/a datasync 0 0\n80 /mnt/a trim 0 12288\n\
         85 /mnt/b trim 65536 4096\n90 /mnt/a syncfs 0 0\n95 /mnt/a sync_file_range 0 0\n99 /mnt/a close\n",
    );
    assert_eq!(
        what(&trace.records),
        [
            (Op::Lookup, 1, 0, PIECE, 0o100_644),
            (Op::Lookup, 1, 0, PIECE, 0o100_644),
            (Op::Open, 2, 0, 0, 0),
            (Op::Write, 2, 8192, 4096, 0),
            (Op::Read, 3, 512, 1000, 0),
            (Op::Fsync, 2, 0, 0, 0),
            (Op::Fsync, 2, 0, 0, DATA_ONLY),
            (Op::Fallocate, 2, 0, 12_288, 3),
            (Op::Syncfs, 2, 0, 0, 0),
            (Op::Release, 2, 0, 0, 0),
        ]
    );
    let times: Vec<u64> = trace.records.iter().map(|r| r.start_ns / 1000).collect();
    assert_eq!(times, [0, 0, 0, 10, 20, 30, 40, 50, 60, 69]);
    assert!(trace.records.iter().all(|r| r.thread == 1 && r.duration_ns == 0));
    assert_ne!(trace.records[0].name, trace.records[1].name);
    let expected = Imported {
        format: Format::Fio,
        operations: 8,
        files: 2,
        file_bytes: 2 * PIECE,
        seconds: 0.000_069,
        left_out: 2,
    };
    assert_eq!(imported, expected, "a trim of what is not used and a sync of a range are left out");
}

#[test]
fn waits_of_version_2_add_up_and_direct_is_what_the_user_says() {
    let log = b"fio version 2 iolog\nf add\nf open\nf read 0 512\nf wait 150 0\nf wait 50 0\nf write 0 512\nf close\n";
    let (imported, trace) = import_with(log, Options { direct: true, ..Options::default() }).unwrap();
    assert_eq!(trace.records.iter().map(|r| r.start_ns).collect::<Vec<_>>(), [0, 0, 0, 200_000, 200_000]);
    assert_eq!((trace.records[2].flags, trace.records[3].flags, imported.operations), (DIRECT, DIRECT, 4));
    let (_, first) = import_with(log, Options { first: Some(2), ..Options::default() }).unwrap();
    assert_eq!(what(&first.records[1..]), [(Op::Open, 2, 0, 0, 0), (Op::Read, 2, 0, 512, 0)]);
}

/// 128166372002993263 is 2007-02-22 17:00 UTC.
const BEGAN: u64 = 128_166_372_002_993_263;

fn msr(lines: &[(u64, &str)]) -> String {
    lines.iter().map(|(ticks, rest)| format!("{},{rest}\r\n", BEGAN + ticks)).collect()
}

#[test]
fn a_block_trace_is_requests_that_overlap_in_the_pieces_that_are_used() {
    let far = 7_014_609_920;
    let text = msr(&[
        (500, "usr,0,Read,7014609920,24576,41286"),
        (0, "usr,0,Write,65024,1024,10"),
        (900, "usr,1,write,512,4096,20"),
        (950, "usr,0,Read,1024,0,20"),
    ]);
    let (imported, trace) = import(&format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n{text}"));
    let place = 2 * PIECE + far % PIECE;
    assert_eq!(
        what(&trace.records),
        [
            (Op::Lookup, 1, 0, 3 * PIECE, 0o100_644),
            (Op::Lookup, 1, 0, PIECE, 0o100_644),
            (Op::Read, 2, place, 24_576, DIRECT),
            (Op::Write, 2, 65_024, 1024, DIRECT),
            (Op::Write, 3, 512, 4096, DIRECT),
        ]
    );
    let times: Vec<_> = trace.records[2..].iter().map(|r| (r.start_ns, r.duration_ns, r.thread)).collect();
    assert_eq!(times, [(50_000, 4_128_600, 0), (0, 1000, 0), (90_000, 2000, 0)]);
    assert_eq!((imported.left_out, imported.operations, imported.file_bytes), (1, 3, 4 * PIECE));
    assert_eq!((trace.header.began, trace.header.cache), (1_172_163_600, 2));
    assert!((imported.seconds - 0.004_178_6).abs() < 1e-9, "{}", imported.seconds);
    // The same bytes each time.
    let written = || {
        let (mut from, mut out) = (Cursor::new(text.as_bytes()), Vec::new());
        Plan::of(&mut from, Options::default()).unwrap().write(&mut from, &mut out).unwrap();
        out
    };
    assert_eq!(written(), written());
}

#[test]
fn places_keep_their_order_and_what_lies_together() {
    // A request over two pieces, others before and behind, far apart.
    let lines: Vec<String> = [(1 << 40, 100_000), (5 * PIECE - 10, 20), (u64::MAX / 2 - 512, 512), (0, 1)]
        .iter()
        .map(|(offset, size)| format!("{BEGAN},a,0,Read,{offset},{size},1\n"))
        .collect();
    let (_, trace) = import(&lines.concat());
    let places: Vec<u64> = trace.records[1..].iter().map(|r| r.offset).collect();
    assert_eq!(places, [3 * PIECE, 2 * PIECE - 10, 6 * PIECE - 513, 0], "{places:?}");
    assert_eq!(trace.records[0].size, 6 * PIECE);
}

#[test]
fn many_records_come_back_in_order() {
    let mut log = "fio version 3 iolog\n".to_owned();
    (0..10_000).for_each(|i| log += &format!("{i} f write {} 4096\n", i * 7919 % 1000 * 4096));
    let (imported, trace) = import(&log);
    assert_eq!((imported.operations, trace.records.len(), trace.cut_off), (10_000, 10_001, false));
    assert!(trace.records[1..].iter().zip(0..).all(|(r, i)| r.offset == i * 7919 % 1000 * 4096));
}

#[test]
fn a_bad_line_is_told_with_its_number() {
    let v3 = |line: &str| format!("fio version 3 iolog\n\n1 f open\n{line}\n2 f close\n");
    for (line, why) in [
        ("2 f jump 0 1", "line 4: 'jump' is no action"),
        ("2 f write 0", "line 4: 'write' needs an offset and a length"),
        ("2 f write 0 1 2", "line 4: 'write' needs"),
        ("2 f open 0 1", "line 4: 'open' has no offset"),
        ("x f write 0 1", "line 4: the time 'x' is no whole number"),
        ("2 f write -1 1", "line 4: the offset '-1' is no whole number"),
        ("2 f write 0 +1", "line 4: the length '+1' is no whole number"),
        ("2 f write 18446744073709551615 1", "beyond the end of any file"),
        ("2 f trim 9223372036854775807 9223372036854775807", "beyond the end of any file"),
        ("2 f write 18446744073709551616 1", "is no whole number"),
        ("2 f read 0 67108865", "67108865 bytes at once are more than 67108864"),
        ("18446744073709551615 f read 0 1", "line 4: the time '18446744073709551615' is too large"),
        ("31622400000002 f read 0 1", "line 4: it is more than a year"),
        ("2 f wait 1 0", "version 3 has no 'wait'"),
        ("2", "a file and an action are missing"),
    ] {
        refused(v3(line), None, why);
    }
    refused("fio version 3 iolog\n1 f add\n", None, "there is no operation");
    refused("fio version 4 iolog\n", None, "line 1: 'fio version 4 iolog' is not");
    refused("fio version 2 iolog\nf wait 5\n", None, "line 2: say FILE wait");
    refused(format!("fio version 2 iolog\n{} open\n", "x".repeat(257)), None, "longer than 256 bytes");
    for (line, why) in [
        ("1,h,0,Trim,0,1,1", "the type 'Trim' is neither"),
        ("1,h,0,Read,0,1", "it has 6 fields and not 7"),
        ("1,h,zero,Read,0,1,1", "the disk number 'zero'"),
        ("1,h,0,Read,0,1,9999999999999999999", "the response time '9999999999999999999' is too large"),
        ("1,h,0,Read,\u{202e}\u{1f600},1,1", "the offset"),
    ] {
        refused(format!("1,h,0,Read,0,1,1\n{line}\n"), None, &format!("line 2: {why}"));
    }
    refused("1,h,0,Read,0,1,1\n", Some(Format::Fio), "line 1:");
    refused("fio version 2 iolog\n", Some(Format::Msr), "line 1: it has 1 fields");
}

#[test]
fn what_is_no_text_is_refused_without_reading_much_of_it() {
    refused("", None, "there is no operation");
    refused("hello\n", None, "its first line is neither");
    refused(b"\x1f\x8b\x08\x00", None, "line 1: it is compressed");
    refused(b"fio version 2 iolog\nf\x00 open\n", None, "line 2: it is no text");
    refused(b"fio version 2 iolog\nf\xff open\n", None, "line 2: it is no text");
    refused("x".repeat(5000), None, "line 1: it is longer than 4096 bytes");
    for byte in [0, b'x'] {
        let mut endless = Endless { byte, read: 0 };
        let error = Plan::of(&mut endless, Options::default()).err().unwrap();
        assert!(matches!(error, ImportError::Line { number: 1, .. }) && endless.read < 100_000, "{error}");
    }
    // What nobody could lay out.
    let wide: String = (0..5000u64).map(|i| format!("1,h,0,Read,{},67108864,1\n", i << 26)).collect();
    refused(wide, None, "line 4097: more than 256 GiB are used");
    let files: String = (0..=65_536).map(|i| format!("f{i} add\n")).collect();
    refused(format!("fio version 2 iolog\n{files}"), None, "line 65538: more than 65536 files");
}

#[test]
fn a_text_that_changes_between_the_two_readings_is_refused() {
    let text = "1,h,0,Read,65536,1,1\n2,h,0,Read,65536,1,1\n";
    let plan = Plan::of(&mut Cursor::new(text), Options::default()).unwrap();
    for other in [
        "1,h,1,Read,65536,1,1\n2,h,0,Read,0,1,1\n",
        "1,h,0,Read,0,1,1\n2,h,0,Read,65536,1,1\n",
        "1,h,0,Read,65536,1,1\n",
        "0,h,0,Read,65536,1,1\n2,h,0,Read,65536,1,1\n",
        "1,h\n",
    ] {
        let error = plan.write(&mut Cursor::new(other), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, ImportError::Changed), "{other}: {error}");
    }
}

/// A file without an end.
struct Endless {
    byte: u8,
    read: usize,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.fill(self.byte);
        self.read += buf.len();
        Ok(buf.len())
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(if self.byte == 0 { &[0; 4096] } else { &[b'x'; 4096] })
    }

    fn consume(&mut self, amount: usize) {
        self.read += amount;
    }
}

impl Seek for Endless {
    fn seek(&mut self, _to: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}
