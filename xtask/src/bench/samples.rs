//! Samples, their quartiles, and timing things in turn.

use std::collections::BTreeMap;
use std::time::Instant;

/// The samples of one figure, by the name of the measured thing.
pub(crate) type Samples = BTreeMap<String, Vec<f64>>;

/// All samples of a run, in microseconds unless a figure's name says otherwise.
pub(crate) type Figures = BTreeMap<String, Samples>;

/// A thing to time, by its name.
pub(crate) type TimedSubject<'a> = (&'a str, &'a mut dyn FnMut() -> anyhow::Result<()>);

/// Runs the subjects in turn, so that other load on the machine affects all of them alike. The
/// first round is not kept.
pub(crate) fn in_turn(rounds: usize, subjects: &mut [TimedSubject<'_>]) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, subject) in &mut *subjects {
            let started = Instant::now();
            subject()?;
            let micros = started.elapsed().as_secs_f64() * 1e6;
            if round > 0 {
                samples.entry((*name).to_owned()).or_default().push(micros);
            }
        }
    }
    Ok(samples)
}

/// The middle half of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Returns the spread of values, or `None` if the list is empty.
    pub(crate) fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |quarter: usize| values[(last * quarter + 2) / 4];
        Some(Self { low: at(1), median: at(2), high: at(3) })
    }

    /// Returns the spread of a value that does not vary.
    pub(crate) fn exactly(value: f64) -> Self {
        Self { low: value, median: value, high: value }
    }

    /// Returns the spread of one thing.
    pub(crate) fn single(samples: &Samples, name: &str) -> Option<Self> {
        Self::from_values(samples.get(name)?.clone())
    }

    /// Returns the spread of two things that `combine` joins, sample by sample.
    pub(crate) fn pairs(
        samples: &Samples,
        (one, other): (&str, &str),
        combine: fn(f64, f64) -> f64,
    ) -> Option<Self> {
        let (one, other) = (samples.get(one)?, samples.get(other)?);
        let values = one.iter().zip(other).map(|(one, other)| combine(*one, *other));
        Self::from_values(values.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_is_between_the_quartiles() {
        let spread = Spread::from_values(vec![5.0, 1.0, 4.0, 2.0, 3.0]).expect("values");
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
        assert_eq!(Spread::from_values(Vec::new()), None);
        let one = Spread::from_values(vec![7.0]).expect("a value");
        assert_eq!((one.low, one.median, one.high), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_ratio_is_that_of_neighbours() {
        let samples = Samples::from([
            ("a".to_owned(), vec![2.0, 20.0, 200.0]),
            ("b".to_owned(), vec![1.0, 10.0, 100.0]),
        ]);
        let ratio = Spread::pairs(&samples, ("a", "b"), |a, b| a / b).expect("values");
        assert_eq!((ratio.low, ratio.high), (2.0, 2.0));
    }
}
