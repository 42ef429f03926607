//! The cases of a project: `cases.jsonl`, one JSON object per line, written by people.
//!
//! Keeps the text and the position of each part, so that a part can be rewritten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::CliError;

/// The name of the file in the directory of a project.
const CASES: &str = "cases.jsonl";

/// An example for a project without cases.
const EXAMPLE: &str = "write one call per line, such as {\"name\": \"counts words\", \"arguments\": \
    {\"text\": \"a b\"}, \"expect\": {\"words\": 2}}; without `expect`, `--bless` writes the answer \
    that comes";

/// The cases of a project, at least one.
pub(super) struct Cases {
    pub(super) path: PathBuf,
    /// The text of the file.
    pub(super) text: String,
    cases: Vec<Case>,
}

/// One call of the tool.
pub(super) struct Case {
    pub(super) name: String,
    /// The number of its line, from 1.
    pub(super) line: usize,
    /// The text of a JSON object, with names for things that differ in each run.
    pub(super) arguments: String,
    /// The files of its workspace: paths inside it, and their contents.
    pub(super) files: BTreeMap<String, Content>,
    /// The variables of the environment that the tool sees.
    pub(super) env: BTreeMap<String, String>,
    /// The assets of the store: their URIs and texts.
    pub(super) assets: BTreeMap<String, String>,
    /// The answers of a server on loopback; empty without a server.
    pub(super) server: Vec<Route>,
    pub(super) expected: Option<Expected>,
    /// The bytes of the text that hold the expected answer; if it has none yet, the place for it.
    pub(super) place: Range<usize>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The bytes of the file.
    Bytes(Bytes),
    /// A file of the project, by its path in the project's directory.
    Copy(String),
}

/// One answer of a case's server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// The path with its query, as in the request.
    pub(super) path: String,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default = "ok")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
}

fn get() -> String {
    "GET".to_owned()
}

fn ok() -> u16 {
    200
}

/// The answer that a case expects.
pub(super) struct Expected {
    pub(super) value: Value,
}

/// The members of a case, as the file has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    name: String,
    #[serde(borrow)]
    arguments: &'a RawValue,
    #[serde(default)]
    files: BTreeMap<String, Value>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    assets: BTreeMap<String, String>,
    #[serde(default)]
    server: Vec<Route>,
    #[serde(borrow, default, deserialize_with = "present")]
    expect: Option<&'a RawValue>,
}

/// Reads a value that is present, including `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// A mistake in a line: its column from 1, if it has one, and the explanation.
type Mistake = (Option<usize>, String);

impl Cases {
    /// Reads the cases of the project in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the project has no cases, or if a case has a mistake. The error names its line.
    pub(super) fn read(project: &Path) -> Result<Self, CliError> {
        let path = project.join(CASES);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read `{}`", path.display()))
                    .map_err(CliError::usage);
            }
        };
        Self::parse(path, bytes)
    }

    pub(super) fn parse(path: PathBuf, bytes: Vec<u8>) -> Result<Self, CliError> {
        let mistake = |line: usize, (column, what): Mistake| {
            let column = column.map_or_else(String::new, |column| format!("{column}:"));
            let place = format!("{}:{line}:{column}", path.display());
            CliError::usage(anyhow::Error::msg(format!("{place} {what}")))
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            mistake(line, (None, "this is not UTF-8".to_owned()))
        })?;
        let mut cases = Vec::new();
        let mut start = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if !line.trim().is_empty() {
                let case = Case::parse(line, start, index + 1);
                cases.push(case.map_err(|what| mistake(index + 1, what))?);
            }
            start += line.len();
        }
        if cases.is_empty() {
            let what = format!("`{}` has no cases", path.display());
            return Err(CliError::usage(anyhow::Error::msg(what)).hint(EXAMPLE));
        }
        Ok(Self { path, text, cases })
    }

    /// Returns the files in the directory of a project that belong to its cases.
    pub(super) fn files_of_the_project(&self, project: &Path) -> BTreeSet<PathBuf> {
        let files = self.cases.iter().flat_map(|case| case.files.values());
        let copied = files.filter_map(|content| match content {
            Content::Copy(from) => Some(project.join(from)),
            Content::Bytes(_) => None,
        });
        copied.chain([self.path.clone()]).collect()
    }

    /// Returns each case, in the order of the file.
    #[cfg(test)]
    pub(super) fn into_iter(self) -> impl Iterator<Item = Case> {
        self.cases.into_iter()
    }

    /// Returns each case, in the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter()
    }
}

