//! `poll_oneoff`: waiting for time, for stdin, and for descriptors that are always ready.

use std::future::pending;
use std::time::Duration;

use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::filesystem::WasiFilesystemView as _;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor as _;

use super::call::ModuleCall;
use super::descriptors::{Descriptor, OpenFile, borrowed};
use super::errno::{CallError, CallResult, Errno};
use super::process::clock;
use super::status::nanoseconds;

/// The most events that are waited for at once. Without sockets, a program has no use for more.
const MAX_SUBSCRIPTIONS: u32 = 1_024;

/// The size of a subscription, in bytes.
const SUBSCRIPTION: u32 = 48;

/// The size of an event, in bytes.
const EVENT: u32 = 32;

/// The kinds of events.
mod event_type {
    pub(super) const CLOCK: u8 = 0;
    pub(super) const FD_READ: u8 = 1;
    pub(super) const FD_WRITE: u8 = 2;
}

/// The flag of a time that is absolute.
const ABSOLUTE: u16 = 1;

/// The flag of an event that nothing is left to read.
const HANGUP: u16 = 1;

/// A subscription of a module.
struct Subscription {
    /// Chosen by the module, which gets it back with the event.
    name: [u8; 8],
    kind: u8,
    wait: Wait,
}

/// The condition of an event.
enum Wait {
    /// The monotonic clock has come to this time.
    Until(u64),
    /// stdin has bytes, or has ended.
    Input,
    /// It has happened.
    Now(EventResult),
}

/// The result of an event.
#[derive(Clone, Copy, Default)]
struct EventResult {
    error: Option<Errno>,
    bytes: u64,
    flags: u16,
}

