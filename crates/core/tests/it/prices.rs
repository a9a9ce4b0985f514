//! What work costs in virtual time. Each test sets the price of one kind of work, or of two that go together, and fails
//! where that work is done without being paid for.

use crate::common::{create, in_virtual_time};
use std::sync::Arc;
use steadyfs_core::mkfs::{self, MkfsOptions};
use steadyfs_core::{Fs, InodeRef, MountOptions, NewInode, RenameFlags, SetAttr, Urgency};
use steadyfs_device::{Device, FaultyDevice, MemDevice};
use steadyfs_rt::Cost;
use steadyfs_rt::now;
use steadyfs_rt::sim::{Costs, SimConfig, run};
use steadyfs_testkit::Rng;

/// Nothing costs anything but this work, in nanoseconds.
fn priced<T: 'static>(
    device: Arc<dyn Device>,
    options: &str,
    prices: &[(Cost, u32)],
    f: impl FnOnce(&Fs) -> T + 'static,
) -> T {
    let mut costs = Costs::free();
    prices.iter().for_each(|(cost, ns)| costs.set(*cost, *ns));
    let config = SimConfig { cores: 4, costs, ..SimConfig::timeless() };
    let options = MountOptions::parse(options).unwrap();
    let report = run(config, move || {
        let fs = Fs::mount(device, options).unwrap();
        let value = f(&fs);
        fs.unmount().unwrap();
        value
    });
    report.unwrap_or_else(|failure| panic!("{failure}")).value
}

fn ns(f: impl FnOnce()) -> u64 {
    let start = now();
    f();
    start.elapsed().as_nanos() as u64
}

/// An empty volume.
fn volume(features: &str) -> Arc<MemDevice> {
    let device = MemDevice::new(16 << 10);
    let features = mkfs::parse_features(features).unwrap();
    mkfs::format(&device, &MkfsOptions { features, ..MkfsOptions::new([7; 16], 0) }).unwrap();
    Arc::new(device)
}

/// A volume with a file of 64 pages.
fn with_a_file() -> Arc<MemDevice> {
    let device = volume("");
    let dev = Arc::clone(&device) as Arc<dyn Device>;
    priced(dev, "", &[], |fs| fs.write(&create(fs, "file"), 0, &[7; 64 * 4096]).unwrap());
    device
}

#[test]
fn a_read_pays_its_completion_as_it_pays_its_submission() {
    let device = with_a_file();
    // The second device completes requests elsewhere than in the call that submits them.
    let devices: [Arc<dyn Device>; 2] = [device.clone(), Arc::new(FaultyDevice::new(device.fork()))];
    for device in devices {
        let took = priced(device, "", &[(Cost::BioSubmit, 1), (Cost::BioComplete, 1_000_000)], |fs| {
            let file = fs.lookup(&fs.root().unwrap(), b"file").unwrap();
            let mut page = vec![0; 4096];
            let cached = ns(|| {
                (0..64).step_by(8).for_each(|at| assert_eq!(fs.read(&file, at * 4096, &mut page).unwrap(), 4096));
            });
            let direct = ns(|| {
                (0..64).for_each(|at| assert_eq!(fs.read_direct(&file, at * 4096, &mut page).unwrap(), 4096));
            });
            [cached, direct]
        });
        for took in took {
            let (completed, submitted) = (took / 1_000_000, took % 1_000_000);
            assert!(submitted > 0, "something was read");
            assert_eq!(completed, submitted);
        }
    }
}

