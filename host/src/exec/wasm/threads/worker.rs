//! One thread, and the guest that it runs.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::Thread;
use std::time::Instant;

use parking_lot::Mutex;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Job, PoolState, SHORT, ThreadError, ThreadPool, Waits};
use crate::exec::net::LOOKUPS_OF_A_CALL;
use crate::exec::wasm::tasks;
use crate::limits::DeadlineWatch;

/// The ticks that a guest has, after its end is due, to see the end on its own.
const GRACE: u32 = 3;

/// The number of interruptions, one each tick, before a thread is abandoned.
const INTERRUPTIONS: u32 = 25;

/// The signal that interrupts. It is ignored by default.
const INTERRUPT: libc::c_int = libc::SIGURG;

/// The cancellation and the deadline of a guest.
pub(in super::super) struct Until {
    pub(in super::super) cancel: CancellationToken,
    pub(in super::super) deadline: DeadlineWatch,
}

impl Until {
    pub(in super::super) fn is_over(&self, started: Instant) -> bool {
        self.cancel.is_cancelled() || self.deadline.is_over(started)
    }
}

/// A thread of the pool.
#[derive(Default)]
pub(super) struct Worker {
    thread: OnceLock<Thread>,
    is_woken: AtomicBool,
    /// True while [`PoolState::awake`] counts the thread. The next two are the same for
    /// [`PoolState::looking`] and [`PoolState::starting`]. They change only under the lock of the state.
    is_counted: AtomicBool,
    is_looking: AtomicBool,
    is_starting: AtomicBool,
    /// True once the job has waited for an event.
    has_waited: AtomicBool,
    guest: Mutex<Option<Present>>,
}

/// The guest that a thread runs.
struct Present {
    thread: PosixThread,
    started: Instant,
    until: Until,
    ticks_over: u32,
    give_up: GiveUp,
}

/// A thread as the C library names it: with musl and on macOS, by a pointer.
#[derive(Clone, Copy)]
struct PosixThread(libc::pthread_t);

// SAFETY: every thread of the process may use the name, and nothing is accessed through it.
unsafe impl Send for PosixThread {}

/// Answers a call in place of its guest.
pub(super) type GiveUp = Box<dyn FnOnce(ThreadError) + Send>;

thread_local! {
    /// This thread, if it belongs to a pool.
    static THIS: RefCell<Option<(Weak<ThreadPool>, Arc<Worker>)>> = const { RefCell::new(None) };
}

/// Begins the life of a thread of the pool. Runs on that thread.
pub(super) fn enter(pool: &Arc<ThreadPool>, worker: &Arc<Worker>) {
    // Only this thread sets it.
    let _ = worker.thread.set(std::thread::current());
    THIS.set(Some((Arc::downgrade(pool), Arc::clone(worker))));
}

/// Returns this thread, if it belongs to the pool.
pub(super) fn of_this_thread(pool: &Arc<ThreadPool>) -> Option<Arc<Worker>> {
    THIS.with_borrow(|this| {
        let (own, worker) = this.as_ref()?;
        std::ptr::eq(own.as_ptr(), Arc::as_ptr(pool)).then(|| Arc::clone(worker))
    })
}

impl Worker {
    /// Sets whether the thread is counted among those that are awake.
    pub(super) fn count(&self, state: &mut PoolState, is_counted: bool) {
        if self.is_counted.swap(is_counted, Ordering::Relaxed) != is_counted {
            if is_counted {
                state.awake += 1;
            } else {
                state.awake -= 1;
            }
        }
        if !is_counted {
            self.look(state, false);
        }
    }

    /// Notes that the thread is woken to look at the queue.
    pub(super) fn start(&self, state: &mut PoolState) {
        self.count(state, true);
        if !self.is_starting.swap(true, Ordering::Relaxed) {
            state.starting += 1;
        }
    }

