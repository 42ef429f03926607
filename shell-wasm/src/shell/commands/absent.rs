//! The message for a command that does not exist: bash's, and no more.

use std::sync::Arc;

use bashkit::{
    Builtin, BuiltinContext, CommandResolver, ExecResult, ExecutionPlan, Result, SubCommand,
    async_trait,
};

const EXIT_NOT_FOUND: i32 = 127;

/// The command for every name that does not exist. The interpreter's message would add hints about
/// a different sandbox.
pub(in crate::shell) struct UnknownCommands;

struct NotFound(String);

impl CommandResolver for UnknownCommands {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Builtin>> {
        Some(Arc::new(NotFound(name.to_owned())))
    }
}

#[async_trait]
impl Builtin for NotFound {
    async fn execute(&self, _: BuiltinContext<'_>) -> Result<ExecResult> {
        Ok(ExecResult::err(format!("bash: {}: command not found\n", self.0), EXIT_NOT_FOUND))
    }

    /// Prints the message by a script, because only a script has access to the line number.
    async fn execution_plan(&self, _: &BuiltinContext<'_>) -> Result<Option<ExecutionPlan>> {
        let name = self.0.replace('\'', "'\\''");
        let script = format!(
            "command printf '%s: line %s: %s: command not found\\n' \"$0\" \"$LINENO\" '{name}' >&2; \
             (exit {EXIT_NOT_FOUND})"
        );
        let command = SubCommand {
            name: "eval".to_owned(),
            args: vec![script],
            stdin: None,
            assignments: Vec::new(),
        };
        Ok(Some(ExecutionPlan::Batch { commands: vec![command] }))
    }
}
