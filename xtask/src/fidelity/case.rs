//! A case: a `.wasm` file, and the description of its run. wasi-testsuite describes its cases in JSON
//! files.
//!
//! That suite has two formats. The older one lists a run and its result. The newer one lists
//! operations in their order; doc/specification.md of the suite describes both. This module turns
//! both into steps, and runs nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::project::{array, text};

/// The reason to leave out a component that answers HTTP requests instead of running once.
const HTTP_SERVICE: &str = "exports an HTTP service, which no tool is";

/// A case.
#[derive(Debug)]
pub(crate) struct TestCase {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) description: CaseDescription,
}

/// A directory in the directory of a case, after the access to it: `rw` or `ro`.
pub(crate) type CasePart = (&'static str, &'static str);

/// The way to run a case, and what it must do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CaseDescription {
    pub(crate) args: Vec<String>,
    pub(crate) variables: BTreeMap<String, String>,
    /// The directory that the case works in, relative to the directory of its file.
    pub(crate) root: Option<String>,
    /// The directories in `root` to grant instead of `root` itself, if there are any.
    pub(crate) parts: &'static [CasePart],
    /// The reason to leave the case out.
    pub(crate) left_out: Option<&'static str>,
    /// The steps after the start. Empty for a service, whose steps would be requests.
    pub(crate) steps: Vec<CaseStep>,
}

/// A step of the runner while a case runs, or at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CaseStep {
    /// Writes this to stdin.
    Write(String),
    /// Expects this next on stdout.
    ReadStdout(String),
    /// Expects this next on stderr.
    ReadStderr(String),
    /// Reads an address from a line of stdout, and connects to it.
    Connect,
    /// Sends this over the connection.
    Send(String),
    /// Expects this over the connection.
    Receive(String),
    /// Waits for the end, with this exit code.
    Wait(i64),
    /// Waits for the end by a trap, with this in its message.
    Trap(&'static str),
}

impl TestCase {
    /// Reads the description of a `.wasm` file of wasi-testsuite. A file without one runs without arguments and exits
    /// with 0.
    ///
    /// # Errors
    ///
    /// Fails if the description cannot be read, or has an operation that this runner does not know.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let description = file.with_extension("json");
        let shown = || format!("cannot read `{}`", description.display());
        let text = if description.exists() {
            fs::read_to_string(&description).with_context(shown)?
        } else {
            "{}".to_owned()
        };
        let description = CaseDescription::from_json(&text).with_context(shown)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, file: file.to_owned(), description })
    }
}

impl CaseDescription {
    fn from_json(json: &str) -> anyhow::Result<Self> {
        let json: Value = serde_json::from_str(json)?;
        if ["operations", "proposals", "servers"].iter().all(|key| json.get(key).is_none()) {
            return Self { steps: result_steps(&json), ..Self::default() }.with_run(&json);
        }
        let is_service = text(&json, "world") == "wasi:http/service";
        let left_out = is_service.then_some(HTTP_SERVICE);
        let mut description = Self { left_out, ..Self::default() };
        let operations = array(&json, "operations");
        if operations.is_empty() {
            description.steps.push(CaseStep::Wait(0));
        }
        for operation in operations {
            if text(operation, "type") == "run" {
                description = description.with_run(operation)?;
            } else if !is_service {
                description.steps.push(CaseStep::from_operation(operation)?);
            }
        }
        Ok(description)
    }

    /// Takes over the arguments, variables and directory of a run.
    fn with_run(mut self, run: &Value) -> anyhow::Result<Self> {
        let text = |value: &Value| {
            value.as_str().map(str::to_owned).with_context(|| format!("`{value}` is not a string"))
        };
        self.args = array(run, "args").iter().map(text).collect::<Result<_, _>>()?;
        let variables = run.get("env").and_then(Value::as_object).into_iter().flatten();
        let variable = |(name, value): (&String, &Value)| Ok((name.clone(), text(value)?));
        self.variables = variables.map(variable).collect::<anyhow::Result<_>>()?;
        self.root = run.get("root").filter(|root| !root.is_null()).map(text).transpose()?;
        Ok(self)
    }
}

