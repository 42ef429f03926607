//! The threads that guests run on.
//!
//! A guest may block its thread inside the kernel, for example by opening a FIFO of the workspace.
//! Neither epochs nor the timers of that thread's runtime reach it there. So each guest has a
//! thread to itself. Past its deadline a signal interrupts the thread. A thread that stays blocked
//! is abandoned: the call is answered, and the thread is left to the kernel and counted.
//!
//! Jobs wait in one queue. As many threads as there are processors take the next job as they end
//! the last, without going to sleep between. A thread that waits inside its job is not counted. A
//! job that has waited for a tick gets its own thread, so that long guests do not hold up short
//! ones. If the program has a [reactor](crate::reactor), a thread without a job leads it.

mod carried;
mod lead;
mod worker;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use self::lead::Demand;
use self::worker::{GuestJob, Worker};
use super::ticker::Ticker;
use crate::reactor;

pub(super) use self::worker::Until;
pub(crate) use carried::{Boxed, Pace};

/// The number of threads that may be stuck in the kernel before further calls are refused.
const MAX_ABANDONED: usize = 64;

/// The number of idle threads that are kept for later calls.
const MAX_IDLE: usize = 64;

/// The time for which a thread looks for a next job before it sleeps. A caller that continues at
/// once calls again within this time.
const LINGERING: Duration = Duration::from_micros(50);

/// The same time if calls overlapped a moment ago. It covers a few calls, so that a thread that is
/// held up does not send another one to sleep.
const LINGERING_ON_DEMAND: Duration = Duration::from_micros(200);

/// The time below which a call is short: that of some switches between threads, and far below a
/// tick.
const SHORT: Duration = Duration::from_millis(1);

/// The events that a job may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Time.
    Timers,
    /// Time, sockets, and the operating system's resolver.
    Sockets,
}

/// A pool of threads. Each has its own runtime, with timers and without an I/O driver: a driver
/// costs three descriptors, and a thousand guests may run at once. A guest with sockets gets a
/// second runtime, so that its leftovers end with it. The pool grows as needed, and uses the latest
/// idle thread first. The idle threads end with the last clone of this value.
#[derive(Clone)]
pub(crate) struct GuestThreads(Arc<PoolOwner>);

struct PoolOwner(Arc<ThreadPool>);

struct ThreadPool {
    /// The number of threads that are to be busy at once.
    processors: usize,
    state: Mutex<PoolState>,
    /// The length of the queue, for threads that look for a job without the lock.
    queued: AtomicUsize,
    workers: Mutex<Vec<Weak<Worker>>>,
    abandoned: AtomicUsize,
    ticker: Arc<Ticker>,
    /// The size of the stacks of threads, if it is not the usual one, in bytes.
    #[cfg(test)]
    stack: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<QueuedJob>,
    idle: Vec<Arc<Worker>>,
    /// The threads that run a job or look for one, without those that wait for an event.
    awake: usize,
    /// The awake threads that look at the queue before they sleep.
    looking: usize,
    /// The threads that are awake because they were woken, and have not come to the queue yet.
    starting: usize,
    ticks: u64,
    /// True if, at the last tick, as many threads as are to be busy had been in their jobs for a
    /// while.
    is_full: bool,
    is_closed: bool,
    /// The reactor that threads lead when they have no job.
    reactor: Option<Arc<reactor::SharedReactor>>,
    demand: Demand,
}

struct QueuedJob {
    job: Box<dyn Job>,
    /// The tick in which it came.
    since: u64,
}

impl QueuedJob {
    /// Returns whether it has waited for a whole tick.
    fn is_late(&self, ticks: u64) -> bool {
        self.since + 1 < ticks
    }
}

/// Stops counting a thread when this is dropped, however the thread ends.
struct ThreadExit<'a>(&'a Arc<ThreadPool>, &'a Arc<Worker>);

impl Drop for ThreadExit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        self.1.count(&mut state, false);
        state.ask_owner();
    }
}

/// A piece of work for a thread.
trait Job: Send {
    /// Does the work. Returns false if the thread must not be used again.
    fn run(
        self: Box<Self>,
        pool: &Arc<ThreadPool>,
        worker: &Arc<Worker>,
        runtime: &Runtime,
    ) -> bool;

    /// Answers that the operating system has no thread for it.
    fn refuse(self: Box<Self>, error: io::Error);

    /// Returns whether it is expected to end soon, so that no thread needs to lead a reactor until
    /// then.
    fn is_short(&self) -> bool {
        false
    }
}

/// The reason that a job was not begun or not finished.
#[derive(Debug, thiserror::Error)]
pub(super) enum ThreadError {
    /// Too many threads are stuck.
    #[error(
        "{0} earlier calls are stuck inside the operating system; end what blocks them (a FIFO \
         without a writer, a dead network mount) or restart the host"
    )]
    TooManyAbandoned(usize),
    /// The operating system gives no more threads.
    #[error("cannot start a thread for the call: {0}")]
    Spawn(io::Error),
    /// The operating system has no descriptors left to wait for sockets with.
    #[error("cannot wait for the network: {0}")]
    Driver(io::Error),
    /// The thread could not give up the capability to keep setuid and setgid.
    #[error("cannot give up the right to keep setuid and setgid of files that are written: {0}")]
    Privileges(io::Error),
    /// The job stayed blocked in the kernel after it was over.
    #[error("blocked inside the operating system")]
    Abandoned,
    /// The job panicked.
    #[error("the host's thread for the call failed; this is a bug in the host")]
    Lost,
}

