//! The check before commands of the interpreter that take only text. They would replace each byte
//! that is not UTF-8 by U+FFFD.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bashkit::{BashBuilder, Command, CommandContext, CommandStatus, Result, async_trait};

use super::{absolute, fail, inner};

/// The commands, without `sed`, whose options are checked as well (`checked.rs`).
const TEXT: &[&str] = &[
    "awk", "column", "comm", "cut", "expand", "fmt", "fold", "gawk", "join", "mawk", "nl", "paste",
    "pr", "rev", "sort", "tac", "unexpand", "uniq",
];

/// The directory of the files that `<( )` stands for.
const DESCRIPTORS: &str = "/dev/fd";

/// The number of copies of such files.
static COPIES: AtomicUsize = AtomicUsize::new(0);

struct TextOnlyCommand;

/// Adds the check to each of the commands.
pub(super) fn add(builder: BashBuilder) -> BashBuilder {
    TEXT.iter().fold(builder, |builder, name| builder.command(*name, TextOnlyCommand))
}

#[async_trait]
impl Command for TextOnlyCommand {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        pass_on(&context).await
    }
}

/// Runs the interpreter's command, if its standard input and the files that its arguments name are
/// UTF-8.
pub(super) async fn pass_on(context: &CommandContext<'_>) -> Result<CommandStatus> {
    let input = inner::input(context).await?;
    if std::str::from_utf8(&input).is_err() {
        return refuse(context, "standard input").await;
    }
    let (mut args, mut copies) = (context.args.to_vec(), Vec::new());
    for arg in &mut args {
        let place = absolute(context.cwd, arg);
        let is_descriptor = place.starts_with(DESCRIPTORS);
        let is_file = context.fs.stat(&place).await.is_ok_and(|it| it.file_type.is_file());
        if !is_file && !is_descriptor {
            continue;
        }
        let Ok(contents) = context.fs.read_file(&place).await else { continue };
        if std::str::from_utf8(&contents).is_err() {
            return refuse(context, arg).await;
        }
        if is_descriptor {
            // The command runs in its own shell, which does not have this shell's descriptors.
            let number = COPIES.fetch_add(1, Ordering::Relaxed);
            let copy = PathBuf::from(format!("/tmp/.descriptor-{number}"));
            context.fs.write_file(&copy, &contents).await?;
            *arg = copy.to_string_lossy().into_owned();
            copies.push(copy);
        }
    }
    let ended = inner::run(context, context.name, &args, input).await?;
    for copy in copies {
        context.fs.remove(&copy, false).await?;
    }
    inner::emit(context, &ended).await
}

async fn refuse(context: &CommandContext<'_>, name: &str) -> Result<CommandStatus> {
    let reason = format!(
        "{name}: not UTF-8, which this command would change; `cat`, `grep`, `head`, `tail`, `tr`, \
         `cmp` and `od` keep every byte"
    );
    fail(context, &reason).await
}
