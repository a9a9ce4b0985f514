//! [`EmulatedSsd`]: the device that others see, in front of an [`Engine`].
//!
//! Holds the engine's lock for the time of a call, and never while something of a caller runs. In virtual time a completion is one event of the
//! scheduler; no thread runs. In real time a timer thread sleeps until completions are due.

use crate::buffer::Buffer;
use crate::checks::Report;
use crate::engine::{Ended, Engine, Outcome};
use crate::events::Events;
use crate::ftl::{Media, PageMap};
use crate::nand::Nand;
use crate::parameters::{ParameterError, Parameters};
use crate::stats::Stats;
use crate::units::{PAGE, Time};
use std::sync::Arc;
use steadyfs_device::{Device, DeviceInfo, Request};
use steadyfs_rt::{Leaf, now};

/// An SSD in memory that takes the time of a real one. See the head of the crate.
pub struct EmulatedSsd {
    shared: Arc<Shared>,
}

struct Shared {
    info: DeviceInfo,
    engine: Leaf<Engine>,
    events: Events,
}

impl EmulatedSsd {
    /// An empty SSD of `capacity` bytes with a page-mapping translation layer.
    ///
    /// The flash has the over-provisioning that the policy asks for, and at least the lines without which collection cannot work: on a
    /// device of few lines that is more. See [`Parameters::with_smaller_blocks`].
    ///
    /// # Errors
    /// Parameters or a capacity that cannot be.
    pub fn new(parameters: impl Into<Parameters>, capacity: u64) -> Result<Arc<Self>, ParameterError> {
        let parameters = parameters.into();
        parameters.validate()?;
        let pages = capacity / PAGE;
        let lines = PageMap::lines_for(&parameters.geometry, &parameters.policy, pages);
        let flash = lines.saturating_mul(u64::from(parameters.geometry.line_pages()));
        if !capacity.is_multiple_of(PAGE) || pages == 0 || flash >= u64::from(u32::MAX) {
            return Err(ParameterError::Capacity(capacity));
        }
        let lines = lines as u32; // fits: all its pages do
        let ftl = PageMap::new(parameters.geometry, parameters.policy, pages, 0, lines);
        let media = Media {
            nand: Nand::new(parameters.geometry, parameters.timing, lines),
            buffer: Buffer::new(parameters.buffer_bytes / PAGE),
        };
        let info = DeviceInfo {
            blocks: pages,
            read_only: false,
            discard: true,
            synchronous: false,
            name: format!("emulated {}", parameters.name),
        };
        let engine = Leaf::new(Engine::new(parameters, media, Box::new(ftl), pages));
        Ok(Arc::new(EmulatedSsd { shared: Arc::new(Shared { info, engine, events: Events::new() }) }))
    }

    /// What the device has done so far.
    pub fn stats(&self) -> Stats {
        self.shared.engine.with(|engine| engine.stats())
    }

    /// Looks at every rule that the emulator must keep. Takes time in proportion to the flash.
    pub fn check(&self) -> Report {
        Report { found: self.shared.engine.with(Engine::check) }
    }
}

impl Shared {
    fn carry_out(self: &Arc<Self>, Outcome { ended, wake }: Outcome) {
        if let Some(at) = wake {
            let shared = Arc::clone(self);
            self.events.at(at, Box::new(move || shared.wake(at)));
        }
        for Ended { at, done, result } in ended {
            let shared = Arc::clone(self);
            self.events.at(
                at,
                Box::new(move || {
                    let outcome = shared.engine.with(|engine| engine.answered(now().as_nanos()));
                    shared.carry_out(outcome);
                    done(result);
                }),
            );
        }
    }

    fn wake(self: &Arc<Self>, at: Time) {
        let outcome = self.engine.with(|engine| engine.wake(now().as_nanos(), at));
        self.carry_out(outcome);
    }
}

impl Device for EmulatedSsd {
    fn info(&self) -> DeviceInfo {
        self.shared.info.clone()
    }

    fn submit(&self, batch: Vec<Request>) {
        let mut refused = Vec::new();
        let accepted = batch.into_iter().filter_map(|request| match self.shared.info.check(&request.op) {
            Ok(()) => Some(request),
            Err(error) => {
                refused.push((request.done, error));
                None
            }
        });
        let outcome = self.shared.engine.with(|engine| engine.submit(now().as_nanos(), accepted));
        self.shared.carry_out(outcome);
        for (done, error) in refused {
            done(Err(error));
        }
    }
}
