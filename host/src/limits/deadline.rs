//! The deadline of one call, which its caller may extend while the call runs.
//!
//! Owns the rule that a call never gets more time than the ceiling of [`CallLimits`]. The executors
//! enforce the deadline.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::CallLimits;

/// The time of one call, shared by its caller and the host. Clones share the deadline.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use ikigai_host::{Control, Deadline, Host, Snapshot};
///
/// # async fn example(host: &Arc<Host>, tools: &Snapshot) {
/// let deadline = Deadline::default();
/// let control = Control { deadline: deadline.clone(), ..Control::default() };
/// let call = host.call(tools, "bash", r#"{"command": "make"}"#.into(), control);
/// let person = async {
///     // When somebody asks for it:
///     deadline.extend(Duration::from_secs(120));
/// };
/// let (envelope, ()) = tokio::join!(call, person);
/// println!("{envelope}");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Deadline(watch::Sender<Option<Time>>);

/// The time limit of a call, counted from the start of its program. `now` and `ceiling` exclude the
/// time in which a question was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    decided: Duration,
    now: Duration,
    ceiling: Duration,
    /// The time in which questions were open.
    excluded: Duration,
    /// The number of open questions, and the time at which the first was asked.
    open: u32,
    opened: Option<Instant>,
}

/// The most time that questions add to a call: eight questions of five minutes, and the questions
/// before the call. The bound exists because a native tool may continue while a question is open.
const MOST_EXCLUDED: Duration = Duration::from_secs(45 * 60);

impl Time {
    /// Returns the time that an executor enforces.
    fn kept(self) -> Duration {
        let excluded = if self.open > 0 { MOST_EXCLUDED } else { self.excluded };
        self.now.saturating_add(excluded.min(MOST_EXCLUDED))
    }
}

/// The effect of [`Deadline::extend`]. Times count from the start of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The call now has this time.
    To(Duration),
    /// The call now has this time, which is the most that the policy allows.
    ToCeiling(Duration),
    /// The policy has not decided on the call yet, so its time has not begun.
    NotBegun,
}

impl Default for Deadline {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Deadline {
    /// Returns the current time limit of the call, counted from the start of its program. Returns
    /// `None` before the policy has decided.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        self.0.borrow().map(|time| time.now)
    }

    /// Returns whether the policy allows the call more time than it has.
    #[must_use]
    pub fn can_be_extended(&self) -> bool {
        self.0.borrow().is_some_and(|time| time.now < time.ceiling)
    }

    /// Gives the call more time, as far as the policy allows it. Has no effect on a call that has
    /// ended.
    pub fn extend(&self, by: Duration) -> Extended {
        let mut extended = Extended::NotBegun;
        self.0.send_if_modified(|time| {
            let Some(time) = time else { return false };
            let wanted = time.now.saturating_add(by);
            let before = time.now;
            time.now = wanted.min(time.ceiling);
            extended = match time.now == wanted {
                true => Extended::To(wanted),
                false => Extended::ToCeiling(time.now),
            };
            time.now != before
        });
        extended
    }

    /// Sets the time that the policy decided.
    pub(crate) fn begin(&self, limits: &CallLimits) {
        let decided = limits.wall_clock;
        let ceiling = limits.wall_clock_ceiling.max(decided);
        self.0.send_replace(Some(Time {
            decided,
            now: decided,
            ceiling,
            excluded: Duration::ZERO,
            open: 0,
            opened: None,
        }));
    }

    /// Begins the time of a second run, after a new decision of the policy. Excluded time for
    /// questions starts again at zero. Time that the caller added stays, as far as the policy now
    /// allows it.
    pub(crate) fn begin_again(&self, limits: &CallLimits) {
        let decided = limits.wall_clock;
        let ceiling = limits.wall_clock_ceiling.max(decided);
        self.0.send_if_modified(|time| {
            let Some(time) = time else { return false };
            let given = time.now.saturating_sub(time.decided);
            let now = decided.saturating_add(given).min(ceiling);
            *time = Time { decided, now, ceiling, excluded: Duration::ZERO, ..*time };
            true
        });
    }

    /// Stops the time of the call until the result is dropped. Before the policy has decided,
    /// returns a value without effect.
    pub(crate) fn stop(&self) -> StoppedClock {
        self.0.send_if_modified(|time| {
            let Some(time) = time else { return false };
            time.open += 1;
            time.opened.get_or_insert_with(Instant::now);
            time.open == 1
        });
        StoppedClock(self.0.clone())
    }

