//! The arguments of `tool call` as flags: `--file_path a.txt` for the parameter `file_path` of the
//! schema.
//!
//! The line is parsed before the schema of its tool is known. So each flag of `tool call` that
//! ikigai does not know becomes a flag of the tool. [`ToolFlags::to_json`] compares them with the
//! schema afterwards.

mod advice;
mod example;
pub(crate) mod usage;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use ikigai_host::nearest::nearest;
use ikigai_protocol::ToolSchema;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::CliError;

pub(crate) use advice::advise;
pub(crate) use example::{by_flags, in_json};

/// A function that makes the definition of the program's commands.
pub(crate) type ProgramDefinition = fn() -> Command;

/// The prefix of clap's ids for a tool's flags, which distinguishes them from ikigai's own.
const PREFIX: &str = "--";

/// Parses a line. Returns its values, and the flags that it has for a tool.
pub(crate) fn read(
    definition: impl Fn() -> Command,
    line: &[OsString],
) -> Result<(ArgMatches, Vec<&'static str>), clap::Error> {
    let mut flags: Vec<&'static str> = Vec::new();
    let mut unknown = None;
    loop {
        let error = match with_flags(definition(), &flags).try_get_matches_from(line) {
            Ok(matches) => return Ok((matches, flags)),
            Err(error) => error,
        };
        let Some(name) = unknown_flag(&error) else { return Err(error) };
        if flags.contains(&name.as_str()) {
            // The flag does not belong to `tool call`. Only the first error has no suggestions from
            // these flags.
            return Err(unknown.unwrap_or(error));
        }
        // This happens once per process: clap's definitions need static strings.
        flags.push(String::leak(name));
        unknown = Some(error);
    }
}

/// The id and the name of the hidden flag of `tool call` that shows the help of one tool.
pub(crate) const HELP_OF_TOOL: &str = "help-of-tool";

/// Returns the line that shows the help of one tool, if a line asks for help on `tool call NAME`.
/// That help has the parameters of the tool, which clap's own help cannot show.
pub(crate) fn asking_about_tool(
    definition: impl Fn() -> Command,
    line: &[OsString],
) -> Option<Vec<OsString>> {
    let is_help = |word: &OsString| word == "--help" || word == "-h";
    let changed: Vec<OsString> = line
        .iter()
        .map(|word| if is_help(word) { format!("--{HELP_OF_TOOL}").into() } else { word.clone() })
        .collect();
    let (matches, _) = read(definition, &changed).ok()?;
    let (_, call) = matches.subcommand_matches("tool")?.subcommand()?;
    let is_asked = call.try_get_one::<bool>(HELP_OF_TOOL).ok().flatten().is_some_and(|it| *it);
    is_asked.then_some(changed)
}

/// Returns the long flag of a line that clap does not know, without its hyphens.
fn unknown_flag(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => {
            Some(flag.strip_prefix("--")?.to_owned()).filter(|name| !name.is_empty())
        }
        _ => None,
    }
}

/// Returns the commands, with flags for a tool.
pub(crate) fn with_flags(program: Command, flags: &[&'static str]) -> Command {
    if flags.is_empty() {
        return program;
    }
    let flag = |name: &'static str| {
        let id: &'static str = String::leak(format!("{PREFIX}{name}"));
        let arg = Arg::new(id).long(name).action(ArgAction::Append);
        arg.num_args(0..=1).allow_negative_numbers(true).hide(true)
    };
    let flags: Vec<Arg> = flags.iter().copied().map(flag).collect();
    program.mut_subcommand("tool", |tool| tool.mut_subcommand("call", |call| call.args(flags)))
}

/// The flags of a line that are for a tool, each with its values. A switch has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolFlags(Vec<(String, Vec<Option<String>>)>);

impl Args for ToolFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for ToolFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for id in matches.ids() {
            let Some(name) = id.as_str().strip_prefix(PREFIX) else { continue };
            let given = matches.get_occurrences::<String>(id.as_str()).into_iter().flatten();
            let values = given.map(|mut values| values.next().cloned()).collect();
            self.0.push((name.to_owned(), values));
        }
        Ok(())
    }
}

/// Returns ikigai's own flags of `tool call`, without their hyphens.
fn own_flags(definition: ProgramDefinition) -> Vec<String> {
    let mut program = definition();
    program.build();
    let call = program.find_subcommand("tool").and_then(|tool| tool.find_subcommand("call"));
    let arguments = call.into_iter().flat_map(Command::get_arguments);
    arguments.filter_map(Arg::get_long).map(str::to_owned).collect()
}

