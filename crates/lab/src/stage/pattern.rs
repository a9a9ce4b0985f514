//! Contents of files whose parts are written at any offset and length.
//!
//! Every byte follows from the file and its place in it. So a file is right however its contents came there, and any
//! part of it that is read back can be judged.
//!
//! A page that is whole is that of a seed of 16 bytes (`steadyfs_device::PageBuf`), which devices in memory recognise
//! and keep as such. What this does not tell is an older write from a newer one at the same place: both put the same
//! bytes there.

use crate::rng;
use steadyfs_core::{Fs, InodeRef};
use steadyfs_device::PageBuf;
use steadyfs_format::PageIndex;
use steadyfs_rt::{Cost, charge};

const PAGE: u64 = 4096;
/// Every so many pages one is compared in full, the others by their heads.
const SAMPLE: u64 = 64;

/// The contents of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    owner: u64,
    mark: u32,
}

impl Pattern {
    /// The contents of the file that `owner` names, in a run with this seed.
    pub(crate) fn new(owner: u64, seed: u64) -> Self {
        Pattern { owner, mark: rng::mix(seed) as u32 }
    }

    fn page(&self, page: u64) -> PageBuf {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&(page << 32 | u64::from(self.mark)).to_le_bytes());
        seed[8..].copy_from_slice(&self.owner.to_le_bytes());
        PageBuf::synthetic(seed)
    }

    fn bytes(&self, off: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let mut done = 0;
        while done < len {
            let (page, within) = ((off + done) / PAGE, (off + done) % PAGE);
            let part = (PAGE - within).min(len - done);
            self.page(page).copy_out(within as usize, &mut bytes[done as usize..(done + part) as usize]);
            done += part;
        }
        bytes
    }

    /// Writes this part of the file in one call; how many bytes found room.
    pub(crate) fn write(
        &self,
        fs: &Fs,
        file: &InodeRef,
        off: u64,
        len: u64,
        direct: bool,
    ) -> steadyfs_core::Result<u64> {
        charge(Cost::SyscallEntry);
        let first = PageIndex(off / PAGE);
        let wrote = if off.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) {
            let pages: Vec<PageBuf> = (off / PAGE..(off + len) / PAGE).map(|page| self.page(page)).collect();
            if direct { fs.write_pages_direct(file, first, &pages)? } else { fs.write_pages(file, first, &pages)? }
        } else if direct {
            fs.write_direct(file, off, &self.bytes(off, len))?
        } else {
            fs.write(file, off, &self.bytes(off, len))?
        };
        Ok(wrote as u64)
    }

    /// What is wrong with bytes that were read at this offset.
    pub(crate) fn judge(&self, off: u64, bytes: &[u8]) -> Result<(), String> {
        let mut done = 0;
        while done < bytes.len() {
            let (page, within) = ((off + done as u64) / PAGE, (off + done as u64) % PAGE);
            let part = ((PAGE - within) as usize).min(bytes.len() - done);
            let found = &bytes[done..done + part];
            let page_of = self.page(page);
            let head = within == 0 && part as u64 == PAGE && page % SAMPLE != 0;
            let same = match page_of.synthetic_seed() {
                Some(seed) if head => seed[..] == found[..16],
                _ => page_of.with(|right| right[within as usize..within as usize + part] == *found),
            };
            if !same {
                let sample = &found[..found.len().min(16)];
                return Err(format!("page {page}, byte {within} on: found {sample:02x?}, owner {}", self.owner));
            }
            done += part;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_right_at_its_place_and_nowhere_else() {
        let pattern = Pattern::new(7, 1);
        for (off, len) in [(0, 4096), (0, 1), (4095, 2), (100, 20_000), (8192, 65_536), (1 << 20, 513)] {
            let bytes = pattern.bytes(off, len);
            assert_eq!(pattern.judge(off, &bytes), Ok(()), "{off}, {len}");
            if len > 16 {
                assert!(pattern.judge(off + 1, &bytes).is_err() && pattern.judge(off + PAGE, &bytes).is_err());
                assert!(Pattern::new(8, 1).judge(off, &bytes).is_err(), "another file's");
                assert!(Pattern::new(7, 2).judge(off, &bytes).is_err(), "another run's");
            }
        }
        let mut zeroed = pattern.bytes(0, 8192);
        zeroed[4096..].fill(0);
        assert!(pattern.judge(0, &zeroed).is_err());
    }
}
