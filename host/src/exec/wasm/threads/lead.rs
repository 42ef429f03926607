//! Threads of the pool that lead the reactor of the program when they have no job.

use std::sync::Arc;
use std::task::Poll;

use super::worker::{self, Worker};
use super::{PoolState, ThreadPool};
use crate::reactor::{self, LedReactor};

/// The number of jobs, counted from one that ran during another, for which a second thread is kept
/// awake, or woken. If one caller waits for each answer, a second thread has nothing to do.
const EXPECTED: u32 = 16;

/// A second thread is woken at least once in this many times. A thread that runs each call itself
/// does not learn that another request waits.
const TRIAL: u32 = 64;

/// The demand for a second thread. The leading thread learns it from the jobs that it takes.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// The number of jobs that are left for which there is a demand.
    expected: u32,
    /// The number of times that no thread was woken since the last trial.
    spared: u32,
}

impl Demand {
    /// Notes a job, and whether another was under way or waited.
    fn note_job(&mut self, overlaps: bool) {
        self.expected = if overlaps { EXPECTED } else { self.expected.saturating_sub(1) };
    }

    /// Returns whether calls were under way at once a moment ago.
    pub(super) fn is_there(&self) -> bool {
        self.expected > 0
    }

    /// Returns whether to wake a second thread when the one that leads stops, and another request
    /// may be there.
    fn wakes(&mut self) -> bool {
        if self.is_there() {
            return true;
        }
        self.spared = (self.spared + 1) % TRIAL;
        self.spared == 0
    }
}

impl ThreadPool {
    /// Notes that a task, which this thread polls, has put a short job into the queue. Returns
    /// whether this thread runs it, so that no other has to be woken.
    pub(super) fn stop_leading_for(
        self: &Arc<Self>,
        led: &LedReactor,
        state: &mut PoolState,
    ) -> bool {
        // If a job is not short after all, the reactor still needs a leader.
        self.ticker.nudge();
        let is_known = match &state.reactor {
            Some(known) if Arc::ptr_eq(known, &led.reactor) => true,
            // A pool watches over one reactor while that reactor lives.
            Some(known) if !known.is_closed() => return false,
            _ => false,
        };
        match worker::of_this_thread(self) {
            // This thread takes the job even if another one looks for a job. The other
            // thread may not have reported the end of its last job yet, and this thread would then
            // sleep until it does.
            Some(worker) if is_known && state.has_short() => {
                let is_alone = state.awake <= state.looking + state.starting;
                state.demand.note_job(!is_alone || state.queue.len() > 1);
                worker.count(state, true);
                reactor::end_term();
                !(led.is_behind && state.demand.wakes())
            }
            Some(_) => false,
            // No thread would lead after this one.
            None if state.is_full => false,
            None => {
                // A thread of the pool leads when it has ended the job.
                state.reactor = Some(Arc::clone(&led.reactor));
                reactor::end_term();
                false
            }
        }
    }

    /// Leads the reactor, if it exists and no thread leads it, until a short job comes. Takes a
    /// long job at once. Takes a short job at once if it has just looked for events.
    pub(super) fn lead(&self, worker: &Worker) {
        let mut state = self.state.lock();
        state.reactor.take_if(|reactor| reactor.is_closed());
        let Some(reactor) = &state.reactor else { return };
        let takes_job = match state.queue.is_empty() {
            true => false,
            false => !state.has_short() || reactor.was_just_led(),
        };
        if takes_job || state.is_closed {
            return;
        }
        let Some(leadership) = reactor.begin() else { return };
        worker.count(&mut state, false);
        drop(state);
        let is_enough = || {
            let state = self.state.lock();
            state.has_short() || state.is_closed
        };
        let _: Poll<()> = leadership.lead(|| Poll::Pending, is_enough);
    }
}

impl PoolState {
    /// Has the owner of the reactor lead it, if no thread does.
    pub(super) fn ask_owner(&self) {
        if let Some(reactor) = &self.reactor {
            reactor.ask_owner();
        }
    }

    /// Returns whether a thread without a job is to lead, now or in a moment.
    pub(super) fn wants_leader(&self) -> bool {
        self.reactor.as_ref().is_some_and(|reactor| !reactor.is_led_on())
    }