#[test]
fn zeros_cost_less_than_a_copy_and_are_paid_where_they_are_made() {
    let device = with_a_file() as Arc<dyn Device>;
    let took = priced(device, "", &[(Cost::PageCopy, 1000), (Cost::PageZero, 1)], |fs| {
        let inode = ns(|| drop(create(fs, "inode")));
        let file = fs.lookup(&fs.root().unwrap(), b"file").unwrap();
        let size = SetAttr { size: Some(74 * 4096), ..SetAttr::default() };
        fs.setattr(&file, &size).unwrap();
        let mut pages = vec![0; 12 * 4096];
        let direct = ns(|| assert_eq!(fs.read_direct(&file, 62 * 4096, &mut pages).unwrap(), pages.len()));
        let holes = ns(|| assert_eq!(fs.read(&file, 62 * 4096, &mut pages).unwrap(), pages.len()));
        assert_eq!(direct, holes, "what is read past the cache is made in the same way");
        let partial = ns(|| assert_eq!(fs.write(&create(fs, "partial"), 8192, b"some bytes").unwrap(), 10));
        (inode, holes, partial)
    });
    // A node; two pages and ten holes; a node, a page that had nothing, and a copy.
    assert_eq!(took, (1, 2 * 1000 + 10, 1 + 1 + 1000));
}

#[test]
fn a_search_pays_for_each_slot_that_it_looks_at() {
    let device = with_a_file() as Arc<dyn Device>;
    priced(device, "noinline_dentry", &[(Cost::DentryScan, 1)], |fs| {
        let root = fs.root().unwrap();
        (0..5).for_each(|n| drop(create(fs, format!("name{n}"))));
        let find = |name: &str| ns(|| drop(fs.lookup(&root, name.as_bytes())));
        // `.`, `..` and `file` come before them, in slots 0 to 2.
        assert_eq!((find("name0"), find("name4")), (4, 8));
        let missing = ns(|| drop(fs.lookup(&root, b"missing").unwrap_err()));
        assert!(missing <= 214, "no more than the slots of a block: {missing}");
    });
}

#[test]
fn checksums_of_inodes_are_paid_for() {
    let took = |features: &str| {
        priced(volume(features), "", &[(Cost::Checksum, 1)], |fs| {
            let file = create(fs, "file");
            ns(|| fs.fsync(&file, false).unwrap())
        })
    };
    let with = took("extra_attr,inode_checksum");
    assert!(with >= 1, "the inode has one");
    assert_eq!(took(""), 0);
}

/// On a device that takes no time, with every price as it is. `tools/real-f2fs-cpu.sh` has the figures of the real one.
#[test]
fn a_page_takes_as_long_as_in_the_real_f2fs() {
    const PAGES: u64 = 64 << 10;
    let device = Arc::new(crate::common::mkfs(1024, &[]).fork()) as Arc<dyn Device>;
    let options = MountOptions::parse("mode=lfs,gc=f2fs-lfs,writeback=linux,cache=4G,node_cache=200M").unwrap();
    let config = SimConfig { cores: 1, ..SimConfig::default() };
    let copy = config.costs.of(Cost::PageCopy);
    let report = run(config, move || {
        let sequential = |fs: &Fs, file: &InodeRef| {
            let piece = vec![1; 1 << 20];
            (0..PAGES / 256).for_each(|at| assert_eq!(fs.write(file, at << 20, &piece).unwrap(), 1 << 20));
        };
        let fs = Fs::mount(Arc::clone(&device), options.clone()).unwrap();
        let file = create(&fs, "file");
        sequential(&fs, &file);
        fs.sync().unwrap();
        let write = ns(|| sequential(&fs, &file)) / PAGES - copy;
        let in_order = ns(|| fs.sync().unwrap()) / PAGES;
        let mut random = Rng(1);
        for _ in 0..PAGES / 2 {
            assert_eq!(fs.write(&file, random.below(PAGES) * 4096, &[2; 4096]).unwrap(), 4096);
        }
        // 1 - 1/sqrt(e) of the pages: the others were chosen twice.
        let at_random = (ns(|| fs.sync().unwrap()) as f64 / (PAGES as f64 * 0.393)) as u64;
        let collect = |fs: &Fs| {
            let mut moved = 0;
            let took = ns(|| moved = fs.gc(40, Urgency::Foreground).unwrap().data_moved);
            assert!(moved > 5000, "{moved} blocks are moved");
            took / moved
        };
        let cached = collect(&fs);
        fs.unmount().unwrap();
        let fs = Fs::mount(device, options).unwrap();
        let uncached = collect(&fs);
        fs.unmount().unwrap();
        [write, in_order, at_random, cached, uncached]
    });
    let took = report.unwrap().value;
    // The real one's code alone, without copies: a page is written, is written back in order and at random, a block
    // moves that is cached, and one that is not.
    let real = [576, 1012, 1366, 3219, 4093];
    println!("{took:?} ns, {real:?} in the real one");
    let off = |ours: u64, real: u64| (ours as f64 / real as f64 - 1.0).abs();
    assert!(took.iter().zip(&real).all(|(ours, real)| off(*ours, *real) < 0.4), "{took:?} ns");
    assert!(off(took[1] + took[2], real[1] + real[2]) < 0.1, "written back: {took:?} ns");
    assert!(off(took[3] + took[4], real[3] + real[4]) < 0.1, "moved: {took:?} ns");
}

