//! `ln` and `link`: the interpreter has no hard links, and creates symbolic ones instead.

use std::path::Path;
use std::sync::Arc;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::{absolute, fail, reason};
use crate::shell::world::World;

/// `ln [-sfnTv] TARGET… NAME`
pub(super) struct Ln(pub(super) Arc<World>);

const LN: OptionSpec = OptionSpec {
    words: "f,force n,no-dereference s,symbolic T,no-target-directory v,verbose",
    refusal: 1,
};

#[async_trait]
impl Command for Ln {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let options = match LN.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let (targets, destination) = match options.operands.as_slice() {
            [] => return LN.misused(&context, "missing file operand").await,
            [target] => (std::slice::from_ref(target), "."),
            [targets @ .., destination] => (targets, destination.as_str()),
        };
        let place = absolute(context.cwd, destination);
        let into = !options.has("no-target-directory")
            && if options.has("no-dereference") {
                context.fs.lstat(&place).await.is_ok_and(|found| found.file_type.is_dir())
            } else {
                context.fs.stat(&place).await.is_ok_and(|found| found.file_type.is_dir())
            };
        if targets.len() > 1 && !into {
            return fail(&context, &format!("target '{destination}' is not a directory")).await;
        }
        let mut status = CommandStatus::success();
        for target in targets {
            let name = if into {
                let base = Path::new(target).file_name().unwrap_or_default().to_string_lossy();
                format!("{}/{base}", destination.trim_end_matches('/'))
            } else {
                destination.to_owned()
            };
            let place = absolute(context.cwd, &name);
            if options.has("force") && context.fs.lstat(&place).await.is_ok() {
                // A failure shows when the link is made.
                let _ = context.fs.remove(&place, false).await;
            }
            let (kind, arrow) =
                if options.has("symbolic") { ("symbolic", "->") } else { ("hard", "=>") };
            let made = if options.has("symbolic") {
                context.fs.symlink(Path::new(target), &place).await
            } else {
                self.0.link(&absolute(context.cwd, target), &place).map_err(Into::into)
            };
            match made {
                Ok(()) if options.has("verbose") => {
                    let line = format!("'{name}' {arrow} '{target}'\n");
                    context.stdout.write_all(line.as_bytes()).await?;
                }
                Ok(()) => {}
                Err(error) => {
                    let origin = if options.has("symbolic") {
                        String::new()
                    } else {
                        format!(" => '{target}'")
                    };
                    let text = format!(
                        "failed to create {kind} link '{name}'{origin}: {}",
                        reason(&error)
                    );
                    status = fail(&context, &text).await?;
                }
            }
        }
        Ok(status)
    }
}

/// `link FILE NAME`
pub(super) struct Link(pub(super) Arc<World>);

const LINK: OptionSpec = OptionSpec { words: "", refusal: 1 };

#[async_trait]
impl Command for Link {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match LINK.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let [file, name] = parsed.operands.as_slice() else {
            return fail(&context, "takes two operands").await;
        };
        let place = |path| absolute(context.cwd, path);
        match self.0.link(&place(file), &place(name)) {
            Ok(()) => Ok(CommandStatus::success()),
            Err(error) => {
                fail(&context, &format!("cannot create link '{name}' to '{file}': {error}")).await
            }
        }
    }
}
