//! A runtime that idle threads drive in turns.
//!
//! A program that serves calls waits for requests on one thread and runs components on others.
//! Handing a short call to another thread, and its answer back, costs more than some calls. Here
//! one thread at a time *leads*: it polls the tasks of the runtime and waits for its events. If a
//! task submits a call that is expected to be short, a leading thread of guests stops leading and
//! runs the call itself. If no thread leads, the next thread that ends a call does. So a request
//! wakes one thread, or none while others wait in the queue. The pattern is known as
//! *leader/followers* (Schmidt and others, *Pattern-Oriented Software Architecture*, volume 2).
//!
//! A call may take longer than expected. If no thread has led since the last tick of the threads of
//! guests, the thread that blocks on the runtime leads.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// The microseconds for which no thread needs to look for events again while calls wait, so that
/// several answers are delivered together. A few calls take about that long.
const FRESH: u64 = 150;

/// The time for which a program waits for the epoll watches that a runtime needs. If a sandboxed
/// tool takes its user's last watches, ikigai ends the tool within a fraction of this time.
const WATCHES: Duration = Duration::from_secs(2);

/// The pause between two attempts to get watches.
const AGAIN: Duration = Duration::from_millis(20);

/// A tokio runtime for a program that serves calls. One thread at a time polls its tasks. It is the
/// thread that [blocks](Self::block_on) on the runtime, or an idle thread on which a
/// [`Host`](crate::Host) runs components. So the thread that took a request runs a short call
/// itself. With another runtime, it would hand the call to a thread of the host, and get the answer
/// back. Only a call of a component whose last call took less than a millisecond runs like this.
///
/// If such a call takes longer after all, tasks may wait for 10 to 20 ms, until the thread that
/// blocks on the runtime polls them.
///
/// A task must not depend on the thread that polls it, and must not block that thread.
///
/// ```
/// use ikigai_host::Reactor;
///
/// # fn main() -> std::io::Result<()> {
/// let mut reactor = Reactor::new()?;
/// let answer = reactor.block_on(async {
///     // Build a host, listen, and spawn a task for each connection.
///     let task = tokio::spawn(async { 6 * 7 });
///     task.await
/// });
/// assert_eq!(answer.ok(), Some(42));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reactor {
    shared: Arc<SharedReactor>,
    /// Taken out when the value is dropped.
    runtime: Option<Arc<Runtime>>,
}

/// The part of a reactor that is shared by the threads that may lead.
#[derive(Debug)]
pub(crate) struct SharedReactor {
    runtime: Weak<Runtime>,
    is_led: AtomicBool,
    is_closed: AtomicBool,
    /// True while the leading thread is asked to stop, but still polls the tasks that are ready.
    is_ending: AtomicBool,
    /// The number of times that a thread has begun or stopped leading, until now and until the last
    /// tick.
    turns: AtomicU64,
    turns_at_tick: AtomicU64,
    /// The end of the last term, in microseconds since `created`.
    last_end: AtomicU64,
    created: Instant,
    /// Wakes the leading thread, which may wait for events.
    leader: Mutex<Option<Waker>>,
    owner: OwnerThread,
}

/// The thread that blocks on the runtime, and the future that it blocks on.
#[derive(Debug, Default)]
struct OwnerThread {
    thread: Mutex<Option<Thread>>,
    /// True if the future must be polled.
    is_woken: AtomicBool,
    /// True if the thread is asked to lead.
    is_asked: AtomicBool,
    leads: AtomicBool,
}

/// A time in which this thread leads.
struct LeadTerm {
    shared: Arc<SharedReactor>,
    /// True while the thread polls the future that it blocks on.
    polls_own: bool,
    /// True once the tasks that were ready at the beginning have been polled, and the thread has
    /// looked for events.
    has_passed: bool,
    /// True once the thread found no events after that, and so waited.
    has_waited: bool,
    is_over: bool,
}

thread_local! {
    static TERM: RefCell<Option<LeadTerm>> = const { RefCell::new(None) };
}

fn with_term<R>(work: impl FnOnce(&mut LeadTerm) -> R) -> Option<R> {
    TERM.with_borrow_mut(|term| term.as_mut().map(work))
}

