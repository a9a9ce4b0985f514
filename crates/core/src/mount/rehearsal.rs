//! What a mount for writing would refuse, found out on an overlay in memory. The device is only read.

use super::steps::Steps;
use super::{assemble, check_features, check_state, migrating, recover};
use crate::error::{Error, Result};
use crate::options::MountOptions;
use crate::raw::Image;
use std::sync::Arc;
use steadyfs_device::{Device, OverlayDevice};

/// Does all that a mount for writing does before it serves anybody, recovery and checkpoint included. Takes memory for
/// what that writes.
///
/// # Errors
/// Damage. That this version does not change such a volume, or not on such a device, is none; nor is an error of the
/// device, which the caller has met already.
pub(crate) fn rehearse(image: &Image) -> Result<()> {
    match try_out(image) {
        Err(error) if matches!(error.cause(), Error::Unsupported(_) | Error::Io(_)) => Ok(()),
        tried => tried,
    }
}

fn try_out(image: &Image) -> Result<()> {
    check_features(image.superblock().features(), false)?;
    check_state(image, false)?;
    if image.device().migrations().is_some() {
        migrating::check_device(image)?;
    }
    let overlay: Arc<dyn Device> = Arc::new(OverlayDevice::new(Arc::clone(image.device())));
    let below = Image::open(overlay)?;
    let options = MountOptions { background_gc: false, ..MountOptions::default() };
    let mut steps = Steps::default();
    let fs = assemble(&mut steps, &below, &below, options, false)?;
    recover(&fs, &mut steps, &below, &below).map(drop)
}
