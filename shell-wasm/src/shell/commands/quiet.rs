//! `zip` and `unzip`: the interpreter's, silent where that is asked for.

use bashkit::{Command, CommandContext, CommandStatus, Result, StreamData, async_trait};

use super::inner;
use super::options::Options;
use super::{absolute, fail};

/// `zip [-qr] ARCHIVE FILE…`
pub(super) struct Zip;

const ZIP: Options = Options { words: "q,quiet r,recurse-paths", refusal: 16 };

#[async_trait]
impl Command for Zip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match ZIP.of(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let mut operands = parsed.operands.clone();
        if let Some(archive) = operands.first_mut() {
            let name = archive.rsplit('/').next().unwrap_or_default();
            if !name.contains('.') {
                archive.push_str(".zip");
            }
            // The interpreter would begin anew, and lose what is in the archive.
            if context.fs.stat(&absolute(context.cwd, archive)).await.is_ok() {
                let text = format!("cannot add to '{archive}', which is there already: remove it first");
                fail(&context, &text).await?;
                return Ok(CommandStatus::with_code(ZIP.refusal));
            }
        }
        let recursive = parsed.has("recurse-paths").then(|| "-r".to_owned());
        let arguments: Vec<String> = recursive.into_iter().chain(operands).collect();
        silenced(&context, "zip", &arguments, parsed.has("quiet")).await
    }
}

/// `unzip [-loq] [-d DIRECTORY] ARCHIVE [FILE…]`
pub(super) struct Unzip;

const UNZIP: Options = Options { words: "d= l o q", refusal: 10 };

#[async_trait]
impl Command for Unzip {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let parsed = match UNZIP.of(&context).await? {
            Ok(parsed) => parsed,
            Err(status) => return Ok(status),
        };
        let mut arguments = Vec::new();
        for letter in ["l", "o"].into_iter().filter(|letter| parsed.has(letter)) {
            arguments.push(format!("-{letter}"));
        }
        if let Some(directory) = parsed.value("d") {
            arguments.extend(["-d".to_owned(), directory.to_owned()]);
        }
        arguments.extend(parsed.operands.iter().cloned());
        silenced(&context, "unzip", &arguments, parsed.has("q")).await
    }
}

async fn silenced(
    context: &CommandContext<'_>,
    name: &str,
    arguments: &[String],
    quiet: bool,
) -> Result<CommandStatus> {
    let input = inner::input(context).await?;
    let mut ended = inner::run(context, name, arguments, input).await?;
    if quiet {
        ended.stdout = StreamData::new();
    }
    inner::emit(context, &ended).await
}