/// Makes something that needs epoll watches. If the user has used up all watches, retries for at
/// most `wait`.
fn with_watches<T>(wait: Duration, mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match make() {
            Err(error) if lacks_watches(&error) && begun.elapsed() < wait => thread::sleep(AGAIN),
            made => return made.map_err(explained),
        }
    }
}

fn lacks_watches(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

/// Explains the error of an operation that needs epoll watches. If the user has used up all
/// watches, the error names that cause: the kernel only says `No space left on device`.
pub(crate) fn explained(error: io::Error) -> io::Error {
    if !lacks_watches(&error) {
        return error;
    }
    io::Error::other(
        "a program of this user has used up the user's epoll watches \
         (`sysctl fs.epoll.max_user_watches`); end that program, and try again",
    )
}

impl Reactor {
    /// Creates a runtime with I/O and time. This starts no thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system has no descriptors left, or no epoll watches for this user for
    /// two seconds.
    pub fn new() -> io::Result<Self> {
        let note_wait = || {
            with_term(|term| term.has_waited = term.has_passed);
        };
        let build = || Builder::new_current_thread().enable_all().on_thread_park(note_wait).build();
        let runtime = with_watches(WATCHES, build)?;
        let runtime = Arc::new(runtime);
        let shared = SharedReactor {
            runtime: Arc::downgrade(&runtime),
            is_led: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            turns_at_tick: AtomicU64::new(0),
            last_end: AtomicU64::new(0),
            created: Instant::now(),
            leader: Mutex::default(),
            owner: OwnerThread::default(),
        };
        Ok(Self { shared: Arc::new(shared), runtime: Some(runtime) })
    }

    /// Runs a future on this thread until it resolves. Tasks run on this thread and on the threads
    /// of hosts, and may continue afterwards.
    ///
    /// # Panics
    ///
    /// Panics if the thread already polls a task, and if the future panics.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let Self { shared, runtime } = self;
        // The future must also be dropped in the context of the runtime.
        let _entered = runtime.as_ref().map(|runtime| runtime.enter());
        let (mut future, waker) = (pin!(future), Waker::from(Arc::clone(shared)));
        let owner = &shared.owner;
        let mut poll = || {
            if !owner.is_woken.swap(false, Ordering::SeqCst) {
                return Poll::Pending;
            }
            future.as_mut().poll(&mut Context::from_waker(&waker))
        };
        *owner.thread.lock() = Some(thread::current());
        owner.is_woken.store(true, Ordering::SeqCst);
        owner.is_asked.store(true, Ordering::Release);
        loop {
            let asked = owner.is_asked.swap(false, Ordering::AcqRel);
            let leadership = asked.then(|| shared.begin()).flatten();
            let polled = match leadership {
                Some(leadership) => {
                    owner.leads.store(true, Ordering::SeqCst);
                    let polled = leadership.lead(&mut poll, || false);
                    owner.leads.store(false, Ordering::SeqCst);
                    polled
                }
                None => poll(),
            };
            if let Poll::Ready(output) = polled {
                return output;
            }
            if !owner.is_woken.load(Ordering::SeqCst) && !owner.is_asked.load(Ordering::Acquire) {
                thread::park();
            }
        }
    }

    /// Stops polling tasks, without dropping them. Suits a program that is about to exit, because
    /// dropping everything that tasks own may take a while.
    pub fn forget(self) {
        self.shared.close();
        mem::forget(self);
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.close();
        release(self.runtime.take());
    }
}

/// Releases a runtime. The last release shuts it down, without waiting for its threads.
fn release(runtime: Option<Arc<Runtime>>) {
    if let Some(runtime) = runtime.and_then(Arc::into_inner) {
        runtime.shutdown_background();
    }
}

impl OwnerThread {
    fn unpark(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }
}

/// Wakes the future that the thread blocks on.
impl Wake for SharedReactor {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.owner.is_woken.store(true, Ordering::SeqCst);
        // The thread is parked, or waits for events of the reactor.
        self.owner.unpark();
        if self.owner.leads.load(Ordering::SeqCst) {
            self.nudge();
        }
    }
}

