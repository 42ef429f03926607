//! The front end of recorded calls. It asks no questions and collects what the host reports.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use ikigai_host::consent::{self, ConsentQuestion, ConsentReply, Respondent};
use ikigai_host::front_end::{AnswerFuture, Costs, FrontEnd, Recording};
use ikigai_host::policy::{RequestedAccess, UsedAccess};
use parking_lot::Mutex;

use crate::commands::policy::least::proposal::ObservedAccess;
use crate::commands::policy::least::recorded::GrantUse;
use crate::commands::policy::least::touch::ToolAccess;

/// The front end of recorded calls.
pub(super) struct PolicyRecorder {
    how: Recording,
    noted: Mutex<RecordedAccesses>,
}

/// The accesses of all recorded calls together, and the highest costs of a single call.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedAccesses {
    pub(super) reached: BTreeSet<ToolAccess>,
    pub(super) used: BTreeSet<ToolAccess>,
    /// The peaks.
    pub(super) costs: Costs,
    /// The number of accesses of the last call that its grant lacks, and the number of granted ones
    /// that it used.
    pub(super) last: (usize, usize),
    /// True if a call was not watched, so that its files are missing here.
    pub(super) is_unwatched: bool,
}

impl PolicyRecorder {
    pub(super) fn new(how: Recording) -> Self {
        Self { how, noted: Mutex::default() }
    }

    /// Returns the record so far.
    pub(super) fn noted(&self) -> RecordedAccesses {
        self.noted.lock().clone()
    }

    /// Resets the numbers of the last call, since a call that never begins records nothing.
    pub(super) fn begin(&self) {
        self.noted.lock().last = (0, 0);
    }
}

impl RecordedAccesses {
    /// Returns the smallest grant under which the recorded calls behave the same.
    pub(super) fn reach(&self) -> ObservedAccess {
        let mut reach = ObservedAccess::default();
        self.reached.iter().chain(&self.used).for_each(|touch| reach.add(touch));
        reach
    }
}

impl FrontEnd for PolicyRecorder {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        let reason = "a recording does not ask you".to_owned();
        let answer = consent::ConsentAnswer::Unavailable(reason);
        Box::pin(ready(ConsentReply { answer, waited: Duration::ZERO }))
    }

    fn recording(&self) -> Option<Recording> {
        Some(self.how)
    }

    fn recorded(&self, reached: &[RequestedAccess], used: &[UsedAccess], costs: Costs) {
        let mut noted = self.noted.lock();
        noted.last = (reached.len(), used.len());
        noted.reached.extend(reached.iter().map(ToolAccess::from));
        let used = used.iter().map(GrantUse::from).filter_map(|used| match used {
            // The tool was granted this directory, and the grant stays.
            GrantUse::Dir(_) => None,
            GrantUse::File(access, path) => Some(ToolAccess::Path(access, path)),
            GrantUse::Peer(peer) => Some(ToolAccess::Peer(peer)),
        });
        noted.used.extend(used);
        let peaks = &mut noted.costs;
        peaks.duration = peaks.duration.max(costs.duration);
        peaks.fuel = peaks.fuel.max(costs.fuel);
        peaks.peak_memory = peaks.peak_memory.max(costs.peak_memory);
        peaks.output = peaks.output.max(costs.output);
    }

    fn unwatched(&self) {
        self.noted.lock().is_unwatched = true;
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ikigai_protocol::Access;

    use super::*;

    #[test]
    fn one_call_that_was_not_watched_leaves_the_files_unknown() {
        let recorder = PolicyRecorder::new(Recording::default());
        recorder.recorded(&[], &[], Costs::default());
        assert!(!recorder.noted().is_unwatched);
        recorder.unwatched();
        recorder.recorded(&[], &[], Costs::default());
        assert!(recorder.noted().is_unwatched);
    }

    #[test]
    fn what_all_calls_reached_and_used_is_collected_with_the_peaks() {
        let recorder = PolicyRecorder::new(Recording::default());
        let path =
            |path: &str| RequestedAccess::Path { access: Access::ReadOnly, path: path.into() };
        let file = |path: &str| UsedAccess::File { access: Access::ReadWrite, path: path.into() };
        let costs = |seconds, fuel| Costs {
            duration: Duration::from_secs(seconds),
            fuel,
            ..Costs::default()
        };
        recorder.recorded(&[path("/a"), RequestedAccess::Run], &[], costs(2, None));
        recorder.recorded(
            &[path("/a"), path("/b")],
            &[UsedAccess::Dir { path: "/w".into() }, file("/w/c")],
            costs(1, Some(7)),
        );
        let noted = recorder.noted();
        assert_eq!((noted.costs, noted.last), (costs(2, Some(7)), (2, 2)));
        let ObservedAccess { paths, run, .. } = noted.reach();
        let all = [(Access::ReadOnly, "/a"), (Access::ReadOnly, "/b"), (Access::ReadWrite, "/w/c")];
        let all = all.map(|(access, path)| (access, PathBuf::from(path)));
        assert_eq!((paths, run), (all.into(), true));
    }
}
