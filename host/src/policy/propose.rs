//! A change of the user's policy file: it is proposed, shown, and then written.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::edit::{self, EntryTable, NewKey, Unchangeable};
use super::live;
use super::parse::{self, Base};
use super::provenance::{LayerKind, Provenance};
use super::rule::{PolicyEntry, PolicyLayer, deny_provenance};
use super::signer_rule::SignerRule;
use crate::paths;
use crate::toml_file::{self, ReadError, TomlError};

/// The longest wait for another process that changes the file. A change takes milliseconds.
const WAIT: Duration = Duration::from_secs(10);

/// A change of the user's policy file that has not been written yet.
///
/// [`Authority::propose_grant`](super::Authority::propose_grant) makes a proposal,
/// [`difference`](Self::difference) shows the change, and [`write`](Self::write) writes it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The file.
    pub path: PathBuf,
    before: String,
    after: String,
    change: EntryChange,
    base: Base,
    pub(super) layer: Arc<PolicyLayer>,
}

/// A change of one entry.
#[derive(Clone, Debug)]
struct EntryChange {
    place: EntryTable,
    /// The keys to set; `None` if the entry is removed.
    keys: Option<Vec<NewKey>>,
}

impl EntryChange {
    fn apply(&self, text: &str) -> Result<String, Unchangeable> {
        match &self.keys {
            Some(keys) => edit::set(text, &self.place, keys),
            None => edit::remove(text, &self.place),
        }
    }
}

impl Proposal {
    /// Proposes the file with these keys of an entry set.
    pub(super) fn grant(
        path: &Path,
        base: &Base,
        place: EntryTable,
        keys: &[NewKey],
    ) -> Result<Self, TomlError> {
        Self::new(path, base, EntryChange { place, keys: Some(keys.to_vec()) })
    }

    /// Proposes the file without an entry. Returns `None` if it has no such entry.
    pub(super) fn revoke(
        path: &Path,
        base: &Base,
        place: EntryTable,
    ) -> Result<Option<Self>, TomlError> {
        let proposal = Self::new(path, base, EntryChange { place, keys: None })?;
        Ok((proposal.before != proposal.after).then_some(proposal))
    }

    fn new(path: &Path, base: &Base, change: EntryChange) -> Result<Self, TomlError> {
        let before = read(path)
            .map_err(|error| TomlError::whole(path, format!("cannot be read: {error}")))?;
        Self::from_text(before, path, base, change)
    }

    fn from_text(
        before: String,
        path: &Path,
        base: &Base,
        change: EntryChange,
    ) -> Result<Self, TomlError> {
        let unchangeable = || {
            let name = change.place.name();
            TomlError::whole(path, format!("the entry of `{name}` cannot be changed from here"))
                .hint("it is written in a way that only its author can change: edit the file")
        };
        let parse = |text: &str| parse::parse(LayerKind::User, path, text.as_bytes(), base);
        let old = parse(&before)?;
        let after = change.apply(&before).map_err(|Unchangeable| unchangeable())?;
        // Drop the position, because it refers to the new text, which the user cannot see.
        let new = parse(&after).map_err(|error| TomlError::whole(path, error.what))?;
        // Only this entry may have changed its meaning.
        if contents(&old, &change.place) != contents(&new, &change.place) {
            return Err(unchangeable());
        }
        let (path, base) = (path.to_owned(), base.clone());
        Ok(Self { path, before, after, change, base, layer: Arc::new(new) })
    }

    /// Returns the proposed entry, or `None` if the entry is removed.
    pub(super) fn entry(&self) -> Option<&PolicyEntry> {
        match &self.change.place {
            EntryTable::Tool(name) => self.layer.tools.get(name),
            EntryTable::Server(name) => self.layer.servers.get(name),
        }
    }