impl SharedReactor {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.nudge();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn is_led(&self) -> bool {
        self.is_led.load(Ordering::Acquire)
    }

    /// Returns whether a thread leads and was not asked to stop.
    pub(crate) fn is_led_on(&self) -> bool {
        self.is_led() && !self.is_ending.load(Ordering::Acquire)
    }

    /// Returns whether a thread led in the last [`FRESH`] microseconds.
    pub(crate) fn was_just_led(&self) -> bool {
        self.now().saturating_sub(self.last_end.load(Ordering::Relaxed)) < FRESH
    }

    /// Returns the microseconds since the reactor was created.
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Makes this thread the leader, unless another thread leads.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Leadership> {
        if self.is_closed() || self.is_led.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        Some(Leadership { shared: Arc::clone(self), runtime: self.runtime.upgrade(), outer: None })
    }

    /// Makes the leading thread check whether to continue.
    pub(crate) fn nudge(&self) {
        if let Some(waker) = &*self.leader.lock() {
            waker.wake_by_ref();
        }
    }

    /// Asks the thread that blocks on the runtime to lead, if no thread leads.
    pub(crate) fn ask_owner(&self) {
        if !self.is_led_on() {
            self.owner.is_asked.store(true, Ordering::Release);
            self.owner.unpark();
        }
    }

    /// Asks the thread that blocks on the runtime to lead, if no thread has led since the last
    /// tick.
    pub(crate) fn tick(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        if self.turns_at_tick.swap(turns, Ordering::Relaxed) == turns {
            self.ask_owner();
        }
    }
}

/// The right of this thread to lead, which ends when the value is dropped.
pub(crate) struct Leadership {
    shared: Arc<SharedReactor>,
    runtime: Option<Arc<Runtime>>,
    /// The term of this thread before this one. It exists only if a task blocks on another reactor.
    outer: Option<Option<LeadTerm>>,
}

impl Leadership {
    /// Drives the runtime until `look` is ready, [`end_term`] is called on this thread, or the
    /// reactor is closed. After the tasks that are ready have been polled, it also ends when
    /// `is_enough` returns true. Each [nudge](SharedReactor::nudge) calls both closures again.
    pub(crate) fn lead<T>(
        mut self,
        mut look: impl FnMut() -> Poll<T>,
        mut is_enough: impl FnMut() -> bool,
    ) -> Poll<T> {
        let shared = Arc::clone(&self.shared);
        self.outer = Some(TERM.replace(Some(LeadTerm {
            shared: Arc::clone(&shared),
            polls_own: false,
            has_passed: false,
            has_waited: false,
            is_over: false,
        })));
        let Some(runtime) = &self.runtime else { return Poll::Pending };
        let mut has_begun = false;
        runtime.block_on(poll_fn(|context| {
            if !mem::replace(&mut has_begun, true) {
                *shared.leader.lock() = Some(context.waker().clone());
                // Continue after the tasks that are ready.
                context.waker().wake_by_ref();
            } else if is_enough() {
                return Poll::Ready(Poll::Pending);
            } else {
                with_term(|term| term.has_passed = true);
            }
            // Check this before `look`: at the end, a future that `look` defers would be dropped.
            if with_term(|term| term.is_over).unwrap_or(true) || shared.is_closed() {
                return Poll::Ready(Poll::Pending);
            }
            with_term(|term| term.polls_own = true);
            let found = look();
            with_term(|term| term.polls_own = false);
            match found {
                Poll::Ready(found) => Poll::Ready(Poll::Ready(found)),
                Poll::Pending => Poll::Pending,
            }
        }))
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            TERM.set(outer);
        }
        let shared = &self.shared;
        *shared.leader.lock() = None;
        release(self.runtime.take());
        shared.last_end.store(shared.now(), Ordering::Relaxed);
        shared.turns.fetch_add(1, Ordering::Relaxed);
        shared.is_ending.store(false, Ordering::Release);
        shared.is_led.store(false, Ordering::Release);
    }
}