    /// Returns the time in which questions were open since the program started.
    pub(crate) fn excluded(&self) -> Duration {
        self.0.borrow().map_or(Duration::ZERO, |time| time.excluded)
    }

    /// Returns the limits with the wall clock that applies now.
    pub(crate) fn applied(&self, limits: CallLimits) -> CallLimits {
        CallLimits { wall_clock: self.time().unwrap_or(limits.wall_clock), ..limits }
    }

    /// Returns the time of the call if its caller extended it beyond the policy's decision.
    pub(crate) fn extended(&self) -> Option<Duration> {
        self.0.borrow().filter(|time| time.now > time.decided).map(|time| time.now)
    }

    /// Returns a view of the deadline for the executor of a call with these limits.
    pub(crate) fn watch(&self, limits: &CallLimits) -> DeadlineWatch {
        DeadlineWatch { times: self.0.subscribe(), decided: limits.wall_clock }
    }
}

/// Keeps the time of a call stopped until it is dropped.
pub(crate) struct StoppedClock(watch::Sender<Option<Time>>);

impl Drop for StoppedClock {
    fn drop(&mut self) {
        self.0.send_if_modified(|time| {
            // The time may have begun during the stop. Then this stop excludes nothing.
            let Some(time) = time.as_mut().filter(|time| time.open > 0) else { return false };
            time.open -= 1;
            if time.open > 0 {
                return false;
            }
            time.excluded += time.opened.take().map(|opened| opened.elapsed()).unwrap_or_default();
            true
        });
    }
}

/// An executor's view of a deadline.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineWatch {
    times: watch::Receiver<Option<Time>>,
    /// The time if the policy has not decided, as for `--schema`.
    decided: Duration,
}

impl DeadlineWatch {
    /// Returns the time that the call has now.
    fn time(&self) -> Duration {
        self.times.borrow().map_or(self.decided, Time::kept)
    }

    /// Returns the time that the call now has beyond the policy's decision.
    pub(crate) fn added(&self) -> Duration {
        self.time().saturating_sub(self.decided)
    }

    /// Waits until the time changes, and returns the new time.
    pub(crate) async fn more(&mut self) -> Duration {
        if self.times.changed().await.is_err() {
            // The caller and the host have dropped the deadline.
            pending::<()>().await;
        }
        self.time()
    }

    /// Returns whether the time is over for a call that started at `started`.
    pub(crate) fn is_over(&self, started: Instant) -> bool {
        started.elapsed() >= self.time()
    }

