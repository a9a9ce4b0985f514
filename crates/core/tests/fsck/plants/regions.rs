//! Faults of a D2FS volume: its areas, and the number of the last record.

use crate::editor::Editor;
use crate::images::run;
use std::sync::{Arc, OnceLock};
use steadyfs_core::fsck::Issue;
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_device::{Adversary, AdversaryDevice, Device, MemDevice};
use steadyfs_format::Log;
use steadyfs_format::checkpoint::LogPosition;

/// Codes that the tests of this module plant.
pub(crate) const CODES: [&str; 2] = ["LogInGcArea", "ServedUnknown"];

fn volume() -> MemDevice {
    static MADE: OnceLock<MemDevice> = OnceLock::new();
    let made = || {
        let chosen = Migrating::new(16 * 512);
        let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
        let geometry = chosen.geometry(&options).unwrap();
        let below = Arc::new(MemDevice::new(geometry.gc.end));
        let device = AdversaryDevice::new(Arc::clone(&below) as Arc<dyn Device>, geometry, Adversary::new(1));
        mkfs::format(&device, &options).unwrap();
        below.fork()
    };
    MADE.get_or_init(made).fork()
}

#[test]
fn a_new_volume_is_sound_and_each_fault_is_named() {
    assert_eq!(run(volume()).issues, []);
    let editor = Editor::new(volume());
    let (pack, segno) = (editor.image().pack().number(), editor.image().superblock().regions().copied());
    let segno = segno.unwrap().gc_start(editor.image().layout());
    let log = Log::ColdData;
    editor.pack(|pack| {
        let at = pack.checkpoint.header().log(log);
        pack.checkpoint.header_mut().set_log(log, LogPosition { segment: segno, ..at });
    });
    // Besides, the SIT says nothing of a log there.
    assert!(run(editor.dev.fork()).issues.contains(&Issue::LogInGcArea { log, segno }));
    let editor = Editor::new(volume());
    editor.pack(|pack| pack.checkpoint.clear_served());
    assert_eq!(run(editor.dev.fork()).issues, [Issue::ServedUnknown { pack }]);
}