    /// Returns the line with `deny = true` in the proposed entry; `None` if it does not deny its
    /// tool.
    #[must_use]
    pub fn denied_at(&self) -> Option<Provenance> {
        deny_provenance(&self.layer, self.entry()?)
    }

    pub(super) fn sets(&self, key: &str) -> bool {
        self.change.keys.iter().flatten().any(|(own, _)| own == key)
    }

    /// Returns whether the proposal changes nothing.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.before == self.after
    }

    /// Returns the lines that change, marked `-` and `+`.
    #[must_use]
    pub fn difference(&self) -> Vec<String> {
        edit::difference(&self.before, &self.after)
    }

    /// Replaces the file with the proposed one, which only its user can read.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, if it was changed in the meantime, if another process
    /// holds its lock, or if other users could replace it there.
    pub fn write(&self) -> io::Result<()> {
        let directory = self.lock()?;
        if read(&self.path)? != self.before {
            return Err(io::Error::other("the file changed in the meantime; look at it again"));
        }
        self.replace(&directory)
    }

    /// Makes the same change in the present file, and returns it. Other changes since the proposal
    /// stay, except for the keys that the proposal sets.
    ///
    /// Suits a caller that did not show the whole proposal, because no consent was needed.
    ///
    /// # Errors
    ///
    /// Fails like [`write`](Self::write), or if the present file cannot be changed.
    pub fn write_merged(&self) -> io::Result<Self> {
        let directory = self.lock()?;
        let merged = Self::new(&self.path, &self.base, self.change.clone());
        let merged = merged.map_err(|error| io::Error::other(error.line()))?;
        if !merged.is_unchanged() {
            merged.replace(&directory)?;
        }
        Ok(merged)
    }

    /// Restores the file from before the proposal was written. If the file was changed since then,
    /// returns false and leaves it unchanged.
    ///
    /// # Errors
    ///
    /// Fails like [`write`](Self::write).
    pub fn take_back(&self) -> io::Result<bool> {
        let directory = self.lock()?;
        if read(&self.path)? != self.after {
            return Ok(false);
        }
        if self.before.is_empty() && !self.after.is_empty() {
            fs::remove_file(&self.path)?;
            directory.sync_all()?;
            return Ok(true);
        }
        let before = Self { after: self.before.clone(), ..self.clone() };
        before.replace(&directory).map(|()| true)
    }

    /// Locks the file for this process, through its directory. Concurrent changes are made one
    /// after the other.
    fn lock(&self) -> io::Result<fs::File> {
        let path = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        paths::make_private(path)?;
        // A file in an untrusted directory would not be read later.
        paths::check_ancestors(&self.path, paths::is_own)?;
        let directory = fs::File::open(path)?;
        paths::wait_for_lock(&directory, path, WAIT)?;
        Ok(directory)
    }

    /// Replaces the file. Its directory is locked.
    fn replace(&self, directory: &fs::File) -> io::Result<()> {
        let path = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut file = paths::draft_in(path, 0o600)?;
        file.write_all(self.after.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        directory.sync_all()
    }
}

/// The parser and the editor of policy files, for fuzz targets without a file.
#[doc(hidden)]
pub mod fuzzing {
    use std::path::{Path, PathBuf};

    use super::super::edit::{EntryTable, NewKey};
    use super::super::parse::{self, Base};
    use super::super::provenance::LayerKind;
    use super::{EntryChange, Proposal};
    use crate::toml_file::TomlError;

    fn place() -> (&'static Path, Base) {
        let base = Base {
            workspace: PathBuf::from("/w"),
            home: Some(PathBuf::from("/h")),
            signatures: None,
        };
        (Path::new("/h/policy.toml"), base)
    }

    /// Parses a file of this layer.
    ///
    /// # Errors
    ///
    /// Fails if the file is refused.
    pub fn read(kind: LayerKind, text: &[u8]) -> Result<(), TomlError> {
        let (path, base) = place();
        parse::parse(kind, path, text, &base).map(drop)
    }

