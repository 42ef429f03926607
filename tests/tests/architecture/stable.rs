//! The forms that docs/reference/compatibility.md promises to keep, read from the sources, and
//! compared with the list in docs/reference/stable.txt.
//!
//! Relies on rustfmt: a declaration ends with a brace as deep as its first line, and each field has
//! its own line.

use std::collections::{BTreeMap, BTreeSet};

/// The list, relative to the repository.
pub(crate) const LIST: &str = "docs/reference/stable.txt";

/// A file and the declarations in it that define a form, such as `struct Record`.
type Place = (&'static str, &'static [&'static str]);

/// The forms, each with the places that define it. A few words are not declarations:
///
/// - `lists`: the lists of texts in the file;
/// - `exports`: the names that the file exports;
/// - `text`: the file without its comments.
///
/// `fn NAME` stands for the texts in a function.
const FORMS: &[(&str, &[Place])] = &[
    (
        "the tool protocol",
        &[
            (
                "protocol/src/schema.rs",
                &[
                    "const MAX_SCHEMA_BYTES",
                    "const RESERVED_NAMES",
                    "const MAX_NAME_BYTES",
                    "const TYPE_ALTERNATIVES",
                    "const CONTENT",
                    "const ACCESS_MARK",
                    "fn to_value",
                ],
            ),
            ("protocol/src/dirs.rs", &["const DIRS_VARIABLE", "enum Access", "fn as_str"]),
            ("protocol/src/error_code.rs", &["enum ToolCode"]),
            (
                "protocol/src/host_socket.rs",
                &[
                    "const HOST_FD_VARIABLE",
                    "const MAX_CONTENT",
                    "const MAX_LINE",
                    "const MAX_ID",
                    "const OPERATION_FAILED",
                    "enum Operation",
                    "struct ReadParams",
                    "struct WriteParams",
                    "struct EditParams",
                    "struct ListParams",
                    "struct ReadOutput",
                    "struct WriteOutput",
                    "struct EditOutput",
                    "struct AssetListing",
                    "struct AssetEntry",
                    "enum Id",
                    "struct SocketRequest",
                ],
            ),
            (
                "host/src/exec/content.rs",
                &["struct RawContent", "enum WrittenBlock", "struct WrittenResource"],
            ),
        ],
    ),
    (
        "the envelope",
        &[
            (
                "host/src/exec/envelope.rs",
                &[
                    "struct Success",
                    "struct Failure",
                    "struct Aside",
                    "struct Remains",
                    "const SHOWN",
                    "const CONTENT_ERROR",
                    "const KILLED",
                    "const TRAPPED",
                ],
            ),
            ("protocol/src/error_code.rs", &["enum EnvelopeCode", "fn as_str"]),
            ("host/src/limits.rs", &["enum Limit"]),
        ],
    ),
    (
        "the policy file",
        &[
            (
                "host/src/policy/parse.rs",
                &["const FILE_KEYS", "const TOOL_KEYS", "const SHELL_KEYS", "const SERVER_KEYS"],
            ),
            ("host/src/policy/parse/commands.rs", &["const LISTS"]),
            (
                "host/src/policy/parse/signers.rs",
                &["const IDENTITIES", "const SIGNER_KEYS", "const SIGSTORE_KEYS"],
            ),
            (
                "host/src/policy.rs",
                &["enum AssetAccess", "enum Approve", "enum Profile", "enum BackendChoice"],
            ),
            ("supervisor/src/plan/run_mode.rs", &["enum Sandbox"]),
            ("host/src/policy/rule.rs", &["enum LimitKey"]),
            ("host/src/policy/wasi.rs", &["enum WasiVersion"]),
        ],
    ),
    (
        "the lock file and the manifest",
        &[
            ("packages/src/lock/read.rs", &["const TOOL_KEYS"]),
            ("packages/src/lock.rs", &["fn fmt"]),
            ("packages/src/signer.rs", &["enum Signer"]),
            ("packages/src/manifest.rs", &["const KEYS"]),
            ("packages/src/project.rs", &["lists"]),
            ("packages/src/needs/read.rs", &["lists"]),
        ],
    ),
    (
        "the audit log",
        &[
            (
                "host/src/audit/record.rs",
                &[
                    "struct Record",
                    "enum Via",
                    "struct ProgramRecord",
                    "struct GrantSummary",
                    "struct InstallationRecord",
                    "struct QuestionRecord",
                    "struct AskedFor",
                    "struct Arguments",
                    "const FAILED",
                    "const CANCELLED",
                    "const OK",
                ],
            ),
            ("host/src/audit/answer_error.rs", &["struct AnswerError"]),
            ("host/src/policy/reached.rs", &["enum RequestedAccess", "enum UsedAccess"]),
            (
                "supervisor/src/isolation.rs",
                &["struct Isolation", "struct KeptBy", "enum LimitEnforcer", "enum Guarantee"],
            ),
        ],
    ),
    (
        "the exit codes",
        &[
            (
                "cli/src/error.rs",
                &["const FAILED", "const USAGE", "const REFUSED", "const INTERRUPTED"],
            ),
            ("cli/src/commands/tool/run.rs", &["const LIMIT", "const NOT_STARTED"]),
        ],
    ),
    (
        "the library `ikigai-host`",
        &[
            ("host/src/lib.rs", &["exports"]),
            ("host/src/audit.rs", &["exports"]),
            ("host/src/policy.rs", &["exports"]),
        ],
    ),
    ("the library `ikigai-protocol`", &[("protocol/src/lib.rs", &["exports"])]),
    ("the interface of components", &[("wit/tool.wit", &["text"])]),
];

/// Returns the names of the forms.
pub(crate) fn forms() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(form, _)| *form)
}