impl ModuleCall<'_> {
    pub(super) async fn poll_oneoff(
        &mut self,
        subscriptions: u32,
        events: u32,
        count: u32,
        happened: u32,
    ) -> CallResult {
        if count == 0 || count > MAX_SUBSCRIPTIONS {
            return Err(Errno::Inval.into());
        }
        let now = self.monotonic()?;
        let mut all = Vec::with_capacity(count as usize);
        for index in 0..count {
            all.push(self.subscription(subscriptions, index, now).await?);
        }
        let mut results = Vec::new();
        while results.is_empty() {
            let has_input = self.wait(&all).await?;
            let now = self.monotonic()?;
            results =
                all.iter().filter_map(|one| Some((one, one.result(now, has_input)?))).collect();
        }
        for ((one, result), index) in results.iter().zip(0..) {
            self.memory.write(address(events, index, EVENT)?, &one.event(*result))?;
        }
        let number = u32::try_from(results.len()).map_err(|_| Errno::Overflow)?;
        self.memory.write_u32(happened, number)
    }

    /// Reads a subscription.
    async fn subscription(&mut self, list: u32, index: u32, now: u64) -> CallResult<Subscription> {
        let bytes =
            self.memory.read::<{ SUBSCRIPTION as usize }>(address(list, index, SUBSCRIPTION)?)?;
        let long = |at: usize| {
            let [a, b, c, d, e, f, g, h] = std::array::from_fn(|index| bytes[at + index]);
            [a, b, c, d, e, f, g, h]
        };
        let [a, b, c, d, ..] = long(16);
        let first = u32::from_le_bytes([a, b, c, d]);
        let kind = bytes[8];
        let wait = match kind {
            event_type::CLOCK => {
                let [low, high, ..] = long(40);
                let flags = u16::from_le_bytes([low, high]);
                let time = u64::from_le_bytes(long(24));
                self.clock_wait(first, time, flags & ABSOLUTE != 0, now)?
            }
            event_type::FD_READ => self.read_wait(first).await?,
            event_type::FD_WRITE => self.write_wait(first),
            _ => return Err(Errno::Inval.into()),
        };
        Ok(Subscription { name: long(0), kind, wait })
    }

    fn clock_wait(
        &mut self,
        clock: u32,
        time: u64,
        is_absolute: bool,
        now: u64,
    ) -> CallResult<Wait> {
        Ok(Wait::Until(match (clock, is_absolute) {
            (clock::MONOTONIC, true) => time,
            (clock::MONOTONIC | clock::REALTIME, false) => now.saturating_add(time),
            (clock::REALTIME, true) => {
                let wall = nanoseconds(wall_clock::Host::now(&mut self.state.clocks())?)?;
                now.saturating_add(time.saturating_sub(wall))
            }
            _ => return Err(Errno::Inval.into()),
        }))
    }

    async fn read_wait(&mut self, fd: u32) -> CallResult<Wait> {
        let file = match self.module.descriptors.get(fd) {
            Ok(Descriptor::Input(_)) => return Ok(Wait::Input),
            Ok(Descriptor::File(OpenFile { handle, position, .. })) => {
                (borrowed(handle), *position)
            }
            Ok(_) | Err(_) => return Ok(Wait::Now(EventResult::failed(Errno::Badf))),
        };
        let (handle, position) = file;
        let result = match self.state.filesystem().stat(handle).await.map_err(CallError::from) {
            Ok(stat) => {
                let bytes = stat.size.saturating_sub(position);
                let flags = if bytes == 0 { HANGUP } else { 0 };
                EventResult { error: None, bytes, flags }
            }
            Err(CallError::Errno(errno)) => EventResult::failed(errno),
            Err(trap) => return Err(trap),
        };
        Ok(Wait::Now(result))
    }

    /// Files take any write, and the pipes of a call too.
    fn write_wait(&mut self, fd: u32) -> Wait {
        Wait::Now(match self.module.descriptors.get(fd) {
            Ok(Descriptor::Output(_) | Descriptor::File(_)) => {
                EventResult { bytes: 1, ..EventResult::default() }
            }
            Ok(_) | Err(_) => EventResult::failed(Errno::Badf),
        })
    }

    /// Waits for the first of the events. Returns whether stdin was ready.
    async fn wait(&mut self, all: &[Subscription]) -> CallResult<bool> {
        let now = self.monotonic()?;
        let left = |one: &Subscription| match one.wait {
            Wait::Until(time) => Some(time.saturating_sub(now)),
            Wait::Input => None,
            Wait::Now(_) => Some(0),
        };
        let soonest = all.iter().filter_map(left).min().map(Duration::from_nanos);
        let waits_for_input = all.iter().any(|one| matches!(one.wait, Wait::Input));
        let input = self.module.descriptors.input().filter(|_| waits_for_input);
        let table = self.state.ctx().table;
        let input = async {
            match input {
                Some(stream) => {
                    table.get_mut(&stream)?.ready().await;
                    Ok(())
                }
                None => pending().await,
            }
        };
        let time = async {
            match soonest {
                Some(time) => tokio::time::sleep(time).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // stdin may be ready although the time is over as well.
            biased;
            ready = input => ready.map(|()| true),
            () = time => Ok(false),
        }
    }

    fn monotonic(&mut self) -> wasmtime::Result<u64> {
        monotonic_clock::Host::now(&mut self.state.clocks())
    }
}

impl Subscription {
    /// Returns the result, if the event has happened.
    fn result(&self, now: u64, has_input: bool) -> Option<EventResult> {
        match self.wait {
            Wait::Until(time) => (time <= now).then(EventResult::default),
            Wait::Input => has_input.then_some(EventResult { bytes: 1, ..EventResult::default() }),
            Wait::Now(result) => Some(result),
        }
    }

    fn event(&self, result: EventResult) -> [u8; EVENT as usize] {
        let mut event = [0; EVENT as usize];
        event[..8].copy_from_slice(&self.name);
        let error = result.error.map_or(0, |errno| errno as u16);
        event[8..10].copy_from_slice(&error.to_le_bytes());
        event[10] = self.kind;
        event[16..24].copy_from_slice(&result.bytes.to_le_bytes());
        event[24..26].copy_from_slice(&result.flags.to_le_bytes());
        event
    }
}

impl EventResult {
    fn failed(errno: Errno) -> Self {
        Self { error: Some(errno), ..Self::default() }
    }
}

/// Returns the address of an entry of a list.
fn address(list: u32, index: u32, size: u32) -> CallResult<u32> {
    let offset = index.checked_mul(size);
    let address = offset.and_then(|offset| list.checked_add(offset));
    address.ok_or_else(|| Errno::Fault.into())
}
