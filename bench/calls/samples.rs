//! Times things in turn, and counts how often their threads went to sleep. The program that prints
//! the table computes medians and ratios from these samples.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::time::Instant;

/// A thing to time: its name, its runs in a sample, and one run of it.
pub(crate) type Subject<'a> = (&'a str, u32, &'a mut dyn FnMut() -> anyhow::Result<()>);

/// The samples of one figure, by the name of the measured thing.
pub(crate) type Samples = BTreeMap<String, Vec<f64>>;

/// Runs each subject in turn, `rounds` times. Keeps the microseconds of one run and, under the name
/// that [`wakeups`] returns, the voluntary switches of one run. The subjects take turns so that
/// other load on the machine affects all of them alike. The first round is discarded.
pub(crate) fn in_turn(rounds: usize, subjects: &mut [Subject<'_>]) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, times, subject) in &mut *subjects {
            let before = voluntary_switches()?;
            let started = Instant::now();
            for _ in 0..*times {
                subject()?;
            }
            let micros = started.elapsed().as_secs_f64() * 1e6 / f64::from(*times);
            let switches = (voluntary_switches()? - before) as f64 / f64::from(*times);
            if round > 0 {
                samples.entry((*name).to_owned()).or_default().push(micros);
                samples.entry(wakeups(name)).or_default().push(switches);
            }
        }
    }
    Ok(samples)
}

/// Returns the name of the samples that count the wake-ups of a subject: how often a thread of this
/// process went to sleep and had to be woken.
pub(crate) fn wakeups(subject: &str) -> String {
    format!("{subject} wake-ups")
}

/// Divides the samples of a subject, and the samples of its wake-ups, by the number of things that
/// one run did.
pub(crate) fn of_each(samples: &mut Samples, subject: &str, things: u32) {
    for name in [subject.to_owned(), wakeups(subject)] {
        let taken = samples.get_mut(&name).into_iter().flatten();
        taken.for_each(|value| *value /= f64::from(things));
    }
}

/// Returns the voluntary context switches of all threads of this process so far, including threads
/// that have ended (getrusage(2)).
fn voluntary_switches() -> io::Result<libc::c_long> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to a structure of this kind, which the call fills.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded.
    Ok(unsafe { usage.assume_init() }.ru_nvcsw)
}