/// Returns the list as the sources have it now. `source` reads a file of the repository.
pub(crate) fn list(source: impl Fn(&str) -> String) -> String {
    let mut list = String::from(
        "# The forms that docs/reference/compatibility.md promises to keep, from the sources.\n\
         # IKIGAI_RECORD=1 cargo nextest run --test architecture writes this list.\n",
    );
    for (form, places) in FORMS {
        list.extend(["\n[", form, "]\n"]);
        for (file, declarations) in *places {
            let text = source(file);
            for declaration in *declarations {
                let lines = lines_of(&text, declaration);
                assert!(!lines.is_empty(), "{file} has no `{declaration}`");
                list.extend(lines.into_iter().map(|line| line + "\n"));
            }
        }
    }
    list
}

/// Returns a message for each form whose list differs.
pub(crate) fn differences(recorded: &str, found: &str) -> Vec<String> {
    let (recorded, found) = (sections(recorded), sections(found));
    let mut messages = Vec::new();
    let names: BTreeSet<&str> = found.keys().chain(recorded.keys()).copied().collect();
    for name in names {
        let lines = |of: &BTreeMap<&str, Vec<String>>| of.get(name).cloned().unwrap_or_default();
        let (before, now) = (lines(&recorded), lines(&found));
        let only = |these: &[String], others: &[String], mark: &str| -> String {
            let missing = these.iter().filter(|line| !others.contains(line));
            missing.map(|line| format!("\n    {mark} {line}")).collect()
        };
        let (gone, new) = (only(&before, &now, "-"), only(&now, &before, "+"));
        if !gone.is_empty() {
            messages.push(format!(
                "this is a break of {name}: either take it back, or record it in CHANGELOG.md and \
                 docs/reference/compatibility.md:{gone}{new}"
            ));
        } else if !new.is_empty() {
            messages.push(format!(
                "this adds to {name}: describe it in CHANGELOG.md and on its page, and write \
                 {LIST} with IKIGAI_RECORD=1:{new}"
            ));
        }
    }
    messages
}

/// Returns the lines of a list below each of its headings.
fn sections(list: &str) -> BTreeMap<&str, Vec<String>> {
    let mut sections = BTreeMap::new();
    let mut name = "";
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let heading = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        match heading {
            Some(heading) => name = heading,
            None => sections.entry(name).or_insert_with(Vec::new).push(line.to_owned()),
        }
    }
    sections
}

/// Returns the lines for a declaration of a source.
fn lines_of(source: &str, declaration: &str) -> Vec<String> {
    match declaration.split_once(' ') {
        Some(("const", name)) => constant(source, name),
        Some(("fn", name)) => {
            let body = body(source, declaration).unwrap_or_default();
            texts(&body.join(" ")).into_iter().map(|text| format!("fn {name}: {text}")).collect()
        }
        Some((_, name)) => members(source, declaration, name),
        None if declaration == "exports" => exports(source),
        None if declaration == "lists" => lists(source),
        None => code(source).map(str::to_owned).collect(),
    }
}

/// Returns the lines of a source that are neither empty nor a comment.
fn code(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter(|line| !line.trim().is_empty() && !is_comment(line))
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns a line without its indentation and without the visibility of its item.
fn bare(line: &str) -> &str {
    let line = line.trim();
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(line, |(_, item)| item),
        _ => line,
    }
}

