//! What a zone may be asked in which state, and what becomes of it (NVMe ZNS 1.1, section 2.1.1 and the status codes of
//! section 3.4).

use super::{EMPTY, State, Zns};
use crate::media::Media;
use crate::units::Time;
use steadyfs_device::{IoError, OpKind, ZoneState, errno};

/// A command that a zone refuses. The texts are the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ZoneError {
    /// A write that is not at the write pointer.
    #[error("Zone Invalid Write")]
    InvalidWrite,
    /// A write or append beyond the zone's capacity.
    #[error("Zone Boundary Error")]
    Boundary,
    /// A write to a full zone.
    #[error("Zone Is Full")]
    Full,
    /// A change of a zone that can only be read.
    #[error("Zone Is Read Only")]
    ReadOnly,
    /// Anything about a zone that is lost.
    #[error("Zone Is Offline")]
    Offline,
    /// As many are active as may be.
    #[error("Too Many Active Zones")]
    TooManyActive,
    /// As many were opened by command as may be open.
    #[error("Too Many Open Zones")]
    TooManyOpen,
    /// From this state a zone does not get there.
    #[error("Invalid Zone State Transition")]
    Transition,
    /// More pages would be mapped than the device holds.
    #[error("Capacity Exceeded")]
    NoSpace,
    /// A command that names no zone's first block, or a conventional zone.
    #[error("Invalid Field in Command")]
    Field,
    /// A zone command to a device without zones.
    #[error("Invalid Command Opcode")]
    NotZoned,
}

impl ZoneError {
    /// The error of an operation. Linux makes the same of the limits (BLK_STS_ZONE_OPEN_RESOURCE,
    /// BLK_STS_ZONE_ACTIVE_RESOURCE), and EIO of the rest; a malformed command is EINVAL.
    pub(crate) fn of(self, op: OpKind, block: u64, count: u64) -> IoError {
        let number = match self {
            ZoneError::TooManyOpen => errno::ETOOMANYREFS,
            ZoneError::TooManyActive => errno::EOVERFLOW,
            ZoneError::Field => errno::EINVAL,
            ZoneError::NoSpace => errno::ENOSPC,
            ZoneError::NotZoned => errno::EOPNOTSUPP,
            _ => errno::EIO,
        };
        IoError::new(op, block, count, number, self.to_string())
    }
}

/// What can be asked of a zone beside reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Open,
    Close,
    Finish,
    Reset,
}

impl Action {
    pub(crate) fn kind(self) -> OpKind {
        match self {
            Action::Open => OpKind::ZoneOpen,
            Action::Close => OpKind::ZoneClose,
            Action::Finish => OpKind::ZoneFinish,
            Action::Reset => OpKind::ZoneReset,
        }
    }
}

impl Zns {
    /// A write or append is going to begin: opens its zone. Its first page, which for an append was the zone's.
    pub(super) fn begin_write(&mut self, first: u64, count: u64, append: bool) -> Result<u64, ZoneError> {
        if first + count <= self.first_page && !append {
            return Ok(first);
        }
        if first < self.first_page {
            return Err(if append { ZoneError::Field } else { ZoneError::Boundary });
        }
        let (number, at) = self.place(first);
        let zone = self.zones[number];
        match zone.state {
            State::Full => return Err(ZoneError::Full),
            State::ReadOnly => return Err(ZoneError::ReadOnly),
            State::Offline => return Err(ZoneError::Offline),
            _ if append && at != 0 => return Err(ZoneError::Field),
            _ if !append && at != zone.written => return Err(ZoneError::InvalidWrite),
            _ if u64::from(zone.written) + count > u64::from(self.geometry.line_pages()) => {
                return Err(ZoneError::Boundary);
            }
            State::Empty | State::Closed if count > 0 => self.open(number, State::ImplicitlyOpen)?,
            _ => {}
        }
        Ok(self.start(number) + u64::from(zone.written))
    }

    /// Opens a zone that is empty or closed, as far as the limits allow.
    fn open(&mut self, number: usize, state: State) -> Result<(), ZoneError> {
        let empty = self.zones[number].state == State::Empty;
        if empty && self.limits.max_active != 0 && self.active == self.limits.max_active {
            return Err(ZoneError::TooManyActive);
        }
        if self.limits.max_open != 0 && self.open == self.limits.max_open {
            let oldest = self.implicit.pop_front().ok_or(ZoneError::TooManyOpen)?;
            self.zones[oldest as usize].state = State::Closed;
            self.open -= 1;
        }
        if empty {
            let (_, line) = self.free.pop_first().unwrap_or_else(|| panic!("an empty zone without a line to take"));
            self.zones[number].line = Some(line);
            self.active += 1;
        }
        self.open += 1;
        self.zones[number].state = state;
        if state == State::ImplicitlyOpen {
            self.implicit.push_back(number as u32);
        }
        Ok(())
    }

