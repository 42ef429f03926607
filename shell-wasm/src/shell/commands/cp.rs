//! `cp`, over the decisions of [`transfer`](super::transfer).

use std::path::Path;
use std::sync::Arc;

use bashkit::{Command, CommandContext, CommandStatus, Metadata, Result, async_trait};

use super::options::{OptionSpec, ParsedOptions};
use super::reason;
use super::transfer::{Misuse, TargetDecision, Transfer, TransferPair};
use crate::shell::world::World;

/// The options. WASI cannot preserve modes and owners, so the options for them are missing.
const OPTIONS: OptionSpec = OptionSpec {
    words: "a,archive b ,backup[=] d f,force H i,interactive l,link L,dereference n,no-clobber \
            P,no-dereference p ,parents ,preserve[=] ,no-preserve= R r,recursive ,reflink[=] \
            ,remove-destination ,sparse= ,strip-trailing-slashes s,symbolic-link S,suffix= \
            t,target-directory= T,no-target-directory u,update v,verbose x,one-file-system",
    refusal: 1,
};

/// `cp [-abdfHiLlnPpRrsTuvx] [-S SUFFIX] [-t DIRECTORY] SOURCE… TARGET`
pub(super) struct Cp(pub(super) Arc<World>);

/// The kind of copy that is made of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyKind {
    Copy,
    HardLink,
    SymbolicLink,
}

struct CpRun<'w, 'c> {
    world: &'w World,
    transfer: Transfer<'c>,
    making: CopyKind,
    recursive: bool,
    /// `true` if links are followed: among the operands, and below them.
    follow: (bool, bool),
    times: bool,
    parents: bool,
    remove: bool,
    force: bool,
}

#[async_trait]
impl Command for Cp {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let transfer = match Transfer::new(&context, &parsed, &["interactive", "no-clobber"]) {
            Ok(transfer) => transfer,
            Err(reason) => return OPTIONS.misused(&context, &reason).await,
        };
        let pairs = match transfer.pairs(&parsed).await? {
            Ok(pairs) => pairs,
            Err(Misuse::Usage(reason)) => return OPTIONS.misused(&context, &reason).await,
            Err(Misuse::Operand(reason)) => return super::fail(&context, &reason).await,
        };
        let mut copying = CpRun::new(&self.0, transfer, &parsed);
        for pair in pairs {
            if !copying.parents || copying.make_parents(&pair).await? {
                copying.copy(&pair, copying.follow.0).await?;
            }
        }
        Ok(copying.transfer.status)
    }
}

impl<'w, 'c> CpRun<'w, 'c> {
    fn new(world: &'w World, transfer: Transfer<'c>, parsed: &ParsedOptions) -> Self {
        let archive = parsed.has("archive");
        let recursive = archive || parsed.has("recursive") || parsed.has("R");
        let links = ["archive", "d", "H", "dereference", "no-dereference"];
        let follow = match parsed.last_of(&links) {
            Some("H") => (true, false),
            Some("dereference") => (true, true),
            Some(_) => (false, false),
            None => (!recursive, !recursive),
        };
        let about_times =
            |value: &str| value.split(',').any(|one| matches!(one, "timestamps" | "all"));
        let preserved =
            parsed.values("preserve").any(|value| value.is_empty() || about_times(value));
        let lost = parsed.values("no-preserve").any(about_times);
        let making = match parsed.last_of(&["link", "symbolic-link"]) {
            Some("link") => CopyKind::HardLink,
            Some(_) => CopyKind::SymbolicLink,
            None => CopyKind::Copy,
        };
        Self {
            world,
            transfer,
            making,
            recursive,
            follow,
            times: (archive || parsed.has("p") || preserved) && !lost,
            parents: parsed.has("parents"),
            remove: parsed.has("remove-destination"),
            force: parsed.has("force"),
        }
    }

    async fn make_parents(&mut self, pair: &TransferPair) -> Result<bool> {
        let place = self.transfer.path(&pair.target);
        let Some(parent) = place.parent() else { return Ok(true) };
        match self.transfer.context.fs.mkdir(parent, true).await {
            Ok(()) => Ok(true),
            Err(error) => {
                let text =
                    format!("cannot make directory '{}': {}", parent.display(), reason(&error));
                self.transfer.complain(&text).await?;
                Ok(false)
            }
        }
    }

