//! A program of the command line as a tool: its arguments come from a template, and its output
//! becomes the answer.
//!
//! Owns the conversion of a call's JSON to the words of the program, and of the program's end to
//! the JSON of the answer. The executor of the program runs it with the grant and the limits of the
//! call, so nothing here confines it.

mod answer;
mod template;

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;

use ikigai_protocol::ToolSchema;
use serde_json::json;

use self::answer::WrapAnswer;
pub(crate) use self::answer::schema as answer_schema;
pub(crate) use self::template::{ArgumentTemplate, ProgramInput, TemplateWord, WordGroup};
use super::arguments::ArgumentCheck;
use super::output::{Pipe, Sink};
use super::{Call, Executor, Exit, Outcome, Stdin};
use crate::limits::{Limit, STDERR_KEPT};

/// The argument by which a tool is asked for its schema.
const SCHEMA: &str = "--schema";

/// The definition of a wrapped program, read and checked.
#[derive(Debug)]
pub(crate) struct Wrapper {
    /// The name of the program's file, for messages.
    pub(crate) program: String,
    /// The schema of the tool.
    pub(crate) schema: ToolSchema,
    /// The arguments and the stdin of the program.
    pub(crate) template: ArgumentTemplate,
    /// The exit codes that are not an error.
    pub(crate) success: Vec<i32>,
    /// The schema of the arguments, compiled when it is first needed.
    pub(crate) check: ArgumentCheck,
}

impl Wrapper {
    /// Returns the arguments and the stdin for the program.
    ///
    /// # Errors
    ///
    /// Fails if the schema or the template does not allow these arguments; the text is for the
    /// model.
    fn expand(&self, arguments: &[u8]) -> Result<ProgramInput, String> {
        let mismatches = self.check.check(&self.schema.parameters, arguments)?;
        if !mismatches.is_empty() {
            let lines = mismatches.iter().map(|it| match &*it.place {
                "" => it.text.clone(),
                place => format!("`{place}`: {}", it.text),
            });
            let lines: Vec<String> = lines.collect();
            return Err(format!("the arguments do not match the schema: {}", lines.join("; ")));
        }
        let values: BTreeMap<_, _> = serde_json::from_slice(arguments)
            .map_err(|error| format!("the arguments are not a JSON object: {error}"))?;
        self.template.expand(&values)
    }

    /// Puts the arguments and the stdin of the program into a call.
    ///
    /// # Errors
    ///
    /// Fails with the answer to the call if the program does not run for it.
    fn prepare(&self, call: &mut Call) -> Result<(), EarlyAnswer> {
        if call.args == [SCHEMA] {
            return Err(EarlyAnswer::Json(self.schema.to_value().to_string()));
        }
        if !call.args.is_empty() {
            let reason = "its arguments are one JSON object, which its definition makes words of";
            return Err(EarlyAnswer::NotStarted(reason));
        }
        let Stdin::Bytes(arguments) = &call.stdin else {
            let reason = "a wrapped program has no stdin of its own; call it by its name";
            return Err(EarlyAnswer::NotStarted(reason));
        };
        let ProgramInput { words, stdin } = self.expand(arguments).map_err(|error| {
            EarlyAnswer::Json(json!({ "error": error, "error_code": "INVALID_PARAMS" }).to_string())
        })?;
        call.args = words;
        call.stdin = Stdin::Bytes(stdin);
        call.stdout = Sink::Head;
        if matches!(call.stderr, Sink::Head) {
            call.stderr = Sink::Tail(STDERR_KEPT);
        }
        Ok(())
    }

    /// Returns the outcome of a call, with the answer made from the program's output. A program
    /// that was ended, crashed or did not start has no answer.
    fn finish(&self, mut outcome: Outcome, output: &Pipe) -> Outcome {
        let Exit::Code(code) = outcome.exit else { return outcome };
        if outcome.limit.is_some() || outcome.cancelled {
            return outcome;
        }
        let is_success = self.success.contains(&code);
        let (stdout, stderr) = (mem::take(&mut outcome.stdout), mem::take(&mut outcome.stderr));
        let answer = WrapAnswer::new(&self.program, (code, is_success), stdout.bytes, &stderr);
        // The only possible error is an answer that does not fit, which shows in the pipe.
        let _ = answer.write(output);
        outcome.exit = Exit::Code(0);
        with_output(outcome, output)
    }
}

/// The answer to a call for which the program does not run.
enum EarlyAnswer {
    Json(String),
    NotStarted(&'static str),
}

impl EarlyAnswer {
    fn outcome(self, output: &Pipe) -> Outcome {
        let text = match self {
            Self::Json(text) => text,
            Self::NotStarted(reason) => return Outcome::not_started(reason),
        };
        // As in `finish`.
        let _ = output.write(text.as_bytes());
        with_output(Outcome { exit: Exit::Code(0), ..Outcome::not_started("") }, output)
    }
}

/// Returns an outcome with the output that a pipe took.
fn with_output(mut outcome: Outcome, output: &Pipe) -> Outcome {
    if output.is_full() {
        outcome.limit = Some(Limit::Output);
        outcome.exit = Exit::Ended;
    }
    outcome.stdout = output.take();
    outcome
}

/// A program that is ready to be called, directly or through its wrapper.
#[doc(hidden)]
pub struct Runnable<'a> {
    program: &'a dyn Executor,
    wrapper: Option<&'a Arc<Wrapper>>,
}

impl<'a> Runnable<'a> {
    /// Returns a program, with its wrapper if it has one.
    pub(crate) fn new(program: &'a dyn Executor, wrapper: Option<&'a Arc<Wrapper>>) -> Self {
        Self { program, wrapper }
    }

    /// Runs the program as [`Executor::run`] does.
    pub fn run(&self, mut call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let Some(wrapper) = self.wrapper else { return self.program.run(call) };
        let output = Pipe::new(call.stdout.clone(), call.limits.output);
        if let Err(answered) = wrapper.prepare(&mut call) {
            return Box::pin(ready(answered.outcome(&output)));
        }
        let (wrapper, running) = (Arc::clone(wrapper), self.program.run(call));
        Box::pin(async move { wrapper.finish(running.await, &output) })
    }
}

#[cfg(test)]
mod tests;