/// A reactor that this thread leads.
pub(crate) struct LedReactor {
    pub(crate) reactor: Arc<SharedReactor>,
    /// True if an event that came while no thread led has woken the task. Then more threads would
    /// have had work.
    pub(crate) is_behind: bool,
}

/// Returns the reactor that this thread leads, if the thread polls a task of the reactor and was
/// not asked to stop.
pub(crate) fn led() -> Option<LedReactor> {
    with_term(|term| {
        let is_behind = term.has_passed && !term.has_waited;
        let leads_on = !term.polls_own && !term.is_over;
        leads_on.then(|| LedReactor { reactor: Arc::clone(&term.shared), is_behind })
    })
    .flatten()
}

/// Makes this thread stop leading after the tasks that are ready.
pub(crate) fn end_term() {
    let shared = with_term(|term| {
        term.is_over = true;
        term.shared.is_ending.store(true, Ordering::Release);
        Arc::clone(&term.shared)
    });
    if let Some(shared) = shared {
        shared.nudge();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn watches_are_waited_for_and_named_if_none_comes() {
        let mut left = 2;
        let mut make = || -> io::Result<()> {
            left -= 1;
            if left < 0 { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        };
        with_watches(Duration::MAX, &mut make).expect("made");
        let mut make = || -> io::Result<()> { Err(io::ErrorKind::StorageFull.into()) };
        let error = with_watches(Duration::ZERO, &mut make).expect_err("none left");
        assert!(error.to_string().contains("max_user_watches"), "{error}");
        let mut make = || -> io::Result<()> { Err(io::ErrorKind::PermissionDenied.into()) };
        let error = with_watches(Duration::MAX, &mut make).expect_err("another error");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_future_of_one_thread_has_tasks_time_and_other_threads() {
        let mut reactor = Reactor::new().expect("a reactor");
        let answer = Rc::new(7);
        for _ in 0..3 {
            let found = reactor.block_on(async {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                thread::spawn(move || sender.send(1));
                let task = tokio::spawn(async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    2
                });
                let read = tokio::task::spawn_blocking(|| 3).await.expect("no panic");
                *answer + receiver.await.expect("sent") + task.await.expect("no panic") + read
            });
            assert_eq!(found, 13);
        }
    }

    #[test]
    fn a_panic_of_the_future_leaves_the_reactor_usable() {
        let mut reactor = Reactor::new().expect("a reactor");
        let broken =
            AssertUnwindSafe(|| reactor.block_on(async { assert_ne!(1, 1, "as the test wants") }));
        assert!(catch_unwind(broken).is_err());
        assert_eq!(reactor.block_on(async { tokio::spawn(async { 7 }).await.ok() }), Some(7));
    }

    /// The owner waits while another thread leads. It leads again if no thread has led for a tick.
    #[test]
    fn the_owner_leads_when_nobody_does() {
        let mut reactor = Reactor::new().expect("a reactor");
        let shared = Arc::clone(&reactor.shared);
        let (leave, leaving) = tokio::sync::oneshot::channel();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        // This thread stands in for a thread of guests.
        let other = thread::spawn(move || {
            let begun = Instant::now();
            while !shared.is_led() {
                assert!(begun.elapsed() < Duration::from_secs(60), "the owner does not lead");
                thread::yield_now();
            }
            assert!(shared.begin().is_none(), "one thread leads at a time");
            leave.send(()).expect("the owner leads");
            let leadership = loop {
                if let Some(leadership) = shared.begin() {
                    break leadership;
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "the owner never left");
            };
            shared.ask_owner();
            assert!(!shared.owner.is_asked.load(Ordering::Acquire), "it is led");
            drop(leadership);
            // The first tick may come right after a thread led.
            shared.tick();
            assert!(!shared.owner.is_asked.load(Ordering::Acquire), "it was led a moment ago");
            shared.tick();
            sender.send(()).expect("the owner waits");
        });
        reactor.block_on(async {
            let task = tokio::spawn(async {
                leaving.await.expect("sent");
                // A long call does the same.
                end_term();
                receiver.await
            });
            task.await.expect("no panic").expect("sent");
        });
        other.join().expect("no panic");
    }
}
