//! The shape of a directory's hash table: levels of buckets, buckets of two or four blocks. Format section 8.3.
//!
//! A name may live at any level below the directory's depth, in the one bucket of that level which its hash selects, in
//! any block of the bucket. All numbers here fit: 63 levels of at most 2^30 buckets have fewer than 2^38 pages.

use crate::PageIndex;

/// The largest depth of a directory.
pub const MAX_DEPTH: u8 = 63;

/// Level from which the number of buckets stays the same and buckets have four blocks.
const WIDE: u32 = 31;

/// A bucket of a directory's hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its level.
    pub level: u8,
    /// Its place in the level.
    pub number: u32,
    /// Its first page in the directory.
    pub first: PageIndex,
    /// Its pages.
    pub pages: u32,
}

/// Buckets of a level.
pub const fn buckets_at(level: u8, dir_level: u8) -> u32 {
    let log = level as u32 + dir_level as u32;
    if log < WIDE { 1 << log } else { 1 << (WIDE - 1) }
}

/// Pages in each bucket of a level.
pub const fn bucket_pages(level: u8) -> u32 {
    if (level as u32) < WIDE { 2 } else { 4 }
}

/// The bucket of a level in which names with this hash live.
pub fn bucket_of(hash: u32, level: u8, dir_level: u8) -> Bucket {
    let (number, pages) = (hash % buckets_at(level, dir_level), bucket_pages(level));
    let first = level_start(level, dir_level) + u64::from(number) * u64::from(pages);
    Bucket { level, number, first: PageIndex(first), pages }
}

/// The bucket that a page of the directory belongs to; `None` behind the last level.
pub fn bucket_of_page(page: PageIndex, dir_level: u8) -> Option<Bucket> {
    let level = (0..MAX_DEPTH).find(|&level| page.0 < level_start(level + 1, dir_level))?;
    let pages = bucket_pages(level);
    let number = (page.0 - level_start(level, dir_level)) / u64::from(pages);
    Some(bucket_of(number as u32, level, dir_level))
}

fn level_start(level: u8, dir_level: u8) -> u64 {
    (0..level).map(|l| u64::from(buckets_at(l, dir_level)) * u64::from(bucket_pages(l))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_levels_by_hand() {
        // Level 0: one bucket, pages 0 and 1; level 1: two buckets, pages 2 to 5; level 2 begins at page 6.
        assert_eq!(bucket_of(7, 0, 0).first, PageIndex(0));
        assert_eq!(bucket_of(7, 1, 0), Bucket { level: 1, number: 1, first: PageIndex(4), pages: 2 });
        assert_eq!(bucket_of(7, 2, 0).first, PageIndex(6 + 3 * 2));
        assert_eq!((buckets_at(30, 0), buckets_at(31, 0), buckets_at(62, 0)), (1 << 30, 1 << 30, 1 << 30));
        assert_eq!((bucket_pages(30), bucket_pages(31)), (2, 4));
        assert_eq!(bucket_of(9, 0, 3), Bucket { level: 0, number: 1, first: PageIndex(2), pages: 2 });
        assert_eq!(bucket_of_page(PageIndex(u64::MAX), 0), None);
    }

    proptest! {
        #[test]
        fn a_bucket_is_found_again_by_its_pages(hash: u32, level in 0u8..63, dir_level: u8, within in 0u64..2) {
            let bucket = bucket_of(hash, level, dir_level);
            let page = PageIndex(bucket.first.0 + within);
            prop_assert_eq!(bucket_of_page(page, dir_level), Some(bucket));
        }

        #[test]
        fn any_page_has_at_most_one_bucket(page: u64, dir_level: u8) {
            if let Some(bucket) = bucket_of_page(PageIndex(page), dir_level) {
                prop_assert!(bucket.first.0 <= page && page < bucket.first.0 + u64::from(bucket.pages));
            }
        }
    }
}
