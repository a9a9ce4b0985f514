//! `--device emu:PRESET`: an image whose requests take the time of an SSD.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use steadyfs_device::Device;
use steadyfs_flash::{BackedSsd, Preset};

use crate::failure::Failure;
use crate::size::Size;

/// What stands after `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulated {
    preset: Preset,
    /// Size of an image that is made if there is none.
    pub(crate) size: Option<Size>,
}

impl FromStr for Emulated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let name = parts.next().and_then(|kind| kind.strip_prefix("emu:"));
        let name = name.ok_or("it is emu:PRESET or emu:PRESET,size=SIZE")?;
        let preset = name.parse().map_err(|e: steadyfs_flash::ParameterError| e.to_string())?;
        let mut size = None;
        for part in parts {
            let value = part.strip_prefix("size=").ok_or_else(|| format!("`{part}` is not known; there is size="))?;
            size = Some(value.parse()?);
        }
        Ok(Emulated { preset, size })
    }
}

impl fmt::Display for Emulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "emu:{}", self.preset.name())
    }
}

impl Emulated {
    /// The SSD with the contents of `image`.
    pub(crate) fn over(self, image: Arc<dyn Device>) -> Result<Arc<dyn Device>, Failure> {
        let info = image.info();
        let parameters = self.preset.parameters().for_capacity(info.blocks * steadyfs_device::BLOCK_SIZE as u64);
        let ssd = BackedSsd::new(parameters, image).map_err(|e| {
            Failure::new(format!("cannot emulate {self} over {}", info.name), e, "see `steadyfs help mount`")
        })?;
        Ok(Arc::new(ssd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_understood_or_refused_in_words() {
        let kind: Emulated = "emu:970pro,size=8G".parse().unwrap();
        assert_eq!((kind.to_string().as_str(), kind.size), ("emu:970pro", Some(Size(8 << 30))));
        assert_eq!("emu:slow-emmc".parse::<Emulated>().unwrap().size, None);
        for (text, why) in [
            ("970pro", "emu:PRESET"),
            ("emu:floppy", "pm9a3"),
            ("emu:pm9a3,colour=red", "colour=red"),
            ("emu:pm9a3,size=big", "a size is"),
        ] {
            let error = text.parse::<Emulated>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
