//! The memory of discovery between runs, in `index.json` of the cache: the digest of each file by
//! its identity, and each answer to `--schema` by digest.
//!
//! It is not a source of truth: if it is missing, damaged or from another host, each tool is asked
//! again, and nothing is lost. The first line is the checksum (BLAKE3) of the rest, which has the
//! entries as JSON. If a byte changed on the disk, all tools are asked again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ikigai_protocol::Digest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file;
use crate::exec::mcp::ToolDescription;
use crate::paths::{self, Paths};
use crate::policy::{Backend, WasiUse};

/// The version of the file's format.
const FORMAT: u32 = 7;

/// The length of the checksum, in hexadecimal digits.
const CHECKSUM: usize = 2 * blake3::OUT_LEN;

/// The number of entries above which entries that the present scan did not use are dropped.
const MAX_ENTRIES: usize = 4096;

/// The number of surroundings for which the memo remembers whether the sandbox works. A user has a
/// few: each of their terminals may be in its own control group.
const SURROUNDINGS: usize = 8;

/// An identity of the contents of a file, taken without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity(String);

impl FileIdentity {
    pub(super) fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self(format!(
            "{}:{}:{}:{}.{:09}:{}.{:09}",
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec()
        ))
    }
}

/// The key of an answer to `--schema`: the contents of the file, and everything else that the
/// answer may depend on. A native tool's answer may depend on the name that starts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SchemaKey(String);

impl SchemaKey {
    pub(super) fn new(backend: Backend, path: &Path, digest: Digest) -> Self {
        let kind = backend.as_str();
        Self(match backend {
            Backend::Wasm => format!("{kind}:{digest}"),
            Backend::Native | Backend::Mcp => format!("{kind}:{digest}:{}", file::name(path)),
        })
    }
}

/// A tool's answer to `--schema`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SchemaReply {
    /// Its checked schema, in the form that tools print.
    Schema {
        /// The schema.
        schema: Value,
        /// The versions of WASI that it uses.
        wasi: Vec<WasiUse>,
    },
    /// It has no schema, for this reason.
    Refused(String),
    /// Its component cannot be used on this host, for this reason; a native build may be usable.
    Unusable(String),
    /// The tools of a server, and the protocol revision that it uses.
    Server {
        /// The revision, as a word.
        revision: String,
        /// The tools.
        tools: Vec<ToolDescription>,
        /// The names of unusable tools, with the reason.
        skipped: Vec<(String, String)>,
    },
    /// Its compilation exceeded a limit, which the text names. It is asked again after it has been
    /// compiled.
    TooCostly(String),
}

#[derive(Default, Serialize, Deserialize)]
struct MemoEntries {
    format: u32,
    /// The identity of the host that wrote the memo. Another host may refuse different components,
    /// and so asks again.
    host: String,
    digests: HashMap<String, Digest>,
    answers: HashMap<SchemaKey, SchemaReply>,
    /// The digests of the surroundings in which the sandbox was tried, and whether it worked. The
    /// latest are last.
    sandbox: Vec<(Digest, bool)>,
}

/// The memo of one host process.
pub(super) struct Memo {
    path: Option<PathBuf>,
    state: Mutex<MemoState>,
}

#[derive(Default)]
struct MemoState {
    entries: MemoEntries,
    /// The identities that this process has used. These are sets, because a long-lived host uses
    /// the same identities again and again.
    used_digests: HashSet<String>,
    used_answers: HashSet<SchemaKey>,
    changed: bool,
}

impl Memo {
    /// Reads the memo of this cache directory, if it can be trusted. Drops the answers that another
    /// `host` got.
    pub(super) fn open(cache: Option<&Path>, host: String) -> Self {
        let path = cache
            .filter(|dir| paths::make_private(dir).is_ok() && paths::is_trusted(dir, paths::is_own))
            .map(|dir| dir.join("index.json"));
        let read = path.as_deref().map_or(LoadedMemo::None, read);
        // Rewrite a damaged file even if this scan finds nothing new.
        let changed = matches!(read, LoadedMemo::Damaged);
        let mut entries = match read {
            LoadedMemo::Whole(entries) => entries,
            LoadedMemo::None | LoadedMemo::Damaged => MemoEntries::default(),
        };
        if entries.host != host {
            entries.answers.clear();
            entries.sandbox.clear();
        }
        entries.format = FORMAT;
        entries.host = host;
        Self { path, state: Mutex::new(MemoState { entries, changed, ..MemoState::default() }) }
    }