    async fn copy(&mut self, pair: &TransferPair, follow: bool) -> Result<()> {
        let TransferPair { source, target } = pair;
        let Some(found) = self.transfer.source(source, follow).await? else { return Ok(()) };
        let there = self.transfer.kind_at(target).await;
        let directory = found.file_type.is_dir();
        if directory && !self.recursive {
            let text = format!("-r not specified; omitting directory '{source}'");
            return self.transfer.complain(&text).await;
        }
        let trouble = match there {
            Some(there) if there.is_dir() && !directory => {
                Some(format!("cannot overwrite directory '{target}' with non-directory"))
            }
            Some(there) if !there.is_dir() && directory => {
                Some(format!("cannot overwrite non-directory '{target}' with directory '{source}'"))
            }
            None if target.ends_with('/') && !directory => {
                Some(format!("cannot create regular file '{target}': Not a directory"))
            }
            _ => None,
        };
        if let Some(trouble) = trouble {
            return self.transfer.complain(&trouble).await;
        }
        if directory { self.directory(pair, &found).await } else { self.file(pair, &found).await }
    }

    async fn directory(&mut self, pair: &TransferPair, found: &Metadata) -> Result<()> {
        let TransferPair { source, target } = pair;
        let (from, to) = (self.transfer.path(source), self.transfer.path(target));
        if to.starts_with(&from) {
            let text = format!("cannot copy a directory, '{source}', into itself, '{target}'");
            return self.transfer.complain(&text).await;
        }
        let fs = Arc::clone(&self.transfer.context.fs);
        if fs.stat(&to).await.is_err() {
            if let Err(error) = fs.mkdir(&to, false).await {
                let text = format!("cannot create directory '{target}': {}", reason(&error));
                return self.transfer.complain(&text).await;
            }
            self.transfer.report(&format!("'{source}' -> '{target}'"), None).await?;
        }
        let entries = match fs.read_dir(&from).await {
            Ok(entries) => entries,
            Err(error) => {
                let text = format!("cannot access '{source}': {}", reason(&error));
                return self.transfer.complain(&text).await;
            }
        };
        for entry in entries {
            let beneath = |dir: &str| format!("{}/{}", dir.trim_end_matches('/'), entry.name);
            let pair = TransferPair { source: beneath(source), target: beneath(target) };
            Box::pin(self.copy(&pair, self.follow.1)).await?;
        }
        self.keep_times(&to, target, found).await
    }

    async fn file(&mut self, pair: &TransferPair, found: &Metadata) -> Result<()> {
        let TransferPair { source, target } = pair;
        let (from, to) = (self.transfer.path(source), self.transfer.path(target));
        let fs = Arc::clone(&self.transfer.context.fs);
        if from == to {
            let text = format!("'{source}' and '{target}' are the same file");
            return self.transfer.complain(&text).await;
        }
        let TargetDecision::Go(backup) = self.transfer.decide(found, pair).await? else {
            return Ok(());
        };
        let there = fs.lstat(&to).await.ok();
        let replaced = self.making != CopyKind::Copy || found.file_type.is_symlink();
        if there.is_some()
            && (self.remove || replaced && (self.force || found.file_type.is_symlink()))
        {
            // A failure shows when the copy is made.
            let _ = fs.remove(&to, false).await;
        } else if there.is_some_and(|there| there.file_type.is_symlink())
            && fs.stat(&to).await.is_err()
        {
            let text = format!("not writing through dangling symlink '{target}'");
            return self.transfer.complain(&text).await;
        }
        let mut made = self.make(found, source, &from, &to).await;
        if made.is_err() && self.force && fs.remove(&to, false).await.is_ok() {
            made = self.make(found, source, &from, &to).await;
        }
        if let Err(error) = made {
            let what = match self.making {
                _ if found.file_type.is_symlink() => "symbolic link",
                CopyKind::Copy => "regular file",
                CopyKind::HardLink => "hard link",
                CopyKind::SymbolicLink => "symbolic link",
            };
            let text = format!("cannot create {what} '{target}': {}", reason(&error));
            return self.transfer.complain(&text).await;
        }
        if self.making == CopyKind::Copy && !found.file_type.is_symlink() {
            self.keep_times(&to, target, found).await?;
        }
        self.transfer.report(&format!("'{source}' -> '{target}'"), backup.as_deref()).await
    }

    async fn make(&self, found: &Metadata, source: &str, from: &Path, to: &Path) -> Result<()> {
        let fs = &self.transfer.context.fs;
        match self.making {
            CopyKind::HardLink => Ok(self.world.link(from, to)?),
            CopyKind::SymbolicLink => fs.symlink(Path::new(source), to).await,
            CopyKind::Copy if found.file_type.is_symlink() => {
                fs.symlink(&fs.read_link(from).await?, to).await
            }
            CopyKind::Copy => fs.copy(from, to).await,
        }
    }

    async fn keep_times(&mut self, to: &Path, target: &str, found: &Metadata) -> Result<()> {
        if !self.times {
            return Ok(());
        }
        match self.transfer.context.fs.set_modified_time(to, found.modified).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = format!("preserving times for '{target}': {}", reason(&error));
                self.transfer.complain(&text).await
            }
        }
    }
}
