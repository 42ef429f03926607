//! Mentions in a prompt: `@path` is replaced by the text of a file, `@@path` by the text of an
//! asset. A file that is an image by its first bytes goes with the prompt, and its mention stays.
//!
//! ikigai resolves mentions when the user submits the prompt, with the user's own rights. A
//! relative path cannot lead out of the workspace, or to a file that is kept from models. That
//! includes links, because a tool could have made the link. To mention such a file, write its
//! absolute path without links. ikigai asks no policy then, since the user wants to show the model
//! this file. If ikigai cannot show the mentioned file or asset, the mention stays as it is written,
//! and a warning gives the reason.

mod parse;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use ikigai_assets::Error;
use ikigai_host::exec::KeptFromModels;
use ikigai_provider::{Image, ImageError, ImageType};
use ikigai_supervisor::filesystems;
use rustix::fs::OFlags;

pub use parse::{Mention, MentionKind, PromptPiece, parse};

use crate::assets::named;
use crate::fence::fenced;
use crate::session_assets::SessionAssets;

/// The files that a prompt can mention.
pub struct MentionFiles<'a> {
    /// The directory where relative paths start.
    pub workspace: &'a Path,
    /// The files that only their absolute paths mention.
    pub kept: &'a KeptFromModels,
}

/// The largest text of a file or asset that goes into a prompt: 256 KiB, some 64,000 tokens.
pub const MAX_BYTES: u64 = 256 << 10;

/// A prompt whose mentions were replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text for the model.
    pub text: String,
    /// The images, each with the name by which it is mentioned.
    pub images: Vec<Image>,
    /// A line for each mention that could not be shown, with the reason.
    pub warnings: Vec<String>,
}

/// A text or an image that was mentioned, and its name.
struct ResolvedMention {
    label: String,
    content: MentionContent,
}

enum MentionContent {
    Text(String),
    Image(Image),
}

/// The reason why a mention cannot be shown.
enum MentionFailure {
    /// No file or asset has this name. A name without the punctuation at its end may exist.
    Absent(String),
    Unusable(String),
}

/// Replaces each mention in the prompt by its text, in a fence and under its name. Further mentions
/// of the same text are replaced by only the name. Mentions of images stay as they are written.
pub async fn expand(
    files: &MentionFiles<'_>,
    assets: Option<&SessionAssets>,
    prompt: &str,
) -> Expanded {
    let mut expanded = Expanded::default();
    let mut shown = HashSet::new();
    for piece in parse(prompt) {
        let mention = match piece {
            PromptPiece::Plain(text) => {
                expanded.text.push_str(text);
                continue;
            }
            PromptPiece::Mention(mention) => mention,
        };
        match find(files, assets, &mention).await {
            Ok((ResolvedMention { label, content: MentionContent::Text(text) }, rest)) => {
                if shown.insert(label.clone()) {
                    expanded.push(&label, &text);
                } else {
                    expanded.text.push_str(&format!("{label} (shown above)"));
                }
                expanded.text.push_str(rest);
            }
            Ok((ResolvedMention { label, content: MentionContent::Image(image) }, _)) => {
                expanded.text.push_str(mention.written);
                if shown.insert(label) {
                    expanded.images.push(image);
                }
            }
            Err(MentionFailure::Absent(reason) | MentionFailure::Unusable(reason)) => {
                expanded.text.push_str(mention.written);
                expanded.warnings.push(format!("`{}` is sent as it is: {reason}", mention.written));
            }
        }
    }
    expanded
}

impl Expanded {
    fn push(&mut self, label: &str, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(&format!("{label}:\n{}\n", fenced(text)));
    }
}