    pub(super) fn digest(&self, identity: &FileIdentity) -> Option<Digest> {
        let mut state = self.state.lock();
        let digest = state.entries.digests.get(&identity.0).copied()?;
        if !state.used_digests.contains(&identity.0) {
            state.used_digests.insert(identity.0.clone());
        }
        Some(digest)
    }

    pub(super) fn keep_digest(
        &self,
        identity: &FileIdentity,
        metadata: &fs::Metadata,
        digest: Digest,
    ) {
        if !paths::has_settled(metadata) {
            return;
        }
        let mut state = self.state.lock();
        state.entries.digests.insert(identity.0.clone(), digest);
        state.used_digests.insert(identity.0.clone());
        state.changed = true;
    }

    /// Returns whether the sandbox worked in these surroundings, if it was tried there recently.
    pub(super) fn confines(&self, surroundings: &str) -> Option<bool> {
        let surroundings = Digest::from_bytes(surroundings.as_bytes());
        let state = self.state.lock();
        let known = state.entries.sandbox.iter().find(|(known, _)| *known == surroundings);
        known.map(|(_, holds)| *holds)
    }

    pub(super) fn keep_confines(&self, surroundings: &str, holds: bool) {
        let kept = (Digest::from_bytes(surroundings.as_bytes()), holds);
        let mut state = self.state.lock();
        if state.entries.sandbox.contains(&kept) {
            return;
        }
        state.entries.sandbox.retain(|(known, _)| *known != kept.0);
        state.entries.sandbox.push(kept);
        let more = state.entries.sandbox.len().saturating_sub(SURROUNDINGS);
        state.entries.sandbox.drain(..more);
        state.changed = true;
    }

    pub(super) fn answer(&self, question: &SchemaKey) -> Option<SchemaReply> {
        let mut state = self.state.lock();
        let answer = state.entries.answers.get(question).cloned()?;
        if !state.used_answers.contains(question) {
            state.used_answers.insert(question.clone());
        }
        Some(answer)
    }

    pub(super) fn keep_answer(&self, question: SchemaKey, answer: SchemaReply) {
        let mut state = self.state.lock();
        state.used_answers.insert(question.clone());
        state.entries.answers.insert(question, answer);
        state.changed = true;
    }

    /// Writes the memo if it has something new. Logs a failure once, and continues.
    pub(super) fn save(&self) {
        let Some(path) = &self.path else { return };
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.changed) {
            return;
        }
        state.prune();
        if let Err(error) = write(path, &state.entries) {
            paths::log_uncached(path.parent().unwrap_or(path), &error);
        }
    }
}

impl MemoState {
    fn prune(&mut self) {
        if self.entries.digests.len() > MAX_ENTRIES {
            let used = std::mem::take(&mut self.used_digests);
            self.entries.digests.retain(|identity, _| used.contains(identity));
        }
        if self.entries.answers.len() > MAX_ENTRIES {
            let used = std::mem::take(&mut self.used_answers);
            self.entries.answers.retain(|question, _| used.contains(question));
        }
    }
}

/// The result of reading the file.
enum LoadedMemo {
    Whole(MemoEntries),
    /// The file is missing, or this host must not trust it.
    None,
    /// Its contents do not match the checksum.
    Damaged,
}

fn read(path: &Path) -> LoadedMemo {
    let mut text = Vec::new();
    let read =
        paths::open_trusted(path, paths::is_own).and_then(|mut file| file.read_to_end(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return LoadedMemo::None,
        Err(error) => {
            tracing::debug!("discovering anew: `{}`: {error}", path.display());
            return LoadedMemo::None;
        }
    }
    let entries = checked(&text).and_then(|text| serde_json::from_slice::<MemoEntries>(text).ok());
    match entries {
        Some(entries) if entries.format == FORMAT => LoadedMemo::Whole(entries),
        Some(_) | None => {
            tracing::debug!(
                "discovering anew: `{}` is damaged, or of another version",
                path.display()
            );
            LoadedMemo::Damaged
        }
    }
}

/// Returns the text below the checksum, if it matches the checksum.
fn checked(text: &[u8]) -> Option<&[u8]> {
    let (checksum, text) = text.split_at_checked(CHECKSUM)?;
    let text = text.strip_prefix(b"\n")?;
    (blake3::hash(text).to_hex().as_bytes() == checksum).then_some(text)
}

fn write(path: &Path, entries: &MemoEntries) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let text = serde_json::to_vec(entries)?;
    let mut file = paths::draft_in(dir, 0o600)?;
    writeln!(file, "{}", blake3::hash(&text).to_hex())?;
    file.write_all(&text)?;
    file.persist(path)?;
    Ok(())
}

