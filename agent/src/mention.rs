//! Mentions in a prompt, put in their place: `@path` becomes the text of a file, `@@path`
//! that of an asset.
//!
//! This happens when a person submits the prompt, with the person's own rights, and asks no
//! policy: what is mentioned is what the person wants to show. So a relative path leads
//! nowhere outside the workspace, not even by a link, which a tool could have put there; a
//! file outside is named by its absolute path. What cannot be shown stays as it is written,
//! and a warning says why.

mod parse;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use ikigai_assets::Error;
use rustix::fs::OFlags;

pub use parse::{Kind, Mention, Piece, parse};

use super::Session;
use crate::assets::named;
use ikigai_supervisor::filesystems;

/// The largest file or asset that is put into a prompt: 256 KiB, some 64,000 tokens.
pub const MAX_BYTES: u64 = 256 << 10;

/// A prompt with what it mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text for the model.
    pub text: String,
    /// What could not be shown, and why: a line each.
    pub warnings: Vec<String>,
}

/// A text that was mentioned, and what it is called.
struct Found {
    label: String,
    text: String,
}

/// Why nothing is shown.
enum Missing {
    /// There is nothing of this name; perhaps there is without the punctuation at its end.
    Absent(String),
    Unusable(String),
}

/// Puts what the prompt mentions in its place, fenced and under its name. What is mentioned
/// a second time is named only.
pub async fn expand(session: &Session, prompt: &str) -> Expanded {
    let mut expanded = Expanded::default();
    let mut shown = HashSet::new();
    for piece in parse(prompt) {
        let mention = match piece {
            Piece::Plain(text) => {
                expanded.text.push_str(text);
                continue;
            }
            Piece::Mention(mention) => mention,
        };
        match find(session, &mention).await {
            Ok((found, rest)) => {
                if shown.insert(found.label.clone()) {
                    expanded.push(&found);
                } else {
                    expanded.text.push_str(&format!("{} (shown above)", found.label));
                }
                expanded.text.push_str(rest);
            }
            Err(Missing::Absent(reason) | Missing::Unusable(reason)) => {
                expanded.text.push_str(mention.written);
                expanded.warnings.push(format!("`{}` is sent as it is: {reason}", mention.written));
            }
        }
    }
    expanded
}

impl Expanded {
    fn push(&mut self, found: &Found) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let fence = fence(&found.text);
        let end = if found.text.ends_with('\n') || found.text.is_empty() { "" } else { "\n" };
        let Found { label, text } = found;
        self.text.push_str(&format!("{label}:\n{fence}\n{text}{end}{fence}\n"));
    }
}

/// A fence that the text has none of.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat((longest + 1).max(3))
}

/// What is mentioned, and the punctuation behind its name.
async fn find<'a>(session: &Session, mention: &Mention<'a>) -> Result<(Found, &'a str), Missing> {
    let found = find_named(session, mention.kind, mention.name).await;
    let bare = mention.name.len() - mention.punctuation;
    match found {
        Err(Missing::Absent(_)) if mention.punctuation > 0 => {
            let (name, rest) = mention.name.split_at(bare);
            find_named(session, mention.kind, name).await.map(|found| (found, rest))
        }
        found => found.map(|found| (found, "")),
    }
}

async fn find_named(session: &Session, kind: Kind, name: &str) -> Result<Found, Missing> {
    match kind {
        Kind::Asset => asset(session, name).await,
        Kind::File => {
            let (workspace, name) = (session.workspace.clone(), name.to_owned());
            // A disk may be slow, and a terminal is to go on.
            tokio::task::spawn_blocking(move || file(&workspace, &name))
                .await
                .map_err(|error| Missing::Unusable(error.to_string()))?
        }
    }
}

async fn asset(session: &Session, name: &str) -> Result<Found, Missing> {
    let unusable = |error: Error| Missing::Unusable(error.to_string());
    let assets = session.assets.as_ref();
    let assets =
        assets.ok_or_else(|| Missing::Unusable("there is no place for assets".to_owned()))?;
    let store = assets.store.open().await.map_err(unusable)?;
    let metadata = named(store, name).await.map_err(|missing| {
        let near = missing.nearest.map(|near| format!("; did you mean `@@{near}`?"));
        let reason = format!("{}{}", missing.error, near.unwrap_or_default());
        match missing.error {
            Error::NotFound(_) | Error::Path(_) => Missing::Absent(reason),
            _ => Missing::Unusable(reason),
        }
    })?;
    check_size(metadata.size)?;
    let asset = store.read(&metadata.path).await.map_err(unusable)?;
    let text = text(asset.content)?;
    Ok(Found { label: format!("Asset {}", metadata.path.to_uri()), text })
}

