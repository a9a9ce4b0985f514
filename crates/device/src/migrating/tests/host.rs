//! A host of 40 keys: a log of pages in the regular area, a map from keys to addresses, and checkpoints of it in two
//! blocks of the metadata area by turns. What is no checkpoint is lost in a power cut. The emulated SSD's tests use it,
//! too.

use super::device::{BLOCK_SIZE, Device, MigrationGeometry, Migrations, Move, Op, PageBuf, StreamHint, Upcall};
use std::collections::{BTreeMap, BTreeSet};

const KEYS: u64 = 40;

/// A device that is tried.
pub(super) trait Tried: Device + Migrations {
    /// The next upcall, if one is there now.
    fn try_next(&self) -> Option<Upcall>;
    /// Records that are not completed.
    fn outstanding(&self) -> usize;
    /// The present moment: what a cut at it leaves is durable.
    fn tick(&self) -> u64;
}

/// A promise that a host breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Completes when the checkpoint has been written, before it is durable.
    CompleteEarly,
    /// Discards the old address of a page that it follows.
    DiscardMoved,
    /// Discards where a record leads that came again and is not applied, although the page has moved on.
    DiscardAgain,
    /// Passes over a record.
    SkipRecord,
    /// Does not discard a page that was dead when it heard of its move.
    ForgetStale,
    /// Writes a zone anew before the records that name it are completed.
    ReuseEarly,
    /// Discards before the checkpoint that no longer needs the page is durable.
    DiscardEarly,
    /// Follows a record although the key has gone elsewhere.
    TrustRecord,
}

impl Fault {
    pub(super) const ALL: [Fault; 8] = [
        Fault::CompleteEarly,
        Fault::DiscardMoved,
        Fault::DiscardAgain,
        Fault::SkipRecord,
        Fault::ForgetStale,
        Fault::ReuseEarly,
        Fault::DiscardEarly,
        Fault::TrustRecord,
    ];
}

/// A small generator of numbers.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        mixed ^ (mixed >> 33)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// What a checkpoint holds, in memory and, one number of 8 bytes after the other, on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pack {
    version: u64,
    served: u64,
    /// For each key address and version of its contents; no address for a key that was never written.
    keys: BTreeMap<u64, (u64, u64)>,
}

impl Pack {
    fn encode(&self) -> PageBuf {
        let mut words = vec![self.version, self.served, self.keys.len() as u64];
        self.keys.iter().for_each(|(key, (at, version))| words.extend([*key, *at, *version]));
        words.push(sum(&words));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        PageBuf::from_slice(&bytes)
    }

