//! The notes about one call: the accesses that it tried and used, and the answers of the user.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::Widening;
use crate::policy::{RequestedAccess, UsedAccess};

/// The largest number of distinct accesses that are noted per call. Further ones are only counted.
const NOTED: usize = 64;

/// The same number for a recorded call.
const RECORDED: usize = 65_536;

/// The notes about a call.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) once: Vec<RequestedAccess>,
    pub(super) questions: usize,
    pub(super) asked: Vec<AnsweredQuestion>,
    pub(super) refused: BTreeSet<RequestedAccess>,
    /// The refused accesses that a watched tool tried, perhaps only to see whether the file exists.
    pub(super) probed: BTreeSet<RequestedAccess>,
    /// The links through which a watched tool named files that it does not see.
    pub(super) links: BTreeSet<PathBuf>,
    /// The programs of toolchains that the tool said were not found.
    pub(super) programs: BTreeSet<&'static str>,
    /// The ports of the sandbox's own loopback on which the tool found no server.
    pub(super) own_loopback: BTreeSet<u16>,
    /// True if the tool said that a file was not found, or may not be used.
    pub(super) misses_files: bool,
    pub(super) refusals: u64,
    pub(super) permitted: BTreeSet<RequestedAccess>,
    pub(super) used: BTreeSet<UsedAccess>,
    pub(super) told: Vec<String>,
    pub(super) withheld: Vec<String>,
    pub(super) is_unwatched: bool,
}

/// An answered question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnsweredQuestion {
    pub(crate) what: String,
    pub(crate) answer: &'static str,
    pub(crate) waited: Duration,
}

/// The notes about a call at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallNotes {
    pub(crate) asked: Vec<AnsweredQuestion>,
    /// The first accesses that were refused, each once.
    pub(crate) refused: Vec<RequestedAccess>,
    /// The number of refusals, repetitions included.
    pub(crate) refusals: u64,
    /// The first accesses beyond the grant that a permissive recording let the tool have, each
    /// once.
    pub(crate) permitted: Vec<RequestedAccess>,
    pub(crate) used: Vec<UsedAccess>,
    pub(crate) told: Vec<String>,
    /// The files that the call made and that were set aside.
    pub(crate) withheld: Vec<String>,
    /// True if it was a native call that was not watched, so that its file accesses are unknown.
    pub(crate) is_unwatched: bool,
}

impl CallNotes {
    /// Returns all accesses beyond the grant, including those that a recording permitted.
    pub(crate) fn beyond_the_grant(&self) -> Vec<RequestedAccess> {
        let all: BTreeSet<&RequestedAccess> = self.refused.iter().chain(&self.permitted).collect();
        all.into_iter().cloned().collect()
    }
}

impl Widening {
    /// Notes an access beyond the grant, without a question. It was refused, unless a permissive
    /// recording lets the tool have it.
    pub fn refused(&self, reached: RequestedAccess) {
        if !self.recording_permits(&reached) {
            return self.withheld(reached);
        }
        let mut notes = self.notes.lock();
        if notes.permitted.len() < RECORDED {
            notes.permitted.insert(reached);
        }
    }

    /// Notes an access that a watched tool tried. It may have looked whether there is such a file.
    pub(crate) fn probed(&self, reached: RequestedAccess) {
        self.notes.lock().probed.insert(reached.clone());
        self.refused(reached);
    }

    /// Notes a link by which a watched tool named something that it does not see.
    pub(crate) fn missed_link(&self, link: PathBuf) {
        let mut notes = self.notes.lock();
        if notes.links.len() < NOTED {
            notes.links.insert(link);
        }
    }

    /// Notes the programs of toolchains that the tool said were not found.
    pub(crate) fn missed_programs(&self, programs: BTreeSet<&'static str>) {
        self.notes.lock().programs.extend(programs);
    }

    /// Notes the ports of the sandbox's own loopback on which the tool found no server.
    pub(crate) fn found_nobody_at_own_loopback(&self, ports: BTreeSet<u16>) {
        self.notes.lock().own_loopback.extend(ports);
    }

    /// Notes that the tool said that a file was not found, or may not be used.
    pub(crate) fn missed_files(&self) {
        self.notes.lock().misses_files = true;
    }

    /// Notes an access that was refused, even in a permissive recording.
    pub fn withheld(&self, reached: RequestedAccess) {
        let most = if self.recording().is_some() { RECORDED } else { NOTED };
        let mut notes = self.notes.lock();
        notes.refusals += 1;
        if notes.refused.len() < most {
            notes.refused.insert(reached);
        }
    }

    /// Notes that a file of the call was set aside.
    pub(crate) fn set_aside(&self, text: String) {
        self.notes.lock().withheld.push(text);
    }

    /// Notes that the call made use of a part of its grant.
    pub fn used(&self, used: UsedAccess) {
        let most = if self.recording().is_some() { RECORDED } else { NOTED };
        let mut notes = self.notes.lock();
        if notes.used.len() < most {
            notes.used.insert(used);
        }
    }

    /// Notes that a native call was not watched, so that its files are not among the accesses.
    pub(crate) fn unwatched(&self) {
        self.notes.lock().is_unwatched = true;
    }

    /// Forgets the refusals of a run that is followed by another.
    pub(crate) fn begin_again(&self) {
        let mut notes = self.notes.lock();
        notes.refused.clear();
        notes.probed.clear();
        notes.links.clear();
        notes.programs.clear();
        notes.own_loopback.clear();
        notes.misses_files = false;
        notes.withheld.clear();
        notes.permitted.clear();
        notes.refusals = 0;
    }

    /// Returns the notes.
    pub(crate) fn noted(&self) -> CallNotes {
        let notes = self.notes.lock();
        CallNotes {
            asked: notes.asked.clone(),
            refused: notes.refused.iter().cloned().collect(),
            refusals: notes.refusals,
            permitted: notes.permitted.iter().cloned().collect(),
            used: notes.used.iter().cloned().collect(),
            told: notes.told.clone(),
            withheld: notes.withheld.clone(),
            is_unwatched: notes.is_unwatched,
        }
    }
}
