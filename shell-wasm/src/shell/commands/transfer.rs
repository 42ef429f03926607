//! The common part of `cp` and `mv`: the names of their targets, and the handling of existing
//! files. The interpreter's versions accept every option that protects a file, and ignore all of
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bashkit::{CommandContext, CommandStatus, FileType, Metadata, Result};

use super::answer::ConfirmationInput;
use super::options::ParsedOptions;
use super::{absolute, fail, reason};

/// The suffix for the name of a backup, unless another is requested.
const SUFFIX: &str = "~";

/// The naming of backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    None,
    Simple,
    Numbered,
    /// Numbered if there are numbered ones already.
    Existing,
}

/// The handling of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clobber {
    Replace,
    Ask,
    Keep,
}

/// One operand, and the name that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransferPair {
    pub(super) source: String,
    pub(super) target: String,
}

/// A run of `cp` or `mv`.
pub(super) struct Transfer<'c> {
    pub(super) context: &'c CommandContext<'c>,
    pub(super) status: CommandStatus,
    answers: ConfirmationInput,
    clobber: Clobber,
    newer_only: bool,
    backups: Backups,
    suffix: String,
    verbose: bool,
    /// The files that this run has made: a second file of the same name would overwrite one.
    made: BTreeSet<PathBuf>,
}

/// The decision about a target.
pub(super) enum TargetDecision {
    Skip,
    /// The target may be written; contains the name of the backup, if one was made.
    Go(Option<String>),
}

impl<'c> Transfer<'c> {
    /// Begins a run. The last of the given options that is in `overriding` decides about existing
    /// files.
    pub(super) fn new(
        context: &'c CommandContext<'c>,
        parsed: &ParsedOptions,
        overriding: &[&str],
    ) -> std::result::Result<Self, String> {
        let clobber = match parsed.last_of(overriding) {
            Some("interactive") => Clobber::Ask,
            Some("no-clobber") => Clobber::Keep,
            _ => Clobber::Replace,
        };
        let backups = backups(context, parsed)?;
        if clobber == Clobber::Keep && backups != Backups::None {
            return Err("options --backup and --no-clobber are mutually exclusive".to_owned());
        }
        let suffix = parsed
            .value("suffix")
            .or_else(|| context.env.get("SIMPLE_BACKUP_SUFFIX").map(String::as_str));
        let suffix = suffix.filter(|suffix| !suffix.is_empty() && !suffix.contains('/'));
        Ok(Self {
            context,
            status: CommandStatus::success(),
            answers: ConfirmationInput::from_context(context),
            clobber,
            newer_only: parsed.has("update"),
            backups,
            suffix: suffix.unwrap_or(SUFFIX).to_owned(),
            verbose: parsed.has("verbose"),
            made: BTreeSet::new(),
        })
    }

    pub(super) async fn complain(&mut self, text: &str) -> Result<()> {
        self.status = fail(self.context, text).await?;
        Ok(())
    }

    pub(super) async fn report(&self, line: &str, backup: Option<&str>) -> Result<()> {
        if !self.verbose {
            return Ok(());
        }
        let backup = backup.map(|name| format!(" (backup: '{name}')")).unwrap_or_default();
        self.context.stdout.write_all(format!("{line}{backup}\n").as_bytes()).await
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        absolute(self.context.cwd, name)
    }

    /// Returns the metadata of a source; `None`, after a message, if it cannot be read.
    pub(super) async fn source(&mut self, name: &str, follow: bool) -> Result<Option<Metadata>> {
        let path = self.path(name);
        let found = if follow || name.ends_with('/') {
            self.context.fs.stat(&path).await
        } else {
            self.context.fs.lstat(&path).await
        };
        let trouble = match found {
            Ok(found) if name.ends_with('/') && !found.file_type.is_dir() => {
                "Not a directory".to_owned()
            }
            Ok(found) => return Ok(Some(found)),
            Err(error) => reason(&error),
        };
        self.complain(&format!("cannot stat '{name}': {trouble}")).await?;
        Ok(None)
    }

    /// Decides about a target that is not a directory, by the existing file.
    pub(super) async fn decide(
        &mut self,
        source: &Metadata,
        pair: &TransferPair,
    ) -> Result<TargetDecision> {
        let place = self.path(&pair.target);
        let Ok(there) = self.context.fs.lstat(&place).await else {
            self.made.insert(place);
            return Ok(TargetDecision::Go(None));
        };
        let TransferPair { source: from, target: to } = pair;
        if self.made.contains(&place) {
            let text = format!("will not overwrite just-created '{to}' with '{from}'");
            self.complain(&text).await?;
            return Ok(TargetDecision::Skip);
        }
        if self.clobber == Clobber::Keep || self.newer_only && there.modified >= source.modified {
            return Ok(TargetDecision::Skip);
        }
        if self.clobber == Clobber::Ask
            && !self.answers.agree(self.context, &format!("overwrite '{to}'")).await?
        {
            return Ok(TargetDecision::Skip);
        }
        let backup = self.backup_name(to).await?;
        if let Some(backup) = &backup
            && let Err(error) = self.context.fs.rename(&place, &self.path(backup)).await
        {
            self.complain(&format!("cannot backup '{to}': {}", reason(&error))).await?;
            return Ok(TargetDecision::Skip);
        }
        self.made.insert(place);
        Ok(TargetDecision::Go(backup))
    }