/// Finds the file or asset that is mentioned, and returns it with the punctuation after its name.
async fn find<'a>(
    files: &MentionFiles<'_>,
    assets: Option<&SessionAssets>,
    mention: &Mention<'a>,
) -> Result<(ResolvedMention, &'a str), MentionFailure> {
    let find_named = |name| find_named(files, assets, mention.kind, name);
    let found = find_named(mention.name).await;
    let bare = mention.name.len() - mention.punctuation;
    match found {
        Err(MentionFailure::Absent(_)) if mention.punctuation > 0 => {
            let (name, rest) = mention.name.split_at(bare);
            find_named(name).await.map(|found| (found, rest))
        }
        found => found.map(|found| (found, "")),
    }
}

async fn find_named(
    files: &MentionFiles<'_>,
    assets: Option<&SessionAssets>,
    kind: MentionKind,
    name: &str,
) -> Result<ResolvedMention, MentionFailure> {
    match kind {
        MentionKind::Asset => asset(assets, name).await,
        MentionKind::File => {
            let (workspace, kept) = (files.workspace.to_owned(), files.kept.clone());
            let name = name.to_owned();
            // Reading may be slow, and must not block a terminal.
            tokio::task::spawn_blocking(move || file(&workspace, &kept, &name))
                .await
                .map_err(|error| MentionFailure::Unusable(error.to_string()))?
        }
    }
}

async fn asset(
    assets: Option<&SessionAssets>,
    name: &str,
) -> Result<ResolvedMention, MentionFailure> {
    let unusable = |error: Error| MentionFailure::Unusable(error.to_string());
    let assets =
        assets.ok_or_else(|| MentionFailure::Unusable("there is no asset store".to_owned()))?;
    let store = assets.store.open().await.map_err(unusable)?;
    let metadata = named(store, name).await.map_err(|missing| {
        let near = missing.nearest.map(|near| format!("; did you mean `@@{near}`?"));
        let reason = format!("{}{}", missing.error, near.unwrap_or_default());
        match missing.error {
            Error::NotFound(_) | Error::Path(_) => MentionFailure::Absent(reason),
            _ => MentionFailure::Unusable(reason),
        }
    })?;
    check_size(metadata.size, MAX_BYTES)?;
    let asset = store.read(&metadata.path).await.map_err(unusable)?;
    let (label, name) = (format!("Asset {}", metadata.path.to_uri()), metadata.path.to_uri());
    Ok(ResolvedMention { label, content: content(&name, asset.content)? })
}

fn file(
    workspace: &Path,
    kept: &KeptFromModels,
    name: &str,
) -> Result<ResolvedMention, MentionFailure> {
    let failed = |error: io::Error| MentionFailure::Unusable(error.to_string());
    // Each check uses the open file: its name may lead to another file by now.
    let file = open(workspace, name)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "not a regular file" };
        return Err(MentionFailure::Unusable(format!("it is {what}")));
    }
    // A file that the kernel generates may block, or reveal facts about the host.
    if !filesystems::is_ordinary(&file).map_err(failed)? {
        return Err(MentionFailure::Unusable("it is not on an ordinary file system".to_owned()));
    }
    let path = Path::new(name);
    kept.check(&file, path.is_absolute().then_some(path)).map_err(|reason| {
        let advice = "to show it anyway, mention it by its absolute path, without links";
        MentionFailure::Unusable(format!("{reason}; {advice}"))
    })?;
    let mut bytes = Vec::new();
    (&file).take(ImageType::HEAD_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
    let most = if ImageType::from_head(&bytes).is_some() { Image::MAX_BYTES } else { MAX_BYTES };
    check_size(metadata.len(), most)?;
    (&file).take(most + 1 - bytes.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
    // The file may have grown, and some files do not report their size.
    check_size(bytes.len() as u64, most)?;
    Ok(ResolvedMention { label: format!("File {name}"), content: content(name, bytes)? })
}

/// Opens the file of this name, and follows links. A file with a relative path is opened beneath
/// the workspace, even if a tool swaps links on the way.
fn open(workspace: &Path, name: &str) -> Result<File, MentionFailure> {
    // Do not wait for a FIFO or a terminal.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            MentionFailure::Absent(format!("no file `{name}` in the workspace"))
        }
        _ => MentionFailure::Unusable(error.to_string()),
    };
    if Path::new(name).is_absolute() {
        return File::options().read(true).custom_flags(flags).open(name).map_err(failed);
    }
    let real = workspace.join(name).canonicalize().map_err(failed)?;
    let Ok(within) = real.strip_prefix(workspace) else {
        return Err(MentionFailure::Unusable(format!(
            "it is outside the workspace; mention it as `@{}`",
            real.display()
        )));
    };
    if within == Path::new("") {
        return Err(MentionFailure::Unusable("it is a directory".to_owned()));
    }
    let workspace = Dir::from_std_file(File::open(workspace).map_err(failed)?);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    Ok(workspace.open_with(within, &options).map_err(failed)?.into_std())
}

