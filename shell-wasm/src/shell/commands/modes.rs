//! `chmod` and `umask`: WASI has no modes, so a mode cannot be set in a granted directory, and the
//! attempt fails.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::{absolute, fail, reason};

const MODE_BITS: u32 = 0o7777;

/// `chmod MODE FILE…`: an error in a granted directory; in `/tmp` modes are kept.
pub(super) struct Chmod;

#[async_trait]
impl Command for Chmod {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (mut recursive, mut quiet) = (false, false);
        let mut operands = Vec::new();
        for argument in context.args {
            match argument.as_str() {
                "-R" | "--recursive" => recursive = true,
                "-f" | "--silent" | "--quiet" => quiet = true,
                "-v" | "-c" | "--verbose" | "--changes" => {}
                operand => operands.push(operand),
            }
        }
        let [mode, files @ ..] = operands.as_slice() else {
            return fail(&context, "missing operand").await;
        };
        if files.is_empty() {
            return fail(&context, &format!("missing operand after '{mode}'")).await;
        }
        let mut status = CommandStatus::success();
        let mut pending: Vec<String> = files.iter().rev().map(|file| (*file).to_owned()).collect();
        while let Some(file) = pending.pop() {
            let path = absolute(context.cwd, &file);
            let found = match context.fs.stat(&path).await {
                Ok(found) => found,
                Err(error) => {
                    let text = format!("cannot access '{file}': {}", reason(&error));
                    status = fail(&context, &text).await?;
                    continue;
                }
            };
            let Some(mode) = changed(found.mode, mode, found.file_type.is_dir()) else {
                return fail(&context, &format!("invalid mode: '{mode}'")).await;
            };
            // A mode that a file shows already, such as the x bit of a script, needs no setting.
            let same = mode & MODE_BITS == found.mode & MODE_BITS;
            let done = if same { Ok(()) } else { context.fs.chmod(&path, mode).await };
            if let Err(error) = done {
                status = CommandStatus::with_code(1);
                if !quiet {
                    let text = format!("changing permissions of '{file}': {}", reason(&error));
                    fail(&context, &text).await?;
                }
            }
            if recursive && found.file_type.is_dir() {
                let entries = context.fs.read_dir(&path).await?;
                pending.extend(entries.into_iter().map(|entry| format!("{file}/{}", entry.name)));
            }
        }
        Ok(status)
    }
}

/// Applies the change that `text` describes, octal or symbolic, to `mode`.
fn changed(mode: u32, text: &str, directory: bool) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    text.split(',').try_fold(mode, |mode, clause| {
        let at = clause.find(['+', '-', '='])?;
        let (who, change) = clause.split_at(at);
        let who = who.chars().try_fold(0, |who, letter| match letter {
            'u' => Some(who | 0o700),
            'g' => Some(who | 0o070),
            'o' => Some(who | 0o007),
            'a' => Some(0o777),
            _ => None,
        })?;
        let who = if who == 0 { 0o777 } else { who };
        let bits = change[1..].chars().try_fold(0, |bits, letter| match letter {
            'r' => Some(bits | 0o444),
            'w' => Some(bits | 0o222),
            'x' => Some(bits | 0o111),
            'X' if directory || mode & 0o111 != 0 => Some(bits | 0o111),
            'X' => Some(bits),
            _ => None,
        })?;
        Some(match change.as_bytes()[0] {
            b'+' => mode | bits & who,
            b'-' => mode & !(bits & who),
            _ => mode & !who | bits & who,
        })
    })
}

/// `umask [-pS] [MASK]`
pub(super) struct Umask;

const UMASK: OptionSpec = OptionSpec { words: "p S", refusal: 2 };

#[async_trait]
impl Command for Umask {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        if let Err(status) = UMASK.read(&context).await? {
            return Ok(status);
        }
        fail(&context, "the mask of new files belongs to the host and is not known in this shell")
            .await
    }
}
