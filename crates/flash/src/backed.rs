//! [`BackedSsd`]: the time of an emulated SSD, and the contents of another device.
//!
//! A request goes to both and ends when both have ended: not before the emulated device would be done, and not before
//! the contents are where they belong. So a volume in an image file behaves as on that SSD and is there the next time.
//! What the device below has lost after a crash of the machine is its own business, and flushes reach it.
//!
//! The map is not kept: a device that is opened again has written its pages in the order of their numbers.

use crate::parameters::{ParameterError, Parameters};
use crate::ssd::EmulatedSsd;
use crate::units::PAGE;
use std::sync::Arc;
use steadyfs_device::{Device, DeviceInfo, Done, IoError, IoResult, Op, PageBuf, Request};
use steadyfs_rt::Leaf;

/// Blocks that are read at a time to see which hold anything.
const SCAN: u64 = 256;

/// Why there is no such device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackedError {
    /// The parameters, or the size of the device below.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The device below cannot be read.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// See the head of the module.
pub struct BackedSsd {
    ssd: Arc<EmulatedSsd>,
    contents: Arc<dyn Device>,
}

impl BackedSsd {
    /// The time of an SSD with these parameters for `contents`, of which blocks that are not zero count as written.
    ///
    /// # Errors
    /// See [`BackedError`].
    pub fn new(parameters: impl Into<Parameters>, contents: Arc<dyn Device>) -> Result<Self, BackedError> {
        let blocks = contents.info().blocks;
        let ssd = EmulatedSsd::timing_only(parameters.into(), blocks * PAGE)?;
        let mut held = Vec::new();
        for first in (0..blocks).step_by(SCAN as usize) {
            let pages = contents.read(first, SCAN.min(blocks - first))?;
            let zero = PageBuf::zeroed();
            let written = (first..).zip(pages).filter(|(_, page)| *page != zero);
            held.extend(written.map(|(block, _)| (block, PageBuf::zeroed())));
        }
        ssd.load(held, &[]);
        Ok(BackedSsd { ssd, contents })
    }

    /// The SSD: what it has done, and its checks. It knows no contents.
    pub fn ssd(&self) -> &EmulatedSsd {
        &self.ssd
    }
}

/// A request that waits for both of its halves.
struct Both {
    halves: Leaf<Halves>,
}

#[derive(Default)]
struct Halves {
    done: Option<Done>,
    time: Option<Result<(), IoError>>,
    contents: Option<IoResult>,
}

impl Both {
    /// Enters what a half has come to; when it was the second, the request has ended.
    fn enter(&self, half: impl FnOnce(&mut Halves)) {
        let ended = self.halves.with(|halves| {
            half(halves);
            if halves.time.is_none() || halves.contents.is_none() {
                return None;
            }
            Some((halves.done.take()?, halves.time.take()?, halves.contents.take()?))
        });
        if let Some((done, time, contents)) = ended {
            done(time.and(contents));
        }
    }
}

impl Device for BackedSsd {
    fn info(&self) -> DeviceInfo {
        let below = self.contents.info();
        let name = format!("{} on {}", self.ssd.info().name, below.name);
        DeviceInfo { name, synchronous: false, prefers_fua: false, ..below }
    }

    fn submit(&self, batch: Vec<Request>) {
        let (mut times, mut contents) = (Vec::new(), Vec::new());
        let below = self.contents.info();
        for Request { op, done } in batch {
            if let Err(error) = below.check(&op) {
                done(Err(error));
                continue;
            }
            let both = Arc::new(Both { halves: Leaf::new(Halves { done: Some(done), ..Halves::default() }) });
            let other = Arc::clone(&both);
            let timed = match &op {
                Op::Write { block, pages, hint, fua } => {
                    Op::Write { block: *block, pages: vec![PageBuf::zeroed(); pages.len()], hint: *hint, fua: *fua }
                }
                op => op.clone(),
            };
            times.push(Request::new(timed, move |result| both.enter(|halves| halves.time = Some(result.map(drop)))));
            contents.push(Request::new(op, move |result| other.enter(|halves| halves.contents = Some(result))));
        }
        self.ssd.submit(times);
        self.contents.submit(contents);
    }
}