/// Returns the number of processors of the machine, or of the container. The first call makes a
/// dozen system calls.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

impl GuestThreads {
    /// Returns an empty pool. The caller must have [`tick`](ThreadPool::tick) called while jobs run. The
    /// pool asks `ticker` for ticks.
    pub(super) fn new(ticker: Arc<Ticker>) -> Self {
        Self(Arc::new(PoolOwner(Arc::new(ThreadPool {
            processors: processors(),
            state: Mutex::default(),
            queued: AtomicUsize::new(0),
            workers: Mutex::default(),
            abandoned: AtomicUsize::new(0),
            ticker,
            #[cfg(test)]
            stack: AtomicUsize::new(0),
        }))))
    }

    /// Returns a function for the ticks. It returns whether a job waits, and nothing once the pool
    /// is gone.
    pub(super) fn watch(&self) -> impl Fn() -> Option<bool> + Send + 'static {
        let pool = Arc::downgrade(&self.0.0);
        move || pool.upgrade().map(|pool| pool.tick())
    }

    /// Runs the guest in `job` on its own thread until it resolves, or until some time after it
    /// should have ended. In a call that is [carried](Self::carry), that thread is the call's.
    pub(super) async fn run<T, F>(
        &self,
        waits: Waits,
        until: Until,
        job: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, ThreadError>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let stuck = self.0.0.abandoned.load(Ordering::Relaxed);
        if stuck >= MAX_ABANDONED {
            return Err(ThreadError::TooManyAbandoned(stuck));
        }
        let (sender, answer) = oneshot::channel();
        let guest = GuestJob::new(waits, until, job, sender);
        if let Err(guest) = carried::put_off(guest) {
            ThreadPool::submit(&self.0.0, Box::new(guest));
        }
        answer.await.unwrap_or(Err(ThreadError::Lost))
    }
}

impl Drop for PoolOwner {
    fn drop(&mut self) {
        let idle = {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            if let Some(reactor) = &state.reactor {
                reactor.nudge();
            }
            // The ticks end now.
            state.ask_owner();
            std::mem::take(&mut state.idle)
        };
        idle.iter().for_each(|worker| worker.wake());
    }
}

impl ThreadPool {
    /// Puts a job into the queue, and wakes a thread for it if a processor is free. A thread of the
    /// pool that leads takes a short job itself.
    fn submit(self: &Arc<Self>, job: Box<dyn Job>) {
        let led = if job.is_short() { reactor::led() } else { None };
        let mut state = self.state.lock();
        let since = state.ticks;
        state.queue.push_back(QueuedJob { job, since });
        self.queued.store(state.queue.len(), Ordering::Release);
        if led.is_some_and(|led| self.stop_leading_for(&led, &mut state)) {
            return;
        }
        if state.looking >= state.queue.len() {
            return;
        }
        if state.awake < self.processors {
            self.start_one(state);
        } else {
            drop(state);
            self.ticker.nudge();
        }
    }

    /// Has one more thread look at the queue.
    fn start_one(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>) {
        if let Some(worker) = state.idle.pop() {
            worker.start(&mut state);
            drop(state);
            worker.wake();
            return;
        }
        let worker = Arc::<Worker>::default();
        worker.start(&mut state);
        drop(state);
        if let Err(error) = self.spawn(Arc::clone(&worker)) {
            let mut state = self.state.lock();
            worker.count(&mut state, false);
            let ticks = state.ticks;
            let refused: Vec<QueuedJob> = if state.awake == 0 && state.idle.is_empty() {
                state.queue.drain(..).collect()
            } else {
                // Other threads come to the queue, but may be a long time in their guests.
                let late = state.queue.pop_front_if(|queued| queued.is_late(ticks));
                late.into_iter().collect()
            };
            self.queued.store(state.queue.len(), Ordering::Release);
            drop(state);
            for queued in refused {
                queued.job.refuse(io::Error::from(error.kind()));
            }
        }
    }

