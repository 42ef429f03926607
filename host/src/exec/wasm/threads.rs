//! The threads that guests run on.
//!
//! A guest may block its thread inside the kernel, where neither epochs nor the timers of that
//! thread's runtime reach: opening a FIFO of the workspace does. So each guest has a thread to
//! itself. Past its deadline the thread is interrupted by a signal, and one that stays blocked is
//! abandoned: the call is answered, and the thread is left to the kernel and counted.

use std::cell::Cell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tokio::sync::oneshot;

/// The number of threads that may be stuck in the kernel before further calls are refused.
const MAX_ABANDONED: usize = 64;

/// The number of idle threads that are kept for later calls.
const MAX_IDLE: usize = 64;

/// The interval at which a blocked thread is interrupted once its call is over.
const INTERRUPT_EVERY: Duration = Duration::from_millis(10);

/// The number of interruptions before a thread is abandoned.
const INTERRUPTIONS: u32 = 25;

/// The signal that interrupts. It is ignored by default, and nothing else in the host uses it.
const INTERRUPT: libc::c_int = libc::SIGURG;

/// A job, which calls its second argument when it is over, before its result is sent.
type Job = Box<dyn FnOnce(&tokio::runtime::Runtime, &mut dyn FnMut()) + Send>;

type Work = (Job, Arc<Running>);

/// The sender of a thread's next call.
type Worker = mpsc::Sender<Work>;

/// The number of name lookups of one guest at once. Each takes a thread while the operating
/// system's resolver waits, which may be longer than the call.
const LOOKUPS: usize = 4;

/// The events that a job may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Time.
    Timers,
    /// Time, sockets, and the operating system's resolver.
    Sockets,
}

/// A pool of threads, each with a runtime of its own that has timers and no I/O driver: a driver
/// costs three descriptors, and a thousand guests may run at once. A job with sockets gets a
/// runtime of its own, so that its leftovers end with it. The pool grows as needed; idle threads
/// are used again, the latest first.
#[derive(Clone, Default)]
pub(super) struct GuestThreads(Arc<Pool>);

#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<Worker>>,
    abandoned: AtomicUsize,
}

/// The thread of a job, while the job runs.
#[derive(Default)]
struct Running {
    thread: Mutex<Option<libc::pthread_t>>,
}

/// The reason that a job was not begun or not finished.
#[derive(Debug, thiserror::Error)]
pub(super) enum ThreadError {
    /// Too many threads are stuck.
    #[error(
        "{0} earlier calls are stuck inside the operating system; end what blocks them \
         (a FIFO nobody writes to, a dead network mount) or restart the host"
    )]
    TooManyAbandoned(usize),
    /// The operating system gives no more threads.
    #[error("cannot start a thread for the call: {0}")]
    Spawn(std::io::Error),
    /// The operating system has no descriptors left to wait for sockets with.
    #[error("cannot wait for the network: {0}")]
    Driver(std::io::Error),
    /// The thread could not give up the capability to keep setuid and setgid.
    #[error("cannot give up the right to keep setuid and setgid of files that are written: {0}")]
    Privileges(std::io::Error),
    /// The job stayed blocked in the kernel after it was over.
    #[error("blocked inside the operating system")]
    Abandoned,
    /// The job panicked.
    #[error("the host's thread for the call failed; this is a bug in the host")]
    Lost,
}

impl GuestThreads {
    /// Runs `job` on a thread of its own until it resolves, or until some time after `over` has
    /// resolved.
    pub(super) async fn run<T, F>(
        &self,
        waits: Waits,
        job: impl FnOnce() -> F + Send + 'static,
        over: impl Future<Output = ()>,
    ) -> Result<T, ThreadError>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let stuck = self.0.abandoned.load(Ordering::Relaxed);
        if stuck >= MAX_ABANDONED {
            return Err(ThreadError::TooManyAbandoned(stuck));
        }
        let running = Arc::new(Running::default());
        let (sender, mut result) = oneshot::channel();
        let job: Job = Box::new(move |runtime, over| {
            let result = lose_set_id_on_write().and_then(|()| match waits {
                Waits::Timers => Ok(runtime.block_on(job())),
                Waits::Sockets => with_sockets(job).map_err(ThreadError::Driver),
            });
            over();
            // A missing receiver has abandoned this call.
            let _ = sender.send(result);
        });
        let flatten =
            |result: Result<Result<T, ThreadError>, _>| result.unwrap_or(Err(ThreadError::Lost));
        self.begin(job, Arc::clone(&running)).map_err(ThreadError::Spawn)?;
        tokio::select! {
            biased;
            result = &mut result => return flatten(result),
            () = over => {}
        }
        for _ in 0..INTERRUPTIONS {
            tokio::select! {
                biased;
                result = &mut result => return flatten(result),
                () = tokio::time::sleep(INTERRUPT_EVERY) => running.interrupt(),
            }
        }
        self.0.abandon(&running);
        Err(ThreadError::Abandoned)
    }

    fn begin(&self, job: Job, running: Arc<Running>) -> std::io::Result<()> {
        let mut work = (job, running);
        loop {
            let idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(worker) = idle else { break };
            match worker.send(work) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(returned)) => work = returned,
            }
        }
        let (sender, receiver) = mpsc::channel();
        sender.send(work).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
        let pool = Arc::clone(&self.0);
        install_handler();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name("guest".into())
            .spawn(move || pool.serve(&runtime, &sender, &receiver))?;
        Ok(())
    }
}

