//! The host on a device in files, which is killed at any moment: what its directory holds then is what there is.

use super::geometry;
use super::host::{Host, Rng, Tried};
use crate::coupled::tests::scratch;
use crate::migrate::Upcall;
use crate::{CoupledDevice, OpenOptions};
use std::path::Path;

impl Tried for CoupledDevice {
    fn try_next(&self) -> Option<Upcall> {
        CoupledDevice::try_next(self)
    }
    fn outstanding(&self) -> usize {
        CoupledDevice::outstanding(self)
    }
    /// A kill comes now.
    fn tick(&self) -> u64 {
        0
    }
}

fn open(path: &Path) -> CoupledDevice {
    CoupledDevice::open(path, OpenOptions::default()).unwrap()
}

/// What another process would find there now.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_host_on_a_device_in_files_loses_and_leaks_nothing_when_it_is_killed() {
    let (mut served, mut again, mut with_outstanding) = (0, 0, 0);
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let dir = scratch();
        let place = |session: u64| dir.path().join(session.to_string());
        CoupledDevice::create(place(0), &geometry()).unwrap();
        let mut device = open(&place(0));
        let mut host = Host::format(&device, None);
        for session in 1..5 {
            for _ in 0..60 + rng.below(60) {
                host.act(&device, &mut rng);
            }
            copy(&place(session - 1), &place(session));
            let promised = host.promised_at(0);
            (served, again) = (served + host.served_now, again + host.again);
            device = open(&place(session));
            with_outstanding += usize::from(device.outstanding() > 0);
            host = Host::recover(&device, None, &promised);
        }
        host.settle(&device);
        assert_eq!(device.outstanding(), 0, "seed {seed}");
        host.compare(&device);
        assert_eq!(device.held().len(), host.needs(), "seed {seed} leaks");
        again += host.again;
    }
    println!("{served} records, {again} again, {with_outstanding} of 160 kills");
    assert!(served > 5000 && with_outstanding > 80, "the device was idle: {served}, {with_outstanding}");
}