    fn spawn(self: &Arc<Self>, worker: Arc<Worker>) -> io::Result<()> {
        worker::install_handler();
        let known = Arc::downgrade(&worker);
        let pool = Arc::clone(self);
        let serve = move || {
            worker::enter(&pool, &worker);
            let _leaving = ThreadExit(&pool, &worker);
            // Built here: if the thread does not start, its runtime would be dropped inside another
            // one.
            let runtime = pool.runtime(&worker, Builder::new_current_thread().enable_time());
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return pool.refuse_next(&error),
            };
            while let Some(job) = pool.next(&worker) {
                if !job.run(&pool, &worker, &runtime) {
                    return;
                }
            }
        };
        let builder = thread::Builder::new().name("guest".into());
        #[cfg(test)]
        let builder = match self.stack.load(Ordering::Relaxed) {
            0 => builder,
            stack => builder.stack_size(stack),
        };
        builder.spawn(serve)?;
        self.workers.lock().push(known);
        Ok(())
    }

    /// Refuses the next job, because the system has no thread for it.
    fn refuse_next(&self, error: &io::Error) {
        let mut state = self.state.lock();
        let next = state.queue.pop_front();
        self.queued.store(state.queue.len(), Ordering::Release);
        drop(state);
        if let Some(queued) = next {
            queued.job.refuse(io::Error::from(error.kind()));
        }
    }

    /// Waits for the next job of a thread. Returns nothing if the thread is to end.
    fn next(&self, worker: &Arc<Worker>) -> Option<Box<dyn Job>> {
        let mut has_lingered = self.processors == 1;
        loop {
            self.lead(worker);
            let mut state = self.state.lock();
            if let Some(QueuedJob { job, .. }) = state.queue.pop_front() {
                self.queued.store(state.queue.len(), Ordering::Release);
                worker.count(&mut state, true);
                worker.look(&mut state, false);
                if !job.is_short() {
                    state.ask_owner();
                }
                return Some(job);
            }
            if state.is_closed {
                worker.count(&mut state, false);
                return None;
            }
            if !has_lingered {
                worker.look(&mut state, true);
                let reactor = state.reactor.clone();
                let longest = match state.demand.is_there() {
                    true => LINGERING_ON_DEMAND,
                    false => LINGERING,
                };
                drop(state);
                self.linger(reactor.as_deref(), longest);
                has_lingered = true;
                continue;
            }
            if state.wants_leader() {
                // No thread would lead while all of them sleep. A thread that is about to stop does
                // so soon.
                drop(state);
                thread::yield_now();
                continue;
            }
            worker.count(&mut state, false);
            if state.idle.len() >= MAX_IDLE {
                return None;
            }
            state.idle.push(Arc::clone(worker));
            drop(state);
            worker.sleep();
            has_lingered = self.processors == 1;
        }
    }

    /// Waits a little, without going to sleep, for a job or for the end of another thread's
    /// leading. Lets other threads have the processor in the meantime.
    fn linger(&self, reactor: Option<&reactor::SharedReactor>, longest: Duration) {
        let begun = Instant::now();
        while self.queued.load(Ordering::Acquire) == 0
            && reactor.is_none_or(reactor::SharedReactor::is_led_on)
            && begun.elapsed() < longest
        {
            thread::yield_now();
        }
    }

    /// Notes that the thread is about to look for a job. Call it before the caller learns that the
    /// thread's last job has ended: otherwise the next job would wake another thread.
    fn is_free(&self, worker: &Worker) {
        if self.processors > 1 {
            worker.look(&mut self.state.lock(), true);
        }
    }

    /// Ends guests that are blocked, and starts threads for jobs that have waited. Returns whether
    /// a job waits.
    fn tick(self: &Arc<Self>) -> bool {
        let workers: Vec<Arc<Worker>> = {
            let mut workers = self.workers.lock();
            workers.retain(|known| known.strong_count() > 0);
            workers.iter().filter_map(Weak::upgrade).collect()
        };
        let long = workers.iter().filter(|worker| worker.runs_long()).count();
        for worker in workers {
            if let Some(give_up) = worker.watch(self) {
                give_up(ThreadError::Abandoned);
            }
        }
        let mut state = self.state.lock();
        if let Some(reactor) = &state.reactor {
            reactor.tick();
        }
        state.is_full = long >= self.processors;
        state.ticks += 1;
        let ticks = state.ticks;
        // This counts even if a thread is looking for a job: it does not look for so long.
        let late = state.queue.iter().filter(|queued| queued.is_late(ticks)).count();
        let waits = !state.queue.is_empty();
        drop(state);
        for _ in 0..late {
            self.start_one(self.state.lock());
        }
        waits
    }

    /// Builds a runtime for a thread. The thread is not counted while it waits in the runtime.
    fn runtime(
        self: &Arc<Self>,
        worker: &Arc<Worker>,
        builder: &mut Builder,
    ) -> io::Result<Runtime> {
        let parked = (Arc::downgrade(self), Arc::downgrade(worker));
        let unparked = parked.clone();
        builder
            .on_thread_park(move || {
                if let (Some(pool), Some(worker)) = (parked.0.upgrade(), parked.1.upgrade()) {
                    let mut state = pool.state.lock();
                    worker.count(&mut state, false);
                    worker.note_wait();
                    // The guest may wait for a task of the reactor.
                    state.ask_owner();
                    if state.queue.len() > state.looking && state.awake < pool.processors {
                        pool.start_one(state);
                    }
                }
            })
            .on_thread_unpark(move || {
                if let (Some(pool), Some(worker)) = (unparked.0.upgrade(), unparked.1.upgrade()) {
                    worker.count(&mut pool.state.lock(), true);
                }
            })
            .build()
    }
}

#[cfg(test)]
mod tests;