/// As the test of pages, with an empty file for each name, in directories of 400.
#[test]
fn a_name_takes_as_long_as_in_the_real_f2fs() {
    let device = Arc::new(crate::common::mkfs(256, &[]).fork()) as Arc<dyn Device>;
    let options = MountOptions::parse("mode=lfs,gc=f2fs-lfs,writeback=linux,cache=1G,node_cache=200M").unwrap();
    let [made, looked_up, removed] = in_virtual_time(1, move || {
        let fs = Fs::mount(device, options).unwrap();
        let root = fs.root().unwrap();
        let (file, dir) = [0o100_644, 0o40_755].map(|mode| NewInode { mode, ..NewInode::default() }).into();
        let dirs: Vec<_> = (0..16).map(|n| fs.create(&root, format!("d{n}").as_bytes(), &dir).unwrap()).collect();
        let each = |work: &dyn Fn(&InodeRef, &[u8])| {
            let all = || dirs.iter().for_each(|dir| (0..400).for_each(|n| work(dir, format!("f{n:03}").as_bytes())));
            ns(all) / (16 * 400)
        };
        let made = each(&|dir, name| drop(fs.create(dir, name, &file).unwrap()));
        let looked_up = each(&|dir, name| drop(fs.lookup(dir, name).unwrap()));
        let removed = each(&|dir, name| fs.unlink(dir, name).unwrap());
        fs.unmount().unwrap();
        [made, looked_up, removed]
    });
    println!("{made}, {looked_up} and {removed} ns");
    // The real one's code. It takes 3900 for a look-up, of which 1200 are its own and the rest is a kernel's.
    let off = |ours: u64, real: u64| (ours as f64 / real as f64 - 1.0).abs();
    assert!(off(made, 10_109) < 0.1 && off(removed, 10_200) < 0.1, "{made} and {removed} ns");
    assert!((700..1800).contains(&looked_up), "{looked_up} ns");
}

#[test]
fn an_operation_on_names_pays_once_for_what_a_kernel_does() {
    let device = with_a_file() as Arc<dyn Device>;
    let took = priced(device, "", &[(Cost::NameChange, 1)], |fs| {
        let root = fs.root().unwrap();
        let dir = NewInode { mode: 0o40_755, ..NewInode::default() };
        let file = fs.lookup(&root, b"file").unwrap();
        [
            ns(|| drop(create(fs, "new"))),
            ns(|| drop(fs.create(&root, b"dir", &dir).unwrap())),
            ns(|| fs.link(&file, &root, b"link").unwrap()),
            ns(|| fs.rename(&root, b"link", &root, b"other", RenameFlags::Replace).unwrap()),
            ns(|| fs.rename(&root, b"new", &root, b"other", RenameFlags::Replace).unwrap()),
            ns(|| fs.rmdir(&root, b"dir").unwrap()),
            ns(|| fs.unlink(&root, b"other").unwrap()),
            ns(|| drop(fs.lookup(&root, b"file").unwrap())),
            ns(|| assert!(fs.unlink(&root, b"missing").is_err())),
        ]
    });
    assert_eq!(took, [1, 1, 1, 1, 1, 1, 1, 0, 0]);
}