/// Returns the steps for the results in the older format.
fn result_steps(json: &Value) -> Vec<CaseStep> {
    let output = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut steps = Vec::new();
    steps.extend(output("stdout").map(CaseStep::ReadStdout));
    steps.extend(output("stderr").map(CaseStep::ReadStderr));
    steps.push(CaseStep::Wait(exit_code(json)));
    steps
}

fn exit_code(json: &Value) -> i64 {
    json.get("exit_code").and_then(Value::as_i64).unwrap_or(0)
}

impl CaseStep {
    fn from_operation(operation: &Value) -> anyhow::Result<Self> {
        let payload = text(operation, "payload").to_owned();
        Ok(match text(operation, "type") {
            "write" => Self::Write(payload),
            "read" if text(operation, "id") == "stderr" => Self::ReadStderr(payload),
            "read" => Self::ReadStdout(payload),
            "connect" if matches!(text(operation, "protocol_type"), "" | "tcp") => Self::Connect,
            "send" => Self::Send(payload),
            "recv" => Self::Receive(payload),
            "wait" => Self::Wait(exit_code(operation)),
            _ => bail!("this runner does not know the operation {operation}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> CaseDescription {
        CaseDescription::from_json(json).expect("a description")
    }

    #[test]
    fn a_case_without_a_description_runs_and_exits_with_0() {
        let expected =
            CaseDescription { steps: vec![CaseStep::Wait(0)], ..CaseDescription::default() };
        assert_eq!(read("{}"), expected);
        assert_eq!(read(r#"{"proposals": ["http"]}"#), expected);
    }

    #[test]
    fn the_older_format_is_a_run_and_its_result() {
        let case = read(
            r#"{"args": ["a b", "\""], "env": {"a": "x\ny"}, "root": "fs-tests.dir",
                "stdout": "out", "stderr": "err", "exit_code": 33}"#,
        );
        assert_eq!(case.args, ["a b", "\""]);
        assert_eq!(case.variables, BTreeMap::from([("a".to_owned(), "x\ny".to_owned())]));
        assert_eq!(case.root.as_deref(), Some("fs-tests.dir"));
        assert_eq!(
            case.steps,
            [
                CaseStep::ReadStdout("out".to_owned()),
                CaseStep::ReadStderr("err".to_owned()),
                CaseStep::Wait(33)
            ]
        );
        assert_eq!(read(r#"{"root": null}"#).root, None);
    }

    #[test]
    fn the_newer_format_is_a_list_of_operations() {
        let case = read(
            r#"{"proposals": ["sockets"], "operations": [
                {"type": "run", "args": ["x"]},
                {"type": "write", "id": "stdin", "payload": "in"},
                {"type": "read", "id": "stderr", "payload": "err"},
                {"type": "read", "payload": "out"},
                {"type": "connect", "id": "server", "protocol_type": "tcp"},
                {"type": "send", "id": "server", "payload": "ping"},
                {"type": "recv", "id": "server", "payload": "pong"},
                {"type": "wait", "exit_code": 1}]}"#,
        );
        assert_eq!(case.left_out, None);
        assert_eq!(case.args, ["x"]);
        assert_eq!(
            case.steps,
            [
                CaseStep::Write("in".to_owned()),
                CaseStep::ReadStderr("err".to_owned()),
                CaseStep::ReadStdout("out".to_owned()),
                CaseStep::Connect,
                CaseStep::Send("ping".to_owned()),
                CaseStep::Receive("pong".to_owned()),
                CaseStep::Wait(1),
            ]
        );
    }

    #[test]
    fn the_requests_of_a_service_are_no_steps() {
        let case = read(
            r#"{"world": "wasi:http/service", "servers": [], "operations": [
                {"type": "run"}, {"type": "request", "path": "/"}, {"type": "kill"}]}"#,
        );
        assert_eq!(case.left_out, Some(HTTP_SERVICE));
        assert_eq!(case.steps, []);
    }

    #[test]
    fn unknown_operations_and_types_are_errors() {
        for json in [
            r#"{"operations": [{"type": "request"}]}"#,
            r#"{"operations": [{"type": "connect", "protocol_type": "udp"}]}"#,
            r#"{"args": [1]}"#,
            r#"{"root": 1}"#,
            "[",
        ] {
            assert!(CaseDescription::from_json(json).is_err(), "{json}");
        }
    }
}
