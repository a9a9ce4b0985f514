//! The lists of file name extensions that make a file cold (media) or hot.

use super::{EXTENSION_LEN, MAX_EXTENSIONS, RawSuperBlock, SuperBlock};
use crate::error::FormatError;

impl SuperBlock {
    /// Extensions of files whose data is cold.
    pub fn cold_extensions(&self) -> Vec<String> {
        self.raw().extensions().0
    }

    /// Extensions of files whose data is hot.
    pub fn hot_extensions(&self) -> Vec<String> {
        self.raw().extensions().1
    }
}

impl RawSuperBlock {
    /// The cold and the hot extensions, in their order. Counts beyond the list are cut at its end.
    pub fn extensions(&self) -> (Vec<String>, Vec<String>) {
        let cold = (self.extension_count.get() as usize).min(MAX_EXTENSIONS);
        let hot = usize::from(self.hot_ext_count).min(MAX_EXTENSIONS - cold);
        let names = |list: &[[u8; EXTENSION_LEN]]| list.iter().map(|name| super::text(name)).collect();
        (names(&self.extension_list[..cold]), names(&self.extension_list[cold..cold + hot]))
    }

    /// Stores both lists.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] for more than 64 extensions together; [`FormatError::Length`] for an extension that is
    /// empty or longer than 7 bytes.
    pub fn set_extensions(&mut self, cold: &[&str], hot: &[&str]) -> Result<(), FormatError> {
        let count = cold.len() + hot.len();
        if count > MAX_EXTENSIONS {
            return Err(FormatError::NoRoom { structure: "extension list", need: count, free: MAX_EXTENSIONS });
        }
        let mut list = [[0; EXTENSION_LEN]; MAX_EXTENSIONS];
        for (slot, name) in list.iter_mut().zip(cold.iter().chain(hot)) {
            if name.is_empty() || name.len() >= EXTENSION_LEN {
                return Err(FormatError::Length {
                    what: "extension",
                    length: name.len(),
                    min: 1,
                    max: EXTENSION_LEN - 1,
                });
            }
            slot[..name.len()].copy_from_slice(name.as_bytes());
        }
        self.extension_list = list;
        self.extension_count = (cold.len() as u32).into();
        self.hot_ext_count = hot.len() as u8;
        Ok(())
    }
}