impl Case {
    /// Parses a line that begins at `start` of the text.
    fn parse(text: &str, start: usize, line: usize) -> Result<Self, Mistake> {
        // Parse the line without its end, so that every position in it is on this line.
        let written = serde_json::from_str(text.trim_end_matches(['\r', '\n']));
        let written: Written<'_> = written.map_err(|error: serde_json::Error| {
            let whole = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            (Some(error.column()), whole.strip_suffix(&place).unwrap_or(&whole).to_owned())
        })?;
        let Written { name, arguments, files, env, assets, server, expect } = written;
        if name.trim().is_empty() {
            return Err((None, "`name` is empty".to_owned()));
        }
        if !arguments.get().starts_with('{') {
            return Err((None, "`arguments` is not an object".to_owned()));
        }
        if let Some(path) = files.keys().find(|path| !stays_inside(path)) {
            let path = path.escape_debug();
            return Err((None, format!("`{path}` is not the path of a file in the workspace")));
        }
        let content =
            |(path, value): (String, Value)| content(&path, value).map(|content| (path, content));
        let files = files.into_iter().map(content).collect::<Result<_, _>>();
        let files = files.map_err(|what| (None, what))?;
        server.iter().try_for_each(Route::check).map_err(|what| (None, what))?;
        let end = text.rfind('}').unwrap_or(text.len());
        let place = expect.map_or(end..end, |expect| within(text, expect.get()));
        let value = expect.map(|expect| serde_json::from_str(expect.get())).transpose();
        let value = value.map_err(|error| (None, format!("`expect` cannot be read: {error}")))?;
        Ok(Self {
            name,
            line,
            arguments: arguments.get().to_owned(),
            files,
            env,
            assets,
            server,
            expected: value.map(|value| Expected { value }),
            place: start + place.start..start + place.end,
        })
    }
}

impl Route {
    /// Checks that HTTP can carry the answer.
    fn check(&self) -> Result<(), String> {
        if !self.path.starts_with('/') {
            return Err(format!("`server`: the path `{}` does not begin with `/`", self.path));
        }
        if http::Method::from_bytes(self.method.as_bytes()).is_err() {
            return Err(format!("`server`: `{}` is not an HTTP method", self.method));
        }
        if !(200..=599).contains(&self.status) {
            return Err(format!("`server`: the status {} is not between 200 and 599", self.status));
        }
        for (name, value) in &self.headers {
            if name.parse::<HeaderName>().is_err() || HeaderValue::from_str(value).is_err() {
                return Err(format!("`server`: `{name}: {value}` is not an HTTP header"));
            }
        }
        Ok(())
    }
}

impl Expected {
    /// Returns the members that the answer must have, if an error is expected. The answer may have
    /// other members.
    pub(super) fn error(&self) -> Option<&serde_json::Map<String, Value>> {
        self.value.as_object().filter(|members| members.contains_key(ERROR_CODE))
    }
}

/// The member that marks an answer as an error.
pub(super) const ERROR_CODE: &str = "error_code";

/// Reads the content of a file: a text, or an object whose only member tells where the bytes are.
fn content(path: &str, value: Value) -> Result<Content, String> {
    let one_member = |object: &serde_json::Map<String, Value>| {
        let (key, value) = object.iter().next().filter(|_| object.len() == 1)?;
        Some((key.clone(), value.as_str()?.to_owned()))
    };
    let said = match &value {
        Value::String(text) => return Ok(Content::Bytes(text.clone().into())),
        Value::Object(object) => one_member(object),
        _ => None,
    };
    match said.as_ref().map(|(key, text)| (key.as_str(), text)) {
        Some(("base64", text)) => match BASE64.decode(text) {
            Ok(bytes) => Ok(Content::Bytes(bytes.into())),
            Err(error) => Err(format!("the base64 of `{path}` cannot be read: {error}")),
        },
        Some(("copy", from)) if stays_inside(from) => Ok(Content::Copy(from.clone())),
        Some(("copy", from)) => {
            Err(format!("`{from}` is not the path of a file in the project's directory"))
        }
        _ => Err(format!(
            "`{path}` must be a text, {{\"base64\": \"…\"}} or {{\"copy\": \"PATH\"}}, and is {value}"
        )),
    }
}

/// Returns whether a path is relative and stays below its start.
fn stays_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && !path.ends_with('/')
        && !path.contains('\0')
}

