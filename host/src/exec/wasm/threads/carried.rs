//! A call that a thread of guests carries out from its decision to its answer, so that it is handed
//! over once.
//!
//! The thread polls the future of the call. If the call [runs a guest](GuestThreads::run), the
//! thread puts the future aside, runs the guest itself, and polls on. If the call waits for
//! anything else, such as the user, it goes back to the task that waits for it. That task polls it
//! from then on, so that a thread of guests waits only for guests. It also goes back if the guest
//! is given up, or if the task, and with it the future, is dropped.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

use super::worker::{GuestJob, Worker};
use super::{GuestThreads, Job, SHORT, ThreadPool};
use crate::exec::own_task;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

thread_local! {
    /// The guest that a call wants to run while this thread polls the call.
    static WANTED: RefCell<Option<GuestJob>> = const { RefCell::new(None) };
}

/// Gives a guest to the thread that polls the call, to run when the poll is over. Returns it if no
/// carried call is polled, or if the polled call has given a guest already.
pub(super) fn put_off(guest: GuestJob) -> Result<(), GuestJob> {
    WANTED.with_borrow_mut(|wanted| match wanted {
        None if own_task::is_elsewhere() => {
            *wanted = Some(guest);
            Ok(())
        }
        None | Some(_) => Err(guest),
    })
}

impl GuestThreads {
    /// Has a thread carry out a call of a component with this pace. Its future may use the current
    /// runtime.
    pub(crate) async fn carry<T: Send + 'static>(&self, pace: &Pace, call: Boxed<T>) -> T {
        let shared = Arc::new(SharedCall(Mutex::new(CallState {
            stage: Stage::Resting(call),
            waiting: None,
        })));
        let waiting = TaskSide { shared: Arc::clone(&shared), own: None };
        ThreadPool::submit(
            &self.0.0,
            Box::new(ThreadSide { shared, pace: pace.clone(), runtime: Handle::current() }),
        );
        waiting.await
    }
}

/// True if the last call of a component was short and waited for nothing. The next one is then
/// expected to be like it.
#[derive(Clone, Default)]
pub(crate) struct Pace(Arc<AtomicBool>);

impl Pace {
    /// Returns the pace of a component whose last call was short.
    #[cfg(test)]
    pub(super) fn short() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, is_short: bool) {
        if self.is_short() != is_short {
            self.0.store(is_short, Ordering::Relaxed);
        }
    }
}

/// A call, as its task and the thread that carries it see it.
struct SharedCall<T>(Mutex<CallState<T>>);

struct CallState<T> {
    stage: Stage<T>,
    /// The task that waits.
    waiting: Option<Waker>,
}

enum Stage<T> {
    /// It waits for a thread, or its guest runs.
    Resting(Boxed<T>),
    /// The thread polls it.
    Polled,
    /// It has gone back to the task.
    Returned(Boxed<T>),
    Ended(T),
    Panicked(Box<dyn Any + Send>),
    /// The task has taken the result, or was dropped.
    Gone,
}

