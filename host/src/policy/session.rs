//! The layer of a session: what a person allowed or refused a tool for as long as this host lives.
//!
//! It widens the user's file, and ceilings and the workspace bound it as they bound that. It is
//! kept in memory, and an entry holds for the contents about which the person was asked.

use std::sync::{Mutex, PoisonError};

use ikigai_protocol::Digest;

use super::Backend;
use super::decision::Request;
use super::reached::Reached;

/// The most entries. Beyond it the oldest are forgotten, so that a person is asked again.
const ENTRIES: usize = 4096;

/// What was answered in this session.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<Vec<Entry>>);

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    subject: Subject,
    reached: Reached,
    allowed: bool,
}

/// The tool to which an entry belongs: a build by its contents, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    name: Option<String>,
    backend: Backend,
    contents: Vec<Digest>,
}

impl Subject {
    fn of(request: &Request<'_>) -> Self {
        Self {
            name: request.name.map(str::to_owned),
            backend: request.backend,
            contents: request.contents.to_vec(),
        }
    }
}

impl Session {
    /// Notes an answer, which takes the place of an earlier one.
    pub(super) fn note(&self, request: &Request<'_>, reached: &Reached, allowed: bool) {
        let subject = Subject::of(request);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.subject != subject || entry.reached != *reached);
        if entries.len() >= ENTRIES {
            entries.remove(0);
        }
        entries.push(Entry { subject, reached: reached.clone(), allowed });
    }

    /// Returns what was allowed to the subject of a request.
    pub(super) fn allowed(&self, request: &Request<'_>) -> Vec<Reached> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.is_empty() {
            return Vec::new();
        }
        let subject = Subject::of(request);
        let own = entries.iter().filter(|entry| entry.allowed && entry.subject == subject);
        own.map(|entry| entry.reached.clone()).collect()
    }

    /// Returns whether this was refused to the subject of a request.
    pub(super) fn was_refused(&self, request: &Request<'_>, reached: &Reached) -> bool {
        let subject = Subject::of(request);
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().any(|it| !it.allowed && it.reached == *reached && it.subject == subject)
    }
}
