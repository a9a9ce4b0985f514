//! Linux agrees on what a crash left: what it recovers of a volume that it wrote, we recover, and it goes on with what
//! we made of it.

use super::{Continued, LIMIT, OPTIONS, all_agree_at_last, fields, mend_quota, our_manifest};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steadyfs_core::raw::Image;
use steadyfs_device::{Device, FileDevice, OpenOptions, PageBuf};
use steadyfs_testkit::corpus::Workload;
use steadyfs_testkit::images::{self, Recipe};
use steadyfs_testkit::manifest::Fields;
use steadyfs_testkit::{TempImage, XorShift, fsck_f2fs, linux_manifests};

/// Recovery makes names again, at its own time.
fn recovered_fields() -> Fields {
    Fields { dir_times: false, ..fields() }
}

/// Where files were cut and attributes removed Linux leaves blocks that nobody sees.
fn fields_of(recipe: &Recipe) -> Fields {
    Fields { blocks: recipe.workload != Workload::FsyncShapes, ..recovered_fields() }
}

fn recover(recipe: &Recipe) -> Continued {
    let image = recipe.image().unwrap_or_else(|e| panic!("{}: {e}", recipe.name));
    let copy = image.copy().unwrap();
    let path = copy.path();
    // First what a reader sees.
    let seen = our_manifest(&path, "ro");
    let diff = image.manifest.diff(&seen, &fields_of(recipe));
    assert!(diff.is_empty(), "{}: Linux recovers something else: {diff}", recipe.name);
    let ours = our_manifest(&path, "");
    let diff = image.manifest.diff(&ours, &fields_of(recipe));
    assert!(diff.is_empty(), "{}: Linux recovers something else: {diff}", recipe.name);
    mend_quota(&path);
    Continued { recipe: recipe.name, image: copy, tree: Some(ours) }
}

#[test]
fn a_crashed_volume_of_linux_is_recovered_as_linux_does() {
    all_agree_at_last(&images::try_each(&images::crashed(), recover));
}

/// The nodes of the volume's chain with which another file's turn comes.
fn turns(path: &Path) -> Vec<u64> {
    let dev = FileDevice::open(path, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let image = Image::open(Arc::new(dev)).unwrap();
    let nodes: Vec<_> = image.fsync_chain().map(|node| node.unwrap()).map(|n| (n.lba.get(), n.footer.ino())).collect();
    nodes.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0).collect()
}

/// Overwrites a node, as if it had not been written.
fn destroy(path: &Path, lba: u64) {
    let dev = FileDevice::open(path, OpenOptions::default()).unwrap();
    dev.write(lba, vec![PageBuf::zeroed()]).unwrap();
    dev.flush().unwrap();
}

/// A crash may leave any beginning of a chain. Linux and we recover the same of it, if it ends between two files; in
/// the midst of one Linux makes whatever it comes to.
#[test]
fn every_beginning_of_a_chain_is_recovered_as_linux_does() {
    let names = ["fsync-chain", "fsync-chain-strict", "fsync-checkpoint", "fsync-shapes"];
    let chains: Vec<(&str, u64)> = names.into_iter().zip(0x5EED_0004..).collect();
    images::side_by_side(&chains, |(name, _)| (*name).to_owned(), |(name, seed)| beginnings(name, *seed));
}

fn beginnings(name: &str, seed: u64) {
    let mut random = XorShift(seed);
    let recipe = images::recipe(name).unwrap();
    let image = recipe.image().unwrap();
    let nodes = turns(&image.path);
    assert!(!nodes.is_empty());
    let mut places = vec![0];
    places.extend((1..nodes.len().min(4)).map(|_| random.bits() as usize % nodes.len()));
    let cut = |place: &usize| {
        let copy = image.copy().unwrap();
        destroy(&copy.path(), nodes[*place]);
        copy
    };
    let linux: Vec<TempImage> = places.iter().map(cut).collect();
    let paths: Vec<PathBuf> = linux.iter().map(TempImage::path).collect();
    let expected = linux_manifests(&paths, recipe.mount, &OPTIONS, LIMIT).unwrap();
    for (place, expected) in places.iter().zip(expected) {
        let ours = cut(place);
        let diff = expected.diff(&our_manifest(&ours.path(), ""), &fields_of(&recipe));
        assert!(diff.is_empty(), "{name}, without turn {place} of {}: {diff}", nodes.len());
        fsck_f2fs(ours.path()).unwrap();
    }
}
