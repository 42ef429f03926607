//! The samples of a run, and their quartiles.

use std::collections::BTreeMap;

use super::sampling::Samples;

/// All samples of a run, in microseconds unless a figure's name says otherwise.
pub(crate) type Figures = BTreeMap<String, Samples>;

/// The middle half of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Returns the spread of values; `None` if there are none.
    pub(crate) fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |quarter: usize| values[(last * quarter + 2) / 4];
        Some(Self { low: at(1), median: at(2), high: at(3) })
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

    /// Multiplies all values.
    pub(crate) fn times(self, factor: f64) -> Self {
        let Self { low, median, high } = self;
        Self { low: low * factor, median: median * factor, high: high * factor }
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
