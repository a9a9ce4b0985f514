//! [`Link`]: the way between host and device, in both directions, or in one at a time.

use crate::parameters::{Duplex, Interface};
use crate::servers::Server;
use crate::units::{Bandwidth, Time};

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    Device,
    Host,
}

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct Link {
    rate: Bandwidth,
    duplex: Duplex,
    /// Towards the device; half duplex, for both ways. And towards the host.
    servers: (Server, Server),
    /// Nanoseconds towards the device, and towards the host.
    busy: (u64, u64),
}

impl Link {
    pub(crate) fn new(interface: &Interface) -> Self {
        let servers = (Server::default(), Server::default());
        Link { rate: interface.link, duplex: interface.duplex, servers, busy: (0, 0) }
    }

    /// Books the way for `bytes` bytes. Returns when they are there.
    pub(crate) fn book(&mut self, now: Time, earliest: Time, towards: Towards, bytes: u64) -> Time {
        let duration = self.rate.nanos(bytes);
        let server = match (self.duplex, towards) {
            (Duplex::Full, Towards::Host) => &mut self.servers.1,
            (Duplex::Half, _) | (Duplex::Full, Towards::Device) => &mut self.servers.0,
        };
        match towards {
            Towards::Device => self.busy.0 += duration,
            Towards::Host => self.busy.1 += duration,
        }
        server.book(now, earliest, duration).1
    }

    /// Nanoseconds booked so far towards the device and towards the host, also ahead.
    pub(crate) fn busy(&self) -> (u64, u64) {
        self.busy
    }

    /// Whether what the servers are booked for is what has crossed.
    pub(crate) fn adds_up(&self) -> bool {
        self.busy.0 + self.busy.1 == self.servers.0.busy() + self.servers.1.busy()
    }

    /// Forgets all bookings: time starts again.
    pub(crate) fn restart(&mut self) {
        self.servers.0.restart();
        self.servers.1.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn link(duplex: Duplex) -> Link {
        let interface = Preset::Pm9a3.parameters().interface;
        Link::new(&Interface { link: Bandwidth::mb_per_second(1), duplex, ..interface })
    }

    #[test]
    fn one_way_or_both_at_a_time() {
        let mut both = link(Duplex::Full);
        assert_eq!(both.book(0, 0, Towards::Device, 10), 10_000);
        assert_eq!(both.book(0, 0, Towards::Host, 20), 20_000);
        let mut one = link(Duplex::Half);
        assert_eq!(one.book(0, 0, Towards::Device, 10), 10_000);
        assert_eq!(one.book(0, 0, Towards::Host, 20), 30_000);
        assert_eq!(one.book(0, 50_000, Towards::Host, 5), 55_000);
        assert_eq!(one.book(0, 0, Towards::Device, 5), 35_000, "between two that are booked");
        assert_eq!((both.busy(), one.busy()), ((10_000, 20_000), (15_000, 25_000)));
        assert!(both.adds_up() && one.adds_up());
    }
}
