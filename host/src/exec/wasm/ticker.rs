//! The thread that advances the epoch of the engines while guests run, and watches their threads.

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use wasmtime::{Engine, EngineWeak};

/// The interval at which a running guest yields so that its deadline can be checked.
pub(super) const EPOCH_TICK: Duration = Duration::from_millis(10);

/// The ticks without a guest after which the ticker goes to sleep: a second. Waking it is
/// expensive, and calls often follow each other within a second.
const LINGERING: u32 = 100;

/// A thread that advances the epoch while at least one guest runs, and for [`LINGERING`] ticks
/// longer. It sleeps otherwise, so that an idle host uses no processor.
#[derive(Default)]
pub(super) struct Ticker {
    guests: Mutex<Guests>,
    began: Condvar,
    engines: Mutex<Vec<EngineWeak>>,
}

/// The facts about the guests that the ticker needs.
#[derive(Default)]
struct Guests {
    running: usize,
    /// True if a guest has begun or waited for a thread since the last tick. It may have ended.
    has_begun: bool,
    /// True while the thread sleeps until a guest begins. Only then does that guest wake the
    /// thread, because waking it is a system call.
    is_awaited: bool,
}

impl Guests {
    fn are_idle(&self) -> bool {
        self.running == 0 && !self.has_begun
    }
}

/// Keeps the epoch advancing for a guest that runs, until this is dropped.
pub(super) struct TickerGuard(Arc<Ticker>);

impl Ticker {
    /// Starts the thread, which calls `watch` at each tick, and ends when all engines are gone or
    /// `watch` returns nothing. While `watch` returns true, ticks go on.
    ///
    /// # Errors
    ///
    /// Fails if the operating system has no thread, without which no deadline would be enforced.
    pub(super) fn start(
        self: &Arc<Self>,
        engine: EngineWeak,
        watch: impl Fn() -> Option<bool> + Send + 'static,
    ) -> io::Result<()> {
        self.add(engine);
        // The thread must not keep an engine alive, nor the ticker.
        let ticker = Arc::downgrade(self);
        let tick = move || {
            let mut idle = 0;
            while let Some(ticker) = ticker.upgrade() {
                if ticker.engines().next().is_none() {
                    return;
                }
                idle = ticker.idle_ticks(idle);
                ticker.engines().for_each(|engine| engine.increment_epoch());
                // Without this thread no deadline would be enforced any more.
                match catch_unwind(AssertUnwindSafe(&watch)) {
                    Ok(Some(true)) | Err(_) => ticker.nudge(),
                    Ok(Some(false)) => {}
                    Ok(None) => return,
                }
                drop(ticker);
                std::thread::sleep(EPOCH_TICK);
            }
        };
        std::thread::Builder::new().name("epoch".into()).spawn(tick).map(drop)
    }

    /// Advances the epoch of this engine as well.
    pub(super) fn add(&self, engine: EngineWeak) {
        self.engines.lock().push(engine);
    }

    /// Returns the engines that are not gone.
    fn engines(&self) -> impl Iterator<Item = Engine> {
        let engines = self.engines.lock();
        let alive: Vec<Engine> = engines.iter().filter_map(EngineWeak::upgrade).collect();
        alive.into_iter()
    }

    /// Returns the number of ticks since a guest ran; at the last tick it was `before`. If the
    /// number is large, waits for a guest first.
    fn idle_ticks(&self, before: u32) -> u32 {
        let mut guests = self.guests.lock();
        if before >= LINGERING && guests.are_idle() {
            guests.is_awaited = true;
            // Woken now and then to notice that the engines are gone.
            let pause = Duration::from_secs(60);
            self.began.wait_while_for(&mut guests, |guests| guests.are_idle(), pause);
            guests.is_awaited = false;
        }
        if guests.are_idle() {
            return before.saturating_add(1);
        }
        guests.has_begun = false;
        0
    }

    /// Keeps the epoch advancing while the value lives.
    pub(super) fn enter(self: &Arc<Self>) -> TickerGuard {
        self.begin().running += 1;
        TickerGuard(Arc::clone(self))
    }

    /// Asks for the next ticks, for a call that waits for a thread.
    pub(super) fn nudge(&self) {
        drop(self.begin());
    }

    fn begin(&self) -> MutexGuard<'_, Guests> {
        let mut guests = self.guests.lock();
        guests.has_begun = true;
        if mem::take(&mut guests.is_awaited) {
            self.began.notify_one();
        }
        guests
    }
}

impl Drop for TickerGuard {
    fn drop(&mut self) {
        self.0.guests.lock().running -= 1;
    }
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use std::sync::mpsc;

    use super::super::engine;
    use super::*;

    #[test]
    fn the_ticker_lingers_and_then_sleeps_until_a_guest_begins() {
        let ticker = Arc::<Ticker>::default();
        // A guest that ended between two ticks counts as one that runs.
        drop(ticker.enter());
        assert_eq!(ticker.idle_ticks(7), 0);
        for before in 0..LINGERING {
            assert_eq!(ticker.idle_ticks(before), before + 1);
        }
        let running = ticker.enter();
        assert_eq!([ticker.idle_ticks(LINGERING), ticker.idle_ticks(LINGERING)], [0, 0]);
        drop(running);
        let (sender, woken) = mpsc::channel();
        let sleeping = Arc::clone(&ticker);
        let thread =
            std::thread::spawn(move || sender.send(sleeping.idle_ticks(LINGERING)).is_ok());
        while !ticker.guests.lock().is_awaited {
            std::thread::yield_now();
        }
        assert_eq!(woken.try_recv(), Err(mpsc::TryRecvError::Empty));
        ticker.nudge();
        assert!(!ticker.guests.lock().is_awaited, "it is woken once");
        assert_eq!(woken.recv_timeout(Duration::from_secs(30)), Ok(0));
        assert!(thread.join().expect("no panic"));
    }

    /// The first guest after a pause is ended like a guest in the middle of others.
    #[test]
    fn a_guest_that_begins_after_a_pause_sees_the_epoch_advance() {
        let (engine, ticker) = (engine::new(1).expect("an engine"), Arc::<Ticker>::default());
        ticker.start(engine.weak(), || Some(false)).expect("a thread");
        let module = wasmtime::Module::new(
            &engine,
            wat::parse_str("(module (func (export \"spin\") (loop (br 0))))").expect("a module"),
        );
        let module = module.expect("compiled");
        for pause in [Duration::ZERO, 2 * LINGERING * EPOCH_TICK] {
            std::thread::sleep(pause);
            let mut store = wasmtime::Store::new(&engine, ());
            store.set_fuel(u64::MAX).expect("fuel");
            store.set_epoch_deadline(1);
            let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("an instance");
            let spin = instance.get_typed_func::<(), ()>(&mut store, "spin").expect("a function");
            let _ticking = ticker.enter();
            let error = spin.call(&mut store, ()).expect_err("it is ended");
            let trap = error.downcast_ref::<wasmtime::Trap>();
            assert_eq!(trap, Some(&wasmtime::Trap::Interrupt), "after {pause:?}");
        }
    }
}
