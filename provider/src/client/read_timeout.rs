//! How long the next bytes of an answer are waited for. Knows the time and what came; what
//! becomes of an answer that is waited for no longer is decided by who reads it.

use std::time::{Duration, Instant};

use crate::wire::Flow;

/// For how many silences signs of life alone are listened to: 30 minutes with the default of 5.
/// Models think for minutes, and their servers say meanwhile that they are there; a proxy says
/// so of a server that is gone, for ever.
const KEEP_ALIVE_FACTOR: u32 = 6;

/// How long an answer that is whole is waited for to say what it cost, and that it is over.
/// Both come at once as a rule; some servers write neither, and keep the connection.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// How long nothing may come from now on; at zero nothing is waited for.
    pub(super) left: Duration,
    /// How long nothing will have come by then.
    pub(super) silence: Duration,
}

impl Wait {
    /// As long as this.
    pub(super) fn of(silence: Duration) -> Self {
        Self { left: silence, silence }
    }
}

/// The patience with one answer.
#[derive(Debug)]
pub(super) struct ReadTimeout {
    silence: Duration,
    /// When something came that was more than a sign of life.
    progressed: Instant,
    /// When the answer was whole.
    whole: Option<Instant>,
}

impl ReadTimeout {
    /// With an answer that begins now.
    pub(super) fn new(silence: Duration, now: Instant) -> Self {
        Self { silence, progressed: now, whole: None }
    }

    /// Takes in what came.
    pub(super) fn received(&mut self, flow: Flow, now: Instant) {
        match flow {
            Flow::Idle => {}
            Flow::More => self.progressed = now,
            Flow::Whole | Flow::Done => {
                self.whole.get_or_insert(now);
            }
        }
    }

    /// Whether there is an answer without all that may still come.
    pub(super) fn has_answer(&self) -> bool {
        self.whole.is_some()
    }

    /// How long the next bytes are waited for.
    pub(super) fn wait(&self, now: Instant) -> Wait {
        let (since, longest) = match self.whole {
            Some(whole) => (whole, END_TIMEOUT),
            None => (self.progressed, self.silence.saturating_mul(KEEP_ALIVE_FACTOR)),
        };
        let left = longest.saturating_sub(now.saturating_duration_since(since));
        if left < self.silence { Wait { left, silence: longest } } else { Wait::of(self.silence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(300);

    #[test]
    fn signs_of_life_are_listened_to_for_six_silences() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut read_timeout = ReadTimeout::new(SILENCE, begin);
        assert_eq!(read_timeout.wait(begin), Wait::of(SILENCE));
        read_timeout.received(Flow::More, at(1000));
        for seconds in (1000..=2500).step_by(100) {
            assert_eq!(read_timeout.wait(at(seconds)), Wait::of(SILENCE), "{seconds}");
            read_timeout.received(Flow::Idle, at(seconds));
        }
        let wait = |left| Wait { left: Duration::from_secs(left), silence: SILENCE * 6 };
        for (seconds, left) in [(2501, 299), (2799, 1), (2800, 0), (9999, 0)] {
            assert_eq!(read_timeout.wait(at(seconds)), wait(left), "{seconds}");
        }
        read_timeout.received(Flow::More, at(2800));
        assert_eq!(read_timeout.wait(at(2800)), Wait::of(SILENCE));
        assert!(!read_timeout.has_answer());
    }

    #[test]
    fn a_whole_answer_is_waited_for_for_seconds_whatever_comes() {
        let begin = Instant::now();
        let mut read_timeout = ReadTimeout::new(SILENCE, begin);
        read_timeout.received(Flow::Whole, begin);
        assert!(read_timeout.has_answer());
        for (milliseconds, flow) in [(0, Flow::Idle), (2000, Flow::More), (4000, Flow::Whole)] {
            let now = begin + Duration::from_millis(milliseconds);
            let left = END_TIMEOUT - (now - begin);
            assert_eq!(read_timeout.wait(now), Wait { left, silence: END_TIMEOUT });
            read_timeout.received(flow, now);
        }
        assert_eq!(read_timeout.wait(begin + END_TIMEOUT).left, Duration::ZERO);
        // Who has less patience with silence has no more with this one.
        let mut read_timeout = ReadTimeout::new(Duration::from_secs(1), begin);
        read_timeout.received(Flow::Whole, begin);
        assert_eq!(read_timeout.wait(begin), Wait::of(Duration::from_secs(1)));
    }

    #[test]
    fn any_silence_has_its_six() {
        let begin = Instant::now();
        let read_timeout = ReadTimeout::new(Duration::MAX, begin);
        assert_eq!(read_timeout.wait(begin), Wait::of(Duration::MAX));
        let read_timeout = ReadTimeout::new(Duration::ZERO, begin);
        assert_eq!(read_timeout.wait(begin).left, Duration::ZERO);
    }
}
