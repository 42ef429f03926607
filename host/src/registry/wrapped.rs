//! The definition of a wrapped program: a file `NAME.wrap.toml` in a tool directory.
//!
//! It names a command-line program, the tool's parameters, and the words that are made from them.
//! It grants nothing: only the policy does.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::{Digest, ToolSchema};
use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};

use super::file::{self, WRAPPED};
use crate::exec::arguments;
use crate::exec::wrap::{ArgumentTemplate, TemplateWord, WordGroup, Wrapper, answer_schema};
use crate::paths;
use crate::toml_file::{TomlError, TomlFile, TomlItem, TomlPair, did_you_mean, kind_of, pairs};

/// The largest definition, and the largest file of parameters, in bytes.
const LARGEST: u64 = 64 << 10;

/// The keys of a definition.
const KEYS: [&str; 7] =
    ["description", "program", "args", "stdin", "leading_dash", "success", "parameters"];

/// The keys of a group with a condition.
const CONDITION_KEYS: [&str; 2] = ["if", "then"];

/// The definition of a wrapped program.
#[derive(Clone, Debug)]
pub(super) struct WrapDefinition {
    /// The path of the program.
    pub(super) program: PathBuf,
    pub(super) wrapper: Arc<Wrapper>,
    /// The digests of the definition and of its file of parameters.
    contents: Vec<Digest>,
}

/// Returns the path of the definition of the tool with this name.
#[must_use]
pub fn wrap_definition_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{WRAPPED}"))
}

/// Returns whether a file is the definition of a wrapped program, judging by its name.
#[must_use]
pub fn is_wrap_definition(path: &Path) -> bool {
    file::name(path).strip_suffix(WRAPPED).is_some_and(|name| !name.is_empty())
}

impl WrapDefinition {
    /// Reads a definition.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or has a mistake.
    pub(super) fn read(path: &Path) -> Result<Self, TomlError> {
        let text = read(path, path)?;
        let mut contents = vec![Digest::from_bytes(&text)];
        let (file, table) = TomlFile::parse(path, &text)?;
        let keys = WrapKeys::read(&file, table.get_ref())?;
        let (program, program_span) = keys.text("program")?;
        let program = path.parent().unwrap_or(Path::new("")).join(program);
        if is_wrap_definition(&program) {
            return Err(file.fail(&program_span, "`program` is a definition itself"));
        }
        let (parameters, span) = keys.parameters(path, &mut contents)?;
        let name = file::name(path);
        let schema = json!({
            "name": name.strip_suffix(WRAPPED).unwrap_or(&name),
            "description": keys.text("description")?.0,
            "parameters": parameters,
            "returns": answer_schema(),
        });
        let schema = ToolSchema::parse(schema.to_string().as_bytes())
            .map_err(|error| file.fail(&span, error.to_string()))?;
        arguments::compile(&schema.parameters).map_err(|error| {
            file.fail(&span, format!("`parameters` does not compile as JSON Schema: {error}"))
        })?;
        let success = keys.success()?;
        let mut reader =
            TemplateReader { file: &file, parameters: &schema.parameters, used: BTreeSet::new() };
        let template = reader.template(&keys)?;
        if let Some(unused) = reader.unused() {
            let what = format!("the parameter `{unused}` is used neither in `args` nor as `stdin`");
            return Err(file.fail(&span, what));
        }
        let wrapper = Wrapper {
            program: file::name(&program),
            schema,
            template,
            success,
            check: Default::default(),
        };
        Ok(Self { program, wrapper: Arc::new(wrapper), contents })
    }

    /// Returns the digest of the tool if its program has this digest. Each change of the
    /// definition, its parameters or the program changes it.
    pub(super) fn digest(&self, program: Digest) -> Digest {
        let mut text = "ikigai: a wrapped program\n".to_owned();
        for part in self.contents.iter().chain([&program]) {
            text.push_str(&format!("{part}\n"));
        }
        Digest::from_bytes(text.as_bytes())
    }
}

