//! How long the next bytes of an answer are waited for. Knows the time and what came; what
//! becomes of an answer that is waited for no longer is decided by who reads it.

use std::time::{Duration, Instant};

use crate::wire::Flow;

/// For how many silences signs of life alone are listened to: 30 minutes with the default of 5.
/// Models think for minutes, and their servers say meanwhile that they are there; a proxy says
/// so of a server that is gone, for ever.
const SIGNS_OF_LIFE: u32 = 6;

/// How long an answer that is whole is waited for to say what it cost, and that it is over.
/// Both come at once as a rule; some servers write neither, and keep the connection.
const AFTER_THE_END: Duration = Duration::from_secs(5);

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
pub(super) struct Patience {
    silence: Duration,
    /// When something came that was more than a sign of life.
    heard: Instant,
    /// When the answer was whole.
    whole: Option<Instant>,
}

impl Patience {
    /// With an answer that begins now.
    pub(super) fn new(silence: Duration, now: Instant) -> Self {
        Self { silence, heard: now, whole: None }
    }

    /// Takes in what came.
    pub(super) fn hear(&mut self, flow: Flow, now: Instant) {
        match flow {
            Flow::Idle => {}
            Flow::More => self.heard = now,
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
            Some(whole) => (whole, AFTER_THE_END),
            None => (self.heard, self.silence.saturating_mul(SIGNS_OF_LIFE)),
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
        let mut patience = Patience::new(SILENCE, begin);
        assert_eq!(patience.wait(begin), Wait::of(SILENCE));
        patience.hear(Flow::More, at(1000));
        for seconds in (1000..=2500).step_by(100) {
            assert_eq!(patience.wait(at(seconds)), Wait::of(SILENCE), "{seconds}");
            patience.hear(Flow::Idle, at(seconds));
        }
        let wait = |left| Wait { left: Duration::from_secs(left), silence: SILENCE * 6 };
        for (seconds, left) in [(2501, 299), (2799, 1), (2800, 0), (9999, 0)] {
            assert_eq!(patience.wait(at(seconds)), wait(left), "{seconds}");
        }
        patience.hear(Flow::More, at(2800));
        assert_eq!(patience.wait(at(2800)), Wait::of(SILENCE));
        assert!(!patience.has_answer());
    }

    #[test]
    fn a_whole_answer_is_waited_for_for_seconds_whatever_comes() {
        let begin = Instant::now();
        let mut patience = Patience::new(SILENCE, begin);
        patience.hear(Flow::Whole, begin);
        assert!(patience.has_answer());
        for (milliseconds, flow) in [(0, Flow::Idle), (2000, Flow::More), (4000, Flow::Whole)] {
            let now = begin + Duration::from_millis(milliseconds);
            let left = AFTER_THE_END - (now - begin);
            assert_eq!(patience.wait(now), Wait { left, silence: AFTER_THE_END });
            patience.hear(flow, now);
        }
        assert_eq!(patience.wait(begin + AFTER_THE_END).left, Duration::ZERO);
        // Who has less patience with silence has no more with this one.
        let mut patience = Patience::new(Duration::from_secs(1), begin);
        patience.hear(Flow::Whole, begin);
        assert_eq!(patience.wait(begin), Wait::of(Duration::from_secs(1)));
    }

    #[test]
    fn any_silence_has_its_six() {
        let begin = Instant::now();
        let patience = Patience::new(Duration::MAX, begin);
        assert_eq!(patience.wait(begin), Wait::of(Duration::MAX));
        let patience = Patience::new(Duration::ZERO, begin);
        assert_eq!(patience.wait(begin).left, Duration::ZERO);
    }
}