    /// Returns whether the next job is a short one.
    fn has_short(&self) -> bool {
        self.queue.front().is_some_and(|queued| queued.job.is_short())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::{Arc, mpsc};
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use super::super::carried::Pace;
    use super::super::tests::{LONG, PATIENCE, pool, until_all_sleep, until_ended, within};
    use super::super::worker::Worker;
    use super::super::{GuestThreads, ThreadError, Waits};
    use super::{Demand, EXPECTED, TRIAL};
    use crate::exec::own_task::leave;
    use crate::reactor::Reactor;

    #[test]
    fn a_second_thread_is_wanted_after_calls_overlapped_and_tried_now_and_then() {
        let mut demand = Demand::default();
        let wakes = |demand: &mut Demand, times: u32| {
            (0..times)
                .filter(|_| {
                    demand.note_job(false);
                    demand.wakes()
                })
                .count()
        };
        assert_eq!((wakes(&mut demand, TRIAL - 1), wakes(&mut demand, 1)), (0, 1));
        demand.note_job(true);
        assert!(demand.is_there());
        let expected = EXPECTED as usize - 1;
        assert_eq!(wakes(&mut demand, EXPECTED), expected);
        assert!(!demand.is_there());
        assert_eq!(wakes(&mut demand, TRIAL), 1);
    }

    /// A thread that was woken to look for requests is not another call.
    #[tokio::test]
    async fn a_thread_that_starts_is_no_overlap() {
        let threads = pool();
        let pool = &threads.0.0;
        let counts = || {
            let state = pool.state.lock();
            (state.awake, state.looking, state.starting)
        };
        pool.start_one(pool.state.lock());
        let (awake, looking, starting) = counts();
        assert!(awake <= looking + starting, "{awake} {looking} {starting}");
        until_all_sleep(&threads).await;
        assert_eq!(counts(), (0, 0, 0));
    }

    /// Makes a call. Returns the thread that its guest ran on.
    async fn thread_of_call(threads: &GuestThreads, pace: &Pace) -> ThreadId {
        let own = threads.clone();
        let call = async move {
            let job = || ready(thread::current().id());
            own.run(Waits::Timers, within(LONG), job).await.expect("run")
        };
        threads.carry(pace, Box::pin(call)).await
    }

    /// Calls until the thread that polls this task runs a call itself, and so leads. Returns the
    /// thread.
    async fn until_led(threads: &GuestThreads) -> ThreadId {
        let (pace, begun) = (Pace::default(), Instant::now());
        loop {
            let before = thread::current().id();
            if thread_of_call(threads, &pace).await == before {
                return before;
            }
            assert!(begun.elapsed() < PATIENCE, "calls are handed to another thread");
        }
    }

    /// Runs a test in a task, while a thread of the pool leads.
    fn led<F: Future<Output = ()> + Send>(test: impl FnOnce(GuestThreads) -> F + Send + 'static) {
        let task = async {
            let threads = pool();
            until_led(&threads).await;
            test(threads).await
        };
        let mut reactor = Reactor::new().expect("a reactor");
        reactor.block_on(async { tokio::spawn(task).await.expect("no panic") })
    }

    /// The other thread may still be on its way from its last job.
    #[test]
    fn a_thread_that_leads_runs_a_call_itself_although_another_looks_for_one() {
        led(|threads| async move {
            let (pool, other) = (&threads.0.0, Arc::<Worker>::default());
            let look = |is_looking| {
                let mut state = pool.state.lock();
                other.count(&mut state, is_looking);
                other.look(&mut state, is_looking);
            };
            look(true);
            // It waits for events, and would do so again if it did not take the job.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let before = thread::current().id();
            let guest = thread_of_call(&threads, &Pace::short()).await;
            look(false);
            assert_eq!(guest, before);
        });
    }

    /// Makes a call that was expected to be short, and ends when another task says so after a
    /// while.
    async fn long_after_all(threads: GuestThreads) {
        let (release, released) = mpsc::channel();
        let other = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            release.send(())
        });
        let own = threads.clone();
        let job = move || ready(released.recv_timeout(PATIENCE));
        let call = async move { own.run(Waits::Timers, within(LONG), job).await };
        let released = threads.carry(&Pace::short(), Box::pin(call)).await.expect("run");
        assert_eq!(released, Ok(()), "the other task was not polled");
        other.await.expect("no panic").expect("received");
    }

    #[test]
    fn tasks_go_on_while_a_call_takes_long_that_was_to_be_short() {
        led(long_after_all);
        let mut reactor = Reactor::new().expect("a reactor");
        reactor.block_on(async { tokio::spawn(long_after_all(pool())).await.expect("no panic") });
    }

    #[test]
    fn tasks_go_on_after_a_call_that_ends_its_thread() {
        led(|threads| async move {
            let own = threads.clone();
            let broken = async move {
                let job = || async { panic!("as the test wants") };
                own.run::<(), _>(Waits::Timers, within(LONG), job).await
            };
            let broken = threads.carry(&Pace::short(), Box::pin(broken)).await;
            assert!(matches!(broken, Err(ThreadError::Lost)), "{broken:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
            until_led(&threads).await;
        });
    }

    #[test]
    fn a_call_whose_guest_is_stuck_on_a_thread_that_led_is_answered() {
        led(|threads| async move {
            let (release, released) = mpsc::channel::<()>();
            let own = threads.clone();
            let call = async move {
                let stuck = move || ready(released.recv().is_ok());
                own.run(Waits::Timers, within(Duration::from_millis(1)), stuck).await
            };
            let ended = threads.carry(&Pace::short(), Box::pin(call)).await;
            assert!(matches!(ended, Err(ThreadError::Abandoned)), "{ended:?}");
            until_led(&threads).await;
            drop(release);
        });
    }

    #[test]
    fn many_calls_of_every_kind_end_and_no_thread_is_counted_afterwards() {
        led(|threads| async move {
            let callers: Vec<_> = (0..16_u64)
                .map(|caller| {
                    let (threads, pace) = (threads.clone(), Pace::default());
                    tokio::spawn(async move {
                        for number in caller..caller + 50 {
                            let own = threads.clone();
                            let call = async move {
                                if number % 5 == 0 {
                                    leave().await;
                                }
                                let job = move || async move {
                                    match number % 7 {
                                        0 => thread::sleep(Duration::from_millis(2)),
                                        1 => tokio::time::sleep(Duration::from_millis(2)).await,
                                        _ => {}
                                    }
                                    number
                                };
                                own.run(Waits::Timers, within(LONG), job).await.expect("run")
                            };
                            assert_eq!(threads.carry(&pace, Box::pin(call)).await, number);
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.expect("no panic");
            }
            until_all_sleep(&threads).await;
        });
    }

    #[test]
    fn the_future_that_a_thread_blocks_on_stays_on_it() {
        let mut reactor = Reactor::new().expect("a reactor");
        reactor.block_on(async {
            let (own, threads) = (thread::current().id(), pool());
            for _ in 0..20 {
                let threads = threads.clone();
                tokio::spawn(async move { until_led(&threads).await }).await.expect("no panic");
                assert_eq!(thread::current().id(), own);
            }
        });
    }

    /// Only its owner leads the second reactor.
    #[test]
    fn a_pool_leads_one_reactor_and_serves_tasks_of_another() {
        async fn call(threads: &GuestThreads) {
            let own = threads.clone();
            let guest = async move { own.run(Waits::Timers, within(LONG), || ready(7)).await };
            let found = threads.carry(&Pace::short(), Box::pin(guest)).await;
            assert!(matches!(found, Ok(7)), "{found:?}");
        }
        led(|threads| async move {
            let own = threads.clone();
            let other = tokio::task::spawn_blocking(|| {
                let mut reactor = Reactor::new().expect("a reactor");
                let task = async move {
                    for _ in 0..50 {
                        call(&own).await;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                reactor.block_on(async { tokio::spawn(task).await })
            });
            while !other.is_finished() {
                call(&threads).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            other.await.expect("no panic").expect("no panic in the task");
        });
    }

    #[test]
    fn a_thread_that_leads_ends_with_its_pool_and_tasks_go_on() {
        led(|threads| async move {
            let workers = threads.0.0.workers.lock().clone();
            drop(threads);
            until_ended(&workers).await;
        });
    }

    #[test]
    fn tasks_are_dropped_with_the_reactor_whoever_leads() {
        let mut reactor = Reactor::new().expect("a reactor");
        let (held, dropped) = mpsc::channel::<()>();
        let threads = reactor.block_on(async {
            let task = async {
                let threads = pool();
                until_led(&threads).await;
                threads
            };
            let threads = tokio::spawn(task).await.expect("no panic");
            tokio::spawn(async move {
                let _held = held;
                pending::<()>().await;
            });
            threads
        });
        assert_eq!(dropped.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(reactor);
        let gone = dropped.recv_timeout(PATIENCE);
        assert_eq!(gone, Err(mpsc::RecvTimeoutError::Disconnected));
        drop(threads);
    }
}
