//! Measuring things in turn. The programs of the benchmark share this file: `xtask`, and
//! `bench/calls`, which names it by its path. It knows nothing of the table.

use std::collections::BTreeMap;
use std::time::Instant;

/// The samples of one figure, by the name of the measured thing.
pub(crate) type Samples = BTreeMap<String, Vec<f64>>;

/// A thing to measure: its name, and a function that returns one sample of it.
pub(crate) type Subject<'a> = (&'a str, &'a mut dyn FnMut() -> anyhow::Result<f64>);

/// Takes a sample of each subject in turn, so that other load on the machine affects all of them
/// alike. The first round is not kept.
pub(crate) fn in_turn(rounds: usize, subjects: &mut [Subject<'_>]) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, sample) in &mut *subjects {
            let sample = sample()?;
            if round > 0 {
                samples.entry((*name).to_owned()).or_default().push(sample);
            }
        }
    }
    Ok(samples)
}

/// Does something, and returns the microseconds of each of the `parts` that it consists of.
pub(crate) fn micros(parts: u32, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(parts))
}
