//! Faults of a D2FS volume: its areas, and the number of the last record.

use crate::editor::Editor;
use crate::images::run;
use std::sync::{Arc, OnceLock};
use steadyfs_core::fsck::Issue;
use steadyfs_core::mkfs::{self, Migrating, MkfsOptions};
use steadyfs_core::{Fs, MountOptions};
use steadyfs_device::{Adversary, AdversaryDevice, Device, MemDevice, MigrationGeometry};
use steadyfs_format::Log;
use steadyfs_format::checkpoint::LogPosition;
use steadyfs_fuzzing::volumes::verdict;

/// Codes that the tests of this module plant.
pub(crate) const CODES: [&str; 4] = ["LogInGcArea", "ServedUnknown", "DeviceDiffers", "RecordsDiffer"];

fn geometry() -> MigrationGeometry {
    let chosen = Migrating::new(16 * 512);
    let options = MkfsOptions { migrating: Some(chosen), ..MkfsOptions::new([0xd2; 16], 1_700_000_000) };
    chosen.geometry(&options).unwrap()
}

/// Its issues on a device with these areas that has delivered nothing, and why a mount for changes is refused there.
/// The device holds no page of the main area, which are issues of their own.
fn on_device(volume: &MemDevice, areas: MigrationGeometry) -> (Vec<Issue>, String) {
    let device = || AdversaryDevice::new(volume.fork(), areas.clone(), Adversary::new(1));
    let issues = run(device()).issues;
    let options = || MountOptions::parse("").unwrap();
    let refused = Fs::mount(Arc::new(device()), options()).err().map_or(String::new(), |error| error.to_string());
    (issues, refused)
}

/// A volume and a device that are not of one make, or not of one time.
#[test]
fn a_volume_of_another_device_is_named_and_the_mount_says_what_to_do() {
    let (issues, _) = on_device(&volume(), geometry());
    let is_other = |issue: &Issue| matches!(issue, Issue::DeviceDiffers { .. } | Issue::RecordsDiffer { .. });
    assert!(!issues.iter().any(is_other), "{issues:?}");
    let larger = MigrationGeometry { capacity: geometry().capacity + 1, ..geometry() };
    let (stored, found) = (geometry().capacity, larger.capacity);
    let (issues, refused) = on_device(&volume(), larger);
    let wanted = Issue::DeviceDiffers { what: "the capacity", stored, found };
    assert_eq!(issues.into_iter().filter(is_other).collect::<Vec<_>>(), std::slice::from_ref(&wanted));
    assert!(refused.contains(&wanted.to_string()) && refused.contains("restore"), "{refused}");
    let editor = Editor::new(volume());
    editor.pack(|pack| pack.checkpoint.set_served(7).unwrap());
    let (issues, refused) = on_device(&editor.dev, geometry());
    let wanted = Issue::RecordsDiffer { served: 7, completed: 0, delivered: 0 };
    assert_eq!(issues.into_iter().filter(is_other).collect::<Vec<_>>(), std::slice::from_ref(&wanted));
    assert!(refused.contains(&wanted.to_string()) && !refused.contains("disable_roll_forward"), "{refused}");
}

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
    verdict::judge(&editor.dev);
    let editor = Editor::new(volume());
    editor.pack(|pack| pack.checkpoint.clear_served());
    assert_eq!(run(editor.dev.fork()).issues, [Issue::ServedUnknown { pack }]);
    verdict::judge(&editor.dev);
}
