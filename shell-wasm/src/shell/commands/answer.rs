//! The questions of `-i`, and the answers on standard input.

use bashkit::{CommandContext, CommandInput, Result};

/// The answers that are left of the last chunk.
pub(super) struct ConfirmationInput {
    input: CommandInput,
    left: Vec<u8>,
}

impl ConfirmationInput {
    pub(super) fn from_context(context: &CommandContext<'_>) -> Self {
        Self { input: context.stdin.clone(), left: Vec::new() }
    }

    /// Asks, and returns `true` if the next line says yes; the end of the input means no.
    pub(super) async fn agree(
        &mut self,
        context: &CommandContext<'_>,
        question: &str,
    ) -> Result<bool> {
        context.stderr.write_all(format!("{}: {question}? ", context.name).as_bytes()).await?;
        let line = self.line().await?;
        Ok(matches!(line.first(), Some(b'y' | b'Y')))
    }

    async fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                let rest = self.left.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.left, rest));
            }
            match self.input.read_chunk().await? {
                Some(chunk) => self.left.extend_from_slice(&chunk),
                None => return Ok(std::mem::take(&mut self.left)),
            }
        }
    }
}