/// Reads a whole small file. `definition` is the file that errors refer to.
fn read(path: &Path, definition: &Path) -> Result<Vec<u8>, TomlError> {
    let shown = file::name(path);
    let unreadable =
        |error| TomlError::whole(definition, format!("`{shown}` cannot be read: {error}"));
    let (opened, _) = paths::open_regular_behind_links(path).map_err(unreadable)?;
    let mut text = Vec::new();
    opened.take(LARGEST + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        let what = format!("`{shown}` is larger than {} KiB", LARGEST >> 10);
        return Err(TomlError::whole(definition, what));
    }
    Ok(text)
}

/// The keys of a definition, as written.
struct WrapKeys<'a, 't> {
    file: &'a TomlFile<'a>,
    pairs: Vec<TomlPair<'a, 't>>,
}

impl<'a, 't> WrapKeys<'a, 't> {
    fn read(file: &'a TomlFile<'a>, table: &'a DeTable<'t>) -> Result<Self, TomlError> {
        let pairs = pairs(table);
        match pairs.iter().find(|pair| !KEYS.contains(&pair.key)) {
            Some(pair) => Err(file.unknown(&pair.span, pair.key, &KEYS)),
            None => Ok(Self { file, pairs }),
        }
    }

    fn item(&self, key: &str) -> Option<&'a TomlItem<'t>> {
        self.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.item)
    }

    /// Returns a required text, with its position.
    fn text(&self, key: &str) -> Result<(&'a str, Range<usize>), TomlError> {
        let missing = || TomlError::whole(self.file.path(), format!("has no `{key}`"));
        let item = self.item(key).ok_or_else(missing)?;
        let text = text_of(self.file, key, item)?;
        if text.is_empty() || text.contains('\0') {
            return Err(self.file.fail(&item.span(), format!("`{key}` is empty or has a NUL")));
        }
        Ok((text, item.span()))
    }

    /// Returns the parameters as JSON, with the position for reports of mistakes. They are a table,
    /// or a file next to the definition, whose digest is added to `contents`.
    fn parameters(
        &self,
        definition: &Path,
        contents: &mut Vec<Digest>,
    ) -> Result<(Value, Range<usize>), TomlError> {
        let Some(item) = self.item("parameters") else { return Ok((json!({}), 0..0)) };
        let span = item.span();
        let Some(name) = item.get_ref().as_str() else {
            self.file.table("parameters", item)?;
            return Ok((as_json(self.file, item)?, span));
        };
        if Path::new(name).file_name().is_none_or(|own| own != name) {
            let what = "`parameters` must be a table, or the name of a file next to the definition";
            return Err(self.file.fail(&span, what));
        }
        let text = read(&definition.with_file_name(name), definition)?;
        contents.push(Digest::from_bytes(&text));
        let parameters = serde_json::from_slice(&text).map_err(|error| {
            self.file.fail(&span, format!("`{name}` is not valid JSON: {error}"))
        })?;
        Ok((parameters, span))
    }

    fn success(&self) -> Result<Vec<i32>, TomlError> {
        let Some(item) = self.item("success") else { return Ok(vec![0]) };
        let wrong = |item: &TomlItem<'_>| {
            let what = "`success` must be a list of exit codes from 0 to 255, such as [0, 1]";
            self.file.fail(&item.span(), what)
        };
        let list = item.get_ref().as_array().ok_or_else(|| wrong(item))?;
        let code = |item: &TomlItem<'_>| {
            let number = item.get_ref().as_integer()?;
            u8::from_str_radix(number.as_str(), number.radix()).ok().map(i32::from)
        };
        list.iter().map(|item| code(item).ok_or_else(|| wrong(item))).collect()
    }
}

fn text_of<'a>(
    file: &TomlFile<'_>,
    key: &str,
    item: &'a TomlItem<'_>,
) -> Result<&'a str, TomlError> {
    item.get_ref().as_str().ok_or_else(|| {
        file.fail(&item.span(), format!("`{key}`: expected a string, found {}", kind_of(item)))
    })
}

