//! `zcat`, which decompresses to standard output.

use std::io::Read as _;

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};
use flate2::read::MultiGzDecoder;

use super::{absolute, fail, reason};

/// The number of bytes that are written at once.
const CHUNK_BYTES: usize = 64 << 10;

/// `zcat [FILE…]`
pub(super) struct Zcat;

#[async_trait]
impl Command for Zcat {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let mut status = CommandStatus::success();
        let own = ["-".to_owned()];
        let files = if context.args.is_empty() { &own[..] } else { context.args };
        for file in files {
            let contents = if file == "-" {
                let mut contents = Vec::new();
                while let Some(chunk) = context.stdin.read_chunk().await? {
                    contents.extend_from_slice(&chunk);
                }
                Ok(contents)
            } else {
                context.fs.read_file(&absolute(context.cwd, file)).await
            };
            let contents = match contents {
                Ok(contents) => contents,
                Err(error) => {
                    status = fail(&context, &format!("{file}: {}", reason(&error))).await?;
                    continue;
                }
            };
            let mut decoder = MultiGzDecoder::new(contents.as_slice());
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                match decoder.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(length) => context.stdout.write_all(&chunk[..length]).await?,
                    Err(error) => {
                        status = fail(&context, &format!("{file}: {error}")).await?;
                        break;
                    }
                }
            }
        }
        Ok(status)
    }
}
