//! Short commands whose counterparts in the interpreter take any option for an operand, or report
//! no errors: `dirname`, `file`, `mkdir`, `printenv`, `pwd`, `which`.

use std::collections::BTreeSet;
use std::path::Path;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::options::OptionSpec;
use super::{absolute, fail, inner, reason};

/// `dirname [-z] NAME…`
pub(super) struct Dirname;

const DIRNAME: OptionSpec = OptionSpec { words: "z,zero", refusal: 1 };

#[async_trait]
impl Command for Dirname {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match DIRNAME.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        if parsed.operands.is_empty() {
            return DIRNAME.misused(&context, "missing operand").await;
        }
        let end = if parsed.has("zero") { '\0' } else { '\n' };
        for name in &parsed.operands {
            let line = format!("{}{end}", parent(name));
            context.stdout.write_all(line.as_bytes()).await?;
        }
        Ok(CommandStatus::success())
    }
}

/// Returns the part before the last component, as text.
fn parent(name: &str) -> &str {
    let trimmed = name.trim_end_matches('/');
    match trimmed.rfind('/') {
        None if trimmed.is_empty() && !name.is_empty() => "/",
        None => ".",
        Some(at) => match trimmed[..at].trim_end_matches('/') {
            "" => "/",
            parent => parent,
        },
    }
}

/// `mkdir [-pv] DIRECTORY…`: a mode cannot be set, and is refused.
pub(super) struct Mkdir;

const MKDIR: OptionSpec = OptionSpec { words: "p,parents v,verbose", refusal: 1 };

#[async_trait]
impl Command for Mkdir {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match MKDIR.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        if parsed.operands.is_empty() {
            return MKDIR.misused(&context, "missing operand").await;
        }
        let (parents, verbose) = (parsed.has("parents"), parsed.has("verbose"));
        let mut status = CommandStatus::success();
        for name in &parsed.operands {
            // `-v` prints each of the parents as well, so each is created separately.
            let above = Path::new(name).ancestors().filter(|above| *above != Path::new(""));
            let mut all: Vec<_> = above.map(|above| above.to_string_lossy().into_owned()).collect();
            all.reverse();
            all.pop();
            all.push(name.clone());
            let first = if parents { 0 } else { all.len() - 1 };
            for directory in &all[first..] {
                let place = absolute(context.cwd, directory);
                let there =
                    context.fs.stat(&place).await.ok().map(|there| there.file_type.is_dir());
                let made = match there {
                    Some(true) if parents => continue,
                    Some(_) => Err("File exists".to_owned()),
                    None => context.fs.mkdir(&place, false).await.map_err(|error| reason(&error)),
                };
                match made {
                    Ok(()) if verbose => {
                        let line = format!("mkdir: created directory '{directory}'\n");
                        context.stdout.write_all(line.as_bytes()).await?;
                    }
                    Ok(()) => {}
                    Err(error) => {
                        let text = format!("cannot create directory '{directory}': {error}");
                        status = fail(&context, &text).await?;
                        break;
                    }
                }
            }
        }
        Ok(status)
    }
}

/// `printenv [-0] [NAME…]`
pub(super) struct Printenv;

const PRINTENV: OptionSpec = OptionSpec { words: "+ 0,null", refusal: 2 };

#[async_trait]
impl Command for Printenv {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match PRINTENV.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let end = if parsed.has("null") { '\0' } else { '\n' };
        if parsed.operands.is_empty() {
            for name in context.env.keys().collect::<BTreeSet<_>>() {
                let line = format!("{name}={}{end}", context.env[name]);
                context.stdout.write_all(line.as_bytes()).await?;
            }
            return Ok(CommandStatus::success());
        }
        let mut missing = false;
        for name in &parsed.operands {
            match context.env.get(name) {
                Some(value) => {
                    context.stdout.write_all(format!("{value}{end}").as_bytes()).await?;
                }
                None => missing = true,
            }
        }
        Ok(CommandStatus::with_code(i32::from(missing)))
    }
}

/// `pwd [-LP]`
pub(super) struct Pwd;

const PWD: OptionSpec = OptionSpec { words: "L P", refusal: 2 };

#[async_trait]
impl Command for Pwd {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        match PWD.read(&context).await? {
            Ok(parsed) if parsed.last_of(&["L", "P"]) == Some("P") => {
                inner::pass_on(&context, "pwd", &["-P".to_owned()]).await
            }
            Ok(_) => {
                let line = format!("{}\n", context.cwd.display());
                context.stdout.write_all(line.as_bytes()).await?;
                Ok(CommandStatus::success())
            }
            Err(status) => Ok(status),
        }
    }
}

/// `file [-bLh] FILE…`
pub(super) struct FileCommand;

const FILE: OptionSpec = OptionSpec { words: "b,brief h,no-dereference L,dereference", refusal: 1 };

#[async_trait]
impl Command for FileCommand {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match FILE.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let follow = parsed.last_of(&["dereference", "no-dereference"]) == Some("dereference");
        let mut status = CommandStatus::success();
        for name in &parsed.operands {
            let place = absolute(context.cwd, name);
            let target = match context.fs.read_link(&place).await {
                // The interpreter's command describes links themselves.
                Ok(target) if follow => {
                    let dir = place.parent().unwrap_or(Path::new("/"));
                    absolute(dir, &target.to_string_lossy()).to_string_lossy().into_owned()
                }
                _ => place.to_string_lossy().into_owned(),
            };
            let ended =
                inner::run(&context, "file", std::slice::from_ref(&target), Vec::new()).await?;
            let said = ended.stdout.text_lossy();
            let said = said.strip_prefix(&format!("{target}: ")).unwrap_or(&said);
            let said = said.replace(&target, name);
            let title = if parsed.has("brief") { String::new() } else { format!("{name}: ") };
            context.stdout.write_all(format!("{title}{said}").as_bytes()).await?;
            context.stderr.write_all(ended.stderr.as_bytes()).await?;
            if ended.exit_code != 0 {
                status = CommandStatus::with_code(ended.exit_code);
            }
        }
        Ok(status)
    }
}

/// `which [-as] NAME…`
pub(super) struct Which;

const WHICH: OptionSpec = OptionSpec { words: "a s", refusal: 2 };

#[async_trait]
impl Command for Which {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match WHICH.read(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let path = context.env.get("PATH").map(String::as_str).unwrap_or_default();
        let mut missing = false;
        for name in &parsed.operands {
            let mut found = false;
            let dirs: Vec<&str> =
                if name.contains('/') { vec![""] } else { path.split(':').collect() };
            for dir in dirs {
                let file = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
                let there = context.fs.stat(&absolute(context.cwd, &file)).await;
                let runs =
                    |there: bashkit::Metadata| there.file_type.is_file() && there.mode & 0o111 != 0;
                if found && !parsed.has("a") || !there.is_ok_and(runs) {
                    continue;
                }
                found = true;
                if !parsed.has("s") {
                    context.stdout.write_all(format!("{file}\n").as_bytes()).await?;
                }
            }
            missing |= !found;
        }
        Ok(CommandStatus::with_code(i32::from(missing)))
    }
}
