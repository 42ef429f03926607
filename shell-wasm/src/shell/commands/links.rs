//! `ln` and `link`: the interpreter knows no hard links, and makes symbolic ones instead.

use std::path::Path;
use std::sync::Arc;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::{absolute, fail, reason};
use crate::shell::world::World;

/// `ln [-sfnTv] TARGET… NAME`
pub(super) struct Ln(pub(super) Arc<World>);

#[derive(Default)]
struct Options {
    symbolic: bool,
    force: bool,
    no_dereference: bool,
    no_target_directory: bool,
    verbose: bool,
}

#[async_trait]
impl Command for Ln {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let (options, files) = match parse(context.args) {
            Ok(parsed) => parsed,
            Err(reason) => return fail(&context, &reason).await,
        };
        let (targets, destination) = match files.as_slice() {
            [] => return fail(&context, "missing file operand").await,
            [target] => (&[*target][..], "."),
            [targets @ .., destination] => (targets, *destination),
        };
        let place = absolute(context.cwd, destination);
        let into = !options.no_target_directory
            && if options.no_dereference {
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
            if options.force && context.fs.lstat(&place).await.is_ok() {
                // A failure shows when the link is made.
                let _ = context.fs.remove(&place, false).await;
            }
            let (kind, arrow) = if options.symbolic { ("symbolic", "->") } else { ("hard", "=>") };
            let made = if options.symbolic {
                context.fs.symlink(Path::new(target), &place).await
            } else {
                self.0.link(&absolute(context.cwd, target), &place).map_err(Into::into)
            };
            match made {
                Ok(()) if options.verbose => {
                    let line = format!("'{name}' {arrow} '{target}'\n");
                    context.stdout.write_all(line.as_bytes()).await?;
                }
                Ok(()) => {}
                Err(error) => {
                    let origin =
                        if options.symbolic { String::new() } else { format!(" => '{target}'") };
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

fn parse(arguments: &[String]) -> std::result::Result<(Options, Vec<&str>), String> {
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--" => files.extend(arguments.by_ref().map(String::as_str)),
            "--symbolic" => options.symbolic = true,
            "--force" => options.force = true,
            "--no-dereference" => options.no_dereference = true,
            "--no-target-directory" => options.no_target_directory = true,
            "--verbose" => options.verbose = true,
            long if long.starts_with("--") => return Err(format!("unrecognized option '{long}'")),
            short if short.len() > 1 && short.starts_with('-') => {
                for letter in short[1..].chars() {
                    match letter {
                        's' => options.symbolic = true,
                        'f' => options.force = true,
                        'n' => options.no_dereference = true,
                        'T' => options.no_target_directory = true,
                        'v' => options.verbose = true,
                        other => return Err(format!("invalid option -- '{other}'")),
                    }
                }
            }
            file => files.push(file),
        }
    }
    Ok((options, files))
}

/// `link FILE NAME`
pub(super) struct Link(pub(super) Arc<World>);

#[async_trait]
impl Command for Link {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let [file, name] = context.args else {
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