    /// Sets whether the thread is about to look at the queue. A thread that starts has come to it.
    pub(super) fn look(&self, state: &mut PoolState, is_looking: bool) {
        if self.is_starting.swap(false, Ordering::Relaxed) {
            state.starting -= 1;
        }
        if self.is_looking.swap(is_looking, Ordering::Relaxed) != is_looking {
            if is_looking {
                state.looking += 1;
            } else {
                state.looking -= 1;
            }
        }
    }

    /// Notes that the job waits for an event.
    pub(super) fn note_wait(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
    }

    /// Returns whether the job has waited for an event since this was asked last.
    pub(super) fn take_waited(&self) -> bool {
        self.has_waited.swap(false, Ordering::Relaxed)
    }

    /// Returns whether the thread computes for a guest that is not short.
    pub(super) fn runs_long(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
            && self.guest.lock().as_ref().is_some_and(|present| present.started.elapsed() >= SHORT)
    }

    /// Sleeps until another thread [wakes](Self::wake) this one.
    pub(super) fn sleep(&self) {
        while !self.is_woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }

    pub(super) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        // A thread that has not begun does not sleep either.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Runs a guest on this thread. Returns false if it panicked.
    pub(super) fn run(
        self: &Arc<Self>,
        pool: &Arc<ThreadPool>,
        runtime: &Runtime,
        guest: GuestJob,
        free: &mut dyn FnMut(),
    ) -> bool {
        let GuestJob { until, run, give_up } = guest;
        // SAFETY: pthread_self has no preconditions.
        let thread = PosixThread(unsafe { libc::pthread_self() });
        let started = Instant::now();
        *self.guest.lock() = Some(Present { thread, started, until, ticks_over: 0, give_up });
        let has_left = Cell::new(false);
        let leave = || {
            has_left.set(true);
            if self.guest.lock().take().is_none() {
                pool.abandoned.fetch_sub(1, Ordering::Relaxed);
                self.count(&mut pool.state.lock(), true);
            }
        };
        let here = ThreadContext { pool, worker: self, runtime };
        let finished = catch_unwind(AssertUnwindSafe(|| {
            run(&here, &mut || {
                leave();
                free();
            });
        }));
        // A later interruption would signal a thread that runs something else or has ended.
        if !has_left.get() {
            leave();
        }
        finished.is_ok()
    }

    /// Interrupts a guest that is over and does not end. Returns the answer to its call if it is
    /// given up.
    pub(super) fn watch(&self, pool: &ThreadPool) -> Option<GiveUp> {
        let mut guest = self.guest.lock();
        let present = guest.as_mut()?;
        if !present.until.is_over(present.started) {
            // It may have been over, and was given more time.
            present.ticks_over = 0;
            return None;
        }
        present.ticks_over += 1;
        if present.ticks_over > GRACE + INTERRUPTIONS {
            let given_up = guest.take();
            // Under the lock, so that a guest that ends at this moment is not counted.
            pool.abandoned.fetch_add(1, Ordering::Relaxed);
            self.count(&mut pool.state.lock(), false);
            return given_up.map(|present| present.give_up);
        }
        if present.ticks_over > GRACE {
            // SAFETY: the thread is inside its guest: it takes its number out of this mutex, which
            // is locked here, before it can end.
            unsafe { libc::pthread_kill(present.thread.0, INTERRUPT) };
        }
        None
    }
}

/// The thread, the pool and the runtime of a guest that runs.
pub(super) struct ThreadContext<'a> {
    pool: &'a Arc<ThreadPool>,
    worker: &'a Arc<Worker>,
    runtime: &'a Runtime,
}