    /// Waits until the time is over for a call that started at `started`.
    pub(crate) async fn over(mut self, started: Instant) {
        loop {
            let Some(end) = started.checked_add(self.time()) else { return pending().await };
            tokio::select! {
                biased;
                _ = self.more() => {}
                () = tokio::time::sleep_until(end.into()) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits(seconds: u32, ceiling: u32) -> CallLimits {
        CallLimits {
            wall_clock: seconds * SECOND,
            wall_clock_ceiling: ceiling * SECOND,
            ..CallLimits::default()
        }
    }

    #[test]
    fn a_call_gets_more_time_up_to_the_ceiling() {
        let deadline = Deadline::default();
        assert_eq!((deadline.extend(SECOND), deadline.time()), (Extended::NotBegun, None));
        deadline.begin(&limits(30, 60));
        assert_eq!((deadline.time(), deadline.extended()), (Some(30 * SECOND), None));
        assert_eq!(deadline.extend(20 * SECOND), Extended::To(50 * SECOND));
        assert_eq!(deadline.extend(20 * SECOND), Extended::ToCeiling(60 * SECOND));
        assert_eq!(deadline.extend(20 * SECOND), Extended::ToCeiling(60 * SECOND));
        assert_eq!(deadline.extended(), Some(60 * SECOND));
        assert!(!deadline.can_be_extended());
        assert_eq!(deadline.applied(limits(30, 60)).wall_clock, 60 * SECOND);
    }

    #[test]
    fn the_time_of_a_question_is_counted_apart() {
        let deadline = Deadline::default();
        assert_eq!(deadline.excluded(), Duration::ZERO);
        deadline.begin(&limits(30, 60));
        let stopped = deadline.stop();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(deadline.excluded(), Duration::ZERO, "the question is open");
        drop(stopped);
        assert!(deadline.excluded() >= Duration::from_millis(5), "{:?}", deadline.excluded());
        deadline.begin_again(&limits(30, 60));
        assert_eq!(deadline.excluded(), Duration::ZERO, "of the second run");
    }

    #[test]
    fn a_ceiling_below_the_time_that_was_decided_takes_nothing_away() {
        let deadline = Deadline::default();
        deadline.begin(&limits(30, 10));
        assert_eq!(deadline.extend(SECOND), Extended::ToCeiling(30 * SECOND));
        assert_eq!(deadline.extended(), None);
    }

    #[test]
    fn a_second_run_has_the_time_that_was_decided_for_it_and_what_was_given() {
        for (extended, now, time) in
            [(0, (30, 60), 30), (20, (30, 60), 50), (0, (5, 60), 5), (20, (5, 10), 10)]
        {
            let deadline = Deadline::default();
            deadline.begin(&limits(30, 60));
            deadline.extend(extended * SECOND);
            deadline.begin_again(&limits(now.0, now.1));
            assert_eq!(deadline.time(), Some(time * SECOND), "{extended} {now:?}");
            assert_eq!(deadline.can_be_extended(), time < now.1, "{extended} {now:?}");
        }
    }

    /// Returns whether the time is over for a call that started this long ago.
    async fn is_over(deadline: &Deadline, limits: &CallLimits, ago: Duration) -> bool {
        let started = Instant::now().checked_sub(ago).expect("the machine runs longer");
        tokio::select! {
            biased;
            () = deadline.watch(limits).over(started) => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_call_is_over_when_the_time_that_it_has_now_is() {
        let (deadline, limits) = (Deadline::default(), limits(2, 3_600));
        deadline.begin(&limits);
        assert!(is_over(&deadline, &limits, 3 * SECOND).await);
        deadline.extend(600 * SECOND);
        assert!(!is_over(&deadline, &limits, 3 * SECOND).await);
    }

    #[tokio::test]
    async fn a_wait_that_has_begun_hears_of_more_time() {
        let (deadline, limits) = (Deadline::default(), limits(2, 3_600));
        deadline.begin(&limits);
        let mut watched = deadline.watch(&limits);
        let (more, _) = tokio::join!(watched.more(), async { deadline.extend(8 * SECOND) });
        assert_eq!(more, 10 * SECOND);
    }

    #[tokio::test]
    async fn a_call_is_not_charged_for_the_time_in_which_a_question_is_open() {
        let (deadline, limits) = (Deadline::default(), limits(2, 2));
        deadline.begin(&limits);
        let (one, other) = (deadline.stop(), deadline.stop());
        assert!(!is_over(&deadline, &limits, 3 * SECOND).await);
        drop(one);
        assert!(!is_over(&deadline, &limits, 3 * SECOND).await);
        drop(other);
        assert!(is_over(&deadline, &limits, 3 * SECOND).await);
        // The caller did not extend the time, so the envelope names the limit of the policy.
        assert_eq!((deadline.extended(), deadline.time()), (None, Some(2 * SECOND)));
    }

    #[tokio::test]
    async fn a_deadline_that_nobody_holds_any_more_is_kept() {
        let limits = limits(2, 2);
        let watched = Deadline::default().watch(&limits);
        let started = Instant::now().checked_sub(3 * SECOND).expect("the machine runs longer");
        watched.over(started).await;
    }

    #[tokio::test]
    async fn questions_add_at_most_45_minutes_to_a_call() {
        let (deadline, limits) = (Deadline::default(), limits(2, 2));
        deadline.begin(&limits);
        let most = 45 * 60 * SECOND + 2 * SECOND;
        let question = deadline.stop();
        assert!(!is_over(&deadline, &limits, most - 60 * SECOND).await);
        assert!(is_over(&deadline, &limits, most + SECOND).await, "the question is open");
        deadline.0.send_modify(|time| {
            let time = time.as_mut().expect("it has begun");
            time.opened = Instant::now().checked_sub(2 * most);
        });
        drop(question);
        assert!(!is_over(&deadline, &limits, most - 60 * SECOND).await);
        assert!(is_over(&deadline, &limits, most + SECOND).await, "it was open for longer");
    }
}