impl ToolFlags {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the arguments of a call in JSON. Numbers keep their digits.
    ///
    /// # Errors
    ///
    /// Fails if the schema has no such parameter, or if a value does not match its type.
    pub(crate) fn to_json(
        &self,
        schema: &ToolSchema,
        definition: ProgramDefinition,
    ) -> Result<String, CliError> {
        let parameters = parameters(schema);
        let mut members = Vec::new();
        for (flag, values) in &self.0 {
            let Some((name, property)) = named(&parameters, flag) else {
                return Err(unknown(schema, flag, definition));
            };
            if members.iter().any(|(known, _)| known == name) {
                return Err(mistake(format!("`{name}` is given as two flags")));
            }
            members.push((name.clone(), value(flag, property, values)?));
        }
        let members = members.iter().map(|(name, json)| format!("{}:{json}", quoted(name)));
        Ok(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
    }
}

/// Returns the parameters of a tool, each with its schema.
fn parameters(schema: &ToolSchema) -> Vec<(&String, &Value)> {
    let properties = schema.parameters.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().collect()
}

/// Returns the parameter that a flag means. Hyphens may replace underscores.
fn named<'a>(
    parameters: &[(&'a String, &'a Value)],
    flag: &str,
) -> Option<(&'a String, &'a Value)> {
    let find = |wanted: &str| parameters.iter().find(|(name, _)| *name == wanted).copied();
    find(flag).or_else(|| find(&flag.replace('-', "_")))
}

fn mistake(what: String) -> CliError {
    CliError::usage(anyhow::Error::msg(what))
}

/// Returns the error for a flag that neither ikigai nor the tool has.
fn unknown(schema: &ToolSchema, flag: &str, definition: ProgramDefinition) -> CliError {
    let tool = &schema.name;
    let error = mistake(format!("`{tool}` has no parameter `{flag}`"));
    let parameters = parameters(schema);
    if let Some(near) = nearest(flag, parameters.iter().map(|(name, _)| name.as_str())) {
        return error.hint(format!("did you mean `--{near}`?"));
    }
    let own = own_flags(definition);
    if let Some(near) = nearest(flag, own.iter().map(String::as_str)) {
        return error.hint(format!("did you mean ikigai's own `--{near}`?"));
    }
    let names: Vec<_> = parameters.iter().map(|(name, _)| format!("`--{name}`")).collect();
    error.hint(match &names[..] {
        [] => "it takes no arguments".to_owned(),
        names => {
            format!("it has {}; `ikigai tool call {tool} --help` explains them", names.join(", "))
        }
    })
}

/// Returns the value of a parameter in JSON.
fn value(flag: &str, property: &Value, values: &[Option<String>]) -> Result<String, CliError> {
    let types = types(property);
    if types.contains(&"array") {
        // A single value may be the whole list in JSON.
        if let [Some(text)] = values
            && serde_json::from_str::<Vec<&RawValue>>(text).is_ok()
        {
            return Ok(text.clone());
        }
        let items = property.get("items").unwrap_or(&Value::Null);
        let items = values.iter().map(|it| element(flag, items, it.as_deref()));
        return Ok(format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(",")));
    }
    match values {
        [one] => element(flag, property, one.as_deref()),
        _ => {
            Err(mistake(format!("`--{flag}` is given {} times, but takes one value", values.len())))
        }
    }
}

/// Returns one value in JSON. If the schema allows more than strings, a text that is JSON of an
/// allowed type stays unchanged. Any other text becomes a string, if the schema allows that.
fn element(flag: &str, schema: &Value, text: Option<&str>) -> Result<String, CliError> {
    let types = types(schema);
    let Some(text) = text else {
        return match types.contains(&"boolean") {
            true => Ok("true".to_owned()),
            false => Err(mistake(format!("`--{flag}` needs a value"))
                .hint(format!("write it after the flag, or as `--{flag}=VALUE`"))),
        };
    };
    let takes_text = types.is_empty() || types.contains(&"string");
    let is_json = |parsed: &Value| types.is_empty() || types.iter().any(|it| is_of(parsed, it));
    if types != ["string"]
        && let Ok(parsed) = serde_json::from_str::<Value>(text)
        && is_json(&parsed)
    {
        return Ok(text.trim().to_owned());
    }
    if takes_text {
        return Ok(quoted(text));
    }
    Err(mistake(format!(
        "invalid value `{}` for `--{flag}`; expected {}",
        text.escape_debug(),
        types.join(" or ")
    )))
}

