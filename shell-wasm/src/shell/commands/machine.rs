//! What can be said about the machine: it is a component, with one thread.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};

use super::fail;

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
                        return fail(&context, &format!("`{argument}` cannot be told here")).await;
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

/// `nproc`
pub(super) struct Nproc;

#[async_trait]
impl Command for Nproc {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        context.stdout.write_all(b"1\n").await?;
        Ok(CommandStatus::success())
    }
}