fn file(workspace: &Path, name: &str) -> Result<Found, Missing> {
    let failed = |error: io::Error| Missing::Unusable(error.to_string());
    // All that is asked is asked of what was opened: by its name another file may be found.
    let file = open(workspace, name)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
        return Err(Missing::Unusable(format!("it is {what}")));
    }
    // What the kernel makes up may wait for what comes next, or tell of the host.
    if !filesystems::is_ordinary(&file).map_err(failed)? {
        return Err(Missing::Unusable("its file system holds no ordinary files".to_owned()));
    }
    check_size(metadata.len())?;
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    // It may have grown, and some files do not say how large they are.
    check_size(content.len() as u64)?;
    Ok(Found { label: format!("File {name}"), text: text(content)? })
}

/// Opens the file that is meant, links looked through. One that is named by a relative path
/// is opened beneath the workspace, whatever the links on the way have become since.
fn open(workspace: &Path, name: &str) -> Result<File, Missing> {
    // Neither a FIFO nor a terminal is waited for.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Missing::Absent(format!("no file `{name}` in the workspace"))
        }
        _ => Missing::Unusable(error.to_string()),
    };
    if Path::new(name).is_absolute() {
        return File::options().read(true).custom_flags(flags).open(name).map_err(failed);
    }
    let real = workspace.join(name).canonicalize().map_err(failed)?;
    let Ok(within) = real.strip_prefix(workspace) else {
        return Err(Missing::Unusable(format!(
            "it is outside the workspace; `@{}` means it",
            real.display()
        )));
    };
    if within == Path::new("") {
        return Err(Missing::Unusable("it is a directory".to_owned()));
    }
    let workspace = Dir::from_std_file(File::open(workspace).map_err(failed)?);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    Ok(workspace.open_with(within, &options).map_err(failed)?.into_std())
}

fn check_size(bytes: u64) -> Result<(), Missing> {
    if bytes > MAX_BYTES {
        let reason = format!("it has {bytes} bytes, and {MAX_BYTES} are the most");
        return Err(Missing::Unusable(reason));
    }
    Ok(())
}

fn text(content: Vec<u8>) -> Result<String, Missing> {
    let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Missing::Unusable("it is no text".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

    use super::*;

    /// How often a name is mentioned while a tool changes what it means. Looked at and then
    /// opened by its name, it gave the secret once in some hundred mentions.
    const MENTIONS: usize = 20_000;

    /// The text of what is mentioned, or why there is none.
    fn shown(workspace: &Path, name: &str) -> Result<String, String> {
        file(workspace, name).map(|found| found.text).map_err(|missing| match missing {
            Missing::Absent(reason) | Missing::Unusable(reason) => reason,
        })
    }

    fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        fs::create_dir_all(root.join("workspace/sub")).expect("a directory");
        fs::create_dir(root.join("outside")).expect("a directory");
        fs::write(root.join("outside/file"), "secret").expect("written");
        fs::write(root.join("workspace/sub/file"), "open").expect("written");
        (scratch, root.join("workspace"))
    }

    #[test]
    fn a_name_that_changes_what_it_means_leads_nowhere_outside() {
        let (_scratch, workspace) = workspace();
        symlink("../outside", workspace.join("link")).expect("a link");
        symlink("../../outside/file", workspace.join("sub/link")).expect("a link");
        for (one, two, mentioned) in
            [("sub", "link", "sub/file"), ("sub/file", "sub/link", "sub/file")]
        {
            let (one, two) = (workspace.join(one), workspace.join(two));
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE)
                            .expect("exchanged");
                    }
                });
                let secrets = (0..MENTIONS)
                    .filter(|_| shown(&workspace, mentioned).is_ok_and(|text| text == "secret"));
                let secrets = secrets.count();
                ended.store(true, Ordering::Relaxed);
                assert_eq!(secrets, 0, "of {MENTIONS} mentions");
            });
            if one.is_symlink() {
                renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).expect("exchanged");
            }
        }
    }

    #[test]
    fn links_that_stay_inside_are_followed() {
        let (_scratch, workspace) = workspace();
        symlink("sub", workspace.join("relative")).expect("a link");
        symlink(workspace.join("sub/file"), workspace.join("absolute")).expect("a link");
        for name in ["sub/file", "relative/file", "absolute", "sub/../relative/file"] {
            assert_eq!(shown(&workspace, name).as_deref(), Ok("open"), "{name}");
        }
        let outside = workspace.join("../outside/file");
        assert_eq!(shown(&workspace, outside.to_str().expect("UTF-8")).as_deref(), Ok("secret"));
        let refused = shown(&workspace, "../outside/file").expect_err("outside");
        assert!(refused.contains("outside the workspace"), "{refused}");
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_waited_for() {
        let (_scratch, workspace) = workspace();
        let fifo = workspace.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
        for (name, said) in [
            ("fifo", "it is no regular file"),
            ("sub", "it is a directory"),
            (".", "it is a directory"),
            ("/proc/self/status", "its file system holds no ordinary files"),
            ("/dev/null", "it is no regular file"),
        ] {
            let refused = shown(&workspace, name).expect_err(name);
            assert!(refused.contains(said), "{name}: {refused}");
        }
    }
}