    async fn backup_name(&self, target: &str) -> Result<Option<String>> {
        if self.backups == Backups::None {
            return Ok(None);
        }
        let place = self.path(target);
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parent = place.parent().unwrap_or(Path::new("/"));
        let number = |entry: &str| {
            entry.strip_prefix(&name)?.strip_prefix(".~")?.strip_suffix('~')?.parse::<u64>().ok()
        };
        let entries = self.context.fs.read_dir(parent).await?;
        let last = entries.iter().filter_map(|entry| number(&entry.name)).max();
        Ok(Some(match (self.backups, last) {
            (Backups::Numbered, last) | (Backups::Existing, last @ Some(_)) => {
                format!("{target}.~{}~", last.unwrap_or(0) + 1)
            }
            _ => format!("{target}{}", self.suffix),
        }))
    }

    /// Pairs the operands with their targets, or returns the reason why that is not possible.
    pub(super) async fn pairs(
        &self,
        parsed: &ParsedOptions,
    ) -> Result<std::result::Result<Vec<TransferPair>, Misuse>> {
        let operands = parsed.operands.as_slice();
        let strip = parsed.has("strip-trailing-slashes");
        let parents = parsed.has("parents");
        let (sources, destination, into) = match (parsed.value("target-directory"), operands) {
            (_, []) => return Ok(Err(Misuse::Usage("missing file operand".to_owned()))),
            (Some(directory), sources) => {
                if let Err(error) = self.directory(directory).await {
                    let text = format!("target directory '{directory}': {error}");
                    return Ok(Err(Misuse::Operand(text)));
                }
                (sources, directory, true)
            }
            (None, [only]) => {
                let text = format!("missing destination file operand after '{only}'");
                return Ok(Err(Misuse::Usage(text)));
            }
            (None, [_, _, third, ..]) if parsed.has("no-target-directory") => {
                return Ok(Err(Misuse::Usage(format!("extra operand '{third}'"))));
            }
            (None, [source, destination]) if parsed.has("no-target-directory") => {
                (std::slice::from_ref(source), destination.as_str(), false)
            }
            (None, [sources @ .., destination]) => {
                let into = match self.directory(destination).await {
                    Ok(()) => true,
                    Err(error) if sources.len() > 1 || parents => {
                        let text = if parents {
                            "with --parents, the destination must be a directory".to_owned()
                        } else {
                            format!("target '{destination}': {error}")
                        };
                        return Ok(Err(Misuse::Operand(text)));
                    }
                    Err(_) => false,
                };
                (sources, destination.as_str(), into)
            }
        };
        let pair = |source: &String| {
            let source =
                if strip { source.trim_end_matches('/').to_owned() } else { source.clone() };
            let name = source.trim_end_matches('/');
            let name = if parents { name } else { name.rsplit('/').next().unwrap_or_default() };
            let target = match name {
                _ if !into => destination.to_owned(),
                // `.` and `..` stand for the contents of the directory.
                "." | ".." => destination.to_owned(),
                name => format!(
                    "{}/{}",
                    destination.trim_end_matches('/'),
                    name.trim_start_matches('/')
                ),
            };
            TransferPair { source, target }
        };
        Ok(Ok(sources.iter().map(pair).collect()))
    }

    async fn directory(&self, name: &str) -> std::result::Result<(), String> {
        match self.context.fs.stat(&self.path(name)).await {
            Ok(found) if found.file_type.is_dir() => Ok(()),
            Ok(_) => Err("Not a directory".to_owned()),
            Err(error) => Err(reason(&error)),
        }
    }

    /// Returns the kind of the existing file at a target, links followed.
    pub(super) async fn kind_at(&self, name: &str) -> Option<FileType> {
        self.context.fs.stat(&self.path(name)).await.ok().map(|found| found.file_type)
    }
}

/// The reason why operands cannot be paired.
pub(super) enum Misuse {
    /// The command was called wrongly.
    Usage(String),
    /// An operand names a file of the wrong kind.
    Operand(String),
}

fn backups(
    context: &CommandContext<'_>,
    parsed: &ParsedOptions,
) -> std::result::Result<Backups, String> {
    let asked = parsed.has("b") || parsed.has("backup") || parsed.has("suffix");
    if !asked {
        return Ok(Backups::None);
    }
    let control = parsed.value("backup").filter(|control| !control.is_empty());
    let control = control.or_else(|| context.env.get("VERSION_CONTROL").map(String::as_str));
    match control.unwrap_or("existing") {
        "none" | "off" => Ok(Backups::None),
        "simple" | "never" => Ok(Backups::Simple),
        "existing" | "nil" => Ok(Backups::Existing),
        "numbered" | "t" => Ok(Backups::Numbered),
        other => Err(format!("invalid argument '{other}' for 'backup type'")),
    }
}
