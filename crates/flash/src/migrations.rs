//! [`EmulatedSsd`] as a device that moves pages by itself: who waits for its records, and who is told when.
//!
//! A host that breaks a promise has a defect: that ends in a panic which names the promise.

use crate::ftl::Migrating;
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
    fn ask<R>(&self, ask: impl FnOnce(&mut Migrating, &mut Media, Time) -> R) -> R {
        self.records(ask).unwrap_or_else(|| unreachable!("only a device that moves pages is asked for records"))
    }

    fn peek<R>(&self, ask: impl FnOnce(&Migrating) -> R) -> R {
        self.of_records(ask).unwrap_or_else(|| unreachable!("only a device that moves pages is asked for records"))
    }

    /// The most records that were not completed at one time.
    pub fn most_records(&self) -> usize {
        self.of_records(Migrating::most_records).unwrap_or(0)
    }

    /// The next upcall, if one is there now; `None` also for a device that does not move pages.
    pub fn try_next(&self) -> Option<Upcall> {
        self.upcall().map(|(upcall, _)| upcall)
    }

    /// Records that are not completed, of a device that moves pages.
    pub fn outstanding(&self) -> usize {
        self.records(|migrating, _, _| migrating.outstanding()).unwrap_or(0)
    }

    /// Addresses of the regular and the GC area that hold a page, ascending.
    pub fn held(&self) -> Vec<u64> {
        self.records(|migrating, _, _| migrating.held()).unwrap_or_default()
    }
}

impl Migrations for EmulatedSsd {
    fn geometry(&self) -> MigrationGeometry {
        self.ask(|migrating, _, _| migrating.geometry())
    }

    fn next(&self) -> Option<Upcall> {
        loop {
            let key = self.news_of_records().listen();
            if let Some((upcall, at)) = self.upcall() {
                sleep(Duration::from_nanos(at.saturating_sub(now().as_nanos())));
                return Some(upcall);
            }
            let (closed, waiting) = self.ask(|migrating, _, _| (migrating.is_closed(), migrating.has_waiting()));
            if closed {
                return None;
            }
            if !waiting {
                self.news_of_records().wait(key);
            } else if self.news_of_records().wait_timeout(key, DEADLINE) {
                self.ask(|migrating, _, _| migrating.hurry());
            }
        }
    }

    fn complete(&self, up_to: u64) {
        self.ask(|migrating, media, now| migrating.complete(media, now, up_to))
            .unwrap_or_else(|broken| breach(&broken));
    }

    fn resume(&self, served: u64) -> u64 {
        let resumed = self.ask(|migrating, media, now| migrating.resume(media, now, served));
        self.news_of_records().notify_all();
        resumed.unwrap_or_else(|broken| breach(&broken))
    }

    fn completed(&self) -> u64 {
        self.ask(|migrating, _, _| migrating.completed())
    }

    fn deliver(&self) -> u64 {
        let last = self.ask(|migrating, _, _| migrating.deliver());
        self.news_of_records().notify_all();
        last
    }

    fn delivered(&self) -> u64 {
        self.ask(|migrating, _, _| migrating.delivered())
    }

    fn room(&self) -> u64 {
        self.peek(Migrating::room)
    }

    fn press(&self) {
        self.ask(|migrating, media, now| migrating.press(media, now));
        self.news_of_records().notify_all();
    }

    fn close(&self) {
        self.ask(|migrating, _, _| migrating.close());
        self.news_of_records().notify_all();
    }
}
