//! The prompt of `ikigai ask`, from its arguments, from stdin, or from both.
//!
//! If the arguments have a prompt, ikigai reads stdin only if it was redirected for this command.
//! In `while read f; do ikigai ask "$f"; done` stdin is the list that the shell reads, and a
//! program that read it to its end would end the loop.

use std::io::{IsTerminal as _, Read as _};
use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::process::getppid;

use crate::error::CliError;
use ikigai_agent::command::{AgentCommand, COMMANDS, Malformed};

/// The most bytes that are read from stdin, far more than any model accepts.
const MAX_STDIN: u64 = 16 << 20;

/// The prompt that a user gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserPrompt {
    /// The text of the arguments. Mentions in it are replaced.
    pub(super) typed: String,
    /// The text from stdin. It may come from another author, so mentions in it are not replaced
    /// with the user's files.
    pub(super) attached: Option<String>,
}

impl UserPrompt {
    /// Reads the prompt. Reads stdin if `-` asks for it. If stdin is not a terminal, also reads it
    /// when the arguments have no prompt, or when stdin was redirected for this command only.
    pub(super) async fn read(arguments: &[String]) -> Result<Self, CliError> {
        let (asks, typed) = words(arguments)?;
        let is_terminal = std::io::stdin().is_terminal();
        if typed.is_empty() && !asks && is_terminal {
            return Err(nothing());
        }
        let attached = if asks || !is_terminal && (typed.is_empty() || is_own(std::io::stdin())) {
            tokio::task::spawn_blocking(stdin).await.map_err(CliError::failed)??
        } else {
            String::new()
        };
        Self::new(typed, attached)
    }

    fn new(typed: String, attached: String) -> Result<Self, CliError> {
        let attached = Some(attached).filter(|text| !text.trim().is_empty());
        if typed.trim().is_empty() && attached.is_none() {
            return Err(nothing());
        }
        Ok(Self { typed, attached })
    }

    /// Returns the whole prompt as one text.
    pub(super) fn text(&self) -> String {
        let typed = Some(self.typed.as_str()).filter(|text| !text.is_empty());
        let texts: Vec<&str> = typed.into_iter().chain(self.attached.as_deref()).collect();
        texts.join("\n\n")
    }
}

/// Returns whether `-` asks for stdin, and the other words.
fn words(arguments: &[String]) -> Result<(bool, String), CliError> {
    let (signs, words): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| *argument == "-");
    let typed = words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    // A prompt may begin with a path, such as `/etc/hosts`.
    let is_command = match AgentCommand::parse(&typed) {
        Ok(_) | Err(Malformed::Usage(_)) => true,
        Err(Malformed::Unknown { .. } | Malformed::Unclosed(_)) => false,
    };
    if is_command {
        let name = typed.split_whitespace().next().unwrap_or_default();
        let error = anyhow::Error::msg(format!("`{name}` is a command of the REPL"));
        let hint = format!(
            "{} work only in a conversation; use `ikigai asset` and `ikigai tool` here",
            COMMANDS.map(|(usage, _)| usage.split(' ').next().unwrap_or(usage)).join(", ")
        );
        return Err(CliError::usage(error).hint(hint));
    }
    Ok((!signs.is_empty(), typed))
}

fn stdin() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_STDIN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_STDIN {
        let text = format!("stdin has more than {MAX_STDIN} bytes, the limit for a prompt");
        return Err(CliError::usage(anyhow::Error::msg(text)));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::usage(anyhow::Error::new(error).context("stdin is not valid UTF-8"))
    })
}

/// Returns whether stdin belongs to this command only: it differs from the stdin of the parent
/// process, or is a file that no process has read from yet. If that cannot be determined, it counts
/// as shared.
fn is_own(stdin: impl AsFd) -> bool {
    // The first process of a container has no parent.
    let Some(parent) = getppid() else { return true };
    let parents = rustix::fs::stat(format!("/proc/{parent}/fd/0"));
    let (Ok(own), Ok(parents)) = (rustix::fs::fstat(&stdin), parents) else { return false };
    // Some shells redirect the last command of `sh -c` by redirecting themselves. A loop, in
    // contrast, reads from its list before it runs anything.
    let is_file = FileType::from_raw_mode(own.st_mode) == FileType::RegularFile;
    let is_unread = is_file && rustix::fs::tell(&stdin) == Ok(0);
    is_unread || (own.st_dev, own.st_ino) != (parents.st_dev, parents.st_ino)
}

fn nothing() -> CliError {
    CliError::usage(anyhow::Error::msg("the prompt is missing"))
        .hint("pass it as arguments or on stdin: `ikigai ask 'what does @src/main.c do?'`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(arguments: &[&str]) -> Result<(bool, String), CliError> {
        words(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_joined_and_a_dash_asks_for_stdin() {
        assert_eq!(split(&["a", "b c"]).expect("a prompt"), (false, "a b c".into()));
        assert_eq!(split(&["-"]).expect("a prompt"), (true, String::new()));
        assert_eq!(split(&["a", "-", "b"]).expect("a prompt"), (true, "a b".into()));
        assert_eq!(split(&["/etc/hosts", "?"]).expect("a prompt").1, "/etc/hosts ?");
    }

    #[test]
    fn a_command_of_a_conversation_is_refused() {
        for command in [&["/pin", "x"][..], &["/compact"], &["/pinned too much"]] {
            let error = split(command).expect_err("a command");
            assert!(error.text().contains("is a command of the REPL"), "{}", error.text());
            assert_eq!(error.exit, crate::error::USAGE);
        }
    }

    #[test]
    fn white_space_is_no_prompt() {
        assert!(UserPrompt::new(" ".into(), "\n".into()).is_err());
        let asked = UserPrompt::new("a".into(), "b\n".into()).expect("a prompt");
        assert_eq!(asked.text(), "a\n\nb\n");
        assert_eq!(UserPrompt::new("a".into(), "\n".into()).expect("a prompt").attached, None);
    }
}