    /// Returns the user's file with these keys of the tool's entry set, and then without the entry.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be changed.
    pub fn change(text: &str, name: &str, keys: &[NewKey]) -> Result<[String; 2], TomlError> {
        let (path, base) = place();
        // The first letter selects the kind of entry, so that both kinds are tried.
        let name = name.to_owned();
        let place =
            if name.starts_with('s') { EntryTable::Server(name) } else { EntryTable::Tool(name) };
        let set = EntryChange { place: place.clone(), keys: Some(keys.to_vec()) };
        let granted = Proposal::from_text(text.to_owned(), path, &base, set)?.after;
        let remove = EntryChange { place, keys: None };
        let revoked = Proposal::from_text(granted.clone(), path, &base, remove)?.after;
        Ok([granted, revoked])
    }
}

/// Returns the contents of a layer without positions, and without one entry.
fn contents(layer: &PolicyLayer, except: &EntryTable) -> Vec<String> {
    let entry = |(place, entry): (EntryTable, &PolicyEntry)| {
        let PolicyEntry {
            deny,
            backend,
            sandbox,
            sha256,
            fs,
            net,
            env,
            path,
            assets,
            approve,
            ask,
            hide,
            wasi,
            commands,
            limits,
            approved,
            position: _,
            // Derived from the entry of `*`, which is compared on its own.
            rest: _,
        } = entry;
        let dirs = fs
            .as_ref()
            .map(|at| at.value.iter().map(|dir| (dir.access, dir.raw.clone())).collect::<Vec<_>>());
        let commands = commands.as_ref().map(|at| at.value.texts());
        let limits: Vec<_> = limits.iter().map(|(key, at)| (key, at.value)).collect();
        format!(
            "{place:?}: {:?} {:?} {:?} {dirs:?} {:?} {:?} {:?} {:?} {:?} {commands:?} {limits:?} {:?} {:?} \
             {:?} {:?} {:?}",
            deny.as_ref().map(|at| at.value),
            backend.as_ref().map(|at| at.value),
            sandbox.as_ref().map(|at| at.value),
            sha256.as_ref().map(|at| &at.value),
            net.as_ref().map(|at| &at.value),
            env.as_ref().map(|at| &at.value),
            path.as_ref().map(|at| &at.value),
            assets.as_ref().map(|at| at.value),
            approve.as_ref().map(|at| at.value),
            approved.as_ref().map(|at| &at.value),
            ask.as_ref().map(|at| at.value),
            hide.as_ref().map(|at| at.value.patterns()),
            wasi.as_ref().map(|at| &at.value),
        )
    };
    let profile = layer.profile.as_ref().map(|at| at.value.as_str().to_owned());
    let signed = layer.require_signed.as_ref().map(|at| format!("signed: {}", at.value));
    let signers = layer.signers.iter().map(|signer| {
        let SignerRule { name, identity, tools, until, provenance: _ } = signer;
        format!("{name:?} {identity:?} {tools:?} {until:?}")
    });
    let tools = layer.tools.iter().map(|(name, it)| (EntryTable::Tool(name.clone()), it));
    let servers = layer.servers.iter().map(|(name, it)| (EntryTable::Server(name.clone()), it));
    let every = layer.every.as_ref().map(|it| (EntryTable::Tool(parse::EVERY.to_owned()), it));
    let entries = tools.chain(servers).chain(every).filter(|(place, _)| place != except);
    profile.into_iter().chain(signed).chain(signers).chain(entries.map(entry)).collect()
}

/// Returns the text of the file, or an empty text if the file does not exist.
fn read(path: &Path) -> io::Result<String> {
    match toml_file::read(path, live::rules(live::is_user)) {
        Ok(text) => String::from_utf8(text)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8")),
        Err(ReadError::Missing(error)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(String::new())
        }
        Err(ReadError::Missing(error) | ReadError::Unreadable(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}
