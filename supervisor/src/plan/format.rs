//! The bytes of a plan: a header in JSON, and strings as a program gets them.

use std::ffi::CString;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::contents::{HiddenPath, InodeId, Link, PathGrant, Plan};
use super::run_mode::{CallBounds, RunMode};

/// The largest plan that is sent or taken, in bytes: well above the arguments and environment
/// that the kernel passes to a program (`ARG_MAX`, 2 MiB by default).
const MAX_PLAN: usize = 64 << 20;

/// The length of the prefix of a plan, which [`Plan::lengths`] reads.
pub const PREFIX: usize = 8;

/// The first part of a plan: everything but its strings, and their number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanHeader {
    bounds: CallBounds,
    kind: RunMode,
    args: usize,
    env: usize,
    /// For each directory: a flag that the tool may write to it, and its identity when it was
    /// searched.
    dirs: Vec<(bool, Option<InodeId>)>,
    hidden: Vec<InodeId>,
    read_only: Vec<InodeId>,
    pinned: Vec<InodeId>,
    machine: Option<Vec<InodeId>>,
    /// The number of links.
    #[serde(default)]
    links: usize,
    /// The number of closed places, and of the places in them that are not closed.
    #[serde(default)]
    closed: (usize, usize),
}

/// The reason why a plan cannot be sent, or is refused.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It is larger than 64 MiB.
    #[error("arguments and environment take more than {MAX_PLAN} bytes")]
    TooLarge,
    /// The header is not what this version writes.
    #[error("malformed plan")]
    Header(#[from] serde_json::Error),
    /// The number of strings differs from the header.
    #[error("malformed plan: {0}")]
    Strings(&'static str),
}

impl Plan {
    /// Writes the plan as bytes. It begins with the lengths of the two parts that follow, little
    /// endian, 32 bits each. Then come a header in JSON, and the strings. Each string ends with
    /// a NUL, which is the form in which a program gets them.
    ///
    /// # Errors
    ///
    /// Fails if the plan is too large.
    pub fn encode(&self) -> Result<Vec<u8>, PlanError> {
        let header = PlanHeader {
            bounds: self.bounds,
            kind: self.kind,
            args: self.args.len(),
            env: self.env.len(),
            dirs: self.dirs.iter().map(|dir| (dir.writable, dir.searched)).collect(),
            hidden: self.hidden.iter().map(|it| it.found).collect(),
            read_only: self.read_only.iter().map(|it| it.found).collect(),
            pinned: self.pinned.iter().map(|it| it.found).collect(),
            machine: self.machine.as_ref().map(|all| all.iter().map(|it| it.found).collect()),
            links: self.links.len(),
            closed: (self.closed.len(), self.closed_except.len()),
        };
        let header = serde_json::to_vec(&header)?;
        let mut strings = Vec::new();
        let fixed = [&self.program, &self.directory];
        let dirs = self.dirs.iter().map(|dir| &dir.path);
        let hidden = self.hidden.iter().chain(&self.read_only).chain(&self.pinned);
        let hidden = hidden.chain(self.machine.iter().flatten());
        let links = self.links.iter().flat_map(|link| [&link.path, &link.target]);
        let closed = self.closed.iter().chain(&self.closed_except);
        let paths = dirs.chain(hidden.map(|it| &it.path)).chain(links).chain(closed);
        for string in fixed.into_iter().chain(&self.args).chain(&self.env).chain(paths) {
            strings.extend_from_slice(string.as_bytes_with_nul());
        }
        let mut frame = Vec::with_capacity(PREFIX + header.len() + strings.len());
        for part in [&header, &strings] {
            let length = u32::try_from(part.len()).map_err(|_| PlanError::TooLarge)?;
            frame.extend_from_slice(&length.to_le_bytes());
        }
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&strings);
        if frame.len() > MAX_PLAN {
            return Err(PlanError::TooLarge);
        }
        Ok(frame)
    }

    /// Reads the lengths of the header and of the strings that follow `prefix`.
    ///
    /// # Errors
    ///
    /// Fails if the plan is too large.
    pub fn lengths(prefix: [u8; PREFIX]) -> Result<(usize, usize), PlanError> {
        let [a, b, c, d, e, f, g, h] = prefix;
        let header = u32::from_le_bytes([a, b, c, d]) as usize;
        let strings = u32::from_le_bytes([e, f, g, h]) as usize;
        if header.saturating_add(strings) > MAX_PLAN {
            return Err(PlanError::TooLarge);
        }
        Ok((header, strings))
    }

    /// Reads the plan that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Fails if the plan is malformed, or names a relative path.
    pub fn decode(header: &[u8], strings: &[u8]) -> Result<Self, PlanError> {
        let header: PlanHeader = serde_json::from_slice(header)?;
        let mut strings = Strings(strings);
        let program = strings.next()?;
        let directory = strings.next()?;
        let args = (0..header.args).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let env = (0..header.env).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let dirs = header.dirs.iter().map(|&(writable, searched)| {
            strings.next().map(|path| PathGrant { path, writable, searched })
        });
        let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
        let hidden = strings.hidden(&header.hidden)?;
        let read_only = strings.hidden(&header.read_only)?;
        let pinned = strings.hidden(&header.pinned)?;
        let machine = header.machine.as_ref().map(|found| strings.hidden(found)).transpose()?;
        let links = (0..header.links).map(|_| strings.link()).collect::<Result<Vec<_>, _>>()?;
        let (closed, except) = header.closed;
        let closed = (0..closed).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let closed_except = (0..except).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        if !strings.0.is_empty() {
            return Err(PlanError::Strings("more strings than announced"));
        }
        if args.is_empty() {
            return Err(PlanError::Strings("no name for the program"));
        }
        let is_relative = |path: &CString| !path.as_bytes().starts_with(b"/");
        let granted = dirs.iter().map(|dir| &dir.path);
        let without = hidden.iter().chain(&read_only).chain(&pinned);
        let without = without.chain(machine.iter().flatten()).map(|it| &it.path);
        let linked = links.iter().flat_map(|link| [&link.path, &link.target]);
        let fixed = [&program, &directory].into_iter().chain(&closed).chain(&closed_except);
        if fixed.chain(granted).chain(without).chain(linked).any(is_relative) {
            return Err(PlanError::Strings("a path is not absolute"));
        }
        let PlanHeader { kind, bounds, .. } = header;
        Ok(Self {
            program,
            directory,
            args,
            env,
            dirs,
            hidden,
            read_only,
            pinned,
            machine,
            links,
            closed,
            closed_except,
            kind,
            bounds,
        })
    }
}

/// Strings that end with a NUL each, taken from the front.
struct Strings<'a>(&'a [u8]);

impl Strings<'_> {
    fn next(&mut self) -> Result<CString, PlanError> {
        let missing = PlanError::Strings("fewer strings than announced");
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(missing)?;
        let (string, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        CString::from_vec_with_nul(string.to_vec())
            .map_err(|_| PlanError::Strings("a string without its end"))
    }

    /// Takes a link and its target.
    fn link(&mut self) -> Result<Link, PlanError> {
        Ok(Link { path: self.next()?, target: self.next()? })
    }

    /// Takes the path of each of `found`.
    fn hidden(&mut self, found: &[InodeId]) -> Result<Vec<HiddenPath>, PlanError> {
        found
            .iter()
            .map(|found| self.next().map(|path| HiddenPath { path, found: *found }))
            .collect()
    }
}
