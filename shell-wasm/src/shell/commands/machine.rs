//! Commands about the machine, which is a component with one thread.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::fail;
use super::options::OptionSpec;

const SYSTEM: &str = "WASI";
const MACHINE: &str = std::env::consts::ARCH;

/// `uname`; a component has no host name and no kernel release.
pub(super) struct Uname;

#[async_trait]
impl Command for Uname {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let mut words = Vec::new();
        for argument in context.args {
            for letter in argument.strip_prefix('-').unwrap_or(" ").chars() {
                match letter {
                    's' | 'o' => words.push(SYSTEM),
                    'm' | 'p' | 'i' => words.push(MACHINE),
                    'a' => words.extend([SYSTEM, MACHINE]),
                    _ => {
                        return fail(&context, &format!("`{argument}` is not known in this shell"))
                            .await;
                    }
                }
            }
        }
        if words.is_empty() {
            words.push(SYSTEM);
        }
        context.stdout.write_all(format!("{}\n", words.join(" ")).as_bytes()).await?;
        Ok(CommandStatus::success())
    }
}

/// `nproc [--all] [--ignore=N]`
pub(super) struct Nproc;

/// The options. There is one thread, and `--ignore` does not remove it.
const NPROC: OptionSpec = OptionSpec { words: ",all ,ignore=", refusal: 1 };

#[async_trait]
impl Command for Nproc {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        if let Err(status) = NPROC.read(&context).await? {
            return Ok(status);
        }
        context.stdout.write_all(b"1\n").await?;
        Ok(CommandStatus::success())
    }
}
