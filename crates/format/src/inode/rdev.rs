//! Device numbers of character and block special files, kept in the first two address slots.

use super::{Inode, InodeShape};
use crate::error::FormatError;

/// The device that a special file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DeviceNumber {
    /// Which driver; below 2^12.
    pub major: u32,
    /// Which of its devices; below 2^20.
    pub minor: u32,
}

impl Inode {
    /// The device of a special file.
    pub fn device_number(&self, shape: InodeShape) -> DeviceNumber {
        // Addresses of 8 bytes hold the same number: its upper half is zero.
        let [old, new] = [0, 1].map(|slot| self.raw_slot(shape, slot) as u32);
        if old != 0 {
            return DeviceNumber { major: old >> 8 & 0xFF, minor: old & 0xFF };
        }
        DeviceNumber { major: new >> 8 & 0xFFF, minor: new & 0xFF | new >> 12 & 0xF_FF00 }
    }

    /// Changes the device of a special file.
    ///
    /// # Errors
    /// If a number is larger than Linux knows.
    pub fn set_device_number(&mut self, shape: InodeShape, device: DeviceNumber) -> Result<(), FormatError> {
        let DeviceNumber { major, minor } = device;
        if major >= 1 << 12 || minor >= 1 << 20 {
            return Err(FormatError::Refused(format!("device number {major}:{minor} is too large")));
        }
        let (old, new) = if major < 256 && minor < 256 {
            (major << 8 | minor, 0)
        } else {
            (0, minor & 0xFF | major << 8 | (minor & !0xFF) << 12)
        };
        self.set_raw_slot(shape, 0, old.into());
        self.set_raw_slot(shape, 1, new.into());
        Ok(())
    }
}
