use std::fmt::Debug;
use std::future::ready;
use std::sync::mpsc;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::limits::{CallLimits, Deadline};

/// A pool, and the thread that ticks for it.
pub(super) fn pool() -> GuestThreads {
    let threads = GuestThreads::new(Arc::default());
    let watch = threads.watch();
    thread::spawn(move || {
        while watch().is_some() {
            thread::sleep(super::super::ticker::EPOCH_TICK);
        }
    });
    threads
}

/// The end of a guest that has this time.
pub(super) fn within(wall_clock: Duration) -> Until {
    let limits = CallLimits { wall_clock, ..CallLimits::default() };
    Until { cancel: CancellationToken::new(), deadline: Deadline::default().watch(&limits) }
}

pub(super) const LONG: Duration = Duration::from_secs(3_600);

/// The time limit of every wait: far beyond what anything takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds` returns true for the state that `look` returns.
pub(super) async fn eventually<S: Debug>(
    what: &str,
    look: impl Fn() -> S,
    holds: impl Fn(&S) -> bool,
) {
    let begun = Instant::now();
    loop {
        let state = look();
        if holds(&state) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {state:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Blocks its thread so that no signal ends it, as a dead network mount does.
async fn stuck(until_dropped: mpsc::Receiver<()>) {
    let _ = until_dropped.recv();
}

#[tokio::test]
async fn a_task_that_a_guest_has_dropped_ends_with_the_guest() {
    for waits in [Waits::Timers, Waits::Sockets] {
        let job = || async {
            let held = Arc::new(());
            let kept = Arc::downgrade(&held);
            for _ in 0..1_000 {
                let held = Arc::clone(&held);
                drop(wasmtime_wasi::runtime::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }));
            }
            kept
        };
        let kept = pool().run(waits, within(LONG), job).await.expect("it ran");
        assert_eq!(kept.strong_count(), 0, "{waits:?}");
    }
}

#[tokio::test]
async fn stuck_threads_are_counted_and_further_calls_refused_until_they_end() {
    let threads = pool();
    let (releases, calls): (Vec<_>, Vec<_>) = (0..MAX_ABANDONED)
        .map(|_| {
            let (release, released) = mpsc::channel();
            let threads = threads.clone();
            // Over once all of them have begun, however slow the machine.
            let until = within(Duration::from_secs(1));
            let call =
                async move { threads.run(Waits::Timers, until, move || stuck(released)).await };
            (release, tokio::spawn(call))
        })
        .unzip();
    for call in calls {
        let outcome = call.await.expect("no panic");
        assert!(matches!(outcome, Err(ThreadError::Abandoned)), "{outcome:?}");
    }
    let refused = threads.run(Waits::Timers, within(LONG), || ready(())).await;
    let Err(error @ ThreadError::TooManyAbandoned(MAX_ABANDONED)) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("restart the host"), "{error}");

    drop(releases);
    let begun = Instant::now();
    while threads.run(Waits::Timers, within(LONG), || ready(())).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "the stuck threads never came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Shows something only if the tests run as root.
#[tokio::test]
async fn no_job_keeps_setuid_or_can_have_the_right_to_it_back() {
    let threads = pool();
    for round in 0..3 {
        let job = || async {
            let found = capabilities(None).expect("known");
            let mut more = found;
            more.effective.insert(CapabilitySet::FSETID);
            more.permitted.insert(CapabilitySet::FSETID);
            (found, set_capabilities(None, more))
        };
        let (found, raised) = threads.run(Waits::Timers, within(LONG), job).await.expect("run");
        let has = found.effective | found.permitted;
        assert!(!has.contains(CapabilitySet::FSETID), "round {round}: {found:?}");
        assert_eq!(raised, Err(rustix::io::Errno::PERM), "round {round}");
    }
}

#[tokio::test]
async fn a_job_that_panics_is_an_error_and_costs_no_other() {
    let threads = pool();
    let broken: Result<(), ThreadError> =
        threads.run(Waits::Timers, within(LONG), || async { panic!("as the test wants") }).await;
    assert!(matches!(broken, Err(ThreadError::Lost)), "{broken:?}");
    let next = threads.run(Waits::Timers, within(LONG), || ready(7)).await;
    assert!(matches!(next, Ok(7)), "{next:?}");
}

/// Returns the threads that are awake, those that look for a job, and the jobs that wait.
fn counts(threads: &GuestThreads) -> (usize, usize, usize) {
    let state = threads.0.0.state.lock();
    (state.awake, state.looking, state.queue.len())
}

pub(super) async fn until_all_sleep(threads: &GuestThreads) {
    eventually("all threads sleep", || counts(threads), |counts| *counts == (0, 0, 0)).await;
}

/// Waits until each of these threads of a pool that was dropped has ended.
pub(super) async fn until_ended(workers: &[Weak<Worker>]) {
    let left = || workers.iter().filter(|worker| worker.strong_count() > 0).count();
    eventually("no thread is left", left, |left| *left == 0).await;
}

/// More guests than processors: some wait for an event, some compute, some panic.
#[tokio::test]
async fn every_job_gets_a_thread_and_none_is_counted_in_the_end() {
    let threads = pool();
    let calls: Vec<_> = (0..100_u64)
        .map(|number| {
            let threads = threads.clone();
            tokio::spawn(async move {
                let job = move || async move {
                    match number % 4 {
                        0 => tokio::time::sleep(Duration::from_millis(20)).await,
                        1 => thread::sleep(Duration::from_millis(2)),
                        2 => assert_ne!(number, 50, "as the test wants"),
                        _ => {}
                    }
                    number
                };
                threads.run(Waits::Timers, within(LONG), job).await.ok()
            })
        })
        .collect();
    let mut sum = 0;
    for call in calls {
        sum += call.await.expect("no panic").unwrap_or_default();
    }
    assert_eq!(sum, (0..100).sum::<u64>() - 50);
    until_all_sleep(&threads).await;
}

/// As many guests as there are processors never end, and one more gets its turn.
#[tokio::test]
async fn long_jobs_do_not_hold_up_a_short_one() {
    let threads = pool();
    let (releases, long): (Vec<_>, Vec<_>) = (0..threads.0.0.processors)
        .map(|_| {
            let (release, released) = mpsc::channel();
            let threads = threads.clone();
            let job = move || stuck(released);
            let call = async move { threads.run(Waits::Timers, within(LONG), job).await.is_ok() };
            (release, tokio::spawn(call))
        })
        .unzip();
    let short = threads.run(Waits::Timers, within(LONG), || ready(7)).await;
    assert!(matches!(short, Ok(7)), "{short:?}");
    drop(releases);
    for call in long {
        assert!(call.await.expect("no panic"));
    }
}

/// No machine has such a stack, so that no thread starts.
const NO_STACK: usize = 1 << 50;

#[tokio::test]
async fn a_job_for_which_there_is_no_thread_is_an_error_and_the_next_one_runs() {
    let threads = pool();
    for _ in 0..2 * threads.0.0.processors + 1 {
        threads.0.0.stack.store(NO_STACK, Ordering::Relaxed);
        let refused = threads.run(Waits::Timers, within(LONG), || ready(())).await;
        assert!(matches!(refused, Err(ThreadError::Spawn(_))), "{refused:?}");
        let own = threads.clone();
        let call = async move { own.run(Waits::Timers, within(LONG), || ready(())).await };
        let refused = threads.carry(&Pace::default(), Box::pin(call)).await;
        assert!(matches!(refused, Err(ThreadError::Spawn(_))), "{refused:?}");
        assert_eq!(counts(&threads), (0, 0, 0));
    }
    threads.0.0.stack.store(0, Ordering::Relaxed);
    let next = threads.run(Waits::Timers, within(LONG), || ready(7)).await;
    assert!(matches!(next, Ok(7)), "{next:?}");
}

/// The existing threads may be in their guests for as long as the guests want.
#[tokio::test]
async fn a_job_that_waits_for_a_thread_in_vain_is_an_error() {
    let threads = pool();
    let (release, released) = mpsc::channel();
    let own = threads.clone();
    let job = move || stuck(released);
    let long = tokio::spawn(async move { own.run(Waits::Timers, within(LONG), job).await.is_ok() });
    eventually("it has begun", || counts(&threads), |counts| *counts == (1, 0, 0)).await;
    threads.0.0.stack.store(NO_STACK, Ordering::Relaxed);
    let refused = threads.run(Waits::Timers, within(LONG), || ready(())).await;
    assert!(matches!(refused, Err(ThreadError::Spawn(_))), "{refused:?}");
    drop(release);
    assert!(long.await.expect("no panic"));
}

#[tokio::test]
async fn idle_threads_end_with_the_pool() {
    let threads = pool();
    let job = || ready(thread::current().name() == Some("guest"));
    assert!(threads.run(Waits::Timers, within(LONG), job).await.expect("run"));
    until_all_sleep(&threads).await;
    let workers = threads.0.0.workers.lock().clone();
    drop(threads);
    until_ended(&workers).await;
}

#[tokio::test]
async fn a_guest_that_is_over_is_interrupted() {
    let threads = pool();
    let job = || {
        // Ends by a signal only. The time is there so that a failure ends, too.
        let ended = rustix::thread::nanosleep(&rustix::fs::Timespec { tv_sec: 60, tv_nsec: 0 });
        ready(matches!(ended, rustix::thread::NanosleepRelativeResult::Interrupted(_)))
    };
    let until = within(Duration::from_millis(10));
    assert!(threads.run(Waits::Timers, until, job).await.expect("not given up"));
    let cancelled = within(LONG);
    cancelled.cancel.cancel();
    assert!(threads.run(Waits::Timers, cancelled, job).await.expect("not given up"));
}