/// Takes from this thread, and from those that it starts, the capability that lets root write a
/// file without the file losing setuid and setgid (capabilities(7)). For other users the kernel
/// always removes the bits.
///
/// It is lost for good, and so this looks once in the life of a thread: what is not permitted cannot
/// become effective, not even where the process takes the identity of root again, which the C library
/// does in every thread.
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

fn with_sockets<F: Future>(job: impl FnOnce() -> F) -> std::io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(LOOKUPS)
        .build()?;
    let result = runtime.block_on(job());
    // This closes connections, and does not wait for lookups.
    runtime.shutdown_background();
    Ok(result)
}

impl Pool {
    fn serve(&self, runtime: &tokio::runtime::Runtime, own: &Worker, jobs: &mpsc::Receiver<Work>) {
        while let Ok((job, running)) = jobs.recv() {
            running.enter();
            // Idle before the caller has the result: a next call at once would otherwise wake or
            // start another thread.
            let mut idle = None;
            let mut over = || idle = Some(self.leave(&running, own));
            // After a panic the caller sees its channel close. The thread must still leave
            // `running`, or a later interruption would signal a dead thread.
            let finished = catch_unwind(AssertUnwindSafe(|| job(runtime, &mut over)));
            if finished.is_err() && idle.is_none() {
                self.leave_call(&running);
            }
            if finished.is_err() || idle != Some(true) {
                return;
            }
        }
    }

    fn leave_call(&self, running: &Running) {
        if running.leave() == Left::Abandoned {
            self.abandoned.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes a thread from its call. Returns whether it waits for another call.
    fn leave(&self, running: &Running, own: &Worker) -> bool {
        self.leave_call(running);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = idle.len() < MAX_IDLE;
        if wanted {
            idle.push(own.clone());
        }
        wanted
    }

    fn abandon(&self, running: &Running) {
        // Under the lock, so that a job that ends at this moment is not counted.
        let mut thread = running.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.take().is_some() {
            self.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Left {
    InTime,
    Abandoned,
}

impl Running {
    fn enter(&self) {
        // SAFETY: pthread_self has no preconditions.
        let own = unsafe { libc::pthread_self() };
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }

    fn leave(&self) -> Left {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.take().is_some() { Left::InTime } else { Left::Abandoned }
    }

    fn interrupt(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = *thread {
            // SAFETY: the thread is inside its job: it takes its number out of this mutex, which
            // is locked here, before it can end.
            unsafe { libc::pthread_kill(thread, INTERRUPT) };
        }
    }
}

/// Makes the signal interrupt system calls and do nothing else.
fn install_handler() {
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

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::time::Instant;

    use super::*;

    /// Blocks its thread where no signal ends it, as a dead network mount does.
    async fn stuck(until_dropped: mpsc::Receiver<()>) {
        let _ = until_dropped.recv();
    }

    #[tokio::test]
    async fn stuck_threads_are_counted_and_further_calls_refused_until_they_end() {
        let threads = GuestThreads::default();
        let (releases, calls): (Vec<_>, Vec<_>) = (0..MAX_ABANDONED)
            .map(|_| {
                let (release, released) = mpsc::channel();
                let threads = threads.clone();
                // Over once all of them have begun, however slow the machine.
                let over = tokio::time::sleep(Duration::from_secs(1));
                let call =
                    async move { threads.run(Waits::Timers, move || stuck(released), over).await };
                (release, tokio::spawn(call))
            })
            .unzip();
        for call in calls {
            let outcome = call.await.expect("no panic");
            assert!(matches!(outcome, Err(ThreadError::Abandoned)), "{outcome:?}");
        }
        let refused = threads.run(Waits::Timers, || ready(()), std::future::pending()).await;
        let Err(error @ ThreadError::TooManyAbandoned(MAX_ABANDONED)) = refused else {
            panic!("{refused:?}")
        };
        assert!(error.to_string().contains("restart the host"), "{error}");

        drop(releases);
        let begun = Instant::now();
        while threads.run(Waits::Timers, || ready(()), std::future::pending()).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the stuck threads never came back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Says something where the tests run as root.
    #[tokio::test]
    async fn no_job_keeps_setuid_or_can_have_the_right_to_it_back() {
        let threads = GuestThreads::default();
        for round in 0..3 {
            let job = || async {
                let found = capabilities(None).expect("known");
                let mut more = found;
                more.effective.insert(CapabilitySet::FSETID);
                more.permitted.insert(CapabilitySet::FSETID);
                (found, set_capabilities(None, more))
            };
            let (found, raised) =
                threads.run(Waits::Timers, job, std::future::pending()).await.expect("run");
            let has = found.effective | found.permitted;
            assert!(!has.contains(CapabilitySet::FSETID), "round {round}: {found:?}");
            assert_eq!(raised, Err(rustix::io::Errno::PERM), "round {round}");
        }
    }

    #[tokio::test]
    async fn a_job_that_panics_is_an_error_and_costs_no_other() {
        let threads = GuestThreads::default();
        let broken = threads.run(
            Waits::Timers,
            || async { panic!("as the test wants") },
            std::future::pending(),
        );
        let broken: Result<(), ThreadError> = broken.await;
        assert!(matches!(broken, Err(ThreadError::Lost)), "{broken:?}");
        let next = threads.run(Waits::Timers, || ready(7), std::future::pending()).await;
        assert!(matches!(next, Ok(7)), "{next:?}");
    }
}