/// Returns the types that a schema names; empty if it allows any type.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a value has a type of JSON Schema.
fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        // A JSON string would be quoted twice.
        _ => false,
    }
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with some of the commands and flags.
    fn program() -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name);
        let switch = |name| flag(name).action(ArgAction::SetTrue);
        let call = Command::new("call").args([
            Arg::new("name").required(true),
            Arg::new("arguments"),
            switch("pretty"),
            switch("verbose").short('v'),
            flag("timeout"),
            switch(HELP_OF_TOOL).hide(true),
        ]);
        let list = Command::new("list").arg(switch("json"));
        Command::new("ikigai").subcommand(Command::new("tool").subcommands([call, list]))
    }

    /// Returns the flags that a line has for a tool.
    fn flags(words: &[&str]) -> Result<ToolFlags, clap::Error> {
        let line = ["ikigai", "tool", "call", "x"].iter().chain(words).map(OsString::from);
        let line: Vec<_> = line.collect();
        let (matches, _) = read(program, &line)?;
        let (_, tool) = matches.subcommand().expect("tool");
        let (_, call) = tool.subcommand().expect("call");
        ToolFlags::from_arg_matches(call)
    }

    fn schema() -> ToolSchema {
        let text = r#"{"name":"x","description":"x","parameters":{"type":"object","properties":{
            "file_path":{"type":"string"},"limit":{"type":"integer"},"all":{"type":"boolean"},
            "names":{"type":"array","items":{"type":"string"}},"sizes":{"type":"array","items":{"type":"number"}},
            "more":{"type":"object"},"any":{},"either":{"type":["integer","string"]}}}}"#;
        ToolSchema::parse(text.as_bytes()).expect("a schema")
    }

    #[test]
    fn flags_are_arguments_of_the_schemas_types() {
        let shows = |words: &[&str], expected: &str| {
            let json =
                flags(words).expect("a line").to_json(&schema(), program).expect("arguments");
            assert_eq!(json, expected, "{words:?}");
        };
        shows(&["--file_path", "a.txt"], r#"{"file_path":"a.txt"}"#);
        shows(&["--file-path=12", "--pretty"], r#"{"file_path":"12"}"#);
        shows(&["--limit", "-3", "--timeout", "5s"], r#"{"limit":-3}"#);
        shows(&["--limit", "123456789012345678901"], r#"{"limit":123456789012345678901}"#);
        shows(&["--all", "--file_path", ""], r#"{"all":true,"file_path":""}"#);
        shows(&["--all", "false"], r#"{"all":false}"#);
        shows(&["--names", "a", "--names", "[b"], r#"{"names":["a","[b"]}"#);
        shows(&["--names", r#"["a"]"#], r#"{"names":["a"]}"#);
        shows(&["--sizes", "1.50"], r#"{"sizes":[1.50]}"#);
        shows(&["--more", r#"{"a":1}"#], r#"{"more":{"a":1}}"#);
        shows(&["--any", "text", "--either", "7"], r#"{"any":"text","either":7}"#);
        shows(&["--any", "null", "--either", "seven"], r#"{"any":null,"either":"seven"}"#);
        assert!(flags(&["{}", "--pretty", "-v"]).expect("a line").is_empty());
    }

    #[test]
    fn a_flag_that_does_not_fit_the_schema_is_refused_with_what_does() {
        let refused = |words: &[&str], expected: &str| {
            let error =
                flags(words).expect("a line").to_json(&schema(), program).expect_err("refused");
            assert!(error.text().contains(expected), "{words:?}: {}", error.text());
        };
        refused(&["--limit", "ten"], "invalid value `ten` for `--limit`; expected integer");
        refused(&["--limit", "1.5"], "expected integer");
        refused(&["--more", "[]"], "expected object");
        refused(&["--file_path"], "`--file_path` needs a value");
        refused(&["--limit", "1", "--limit", "2"], "given 2 times");
        refused(&["--file-path", "a", "--file_path", "b"], "two flags");
        refused(&["--file_pat", "a"], "did you mean `--file_path`?");
        refused(&["--prettty"], "did you mean ikigai's own `--pretty`?");
        refused(&["--zzz"], "it has `--file_path`, `--limit`");
    }

    #[test]
    fn help_on_a_call_is_about_its_tool() {
        let asking = |line: &[&str]| {
            let line: Vec<_> = line.iter().map(OsString::from).collect();
            asking_about_tool(program, &line)
        };
        for line in [
            &["ikigai", "tool", "call", "x", "--help"][..],
            &["ikigai", "tool", "call", "-h", "x"],
            &["ikigai", "tool", "call", "x", "--file_path", "a", "--help"],
        ] {
            let changed = asking(line).expect("about a tool");
            assert!(changed.contains(&format!("--{HELP_OF_TOOL}").into()), "{changed:?}");
        }
        for line in [
            &["ikigai", "tool", "call", "--help"][..],
            &["ikigai", "tool", "list", "--help"],
            &["ikigai", "help", "tool", "call"],
            &["ikigai", "--help"],
        ] {
            assert_eq!(asking(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_flag_of_another_command_stays_unknown() {
        for line in [
            &["ikigai", "tool", "list", "--jsn"][..],
            &["ikigai", "--file_path", "tool", "call", "x"],
        ] {
            let line: Vec<_> = line.iter().map(OsString::from).collect();
            let error = read(program, &line).expect_err("unknown");
            assert_eq!(error.kind(), ErrorKind::UnknownArgument);
        }
        assert!(flags(&["-x"]).is_err());
    }
}