/// Returns the identities of the programs of an installation. Programs that embed the host share
/// the memo of the installation.
pub(super) fn host_identity(paths: &Paths) -> String {
    let identity =
        |program: &PathBuf| Some(FileIdentity::from_metadata(&fs::metadata(program).ok()?).0);
    let version = || env!("CARGO_PKG_VERSION").to_owned();
    let programs = [&paths.compiler, &paths.supervisor];
    programs.map(|it| it.as_ref().and_then(identity).unwrap_or_else(version)).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn question(name: &str) -> SchemaKey {
        SchemaKey::new(Backend::Native, Path::new(name), Digest::from_bytes(name.as_bytes()))
    }

    #[test]
    fn what_was_kept_is_there_for_the_next_run() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let question = question("tool");
        let memo = Memo::open(Some(cache.path()), String::new());
        memo.keep_answer(question.clone(), SchemaReply::Refused("timeout".into()));
        memo.save();
        let next = Memo::open(Some(cache.path()), String::new());
        assert!(
            matches!(next.answer(&question), Some(SchemaReply::Refused(reason)) if reason == "timeout")
        );
    }

    #[test]
    fn whether_the_sandbox_held_is_kept_for_a_few_surroundings_of_this_host() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let memo = Memo::open(Some(cache.path()), "one".to_owned());
        for terminal in 0..=SURROUNDINGS {
            memo.keep_confines(&terminal.to_string(), true);
        }
        memo.keep_confines("1", false);
        memo.save();
        let confines = |host: &str, terminal: usize| {
            let memo = Memo::open(Some(cache.path()), host.to_owned());
            memo.confines(&terminal.to_string())
        };
        assert_eq!((confines("one", 0), confines("one", 1)), (None, Some(false)));
        assert!((2..=SURROUNDINGS).all(|terminal| confines("one", terminal) == Some(true)));
        assert_eq!(confines("another", 2), None);
    }

    /// A server asks before each call.
    #[test]
    fn what_is_used_again_and_again_takes_no_more_memory() {
        let memo = Memo::open(None, String::new());
        memo.keep_answer(question("tool"), SchemaReply::Refused(String::new()));
        for _ in 0..100 {
            assert!(memo.answer(&question("tool")).is_some());
        }
        let identity = FileIdentity("1:2:3".to_owned());
        memo.state.lock().entries.digests.insert(identity.0.clone(), Digest::from_bytes(b"x"));
        for _ in 0..100 {
            assert!(memo.digest(&identity).is_some());
        }
        let state = memo.state.lock();
        assert_eq!((state.used_answers.len(), state.used_digests.len()), (1, 1));
    }

    #[test]
    fn a_damaged_or_foreign_memo_is_no_memo_and_is_written_again() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let path = cache.path().join("index.json");
        let open = || Memo::open(Some(cache.path()), String::new());
        for text in ["", "{", "[]", r#"{"format":99,"host":"","digests":{},"answers":{}}"#] {
            fs::write(&path, text).expect("write");
            assert!(open().answer(&question("x")).is_none());
        }
        // A changed digit in a description is still valid JSON. The same applies to every other
        // byte.
        let memo = open();
        memo.keep_answer(
            question("x"),
            SchemaReply::Schema {
                schema: serde_json::json!({"description": "1"}),
                wasi: Vec::new(),
            },
        );
        memo.save();
        let whole = fs::read(&path).expect("read");
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, damaged).expect("write");
            let memo = open();
            assert!(memo.answer(&question("x")).is_none(), "byte {place}");
            memo.save();
            assert!(matches!(read(&path), LoadedMemo::Whole(_)), "byte {place}");
        }
    }

    #[test]
    fn a_memo_that_others_could_have_written_is_not_read() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let question = question("tool");
        let memo = Memo::open(Some(cache.path()), String::new());
        memo.keep_answer(question.clone(), SchemaReply::Refused(String::new()));
        memo.save();
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
        assert!(Memo::open(Some(cache.path()), String::new()).answer(&question).is_none());
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_remembered() {
        let cache = tempfile::tempdir().expect("temporary directory");
        let tool = cache.path().join("tool");
        fs::write(&tool, "x").expect("write");
        let metadata = fs::metadata(&tool).expect("metadata");
        assert!(!paths::has_settled(&metadata));
        let memo = Memo::open(Some(cache.path()), String::new());
        memo.keep_digest(
            &FileIdentity::from_metadata(&metadata),
            &metadata,
            Digest::from_bytes(b"x"),
        );
        assert!(memo.digest(&FileIdentity::from_metadata(&metadata)).is_none());
    }
}