/// Returns whether a line begins a declaration, such as `struct Record`.
fn begins(line: &str, declaration: &str) -> bool {
    let rest = bare(line).strip_prefix(declaration);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Returns the lines of a declaration after the first one, up to the brace that closes it.
fn body<'a>(source: &'a str, declaration: &str) -> Option<Vec<&'a str>> {
    let mut lines = source.lines().skip_while(|line| !begins(line, declaration));
    let first = lines.next()?;
    let depth = first.len() - first.trim_start().len();
    let is_end = |line: &&str| line.len() == depth + 1 && line.ends_with('}');
    Some(lines.take_while(|line| !is_end(line)).filter(|line| !is_comment(line)).collect())
}

/// Returns the attributes of serde and strum among the lines above a declaration.
fn attributes(source: &str, declaration: &str) -> String {
    let above: Vec<&str> = source.lines().take_while(|line| !begins(line, declaration)).collect();
    let own = above.iter().rev().take_while(|line| line.starts_with('#') || is_comment(line));
    own.filter_map(|line| kept_attribute(line)).map(|attribute| format!(" {attribute}")).collect()
}

/// Returns an attribute without its brackets if it decides how a value is written.
fn kept_attribute(line: &str) -> Option<&str> {
    let attribute = line.trim().strip_prefix("#[")?.strip_suffix(']')?;
    let is_kept = attribute.starts_with("serde(") || attribute.starts_with("strum(");
    is_kept.then_some(attribute)
}

/// Returns a line for a struct or an enum, and one for each of its members.
fn members(source: &str, declaration: &str, name: &str) -> Vec<String> {
    let Some(body) = body(source, declaration) else { return Vec::new() };
    let mut lines = vec![format!("{declaration}{}", attributes(source, declaration))];
    let (mut path, mut above, mut line) = (vec![name.to_owned()], String::new(), String::new());
    for part in body {
        line.push_str(if line.is_empty() { "" } else { " " });
        line.push_str(part.trim());
        // A part of an attribute or of a type that has several lines.
        let is_attribute = line.starts_with('#');
        if !line.ends_with(if is_attribute { &[']'][..] } else { &[',', '{', '}'][..] }) {
            continue;
        }
        let whole = std::mem::take(&mut line);
        if is_attribute {
            above.extend(kept_attribute(&whole).map(|attribute| format!(" {attribute}")));
        } else if whole.starts_with('}') {
            path.pop();
        } else {
            let member = bare(&whole).trim_end_matches(['{', ',', ' ']);
            lines.push(format!("{}.{member}{}", path.join("."), std::mem::take(&mut above)));
            if whole.ends_with('{') {
                path.push(member.to_owned());
            }
        }
    }
    lines
}

/// Returns the line of a constant, or one for each text in its list.
fn constant(source: &str, name: &str) -> Vec<String> {
    let declaration = format!("const {name}");
    let lines = source.lines().skip_while(|line| !begins(line, &declaration));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim());
        if line.ends_with(';') {
            break;
        }
        text.push(' ');
    }
    let Some((_, value)) = text.trim_end_matches(';').split_once(" =") else { return Vec::new() };
    let value = value.trim();
    if value.starts_with("&[") {
        return texts(value).into_iter().map(|text| format!("{name}: {text}")).collect();
    }
    vec![format!("{name} = {value}")]
}

/// Returns the texts between quotation marks.
fn texts(code: &str) -> Vec<&str> {
    code.split('"').skip(1).step_by(2).collect()
}

/// Returns a line for each text of each list of texts outside of tests.
fn lists(source: &str) -> Vec<String> {
    let code: Vec<&str> = code(source).take_while(|line| *line != "#[cfg(test)]").collect();
    let code = code.join(" ");
    let lists = code.split("&[\"").skip(1).filter_map(|rest| rest.split_once(']'));
    let mut lines = Vec::new();
    for (number, (list, _)) in lists.enumerate() {
        let list = format!("\"{list}");
        lines.extend(texts(&list).into_iter().map(|text| format!("list {number}: {text}")));
    }
    lines
}

/// Returns a line for each name that a library exports and documents.
fn exports(source: &str) -> Vec<String> {
    let code: Vec<&str> = code(source).map(str::trim).collect();
    let code = code.join(" ");
    let mut lines = Vec::new();
    for statement in code.split(';') {
        let Some(at) = statement.rfind("pub use ").max(statement.rfind("pub mod ")) else {
            continue;
        };
        let (before, item) = statement.split_at(at);
        if before.contains("#[doc(hidden)]") {
            continue;
        }
        let names = item.rsplit(['{', ':', ' ']).next();
        let names = item.split_once('{').map_or(names, |(_, names)| Some(names));
        let names = names.unwrap_or_default().trim_end_matches(['}', ' ', ',']);
        lines.extend(names.split(',').map(|name| format!("export {}", name.trim())));
    }
    lines
}
