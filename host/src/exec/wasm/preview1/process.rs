//! The functions without files: arguments, variables, clocks, random bytes and the exit.

use wasmtime_wasi::I32Exit;
use wasmtime_wasi::cli::WasiCliView as _;
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::p2::bindings::cli::environment;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::random::random;
use wasmtime_wasi::random::WasiRandomView as _;

use super::call::{ModuleCall, pause};
use super::errno::{CallResult, Errno};
use super::memory::Buffer;
use super::status::nanoseconds;

/// The number of random bytes that are made at once. A guest with one page of memory may ask for as
/// many.
const RANDOM_CHUNK: u32 = 4 << 10;

/// The largest exit code of a process.
const MAX_EXIT_CODE: u32 = 255;

/// The clocks.
pub(super) mod clock {
    pub(in super::super) const REALTIME: u32 = 0;
    pub(in super::super) const MONOTONIC: u32 = 1;
    pub(super) const PROCESS: u32 = 2;
    pub(super) const THREAD: u32 = 3;
}

impl ModuleCall<'_> {
    pub(super) fn args_get(&mut self, pointers: u32, texts: u32) -> CallResult {
        let arguments = self.arguments()?;
        self.write_texts(&arguments, pointers, texts)
    }

    pub(super) fn args_sizes_get(&mut self, count: u32, size: u32) -> CallResult {
        let arguments = self.arguments()?;
        self.write_sizes(&arguments, count, size)
    }

    pub(super) fn environ_get(&mut self, pointers: u32, texts: u32) -> CallResult {
        let variables = self.variables()?;
        self.write_texts(&variables, pointers, texts)
    }

    pub(super) fn environ_sizes_get(&mut self, count: u32, size: u32) -> CallResult {
        let variables = self.variables()?;
        self.write_sizes(&variables, count, size)
    }

    fn arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        environment::Host::get_arguments(&mut self.state.cli())
    }

    fn variables(&mut self) -> wasmtime::Result<Vec<String>> {
        let variables = environment::Host::get_environment(&mut self.state.cli())?;
        Ok(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    /// Writes texts one after the other, each with a zero at its end, and their addresses.
    fn write_texts(&mut self, all: &[String], mut pointers: u32, mut texts: u32) -> CallResult {
        for text in all {
            self.memory.write_u32(pointers, texts)?;
            self.memory.write(texts, text.as_bytes())?;
            let length = u32::try_from(text.len()).map_err(|_| Errno::Overflow)?;
            let end = texts.saturating_add(length);
            self.memory.write(end, &[0])?;
            (pointers, texts) = (pointers.saturating_add(4), end.saturating_add(1));
        }
        Ok(())
    }

    fn write_sizes(&mut self, all: &[String], count: u32, size: u32) -> CallResult {
        let bytes: usize = all.iter().map(|text| text.len() + 1).sum();
        self.memory.write_u32(count, u32::try_from(all.len()).map_err(|_| Errno::Overflow)?)?;
        self.memory.write_u32(size, u32::try_from(bytes).map_err(|_| Errno::Overflow)?)
    }

    pub(super) fn clock_res_get(&mut self, clock: u32, at: u32) -> CallResult {
        let clocks = &mut self.state.clocks();
        let resolution = match clock {
            clock::REALTIME => nanoseconds(wall_clock::Host::resolution(clocks)?)?,
            clock::MONOTONIC => monotonic_clock::Host::resolution(clocks)?,
            other => return Err(unknown_clock(other).into()),
        };
        self.memory.write_u64(at, resolution)
    }

    pub(super) fn clock_time_get(&mut self, clock: u32, _precision: u64, at: u32) -> CallResult {
        let clocks = &mut self.state.clocks();
        let now = match clock {
            clock::REALTIME => nanoseconds(wall_clock::Host::now(clocks)?)?,
            clock::MONOTONIC => monotonic_clock::Host::now(clocks)?,
            other => return Err(unknown_clock(other).into()),
        };
        self.memory.write_u64(at, now)
    }

    pub(super) async fn random_get(&mut self, buffer: u32, length: u32) -> CallResult {
        let buffer = Buffer { at: buffer, length };
        self.memory.bytes(buffer)?;
        for part in buffer.chunks(RANDOM_CHUNK) {
            if part.at != buffer.at {
                pause().await;
            }
            let bytes = random::Host::get_random_bytes(self.state.random(), part.length.into())?;
            self.memory.write(part.at, &bytes)?;
        }
        Ok(())
    }

    pub(super) fn proc_raise(&mut self, _signal: u32) -> CallResult {
        Err(Errno::Notsup.into())
    }

    /// Does nothing: a guest has one thread, and yields it when its time is over.
    pub(super) fn sched_yield(&mut self) -> CallResult {
        Ok(())
    }

    pub(super) fn sock_accept(&mut self, fd: u32, _flags: u32, _accepted: u32) -> CallResult {
        self.no_socket(fd)
    }

    pub(super) fn sock_recv(
        &mut self,
        fd: u32,
        _buffers: u32,
        _count: u32,
        _flags: u32,
        _read: u32,
        _answer: u32,
    ) -> CallResult {
        self.no_socket(fd)
    }

    pub(super) fn sock_send(
        &mut self,
        fd: u32,
        _buffers: u32,
        _count: u32,
        _flags: u32,
        _written: u32,
    ) -> CallResult {
        self.no_socket(fd)
    }

    pub(super) fn sock_shutdown(&mut self, fd: u32, _how: u32) -> CallResult {
        self.no_socket(fd)
    }

    /// Refuses a call on a socket: preview 1 cannot open any.
    fn no_socket(&mut self, fd: u32) -> CallResult {
        self.module.descriptors.get(fd)?;
        Err(Errno::Notsock.into())
    }
}

/// Ends the program with an exit code. Larger codes than a process has become the largest, since
/// none of them means success.
pub(super) fn exit(code: u32) -> wasmtime::Result<()> {
    let code = i32::try_from(code.min(MAX_EXIT_CODE))?;
    Err(I32Exit(code).into())
}

fn unknown_clock(clock: u32) -> Errno {
    match clock {
        // wasmtime has none of the processor time, either.
        clock::PROCESS | clock::THREAD => Errno::Badf,
        _ => Errno::Inval,
    }
}