/// Converts a TOML value to JSON, in the order of the file.
fn as_json(file: &TomlFile<'_>, item: &TomlItem<'_>) -> Result<Value, TomlError> {
    let number = |text: &str| text.parse::<serde_json::Number>().ok().map(Value::Number);
    let value = match item.get_ref() {
        DeValue::String(text) => Some(Value::from(&**text)),
        DeValue::Integer(value) => {
            i64::from_str_radix(value.as_str(), value.radix()).ok().map(Value::from)
        }
        DeValue::Float(value) => number(value.as_str()),
        DeValue::Boolean(value) => Some(Value::from(*value)),
        DeValue::Array(list) => {
            let list = list.iter().map(|item| as_json(file, item));
            Some(list.collect::<Result<Vec<_>, _>>()?.into())
        }
        DeValue::Table(table) => {
            let mut members = Map::new();
            for TomlPair { key, item, .. } in pairs(table) {
                members.insert(key.to_owned(), as_json(file, item)?);
            }
            Some(members.into())
        }
        DeValue::Datetime(_) => None,
    };
    value.ok_or_else(|| {
        file.fail(&item.span(), format!("{} of this form has no equivalent in JSON", kind_of(item)))
    })
}

/// Reads the template, and checks it against the parameters.
struct TemplateReader<'a> {
    file: &'a TomlFile<'a>,
    /// The JSON Schema of the parameters.
    parameters: &'a Value,
    used: BTreeSet<String>,
}

