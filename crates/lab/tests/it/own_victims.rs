//! That a policy for victims takes one file: this one, which cleans the fullest sections first.

use steadyfs_core::{GcOptions, Own, Reach, SectionState, System, VictimPolicy, VictimStand};

/// The worst that there is: what has most valid blocks.
#[derive(Debug)]
struct Fullest;

static FULLEST: Fullest = Fullest;

impl VictimPolicy for Fullest {
    fn cost(&self, section: &SectionState) -> u64 {
        assert!(section.urgent && section.valid > 0 && section.valid < section.blocks, "{section:?}");
        section.blocks - section.valid
    }
}

/// Valid blocks of the victims of one collector, in their order.
fn victims(options: &GcOptions) -> Vec<u64> {
    const SEGMENTS: u32 = 64;
    let stand = VictimStand::new(SEGMENTS, options, Reach::of(SEGMENTS as usize), 1);
    (0..10).for_each(|segment| stand.fill(segment, 10 + 37 * (segment * 7 % 10)));
    (0..10).map(|_| u64::from(stand.take(0).unwrap().valid)).collect()
}

#[test]
fn a_victim_policy_takes_one_file() {
    for system in [System::F2fsLfs, System::ScaleLfs] {
        let usual = GcOptions::of(system);
        let own = GcOptions { victims_by: Some(Own(&FULLEST)), ..usual };
        let (usual, own) = (victims(&usual), victims(&own));
        assert!(usual.is_sorted() && usual[0] < usual[9], "greedy: {usual:?}");
        assert!(own.iter().rev().is_sorted() && own[0] == usual[9], "{own:?}");
    }
}