    fn decode(page: &PageBuf) -> Option<Pack> {
        let page = page.to_array();
        let word = |at: usize| u64::from_le_bytes(page[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        let count = usize::try_from(word(2)).ok().filter(|count| *count <= KEYS as usize)?;
        let words: Vec<u64> = (0..3 + 3 * count).map(word).collect();
        let keys = words[3..].chunks(3).map(|entry| (entry[0], (entry[1], entry[2]))).collect();
        (sum(&words) == word(words.len())).then_some(Pack { version: words[0], served: words[1], keys })
    }
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x5DF5, |sum: u64, word| (sum.rotate_left(7) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn contents(key: u64, version: u64) -> PageBuf {
    let mut page = [version as u8; BLOCK_SIZE];
    page[..8].copy_from_slice(&key.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    PageBuf::from_slice(&page)
}

/// The versions of keys that a checkpoint promises, and the tick from which it does.
pub(super) type Promise = (u64, BTreeMap<u64, u64>);

pub(super) struct Host {
    geometry: MigrationGeometry,
    fault: Option<Fault>,
    now: Pack,
    /// What died since the last checkpoint, to be discarded behind the next.
    dead: BTreeSet<u64>,
    /// Next block of the zone that it writes, and this zone.
    next: Option<u64>,
    open: Option<u64>,
    /// Zones that may be written.
    free: BTreeSet<u64>,
    promises: Vec<Promise>,
    pub(super) served_now: u64,
    pub(super) stale: u64,
    pub(super) again: u64,
    /// It listens to the device seldom, so that records wait for long.
    pub(super) is_slow: bool,
}

impl Host {
    pub(super) fn format(device: &dyn Tried, fault: Option<Fault>) -> Host {
        let mut host = Host::of(device, fault, Pack::default());
        assert_eq!(device.resume(0), 0);
        host.free = host.zones().collect();
        host.checkpoint(device, &[]);
        host
    }

    fn of(device: &dyn Tried, fault: Option<Fault>, now: Pack) -> Host {
        let geometry = device.geometry();
        Host {
            geometry,
            fault,
            now,
            dead: BTreeSet::new(),
            next: None,
            open: None,
            free: BTreeSet::new(),
            promises: Vec::new(),
            served_now: 0,
            stale: 0,
            again: 0,
            is_slow: false,
        }
    }

    /// After a power cut. Serves what is outstanding, commits, discards all that nothing leads to, and completes; then
    /// looks whether all that was promised is there.
    pub(super) fn recover(device: &dyn Tried, fault: Option<Fault>, promised: &Promise) -> Host {
        let packs = [0, 1].map(|block| Pack::decode(&device.read_one(block).expect("in range")));
        let newest = packs.into_iter().flatten().max_by_key(|pack| pack.version).expect("a checkpoint is there");
        let mut host = Host::of(device, fault, newest);
        for (key, version) in &promised.1 {
            let found = host.now.keys.get(key).map_or(0, |(_, version)| *version);
            assert!(found >= *version, "key {key}: version {version} was promised, {found} is there");
        }
        host.compare(device);
        let last = device.resume(host.now.served);
        let mut heard = Vec::new();
        while let Some(upcall) = device.try_next() {
            host.serve(upcall.first, &upcall.moves);
            heard.extend(upcall.moves);
        }
        assert!(host.now.served >= last, "{} of {last} records were delivered again", host.now.served);
        host.checkpoint(device, &heard);
        host.compare(device);
        host
    }

    fn zones(&self) -> impl Iterator<Item = u64> + use<> {
        self.geometry.regular.clone().step_by(self.geometry.zone as usize)
    }

    /// How many pages it needs.
    pub(super) fn needs(&self) -> usize {
        self.now.keys.len()
    }

    pub(super) fn first_promise(&self) -> u64 {
        self.promises[0].0
    }

    pub(super) fn promised_at(&self, tick: u64) -> Promise {
        self.promises.iter().rev().find(|(at, _)| *at <= tick).expect("one is old enough").clone()
    }

    /// One operation.
    pub(super) fn act(&mut self, device: &dyn Tried, rng: &mut Rng) {
        match rng.below(16) {
            1..7 if self.is_slow && rng.below(8) > 0 => self.put(device, rng.below(KEYS)),
            0 => {
                self.checkpoint(device, &[]);
                self.compare(device);
            }
            1..4 => {
                while let Some(upcall) = device.try_next() {
                    self.serve(upcall.first, &upcall.moves);
                    if rng.below(3) == 0 {
                        break;
                    }
                }
            }
            4 => self.look(device, rng.below(KEYS)),
            5 => device.press(),
            6 => device.flush().expect("in memory"),
            _ => self.put(device, rng.below(KEYS)),
        }
    }

    /// Writes a key anew.
    fn put(&mut self, device: &dyn Tried, key: u64) {
        let Some(at) = self.place(device) else { return };
        let (old, version) = self.now.keys.get(&key).map_or((None, 0), |(at, version)| (Some(*at), *version));
        device.write(at, vec![contents(key, version + 1)]).expect("in range");
        self.now.keys.insert(key, (at, version + 1));
        self.dead.extend(old);
    }

    /// The next block of its log; none if the device is full.
    fn place(&mut self, device: &dyn Tried) -> Option<u64> {
        let taken = (self.needs() + self.dead.len()) as u64;
        if self.next.is_none() && self.free.is_empty() || taken + 1 >= self.geometry.capacity {
            self.settle(device);
        }
        let at = match self.next {
            Some(next) => next,
            None => self.free.pop_first()?,
        };
        let zone = self.geometry.zone;
        self.next = Some(at + 1).filter(|next| !next.is_multiple_of(zone));
        self.open = self.next.map(|next| self.geometry.zone_of(next));
        Some(at)
    }

    /// The rule of three: the key is where the record comes from, and follows; or it is where the record leads, which
    /// was served before; or it is elsewhere, and the page is dead.
    fn serve(&mut self, first: u64, moves: &[Move]) {
        for (number, record) in (first..).zip(moves) {
            self.now.served = self.now.served.max(number);
            self.served_now += 1;
            if self.fault == Some(Fault::SkipRecord) && number % 5 == 0 {
                continue;
            }
            let trusting = self.fault == Some(Fault::TrustRecord);
            let followed = self.now.keys.values_mut().find(|(at, _)| *at == record.from);
            if let Some((at, _)) = followed {
                *at = record.to;
                if self.fault == Some(Fault::DiscardMoved) {
                    self.dead.insert(record.from);
                }
            } else if self.now.keys.values().any(|(at, _)| *at == record.to) {
                self.again += 1;
            } else {
                self.stale += 1;
                if trusting && let Some((at, _)) = self.now.keys.values_mut().next() {
                    *at = record.to;
                }
                if self.fault != Some(Fault::ForgetStale) {
                    self.dead.insert(record.to);
                } else {
                    self.dead.remove(&record.from);
                }
            }
        }
    }

    /// Writes a checkpoint; then discards, completes and frees zones. After a power cut (`heard` are the records that
    /// were delivered again) nobody knows what had died: all that nothing leads to is discarded, but for what records
    /// come from that were followed.
    fn checkpoint(&mut self, device: &dyn Tried, heard: &[Move]) {
        self.now.version += 1;
        if self.fault == Some(Fault::DiscardEarly) {
            self.discard(device);
        }
        let write = |fua| Op::Write {
            block: self.now.version % 2,
            pages: vec![self.now.encode()],
            hint: StreamHint::MetaHot,
            fua,
        };
        device.flush().expect("in memory");
        if self.fault == Some(Fault::CompleteEarly) {
            device.run(write(false)).expect("in memory");
            device.complete(self.now.served);
        }
        device.run(write(true)).expect("in memory");
        let versions = self.now.keys.iter().map(|(key, (_, version))| (*key, *version)).collect();
        self.promises.push((device.tick(), versions));
        if self.promises.len() == 1 && self.free.is_empty() {
            // What leads to a page that it needs, over however many records, reaches that page.
            let mut reaching: BTreeSet<u64> = self.now.keys.values().map(|(at, _)| *at).collect();
            for record in heard.iter().rev().filter(|_| self.fault != Some(Fault::DiscardMoved)) {
                if reaching.contains(&record.to) {
                    reaching.insert(record.from);
                }
            }
            let all = self.geometry.regular.start..self.geometry.gc.end;
            let stale = std::mem::take(&mut self.dead);
            let unneeded = |block: &u64| !reaching.contains(block);
            let again = self.fault == Some(Fault::DiscardAgain);
            self.dead =
                all.filter(unneeded).chain(stale.into_iter().filter(|block| again || unneeded(block))).collect();
        }
        if self.fault == Some(Fault::ReuseEarly) {
            self.release();
            self.next = None;
            (0..3).for_each(|key| self.put(device, key));
        }
        self.discard(device);
        device.complete(self.now.served);
        // What was delivered and not heard of may name any zone.
        if device.delivered() == self.now.served {
            self.release();
        }
    }

    fn discard(&mut self, device: &dyn Tried) {
        for block in std::mem::take(&mut self.dead) {
            device.discard(block, 1).expect("in range");
        }
    }

    /// Zones with nothing in them may be written anew: the records that named them are completed. A page that a
    /// waiting record names is still where the host knows it.
    fn release(&mut self) {
        let used: BTreeSet<u64> = self.now.keys.values().map(|(at, _)| self.geometry.zone_of(*at)).collect();
        let free = self.zones().filter(|zone| !used.contains(zone) && Some(*zone) != self.open);
        self.free = free.collect();
    }

    /// Serves and commits until nothing is outstanding.
    pub(super) fn settle(&mut self, device: &dyn Tried) {
        for _ in 0..8 {
            while let Some(upcall) = device.try_next() {
                self.serve(upcall.first, &upcall.moves);
            }
            self.checkpoint(device, &[]);
            if device.outstanding() == 0 {
                break;
            }
            device.deliver();
        }
    }

    fn look(&self, device: &dyn Tried, key: u64) {
        if let Some((at, version)) = self.now.keys.get(&key) {
            let page = device.read_one(*at).expect("in range");
            assert!(page == contents(key, *version), "key {key} at block {at}: version {version} is not there");
        }
    }

    pub(super) fn compare(&self, device: &dyn Tried) {
        (0..KEYS).for_each(|key| self.look(device, key));
    }
}