    /// A zone that was active is not any more.
    fn leave(&mut self, number: usize) {
        let state = self.zones[number].state;
        self.implicit.retain(|&other| other as usize != number);
        self.open -= u32::from(matches!(state, State::ImplicitlyOpen | State::ExplicitlyOpen));
        self.active -= u32::from(matches!(state, State::ImplicitlyOpen | State::ExplicitlyOpen | State::Closed));
    }

    /// No more writes to a zone.
    pub(super) fn become_full(&mut self, number: usize) {
        self.leave(number);
        self.zones[number].state = State::Full;
    }

    /// Changes the state of the zone that starts at a block.
    pub(super) fn act(&mut self, media: &mut Media, now: Time, action: Action, first: u64) -> Result<(), ZoneError> {
        if first < self.first_page || self.place(first).1 != 0 {
            return Err(ZoneError::Field);
        }
        let (number, _) = self.place(first);
        let state = self.zones[number].state;
        match (action, state) {
            (_, State::ReadOnly) => Err(ZoneError::ReadOnly),
            (_, State::Offline) => Err(ZoneError::Offline),
            (Action::Open, State::Full) | (Action::Close, State::Full | State::Empty) => Err(ZoneError::Transition),
            (Action::Open, State::Empty | State::Closed) => self.open(number, State::ExplicitlyOpen),
            (Action::Open, _) => {
                self.implicit.retain(|&other| other as usize != number);
                self.zones[number].state = State::ExplicitlyOpen;
                Ok(())
            }
            (Action::Close, State::Closed) | (Action::Finish, State::Full) | (Action::Reset, State::Empty) => Ok(()),
            (Action::Close, _) => {
                self.implicit.retain(|&other| other as usize != number);
                self.open -= 1;
                self.zones[number].state = State::Closed;
                Ok(())
            }
            (Action::Finish, _) => {
                let waiting = self.zones[number].written % self.geometry.unit_pages();
                if waiting > 0 {
                    self.program(media, now, number, waiting);
                }
                self.become_full(number);
                Ok(())
            }
            (Action::Reset, _) => {
                self.reset(media, now, number);
                Ok(())
            }
        }
    }

    /// Forgets what a zone holds and erases its line.
    fn reset(&mut self, media: &mut Media, now: Time, number: usize) {
        let unit = self.geometry.unit_pages();
        let zone = self.zones[number];
        self.leave(number);
        self.zones[number] = EMPTY;
        let start = self.start(number);
        (start..start + u64::from(zone.written)).for_each(|page| media.forget(page, true));
        let Some(line) = zone.line else { return };
        let waiting = if zone.fills() { zone.written % unit } else { 0 };
        if waiting > 0 {
            media.buffer.drop_waiting(u64::from(waiting));
            media.dropped((line, zone.written / unit));
        }
        if media.nand.lines()[line as usize].programmed > 0 {
            media.erase(now, line);
        }
        self.free.insert((media.nand.lines()[line as usize].erases, line));
    }

    /// Whether these pages can be read.
    pub(super) fn are_readable(&self, first: u64, count: u64) -> Result<(), ZoneError> {
        let last = first + count.max(1) - 1;
        if last < self.first_page {
            return Ok(());
        }
        let (from, to) = (self.place(first.max(self.first_page)).0, self.place(last).0);
        let offline = self.zones[from..=to].iter().any(|zone| zone.state == State::Offline);
        if offline { Err(ZoneError::Offline) } else { Ok(()) }
    }

    /// The flash below a zone has worn out: it can only be read from now on, or not even that.
    pub(super) fn wear_out(
        &mut self,
        media: &mut Media,
        now: Time,
        first: u64,
        to: ZoneState,
    ) -> Result<(), ZoneError> {
        if first < self.first_page || self.place(first).1 != 0 {
            return Err(ZoneError::Field);
        }
        let (number, _) = self.place(first);
        let zone = self.zones[number];
        let state = match to {
            ZoneState::ReadOnly => State::ReadOnly,
            ZoneState::Offline => State::Offline,
            _ => return Err(ZoneError::Field),
        };
        if matches!(zone.state, State::ReadOnly | State::Offline) {
            self.zones[number].state = state;
            return Ok(());
        }
        // What waits for its unit to be filled is programmed as far as it has come.
        let waiting = zone.written % self.geometry.unit_pages();
        if waiting > 0 && zone.fills() {
            self.program(media, now, number, waiting);
        }
        self.leave(number);
        self.zones[number].state = state;
        Ok(())
    }
}