fn check_size(bytes: u64, most: u64) -> Result<(), MentionFailure> {
    if bytes > most {
        let reason = format!("it has {bytes} bytes, more than the limit of {most}");
        return Err(MentionFailure::Unusable(reason));
    }
    Ok(())
}

/// Returns bytes as a text if they are valid text, and otherwise as an image. So a text that begins
/// like an image stays a text.
fn content(name: &str, bytes: Vec<u8>) -> Result<MentionContent, MentionFailure> {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            check_size(text.len() as u64, MAX_BYTES)?;
            return Ok(MentionContent::Text(text));
        }
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    Image::new(name, &bytes).map(MentionContent::Image).map_err(|error| {
        MentionFailure::Unusable(match error {
            ImageError::Type => "it is neither text nor a PNG, JPEG, GIF or WebP image".to_owned(),
            error => error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use ikigai_host::policy::{Access, Grant, GrantedDir, Hide};
    use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};

    use super::*;

    /// The number of mentions of a name while a tool swaps the file behind it. When the name was
    /// checked before it was opened, the secret came out once in some hundred mentions.
    const MENTIONS: usize = 20_000;

    /// Returns the text that is mentioned, or the reason why it cannot be shown.
    fn shown(workspace: &Path, name: &str) -> Result<String, String> {
        shown_except(workspace, &hiding(workspace, &[]), name)
    }

    fn hiding(workspace: &Path, patterns: &[&str]) -> KeptFromModels {
        KeptFromModels::new(Ok(Grant {
            dirs: vec![GrantedDir { access: Access::ReadOnly, path: workspace.to_owned() }],
            hide: Hide::parse(patterns.iter().copied()).expect("patterns"),
            ..Grant::default()
        }))
    }

    fn shown_except(workspace: &Path, kept: &KeptFromModels, name: &str) -> Result<String, String> {
        let found = file(workspace, kept, name).map_err(|missing| match missing {
            MentionFailure::Absent(reason) | MentionFailure::Unusable(reason) => reason,
        })?;
        match found.content {
            MentionContent::Text(text) => Ok(text),
            MentionContent::Image(image) => Ok(image.to_string()),
        }
    }

    /// Returns the beginning of a PNG. No more of it is read.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
        [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &width, &height, &[8, 2, 0, 0, 0]].concat()
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
    fn a_name_that_leads_to_a_hidden_file_shows_nothing() {
        let (_scratch, workspace) = workspace();
        fs::write(workspace.join(".env"), "hunter2").expect("written");
        fs::write(workspace.join("picture.pem"), png(2, 3)).expect("written");
        symlink(".env", workspace.join("soft")).expect("a link");
        symlink("sub", workspace.join("dir")).expect("a link");
        symlink("../.env", workspace.join("sub/soft")).expect("a link");
        symlink("picture.pem", workspace.join("picture")).expect("a link");
        fs::hard_link(workspace.join(".env"), workspace.join("hard")).expect("a link");
        let absolute = |name: &str| workspace.join(name).to_str().expect("UTF-8").to_owned();
        let kept = hiding(&workspace, &[".env", "*.pem"]);
        let link = absolute("soft");
        for name in [".env", "soft", "dir/soft", "hard", "picture", link.as_str()] {
            assert!(shown(&workspace, name).is_ok(), "{name}");
            let refused = shown_except(&workspace, &kept, name).expect_err(name);
            assert!(refused.contains("`hide`"), "{name}: {refused}");
        }
        let named = shown_except(&workspace, &kept, &absolute(".env"));
        assert_eq!(named.as_deref(), Ok("hunter2"));
        assert_eq!(shown_except(&workspace, &kept, "dir/file").as_deref(), Ok("open"));
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_waited_for() {
        let (_scratch, workspace) = workspace();
        let fifo = workspace.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
        for (name, reason) in [
            ("fifo", "it is not a regular file"),
            ("sub", "it is a directory"),
            (".", "it is a directory"),
            ("/proc/self/status", "it is not on an ordinary file system"),
            ("/dev/null", "it is not a regular file"),
        ] {
            let refused = shown(&workspace, name).expect_err(name);
            assert!(refused.contains(reason), "{name}: {refused}");
        }
    }

    #[test]
    fn an_image_is_one_by_its_bytes_and_not_by_its_name() {
        let (_scratch, workspace) = workspace();
        let write = |name: &str, bytes: &[u8]| {
            fs::write(workspace.join(name), bytes).expect("written");
        };
        write("picture", &png(640, 480));
        assert_eq!(shown(&workspace, "picture").as_deref(), Ok("[image picture, 640 × 480, 1 kB]"));
        write("text.png", b"no picture\n");
        write("about.gif", b"GIF89a is a format of images.\n");
        write("empty.png", b"");
        for (name, text) in [
            ("text.png", "no picture\n"),
            ("about.gif", "GIF89a is a format of images.\n"),
            ("empty.png", ""),
        ] {
            assert_eq!(shown(&workspace, name).as_deref(), Ok(text), "{name}");
        }
        let mut large = png(1, 1);
        large.resize(usize::try_from(Image::MAX_BYTES).expect("a length") + 1, 0);
        let long = format!("GIF89a{}", "x".repeat(usize::try_from(MAX_BYTES).expect("a length")));
        for (name, bytes, reason) in [
            (
                "bomb.png",
                png(100_000, 100_000),
                "the image has 100000 × 100000 pixels, more than the limit of 8000 × 8000",
            ),
            ("cut.png", png(1, 1)[..20].to_vec(), "its size in pixels cannot be read"),
            ("large.png", large, "it has 3932161 bytes, more than the limit of 3932160"),
            ("long.gif", long.into_bytes(), "it has 262150 bytes, more than the limit of 262144"),
            ("binary.png", b"a\0b".to_vec(), "it is neither text nor a PNG"),
        ] {
            write(name, &bytes);
            let refused = shown(&workspace, name).expect_err(name);
            assert!(refused.contains(reason), "{name}: {refused}");
        }
    }

    #[tokio::test]
    async fn an_image_goes_with_the_prompt_once_and_its_mention_stays() {
        let (_scratch, workspace) = workspace();
        fs::write(workspace.join("a b.png"), png(2, 3)).expect("written");
        let prompt = r#"What is @"a b.png", and in @"a b.png" what is @sub/file?"#;
        let kept = hiding(&workspace, &[]);
        let files = MentionFiles { workspace: &workspace, kept: &kept };
        let expanded = expand(&files, None, prompt).await;
        let names: Vec<&str> = expanded.images.iter().map(Image::name).collect();
        assert_eq!(names, ["a b.png"]);
        assert!(
            expanded.text.starts_with(r#"What is @"a b.png", and in @"a b.png" what is "#),
            "{expanded:?}"
        );
        assert!(expanded.text.contains("open") && expanded.warnings.is_empty(), "{expanded:?}");
    }
}
