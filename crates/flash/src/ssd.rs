//! [`EmulatedSsd`]: the device that others see, in front of an [`Engine`].
//!
//! Holds the engine's lock for the time of a call, and never while something of a caller runs. In virtual time a completion is one event of the
//! scheduler; no thread runs. In real time a timer thread sleeps until completions are due.

use crate::checks::Report;
use crate::engine::{Ended, Engine, Outcome};
use crate::events::Events;
use crate::ftl::PageMap;
use crate::media::Media;
use crate::parameters::{ParameterError, Parameters};
use crate::stats::Stats;
use crate::units::{PAGE, Time};
use std::sync::Arc;
use steadyfs_device::{Device, DeviceInfo, Request};
use steadyfs_rt::{Leaf, now};

/// An SSD in memory that takes the time of a real one. See the head of the crate.
pub struct EmulatedSsd {
    parameters: Parameters,
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
        let ftl = PageMap::new(&parameters, pages, 0, lines);
        let media = Media::new(&parameters, lines, pages);
        let info = DeviceInfo {
            blocks: pages,
            read_only: false,
            discard: true,
            synchronous: false,
            name: format!("emulated {}", parameters.name),
        };
        let engine = Leaf::new(Engine::new(parameters.clone(), media, Box::new(ftl), pages));
        Ok(Arc::new(EmulatedSsd { parameters, shared: Arc::new(Shared { info, engine, events: Events::new() }) }))
    }

    /// The device as it would be found if the power failed now: another one, with what was promised and any part of the rest, chosen
    /// by `seed`. This one goes on undisturbed. The map is built anew, and counts what it holds as written.
    ///
    /// `None` if the flash's contents are not known: see [`Parameters::remember_cells`]. With capacitors everything accepted survives.
    pub fn after_power_cut(&self, seed: u64) -> Option<Arc<Self>> {
        let mut random = seed;
        let chance = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 63 == 0
        };
        let survivors = self.shared.engine.with(|engine| engine.survivors(now().as_nanos(), chance))?;
        let capacity = self.shared.info.blocks * PAGE;
        let found = EmulatedSsd::new(self.parameters.clone(), capacity).unwrap_or_else(|e| unreachable!("{e}"));
        let held = survivors.into_iter().filter(|(_, contents)| !contents.is_zero_repr());
        found.shared.engine.with(|engine| engine.load(held));
        Some(found)
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