type RunGuest = Box<dyn FnOnce(&ThreadContext<'_>, &mut dyn FnMut()) + Send>;

/// A guest that is to run. `run` calls its second argument when it is over, before it answers.
pub(super) struct GuestJob {
    until: Until,
    run: RunGuest,
    give_up: GiveUp,
}

/// The one answer to a call. The guest gives it, or the thread that gives the guest up.
struct AnswerTo<T>(Mutex<Option<oneshot::Sender<Result<T, ThreadError>>>>);

impl<T> AnswerTo<T> {
    fn give(&self, result: Result<T, ThreadError>) {
        let sender = self.0.lock().take();
        if let Some(sender) = sender {
            // Fails if the call was dropped, which then needs no answer.
            let _ = sender.send(result);
        }
    }
}

impl GuestJob {
    pub(super) fn new<T, F>(
        waits: Waits,
        until: Until,
        job: impl FnOnce() -> F + Send + 'static,
        sender: oneshot::Sender<Result<T, ThreadError>>,
    ) -> Self
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let answer = Arc::new(AnswerTo(Mutex::new(Some(sender))));
        let instead = Arc::clone(&answer);
        let run = move |here: &ThreadContext<'_>, over: &mut dyn FnMut()| {
            let result = lose_set_id_on_write().and_then(|()| match waits {
                // The future has kilobytes, and the runtime would keep two copies of it on the
                // stack.
                Waits::Timers => Ok(here.runtime.block_on(Box::pin(async {
                    let result = job().await;
                    // The runtime is used again.
                    tasks::finish_aborted().await;
                    result
                }))),
                Waits::Sockets => with_sockets(here, job).map_err(ThreadError::Driver),
            });
            over();
            answer.give(result);
        };
        let give_up = move |why| instead.give(Err(why));
        Self { until, run: Box::new(run), give_up: Box::new(give_up) }
    }

    /// Runs `then` after the answer, if the guest is given up.
    pub(super) fn then_if_given_up(self, then: impl FnOnce() + Send + 'static) -> Self {
        let Self { until, run, give_up } = self;
        let give_up = move |why| {
            give_up(why);
            then();
        };
        Self { until, run, give_up: Box::new(give_up) }
    }
}

impl Job for GuestJob {
    fn run(
        self: Box<Self>,
        pool: &Arc<ThreadPool>,
        worker: &Arc<Worker>,
        runtime: &Runtime,
    ) -> bool {
        worker.run(pool, runtime, *self, &mut || pool.is_free(worker))
    }

    fn refuse(self: Box<Self>, error: io::Error) {
        (self.give_up)(ThreadError::Spawn(error));
    }
}

/// Runs a job with a second runtime, so that nothing of it outlives the guest.
fn with_sockets<F: Future>(
    here: &ThreadContext<'_>,
    job: impl FnOnce() -> F,
) -> io::Result<F::Output> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(LOOKUPS_OF_A_CALL);
    let runtime = here.pool.runtime(here.worker, &mut builder)?;
    let result = runtime.block_on(Box::pin(job()));
    // This closes connections, and does not wait for lookups.
    runtime.shutdown_background();
    Ok(result)
}

/// Takes from this thread, and from those that it starts, the capability that lets root write a
/// file without the file losing setuid and setgid (capabilities(7)). For other users the kernel
/// always removes the bits.
///
/// It is lost for good, so this looks once in the life of a thread. A capability that is not
/// permitted cannot become effective, even if the process takes the identity of root again. The C
/// library does that in every thread.
fn lose_set_id_on_write() -> Result<(), ThreadError> {
    thread_local! {
        static IS_LOST: Cell<bool> = const { Cell::new(false) };
    }
    if IS_LOST.get() {
        return Ok(());
    }
    let lose = || {
        let mut own = capabilities(None)?;
        if (own.effective | own.permitted).contains(CapabilitySet::FSETID) {
            own.effective.remove(CapabilitySet::FSETID);
            own.permitted.remove(CapabilitySet::FSETID);
            set_capabilities(None, own)?;
        }
        Ok(())
    };
    lose().map_err(|errno: rustix::io::Errno| ThreadError::Privileges(errno.into()))?;
    IS_LOST.set(true);
    Ok(())
}

/// Makes the signal interrupt system calls and do nothing else.
pub(super) fn install_handler() {
    static ONCE: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    ONCE.call_once(|| {
        // SAFETY: the structure is plain data for which zero is valid, the handler
        // does nothing, and without SA_RESTART blocked calls return EINTR.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(INTERRUPT, &raw const action, std::ptr::null_mut());
        }
    });
}
