//! Windows: parts of the measured phase, by amount, that have figures of their own.

use super::Size;
use serde::{Deserialize, Serialize};

/// What an amount counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Span {
    /// Bytes that the file system wrote to the device.
    #[default]
    Device,
    /// Bytes that the jobs wrote.
    Jobs,
}

/// A part of the measured phase, from one amount to another. Both become smaller with the scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// What its figures begin with: `NAME_kiops`, `NAME_waf`, `NAME_flash_waf`.
    pub name: String,
    /// What the amounts count.
    #[serde(default)]
    pub of: Span,
    /// Where it begins.
    pub(crate) from: Size,
    /// Where it ends.
    pub(crate) to: Size,
}

impl Window {
    /// The same, smaller.
    pub(super) fn scaled(self, factor: f64) -> Self {
        let part = |size: Size| if size.bytes() == 0 { size } else { size.times(factor, 4096) };
        Window { from: part(self.from), to: part(self.to), ..self }
    }
}

/// Refuses windows that hold nothing, and those of one name.
pub(super) fn check(windows: &[Window]) -> Result<(), String> {
    for (at, window) in windows.iter().enumerate() {
        let name = &window.name;
        if name.is_empty() || windows[..at].iter().any(|other| other.name == *name) {
            return Err(format!("window: '{name}' is empty, or the name of two"));
        }
        if window.from >= window.to {
            return Err(format!("window {name}: it ends before it begins"));
        }
    }
    Ok(())
}
