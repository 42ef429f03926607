//! The time limit for the next bytes of an answer, computed from what has arrived. The reader of
//! the answer decides what happens when the limit is exceeded.

use std::time::{Duration, Instant};

use crate::wire::Flow;

/// The limit for an answer without any data except keep-alives, as a multiple of the silence
/// timeout: 30 minutes with the default of 5. Models think for minutes while their servers send
/// keep-alives, but a proxy may send keep-alives forever for a server that has gone away.
const KEEP_ALIVE_FACTOR: u32 = 6;

/// The time limit for data after a complete answer: its usage and the end of the stream. Both
/// usually arrive at once. Some servers send neither, and keep the connection.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadWait {
    /// The time that is left; at zero nothing more is read.
    pub(super) left: Duration,
    /// The time without data that will have elapsed by then.
    pub(super) silence: Duration,
}

impl ReadWait {
    /// Creates a limit that starts now.
    pub(super) fn for_silence(silence: Duration) -> Self {
        Self { left: silence, silence }
    }
}

/// The read timeout of one answer.
#[derive(Debug)]
pub(super) struct ReadTimeout {
    silence: Duration,
    /// The time of the last event that was more than a keep-alive.
    progressed: Instant,
    /// The time at which the answer was complete.
    whole: Option<Instant>,
}

impl ReadTimeout {
    /// Creates the timeout of an answer that begins now.
    pub(super) fn new(silence: Duration, now: Instant) -> Self {
        Self { silence, progressed: now, whole: None }
    }

    /// Records that data arrived.
    pub(super) fn received(&mut self, flow: Flow, now: Instant) {
        match flow {
            Flow::Idle => {}
            Flow::More => self.progressed = now,
            Flow::Whole | Flow::Done => {
                self.whole.get_or_insert(now);
            }
        }
    }

    /// Returns whether the answer is complete. More data may still follow.
    pub(super) fn has_answer(&self) -> bool {
        self.whole.is_some()
    }

    /// Returns the time limit for the next bytes.
    pub(super) fn wait(&self, now: Instant) -> ReadWait {
        let (since, longest) = match self.whole {
            Some(whole) => (whole, END_TIMEOUT),
            None => (self.progressed, self.silence.saturating_mul(KEEP_ALIVE_FACTOR)),
        };
        let left = longest.saturating_sub(now.saturating_duration_since(since));
        if left < self.silence {
            ReadWait { left, silence: longest }
        } else {
            ReadWait::for_silence(self.silence)
        }
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
        assert_eq!(read_timeout.wait(begin), ReadWait::for_silence(SILENCE));
        read_timeout.received(Flow::More, at(1000));
        for seconds in (1000..=2500).step_by(100) {
            assert_eq!(read_timeout.wait(at(seconds)), ReadWait::for_silence(SILENCE), "{seconds}");
            read_timeout.received(Flow::Idle, at(seconds));
        }
        let wait = |left| ReadWait { left: Duration::from_secs(left), silence: SILENCE * 6 };
        for (seconds, left) in [(2501, 299), (2799, 1), (2800, 0), (9999, 0)] {
            assert_eq!(read_timeout.wait(at(seconds)), wait(left), "{seconds}");
        }
        read_timeout.received(Flow::More, at(2800));
        assert_eq!(read_timeout.wait(at(2800)), ReadWait::for_silence(SILENCE));
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
            assert_eq!(read_timeout.wait(now), ReadWait { left, silence: END_TIMEOUT });
            read_timeout.received(flow, now);
        }
        assert_eq!(read_timeout.wait(begin + END_TIMEOUT).left, Duration::ZERO);
        // A shorter silence timeout applies here too.
        let mut read_timeout = ReadTimeout::new(Duration::from_secs(1), begin);
        read_timeout.received(Flow::Whole, begin);
        assert_eq!(read_timeout.wait(begin), ReadWait::for_silence(Duration::from_secs(1)));
    }

    #[test]
    fn any_silence_has_its_six() {
        let begin = Instant::now();
        let read_timeout = ReadTimeout::new(Duration::MAX, begin);
        assert_eq!(read_timeout.wait(begin), ReadWait::for_silence(Duration::MAX));
        let read_timeout = ReadTimeout::new(Duration::ZERO, begin);
        assert_eq!(read_timeout.wait(begin).left, Duration::ZERO);
    }
}