impl<T> SharedCall<T> {
    /// Takes the future to poll it. Returns nothing if it is not the thread's any more.
    fn take(&self) -> Option<Boxed<T>> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut state.stage, Stage::Polled) {
            Stage::Resting(call) => Some(call),
            other => {
                state.stage = other;
                None
            }
        }
    }

    /// Sets the stage after a poll, and wakes the task unless the future rests. Gives the stage
    /// back if the task was dropped in the meantime.
    fn set(&self, stage: Stage<T>) -> Result<(), Stage<T>> {
        let mut state = self.0.lock();
        if !matches!(state.stage, Stage::Polled) {
            return Err(stage);
        }
        let waiting = match stage {
            Stage::Resting(_) => None,
            _ => state.waiting.take(),
        };
        state.stage = stage;
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Gives a future that rests back to the task. It is never dropped here: that takes a while,
    /// and the thread may be the one that watches over all guests.
    fn give_back(&self) {
        let mut state = self.0.lock();
        match std::mem::replace(&mut state.stage, Stage::Gone) {
            Stage::Resting(call) => state.stage = Stage::Returned(call),
            other => {
                state.stage = other;
                return;
            }
        }
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// A call as the thread has it.
struct ThreadSide<T> {
    shared: Arc<SharedCall<T>>,
    pace: Pace,
    runtime: Handle,
}

impl<T> ThreadSide<T> {
    /// Does something with the call that may panic, under the runtime of its task.
    fn guarded<R>(&self, work: impl FnOnce() -> R) -> thread::Result<R> {
        let _context = self.runtime.enter();
        catch_unwind(AssertUnwindSafe(work))
    }

    /// Polls the call once. Returns the next stage, and the guest that the call wants to run first.
    fn poll(&self, call: Boxed<T>) -> (Stage<T>, Option<GuestJob>) {
        let poll = move || {
            let mut call = call;
            // This thread waits for the guest. After any other wait, the task polls the call again.
            let mut context = Context::from_waker(Waker::noop());
            match call.as_mut().poll(&mut context) {
                Poll::Ready(answer) => {
                    // Everything that the call still owns goes with it.
                    drop(call);
                    Ok(answer)
                }
                Poll::Pending => Err(call),
            }
        };
        let polled = own_task::poll_elsewhere(|| self.guarded(poll));
        match (polled, WANTED.take()) {
            (Ok(Ok(answer)), _) => (Stage::Ended(answer), None),
            (Ok(Err(call)), Some(guest)) => (Stage::Resting(call), Some(guest)),
            (Ok(Err(call)), None) => (Stage::Returned(call), None),
            (Err(panic), _) => (Stage::Panicked(panic), None),
        }
    }
}

impl<T: Send + 'static> Job for ThreadSide<T> {
    fn run(
        self: Box<Self>,
        pool: &Arc<ThreadPool>,
        worker: &Arc<Worker>,
        runtime: &Runtime,
    ) -> bool {
        let begun = Instant::now();
        worker.take_waited();
        let mut is_sound = true;
        while let Some(call) = self.shared.take() {
            let (stage, guest) = self.poll(call);
            let is_over = matches!(stage, Stage::Ended(_)) && is_sound;
            if guest.is_none() {
                self.pace.set(is_over && !worker.take_waited() && begun.elapsed() < SHORT);
            }
            if is_over {
                pool.is_free(worker);
            }
            if let Err(dropped) = self.shared.set(stage) {
                // A call that is dropped makes its record, which may take a while.
                let _ = self.guarded(|| drop(dropped));
                break;
            }
            let Some(guest) = guest else { break };
            let shared = Arc::clone(&self.shared);
            let guest = guest.then_if_given_up(move || shared.give_back());
            is_sound &= worker.run(pool, runtime, guest, &mut || {});
        }
        // The call may have been dropped, or given up.
        if begun.elapsed() >= SHORT {
            self.pace.set(false);
        }
        if is_sound {
            pool.is_free(worker);
        }
        is_sound
    }

    fn refuse(self: Box<Self>, _error: io::Error) {
        // The task finds out for itself, and can say so.
        self.shared.give_back();
    }

    fn is_short(&self) -> bool {
        self.pace.is_short()
    }
}

/// A call as the task has it.
struct TaskSide<T> {
    shared: Arc<SharedCall<T>>,
    /// The future, after it has gone back.
    own: Option<Boxed<T>>,
}

impl<T> Future for TaskSide<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if self.own.is_none() {
            let mut state = self.shared.0.lock();
            match std::mem::replace(&mut state.stage, Stage::Gone) {
                Stage::Ended(answer) => return Poll::Ready(answer),
                Stage::Panicked(panic) => {
                    drop(state);
                    resume_unwind(panic)
                }
                Stage::Returned(call) => {
                    drop(state);
                    self.own = Some(call);
                }
                other => {
                    state.stage = other;
                    if !state.waiting.as_ref().is_some_and(|it| it.will_wake(context.waker())) {
                        state.waiting = Some(context.waker().clone());
                    }
                    return Poll::Pending;
                }
            }
        }
        match &mut self.own {
            Some(call) => call.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for TaskSide<T> {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.shared.0.lock().stage, Stage::Gone);
        // Not under the lock: a call that is dropped makes its record.
        drop(stage);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::super::tests::{LONG, pool, within};
    use super::super::{ThreadError, Waits};
    use super::*;
    use crate::exec::own_task::leave;

    fn is_on_a_guests_thread() -> bool {
        thread::current().name() == Some("guest")
    }

    #[tokio::test]
    async fn a_call_is_on_one_thread_from_beginning_to_end() {
        let threads = pool();
        let own = threads.clone();
        let call = async move {
            let before = thread::current().id();
            let job = || ready(thread::current().id());
            let guest = own.run(Waits::Timers, within(LONG), job).await.expect("run");
            (before, guest, thread::current().id(), is_on_a_guests_thread())
        };
        let (before, guest, after, is_a_guests) =
            threads.carry(&Pace::default(), Box::pin(call)).await;
        assert!(before == guest && guest == after && is_a_guests);
    }

    #[tokio::test]
    async fn a_call_that_waits_for_something_else_goes_back_to_its_task() {
        let threads = pool();
        let own = threads.clone();
        let task = thread::current().id();
        let call = async move {
            let first = is_on_a_guests_thread();
            leave().await;
            let left = thread::current().id();
            // It has timers, and its guests have their own threads.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let job = || ready(is_on_a_guests_thread());
            let guest = own.run(Waits::Timers, within(LONG), job).await.expect("run");
            (first, left, guest, thread::current().id())
        };
        assert_eq!(threads.carry(&Pace::default(), Box::pin(call)).await, (true, task, true, task));
    }

    #[tokio::test]
    async fn a_call_whose_guest_is_stuck_is_answered() {
        let threads = pool();
        let (release, released) = mpsc::channel::<()>();
        let own = threads.clone();
        let call = async move {
            let stuck = move || {
                let _ = released.recv();
                ready(())
            };
            let ended = own.run(Waits::Timers, within(Duration::from_millis(1)), stuck).await;
            (matches!(ended, Err(ThreadError::Abandoned)), is_on_a_guests_thread())
        };
        assert_eq!(threads.carry(&Pace::default(), Box::pin(call)).await, (true, false));
        drop(release);
    }

    /// Reports when it is dropped.
    struct Dropped(mpsc::Sender<()>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            // The test may be over.
            let _ = self.0.send(());
        }
    }

    #[tokio::test]
    async fn a_call_is_dropped_with_its_task_while_its_guest_runs() {
        let threads = pool();
        let (sender, dropped) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let own = threads.clone();
        let call = async move {
            let _dropped = Dropped(sender);
            let job = move || {
                let _ = begin.send(());
                let _ = released.recv();
                ready(())
            };
            own.run(Waits::Timers, within(LONG), job).await.is_ok()
        };
        let carrying = threads.clone();
        let task =
            tokio::spawn(async move { carrying.carry(&Pace::default(), Box::pin(call)).await });
        begun.await.expect("it runs");
        task.abort();
        assert!(task.await.expect_err("aborted").is_cancelled());
        dropped.try_recv().expect("dropped at once, and not when the guest ends");
        drop(release);
        assert!(
            threads.carry(&Pace::default(), Box::pin(async { true })).await,
            "the thread can be used again"
        );
    }

    #[tokio::test]
    async fn a_panic_reaches_the_task() {
        let threads = pool();
        let carrying = threads.clone();
        let broken = tokio::spawn(async move {
            carrying
                .carry(
                    &Pace::default(),
                    Box::pin(async { assert!(!is_on_a_guests_thread(), "as the test wants") }),
                )
                .await;
        });
        assert!(broken.await.expect_err("it panicked").is_panic());
        assert!(
            threads.carry(&Pace::default(), Box::pin(async { true })).await,
            "the thread can be used again"
        );
    }
}
