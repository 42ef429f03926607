//! Timing things in turn, and the resulting samples. Medians and ratios are made where the table
//! is.

use std::collections::BTreeMap;
use std::time::Instant;

/// A thing to time: its name, its runs in a sample, and one run of it.
pub(crate) type Subject<'a> = (&'a str, u32, &'a mut dyn FnMut() -> anyhow::Result<()>);

/// The samples of one figure, by the name of the measured thing.
pub(crate) type Samples = BTreeMap<String, Vec<f64>>;

/// Runs each subject in turn, `rounds` times, and keeps the microseconds of one run. In turn, so
/// that other load on the machine affects all of them alike. The first round is not kept.
pub(crate) fn in_turn(rounds: usize, subjects: &mut [Subject<'_>]) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, times, subject) in &mut *subjects {
            let started = Instant::now();
            for _ in 0..*times {
                subject()?;
            }
            let micros = started.elapsed().as_secs_f64() * 1e6 / f64::from(*times);
            if round > 0 {
                samples.entry((*name).to_owned()).or_default().push(micros);
            }
        }
    }
    Ok(samples)
}