impl TemplateReader<'_> {
    fn template(&mut self, keys: &WrapKeys<'_, '_>) -> Result<ArgumentTemplate, TomlError> {
        let mut template = ArgumentTemplate::default();
        if let Some(item) = keys.item("args") {
            let list = item.get_ref().as_array().ok_or_else(|| {
                let what = format!("`args`: expected a list, found {}", kind_of(item));
                self.file.fail(&item.span(), what)
            })?;
            for item in list.iter() {
                template.groups.push(self.group(item)?);
            }
        }
        if let Some(item) = keys.item("leading_dash") {
            let names = self.file.list("leading_dash", item, |name, span| {
                if self.used.contains(name) {
                    return Ok(name.to_owned());
                }
                let error = self.file.fail(span, format!("`args` has no parameter `{name}`"));
                Err(did_you_mean(error, name, self.used.iter().map(String::as_str)))
            })?;
            template.leading_dash = names.into_iter().collect();
        }
        if let Some(item) = keys.item("stdin") {
            let name = text_of(self.file, "stdin", item)?;
            self.take(name, &item.span())?;
            if !self.may_be(name, "string") {
                let what = format!("`stdin` takes a string, but `{name}` is not a string");
                return Err(self.file.fail(&item.span(), what));
            }
            template.stdin = Some(name.to_owned());
        }
        Ok(template)
    }

    /// Reads an item of `args`: a word, a list of words, or a table with a condition.
    fn group(&mut self, item: &TomlItem<'_>) -> Result<WordGroup, TomlError> {
        let span = item.span();
        match item.get_ref() {
            DeValue::String(text) => {
                let word = self.word(text, &span)?;
                for name in word.parameters() {
                    self.check_plain(name, &span)?;
                }
                Ok(WordGroup { words: vec![word], ..WordGroup::default() })
            }
            DeValue::Array(_) => self.optional("args", item),
            DeValue::Table(table) => {
                let pairs = pairs(table);
                if let Some(pair) = pairs.iter().find(|pair| !CONDITION_KEYS.contains(&pair.key)) {
                    return Err(self.file.unknown(&pair.span, pair.key, &CONDITION_KEYS));
                }
                let item = |key| pairs.iter().find(|pair| pair.key == key).map(|pair| pair.item);
                let (Some(condition), Some(then)) = (item("if"), item("then")) else {
                    let what =
                        "a condition has both `if`, a parameter, and `then`, a list of words";
                    return Err(self.file.fail(&span, what));
                };
                let name = text_of(self.file, "if", condition)?;
                self.take(name, &condition.span())?;
                if !self.may_be(name, "boolean") {
                    let what = format!("`if` takes a boolean, but `{name}` is not a boolean");
                    return Err(self.file.fail(&condition.span(), what));
                }
                Ok(WordGroup { condition: Some(name.to_owned()), ..self.optional("then", then)? })
            }
            _ => {
                let what = format!(
                    "an item of `args`: expected a string, a list of strings or a condition, \
                     found {}",
                    kind_of(item)
                );
                Err(self.file.fail(&span, what))
            }
        }
    }

    fn optional(&mut self, key: &str, item: &TomlItem<'_>) -> Result<WordGroup, TomlError> {
        let texts = self.file.list(key, item, |text, span| Ok((text.to_owned(), span.clone())))?;
        let mut lists = BTreeSet::new();
        let mut words = Vec::new();
        for (text, span) in &texts {
            let word = self.word(text, span)?;
            lists
                .extend(word.parameters().filter(|name| self.is_list(name)).map(ToOwned::to_owned));
            words.push(word);
        }
        if lists.len() > 1 {
            let lists = lists.into_iter().collect::<Vec<_>>().join("` and `");
            let what = format!("`{lists}` are lists, and a group is repeated for one");
            return Err(self.file.fail(&item.span(), what));
        }
        Ok(WordGroup { words, is_optional: true, ..WordGroup::default() })
    }

    fn word(&mut self, text: &str, span: &Range<usize>) -> Result<TemplateWord, TomlError> {
        let word = TemplateWord::parse(text)
            .map_err(|what| self.file.fail(span, format!("`{text}` {what}")))?;
        for name in word.parameters() {
            self.take(name, span)?;
            if !["string", "number", "integer", "boolean", "array"]
                .iter()
                .any(|kind| self.may_be(name, kind))
            {
                let what = format!("`{name}` is never a value of which a word can be made");
                return Err(self.file.fail(span, what));
            }
        }
        Ok(word)
    }

    /// Checks a parameter of a word that is always present.
    fn check_plain(&self, name: &str, span: &Range<usize>) -> Result<(), TomlError> {
        let required = self.parameters.get("required").and_then(Value::as_array);
        let is_required = required.into_iter().flatten().any(|it| it == name);
        let what = if !is_required {
            format!("`{name}` may be absent, since it is not required")
        } else if self.is_list(name) {
            format!("`{name}` is a list")
        } else {
            return Ok(());
        };
        let hint = "write a list of words, such as [\"--option\", \"{name}\"]: it is left out without \
                    its parameter, and repeated for each item of a list";
        Err(self.file.fail(span, what).hint(hint))
    }

    /// Marks a parameter as used.
    fn take(&mut self, name: &str, span: &Range<usize>) -> Result<(), TomlError> {
        if self.properties().any(|known| known == name) {
            self.used.insert(name.to_owned());
            return Ok(());
        }
        let error = self.file.fail(span, format!("`parameters` has no `{name}`"));
        Err(did_you_mean(error, name, self.properties()))
    }

    fn properties(&self) -> impl Iterator<Item = &str> {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Returns the first parameter that the template does not use.
    fn unused(&self) -> Option<&str> {
        self.properties().find(|name| !self.used.contains(*name))
    }

    /// Returns the types of a parameter, as far as its schema lists them; empty if it does not.
    fn types(&self, name: &str) -> Vec<&str> {
        match self.parameters.get("properties").and_then(|all| all.get(name)?.get("type")) {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn may_be(&self, name: &str, kind: &str) -> bool {
        let types = self.types(name);
        types.is_empty() || types.contains(&kind)
    }

    fn is_list(&self, name: &str) -> bool {
        let types = self.types(name);
        types.contains(&"array") && types.iter().all(|kind| matches!(*kind, "array" | "null"))
    }
}

#[cfg(test)]
mod tests;
