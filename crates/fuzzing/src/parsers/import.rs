//! Traces of others: logs of fio and CSV of block traces. Input: the text.

use crate::Target;
use std::io::Cursor;
use steadyfs_trace::file;
use steadyfs_trace::import::{Options, Plan};

/// The target. A short line can use a thousand pieces of a disk, and name a file.
pub const TARGET: Target = Target { name: "import", run, seeds, volume: false, memory: 64 << 20 };

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "fio version 3 iolog\n2 f add\n3 f open\n4 f write 4096 8192\n5 f trim 0 4096\n6 f sync 0 0\n9 f close\n",
        "fio version 2 iolog\nf add\nf wait 200 0\nf read 512 1000\ng datasync 0 0\nf wait 50 0\n",
        "128166372002993263,usr,0,Read,7014609920,24576,41286\r\n128166372016853991,usr,1,Write,0,512,1963\r\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

fn run(bytes: &[u8]) {
    let mut from = Cursor::new(bytes);
    let Ok(plan) = Plan::of(&mut from, Options::default()) else { return };
    let mut out = Vec::new();
    let imported = plan.write(&mut from, &mut out).expect("what was read once is the same again");
    let trace = file::read(&mut &out[..]).expect("what is written can be read");
    assert_eq!(trace.records.len() as u64, imported.operations + imported.files);
    let longest = imported.file_bytes;
    assert!(trace.records.iter().all(|record| record.offset + record.size <= longest), "all lies in the files");
}
