//! The user's commands that print a token or a key. They run with all of the user's rights, outside
//! of the sandbox, so no tool may be able to replace their programs.

use std::ffi::OsString;
use std::sync::Arc;

use ikigai_host::policy::Authority;

/// The variables of a command.
pub(crate) type CommandEnv = Vec<(OsString, OsString)>;

/// The step that lets a refused command run.
const MOVE: &str = "move the program to a directory outside of the workspace in which no tool may \
    write, such as `~/bin`";

/// The check of the user's commands before each start.
#[derive(Clone)]
pub(crate) struct CommandGate(Arc<dyn Fn(&[OsString]) -> Result<CommandEnv, String> + Send + Sync>);

impl CommandGate {
    /// Returns the check by a function, which gets a command's program and arguments.
    pub(crate) fn new(
        check: impl Fn(&[OsString]) -> Result<CommandEnv, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// Returns the variables with which a command starts, in `/`.
    ///
    /// # Errors
    ///
    /// Fails if a tool could replace a program of the command. The text says what to do.
    pub(crate) fn env(&self, words: &[OsString]) -> Result<CommandEnv, String> {
        (self.0)(words)
    }
}

/// Checks a command by a policy.
pub(crate) fn check(authority: &Authority, words: &[OsString]) -> Result<CommandEnv, String> {
    authority.for_user_command(words).map_err(|reason| {
        format!("a tool could change the command, which has all of your rights: {reason}; {MOVE}")
    })
}
