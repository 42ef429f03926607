//! The user's own programs that ikigai starts: commands that print a token or a key, credential
//! helpers, the browser and the editor. They run with all of the user's rights, outside of the
//! sandbox, so no tool may be able to replace them or the files that they get.

use std::ffi::OsString;
use std::sync::Arc;

use ikigai_host::policy::Authority;

/// The variables of a command.
pub(crate) type CommandEnv = Vec<(OsString, OsString)>;

/// The step that lets a refused command run.
const MOVE: &str = "move the program to a directory outside of the workspace in which no tool may \
    write, such as `~/bin`, and its files with it";

/// The check of a command, given as its words. It returns the command's environment, or the reason
/// that the command may not start.
type CommandCheck = dyn Fn(&[OsString]) -> Result<CommandEnv, String> + Send + Sync;

/// The check of the user's commands before each start.
#[derive(Clone)]
pub(crate) struct CommandGate(Arc<CommandCheck>);

impl CommandGate {
    /// Returns the check by a function, which gets a command's program and arguments.
    pub(crate) fn new(
        check: impl Fn(&[OsString]) -> Result<CommandEnv, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// Returns the variables with which a command starts.
    ///
    /// # Errors
    ///
    /// Fails if a tool could change a program or a file of the command. The text says what to do.
    pub(crate) fn env(&self, words: &[OsString]) -> Result<CommandEnv, String> {
        (self.0)(words)
    }
}

/// Checks a command that starts in `/`, by a policy. It gets known variables only.
pub(crate) fn check(authority: &Authority, words: &[OsString]) -> Result<CommandEnv, String> {
    authority.for_user_command(words).map_err(|reason| refused(&reason))
}

/// Checks the user's editor, which starts in `/`, by a policy. It gets every variable, without the
/// paths at which tools may write.
pub(crate) fn check_editor(
    authority: &Authority,
    words: &[OsString],
) -> Result<CommandEnv, String> {
    authority.for_user_program(words).map_err(|reason| refused(&reason))
}

fn refused(reason: &str) -> String {
    format!("a tool could change the command, which has all of your rights: {reason}; {MOVE}")
}
