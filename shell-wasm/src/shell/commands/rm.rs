//! `rm`, since the interpreter's accepts `-i` and does not ask.

use bashkit::{Command, CommandContext, CommandStatus, Metadata, Result, async_trait};

use super::answer::ConfirmationInput;
use super::options::{OptionSpec, ParsedOptions};
use super::{absolute, fail, reason};

const OPTIONS: OptionSpec = OptionSpec {
    words: "d,dir f,force i I ,interactive[=] R r,recursive v,verbose ,one-file-system \
            ,no-preserve-root ,preserve-root[=]",
    refusal: 1,
};

/// The number of operands from which `-I` asks once for all.
const MANY: usize = 4;

/// `rm [-dfiIrRv] FILE…`
pub(super) struct Rm;

/// The cases in which `rm` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptMode {
    Never,
    Once,
    Always,
}

struct Removal<'c> {
    context: &'c CommandContext<'c>,
    answers: ConfirmationInput,
    ask: PromptMode,
    recursive: bool,
    dir: bool,
    force: bool,
    verbose: bool,
    status: CommandStatus,
}

#[async_trait]
impl Command for Rm {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match OPTIONS.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let ask = match ask(&parsed) {
            Ok(ask) => ask,
            Err(reason) => return OPTIONS.misused(&context, &reason).await,
        };
        let force = parsed.last_of(&["force", "i", "I", "interactive"]) == Some("force");
        if parsed.operands.is_empty() {
            return if force {
                Ok(CommandStatus::success())
            } else {
                OPTIONS.misused(&context, "missing operand").await
            };
        }
        let recursive = parsed.has("recursive") || parsed.has("R");
        let mut removal = Removal {
            answers: ConfirmationInput::from_context(&context),
            context: &context,
            ask,
            recursive,
            dir: parsed.has("dir"),
            force,
            verbose: parsed.has("verbose"),
            status: CommandStatus::success(),
        };
        let count = parsed.operands.len();
        if ask == PromptMode::Once && (recursive || count >= MANY) {
            let arguments = if count == 1 { "argument" } else { "arguments" };
            let how = if recursive { " recursively" } else { "" };
            let question = format!("remove {count} {arguments}{how}");
            if !removal.answers.agree(&context, &question).await? {
                return Ok(CommandStatus::success());
            }
        }
        for file in &parsed.operands {
            removal.operand(file).await?;
        }
        Ok(removal.status)
    }
}

fn ask(parsed: &ParsedOptions) -> std::result::Result<PromptMode, String> {
    Ok(match parsed.last_of(&["force", "i", "I", "interactive"]) {
        None | Some("force") => PromptMode::Never,
        Some("i") => PromptMode::Always,
        Some("I") => PromptMode::Once,
        Some(_) => match parsed.value("interactive").unwrap_or_default() {
            "" | "always" | "yes" => PromptMode::Always,
            "once" => PromptMode::Once,
            "never" | "no" | "none" => PromptMode::Never,
            other => return Err(format!("invalid argument '{other}' for '--interactive'")),
        },
    })
}

impl Removal<'_> {
    async fn complain(&mut self, text: &str) -> Result<()> {
        self.status = fail(self.context, text).await?;
        Ok(())
    }

    async fn operand(&mut self, file: &str) -> Result<()> {
        let trimmed = file.trim_end_matches('/');
        let last = trimmed.rsplit('/').next().unwrap_or_default();
        if self.recursive && matches!(last, "." | "..") {
            let text = format!("refusing to remove '.' or '..' directory: skipping '{file}'");
            return self.complain(&text).await;
        }
        if self.recursive && trimmed.is_empty() && !file.is_empty() {
            return self.complain("it is dangerous to operate recursively on '/'").await;
        }
        let path = absolute(self.context.cwd, file);
        match self.context.fs.lstat(&path).await {
            Ok(found) if file.ends_with('/') && !found.file_type.is_dir() => {
                self.complain(&format!("cannot remove '{file}': Not a directory")).await
            }
            Ok(found) => self.remove(file, &found).await.map(|_| ()),
            Err(bashkit::Error::Io(error))
                if self.force && error.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(())
            }
            Err(error) => {
                self.complain(&format!("cannot remove '{file}': {}", reason(&error))).await
            }
        }
    }

    /// Removes a file, and returns `true` if it is gone.
    async fn remove(&mut self, file: &str, found: &Metadata) -> Result<bool> {
        let directory = found.file_type.is_dir();
        let path = absolute(self.context.cwd, file);
        if directory && !self.recursive && !self.dir {
            self.complain(&format!("cannot remove '{file}': Is a directory")).await?;
            return Ok(false);
        }
        if directory && self.recursive {
            let mut entries = match self.context.fs.read_dir(&path).await {
                Ok(entries) => entries,
                Err(error) => {
                    self.complain(&format!("cannot remove '{file}': {}", reason(&error))).await?;
                    return Ok(false);
                }
            };
            let asks = self.ask == PromptMode::Always && !entries.is_empty();
            let question = format!("descend into directory '{file}'");
            if asks && !self.answers.agree(self.context, &question).await? {
                return Ok(false);
            }
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            let mut whole = true;
            for entry in entries {
                let name = format!("{}/{}", file.trim_end_matches('/'), entry.name);
                whole &= Box::pin(self.remove(&name, &entry.metadata)).await?;
            }
            if !whole {
                return Ok(false);
            }
        }
        if self.ask == PromptMode::Always {
            let question = format!("remove {} '{file}'", kind(found));
            if !self.answers.agree(self.context, &question).await? {
                return Ok(false);
            }
        }
        if let Err(error) = self.context.fs.remove(&path, false).await {
            self.complain(&format!("cannot remove '{file}': {}", reason(&error))).await?;
            return Ok(false);
        }
        if self.verbose {
            let what = if directory { "directory " } else { "" };
            let line = format!("removed {what}'{file}'\n");
            self.context.stdout.write_all(line.as_bytes()).await?;
        }
        Ok(true)
    }
}

/// Returns the kind of a file, in the words of `rm`.
fn kind(found: &Metadata) -> &'static str {
    match found.file_type {
        kind if kind.is_dir() => "directory",
        kind if kind.is_symlink() => "symbolic link",
        kind if kind.is_file() && found.size == 0 => "regular empty file",
        kind if kind.is_file() => "regular file",
        _ => "fifo",
    }
}