/// Returns the byte range of `part`, a slice of `text`.
fn within(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Cases, CliError> {
        Cases::parse("cases.jsonl".into(), text.as_bytes().to_vec())
    }

    fn refusal(text: &str) -> String {
        parsed(text).err().expect(text).text()
    }

    #[test]
    fn each_line_that_is_not_blank_is_a_case() {
        let cases = parsed(
            "\n{\"name\": \"a\", \"arguments\": {\"x\": 1.50}, \"expect\" : null }\r\n  \n\
             {\"files\": {\"a/b.txt\": \"é\"}, \"arguments\": {}, \"name\": \"ü\"}",
        );
        let cases = cases.expect("cases");
        let all: Vec<&Case> = cases.iter().collect();
        assert_eq!(all.iter().map(|case| case.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(all[0].arguments, "{\"x\": 1.50}");
        assert_eq!(all[0].expected.as_ref().map(|it| &it.value), Some(&Value::Null));
        assert_eq!(&cases.text[all[0].place.clone()], "null");
        assert!(all[1].expected.is_none() && all[1].place.is_empty());
        assert_eq!(&cases.text[all[1].place.start..], "}");
        assert_eq!(all[1].files["a/b.txt"], Content::Bytes("é".into()));
    }

    #[test]
    fn a_file_is_a_text_or_base64_or_a_copy() {
        let file = |value: &str| {
            let files = format!("{{\"a.bin\": {value}}}");
            let line = format!("{{\"name\": \"a\", \"arguments\": {{}}, \"files\": {files}}}");
            parsed(&line).map(|cases| cases.cases[0].files["a.bin"].clone())
        };
        let bytes = file("{\"base64\": \"AP8=\"}").expect("bytes");
        assert_eq!(bytes, Content::Bytes(Bytes::from_static(b"\0\xff")));
        let copy = file("{\"copy\": \"testdata/a.png\"}").expect("a copy");
        assert_eq!(copy, Content::Copy("testdata/a.png".to_owned()));
        for (value, said) in [
            ("1", "`a.bin` must be a text, {\"base64\": \"…\"} or {\"copy\": \"PATH\"}, and is 1"),
            ("{\"base64\": \"?\"}", "the base64 of `a.bin` cannot be read: Invalid symbol 63"),
            ("{\"copy\": \"../a\"}", "`../a` is not the path of a file in the project's directory"),
            ("{\"copy\": \"a\", \"base64\": \"\"}", "`a.bin` must be a text"),
        ] {
            let text = file(value).expect_err(value).text();
            assert!(text.contains(said), "{value}\n{text}");
        }
    }

    #[test]
    fn the_routes_of_a_server_are_answers_that_http_can_carry() {
        let server = |route: &str| {
            parsed(&format!("{{\"name\": \"a\", \"arguments\": {{}}, \"server\": [{route}]}}"))
        };
        let cases = server("{\"path\": \"/a?b=1\"}").expect("a route");
        let Route { path, method, status, .. } = &cases.cases[0].server[0];
        assert_eq!((&**path, &**method, *status), ("/a?b=1", "GET", 200));
        for (route, said) in [
            ("{\"path\": \"a\"}", "the path `a` does not begin with `/`"),
            ("{\"path\": \"/\", \"method\": \"G T\"}", "`G T` is not an HTTP method"),
            ("{\"path\": \"/\", \"status\": 100}", "the status 100 is not between 200 and 599"),
            ("{\"path\": \"/\", \"headers\": {\"a b\": \"c\"}}", "`a b: c` is not an HTTP header"),
            ("{\"path\": \"/\", \"code\": 200}", "unknown field `code`"),
        ] {
            let text = server(route).err().expect(route).text();
            assert!(text.contains(said), "{route}\n{text}");
        }
    }

    #[test]
    fn mistakes_have_their_line() {
        let good = "{\"name\": \"a\", \"arguments\": {}}\n";
        for (line, told) in [
            (
                "{\"name\": \"a\", \"arguments\": {}",
                "cases.jsonl:2:29: EOF while parsing an object",
            ),
            ("{\"arguments\": {}}", "cases.jsonl:2:17: missing field `name`"),
            ("{\"name\": \" \", \"arguments\": {}}", "cases.jsonl:2: `name` is empty"),
            ("{\"name\": \"a\"}", "cases.jsonl:2:13: missing field `arguments`"),
            ("{\"name\": \"a\", \"arguments\": []}", "cases.jsonl:2: `arguments` is not an object"),
            (
                "{\"name\": \"a\", \"arguments\": {}, \"expects\": 1}",
                "cases.jsonl:2:40: unknown field `expects`",
            ),
            ("{\"name\": \"a\", \"name\": \"a\"}", "cases.jsonl:2:20: duplicate field `name`"),
            ("{\"name\": \"a\", \"arguments\": {}} 1", "cases.jsonl:2:32: trailing characters"),
            ("a", "cases.jsonl:2:1: expected value"),
        ] {
            let text = refusal(&format!("{good}{line}\n{good}"));
            assert!(text.starts_with(&format!("error: {told}")), "{told}\n{text}");
        }
        for path in ["/a", "../a", "a/../b", "./a", "", "a/", "a\\u0000"] {
            let line = format!(
                "{{\"name\": \"a\", \"arguments\": {{}}, \"files\": {{\"{path}\": \"\"}}}}"
            );
            assert!(
                refusal(&line).contains("is not the path of a file in the workspace"),
                "{path}"
            );
        }
        let bytes = [good.as_bytes(), b"\xff"].concat();
        let error = Cases::parse("cases.jsonl".into(), bytes).err().expect("no text");
        assert_eq!(error.text(), "error: cases.jsonl:2: this is not UTF-8\n");
        assert!(refusal(" \n").contains("has no cases\nhint: write one call per line"));
    }
}
