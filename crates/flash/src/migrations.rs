//! [`EmulatedSsd`] as a device that moves pages by itself: who waits for its records, and who is told when.
//!
//! A host that breaks a promise has a defect: that ends in a panic which names the promise.

use crate::ftl::Coupled;
use crate::media::Media;
use crate::ssd::EmulatedSsd;
use crate::units::Time;
use std::time::Duration;
use steadyfs_device::{Broken, MigrationGeometry, Migrations, Upcall};
use steadyfs_rt::{now, sleep};

/// After so long a device delivers what waits, also if it does not fill an upcall (estimate).
const DEADLINE: Duration = Duration::from_millis(50);

fn breach(broken: &Broken) -> ! {
    panic!("the host broke its promises to a device that moves pages: {broken}")
}

impl EmulatedSsd {
    fn ask<R>(&self, ask: impl FnOnce(&mut Coupled, &mut Media, Time) -> R) -> R {
        self.records(ask).unwrap_or_else(|| unreachable!("only a device that moves pages is asked for records"))
    }

    fn peek<R>(&self, ask: impl FnOnce(&Coupled) -> R) -> R {
        self.of_records(ask).unwrap_or_else(|| unreachable!("only a device that moves pages is asked for records"))
    }

    /// The most records that were not completed at one time.
    pub fn most_records(&self) -> usize {
        self.of_records(Coupled::most_records).unwrap_or(0)
    }

    /// The next upcall, if one is there now; `None` also for a device that does not move pages.
    pub fn try_next(&self) -> Option<Upcall> {
        self.upcall().map(|(upcall, _)| upcall)
    }

    /// Records that are not completed, of a device that moves pages.
    pub fn outstanding(&self) -> usize {
        self.records(|coupled, _, _| coupled.outstanding()).unwrap_or(0)
    }

    /// Addresses of the regular and the GC area that hold a page, ascending.
    pub fn held(&self) -> Vec<u64> {
        self.records(|coupled, _, _| coupled.held()).unwrap_or_default()
    }
}

impl Migrations for EmulatedSsd {
    fn geometry(&self) -> MigrationGeometry {
        self.ask(|coupled, _, _| coupled.geometry())
    }

    fn next(&self) -> Option<Upcall> {
        loop {
            let key = self.news_of_records().listen();
            if let Some((upcall, at)) = self.upcall() {
                sleep(Duration::from_nanos(at.saturating_sub(now().as_nanos())));
                return Some(upcall);
            }
            let (closed, waiting) = self.ask(|coupled, _, _| (coupled.is_closed(), coupled.has_waiting()));
            if closed {
                return None;
            }
            if !waiting {
                self.news_of_records().wait(key);
            } else if self.news_of_records().wait_timeout(key, DEADLINE) {
                self.ask(|coupled, _, _| coupled.hurry());
            }
        }
    }

    fn complete(&self, up_to: u64) {
        self.ask(|coupled, media, now| coupled.complete(media, now, up_to)).unwrap_or_else(|broken| breach(&broken));
    }

    fn resume(&self, served: u64) -> u64 {
        let resumed = self.ask(|coupled, media, now| coupled.resume(media, now, served));
        self.news_of_records().notify_all();
        resumed.unwrap_or_else(|broken| breach(&broken))
    }

    fn completed(&self) -> u64 {
        self.ask(|coupled, _, _| coupled.completed())
    }

    fn deliver(&self) -> u64 {
        let last = self.ask(|coupled, _, _| coupled.deliver());
        self.news_of_records().notify_all();
        last
    }

    fn delivered(&self) -> u64 {
        self.ask(|coupled, _, _| coupled.delivered())
    }

    fn room(&self) -> u64 {
        self.peek(Coupled::room)
    }

    fn press(&self) {
        self.ask(|coupled, media, now| coupled.press(media, now));
        self.news_of_records().notify_all();
    }

    fn close(&self) {
        self.ask(|coupled, _, _| coupled.close());
        self.news_of_records().notify_all();
    }
}
