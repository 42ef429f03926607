//! The providers' rules, written a second time from their references. They tell what the server
//! would refuse. This module shares only the providers' names with the translation.

use ikigai_provider::Provider;
use serde_json::{Map, Value};

/// Returns the faults of the `tools` of a request.
pub(crate) fn tools(provider: Provider, tools: &Value) -> Vec<String> {
    let entries = entries(provider, tools);
    let mut problems: Vec<String> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for (index, found) in entries.iter().enumerate() {
        let mut found = found.clone();
        if provider == Provider::Anthropic {
            let mark =
                found.as_object_mut().and_then(|members| members.shift_remove("cache_control"));
            let is_last = index + 1 == entries.len();
            if mark.is_some() != is_last || mark.is_some_and(|mark| mark["type"] != "ephemeral") {
                problems.push(format!("cache_control of {index}"));
            }
        }
        let named = if provider == Provider::OpenAiChat { &found["function"] } else { &found };
        if !names.insert(named["name"].as_str().unwrap_or_default().to_owned()) {
            problems.push(format!("name of {index} is there twice"));
        }
        problems.extend(entry(provider, &found));
    }
    problems
}

pub(crate) fn entries(provider: Provider, tools: &Value) -> Vec<Value> {
    let list = tools.as_array().expect("`tools` is a list");
    if provider != Provider::Google || list.is_empty() {
        return list.clone();
    }
    assert_eq!(list.len(), 1, "one list of declarations");
    list[0]["functionDeclarations"].as_array().expect("a list of declarations").clone()
}

/// Returns the faults of one entry.
pub(crate) fn entry(provider: Provider, entry: &Value) -> Vec<String> {
    let mut check = Check { problems: Vec::new() };
    match provider {
        Provider::OpenAi => {
            check.members(entry, &["type", "name", "description", "parameters", "strict"]);
            check.openai(entry);
        }
        Provider::OpenAiChat => {
            check.members(entry, &["type", "function"]);
            check.members(&entry["function"], &["name", "description", "parameters", "strict"]);
            check.openai(&entry["function"]);
        }
        Provider::Anthropic => check.anthropic(entry),
        Provider::Google => check.google(entry),
    }
    if matches!(provider, Provider::OpenAi | Provider::OpenAiChat) && entry["type"] != "function" {
        check.problems.push("type of the entry".into());
    }
    check.problems
}

struct Check {
    problems: Vec<String>,
}

impl Check {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(what());
        }
    }

    fn members(&mut self, value: &Value, expected: &[&str]) {
        let found: Vec<&str> =
            value.as_object().expect("object").keys().map(String::as_str).collect();
        self.must(found == expected, || format!("members {found:?}, not {expected:?}"));
    }

    fn name(&mut self, value: &Value, extra: &str) {
        let name = value["name"].as_str().unwrap_or_default();
        let holds = (1..=64).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c));
        self.must(holds, || format!("name `{name}`"));
        self.must(value["description"].is_string(), || "description".into());
    }

    /// Checks that the schema is JSON Schema 2020-12 for an object, and that its references have
    /// targets.
    fn json_schema(&mut self, schema: &Value) {
        self.must(jsonschema::draft202012::meta::is_valid(schema), || "metaschema".into());
        self.must(schema["type"] == "object", || "type of the root".into());
        self.references(schema, schema);
    }

    fn references(&mut self, root: &Value, value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                    let found =
                        target.strip_prefix('#').is_some_and(|path| root.pointer(path).is_some());
                    self.must(found, || format!("`{target}` leads nowhere"));
                }
                let schemas = members.iter().filter(|(key, _)| {
                    !["enum", "const", "default", "examples"].contains(&key.as_str())
                });
                schemas.for_each(|(_, inner)| self.references(root, inner));
            }
            Value::Array(values) => values.iter().for_each(|inner| self.references(root, inner)),
            _ => {}
        }
    }

    fn anthropic(&mut self, entry: &Value) {
        self.members(entry, &["name", "description", "input_schema"]);
        self.name(entry, "_-");
        let schema = &entry["input_schema"];
        self.json_schema(schema);
        for word in ["oneOf", "allOf", "anyOf"] {
            self.must(schema.get(word).is_none(), || format!("{word} at the top level"));
        }
        for key in schema["properties"].as_object().expect("properties").keys() {
            let holds = (1..=64).contains(&key.len())
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
            self.must(holds, || format!("key `{key}`"));
        }
    }

    fn openai(&mut self, function: &Value) {
        self.name(function, "_-");
        let schema = &function["parameters"];
        self.json_schema(schema);
        for word in ["oneOf", "anyOf", "allOf", "enum", "not"] {
            self.must(schema.get(word).is_none(), || format!("{word} at the top level"));
        }
        self.items(schema);
        match &function["strict"] {
            Value::Bool(true) => {
                self.strict(schema, "#");
                self.sizes(schema);
            }
            Value::Bool(false) => {}
            other => self.problems.push(format!("strict is {other}")),
        }
    }

    /// Checks for "array schema missing items" in every schema.
    fn items(&mut self, schema: &Value) {
        let Some(members) = schema.as_object() else { return };
        let is_array =
            names(&members.get("type").cloned().unwrap_or_default()).contains(&"array".to_owned());
        self.must(!is_array || members.contains_key("items"), || format!("no items: {schema}"));
        for (word, value) in members {
            match word.as_str() {
                "properties" | "patternProperties" | "$defs" | "definitions" => {
                    value
                        .as_object()
                        .expect("schemas")
                        .values()
                        .for_each(|inner| self.items(inner));
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                    value.as_array().expect("schemas").iter().for_each(|inner| self.items(inner));
                }
                "items" | "additionalProperties" | "not" | "if" | "then" | "else" => {
                    self.items(value)
                }
                _ => {}
            }
        }
    }

    fn strict(&mut self, schema: &Value, at: &str) {
        let Some(members) = schema.as_object() else {
            self.problems.push(format!("{at}: not an object"));
            return;
        };
        if members.contains_key("$ref") {
            self.must(members.len() == 1, || format!("{at}: $ref cannot have keywords"));
            return;
        }
        const KNOWN: &[&str] = &[
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "anyOf",
            "$defs",
            "definitions",
            "title",
            "description",
            "pattern",
            "format",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "minItems",
            "maxItems",
        ];
        for word in members.keys().filter(|word| !KNOWN.contains(&word.as_str())) {
            self.problems.push(format!("{at}: '{word}' is not permitted"));
        }
        let types = names(&members.get("type").cloned().unwrap_or_default());
        self.must(!types.is_empty() || members.contains_key("anyOf"), || {
            format!("{at}: must have a 'type' key")
        });
        if types.contains(&"object".to_owned()) {
            let declared: Vec<_> =
                members["properties"].as_object().expect("properties").keys().cloned().collect();
            self.must(names(&members["required"]) == declared, || {
                format!("{at}: required lists not all")
            });
            self.must(members["additionalProperties"] == false, || format!("{at}: must be closed"));
        }
        let listed = members.get("enum").and_then(Value::as_array).into_iter().flatten();
        for value in listed.chain(members.get("const")) {
            let holds = match value {
                Value::Null => types.contains(&"null".into()),
                Value::String(_) => types.contains(&"string".into()),
                Value::Bool(_) => types.contains(&"boolean".into()),
                Value::Number(_) => types.iter().any(|name| name == "number" || name == "integer"),
                _ => false,
            };
            self.must(holds, || format!("{at}: {value} is not of {types:?}"));
        }
        let formats =
            ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
        let format = members.get("format").and_then(Value::as_str);
        self.must(format.is_none_or(|format| formats.contains(&format)), || {
            format!("{at}: {format:?}")
        });
        for word in ["properties", "$defs", "definitions"] {
            for (name, inner) in members.get(word).and_then(Value::as_object).into_iter().flatten()
            {
                self.strict(inner, &format!("{at}/{word}/{name}"));
            }
        }
        for inner in members.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
            self.strict(inner, &format!("{at}/anyOf"));
        }
        if let Some(inner) = members.get("items") {
            self.strict(inner, &format!("{at}/items"));
        }
    }

    fn sizes(&mut self, schema: &Value) {
        let (mut properties, mut values) = (0, 0);
        let depth = measure(schema, &mut properties, &mut values);
        self.must(properties <= 5_000, || format!("{properties} properties"));
        self.must(values <= 1_000, || format!("{values} values"));
        self.must(depth <= 10, || format!("{depth} levels"));
    }

    fn google(&mut self, declaration: &Value) {
        let expected: &[&str] =
            match (declaration.get("parameters"), declaration.get("parametersJsonSchema")) {
                (Some(_), None) => &["name", "description", "parameters"],
                (None, Some(_)) => &["name", "description", "parametersJsonSchema"],
                _ => &["name", "description"],
            };
        self.members(declaration, expected);
        self.name(declaration, "_.-");
        if let Some(schema) = declaration.get("parametersJsonSchema") {
            self.json_schema(schema);
        }
        if let Some(schema) = declaration.get("parameters") {
            self.must(schema["type"] == "object", || "type of the root".into());
            self.subset(schema, "#");
        }
    }

    fn subset(&mut self, schema: &Value, at: &str) {
        let members: &Map<String, Value> = schema.as_object().expect("a schema is an object");
        for (word, value) in members {
            let holds = match word.as_str() {
                "type" => ["string", "number", "integer", "boolean", "array", "object"]
                    .iter()
                    .any(|name| value == name),
                "title" | "description" | "pattern" => value.is_string(),
                "nullable" => value.is_boolean(),
                "format" => match members["type"].as_str() {
                    Some("string") => value == "date-time" || value == "enum",
                    Some("integer") => value == "int32" || value == "int64",
                    Some("number") => value == "float" || value == "double",
                    _ => false,
                },
                "enum" => {
                    members["type"] == "string"
                        && value.as_array().is_some_and(|all| !all.is_empty())
                        && names(value).iter().all(|name| !name.is_empty())
                        && names(value).len() == value.as_array().map_or(0, Vec::len)
                }
                "default" => true,
                "minimum" | "maximum" => value.is_number(),
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
                | "maxProperties" => value.is_number(),
                "properties" => value.as_object().is_some_and(|all| !all.is_empty()),
                "required" => {
                    names(value).iter().all(|name| schema["properties"].get(name).is_some())
                }
                "items" => value.is_object(),
                "anyOf" => value.as_array().is_some_and(|all| !all.is_empty()),
                _ => false,
            };
            self.must(holds, || format!("{at}: {word}: {value}"));
        }
        self.must(members.contains_key("type") || members.contains_key("anyOf"), || {
            format!("{at}: type")
        });
        self.must(schema["type"] != "object" || members.contains_key("properties"), || {
            format!("{at}: empty object")
        });
        self.must(schema["type"] != "array" || members.contains_key("items"), || {
            format!("{at}: items")
        });
        for (name, inner) in
            members.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            self.subset(inner, &format!("{at}/{name}"));
        }
        for inner in members
            .get("anyOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .chain(members.get("items"))
        {
            self.subset(inner, &format!("{at}/*"));
        }
    }
}

/// Returns the depth of objects, without following references.
fn measure(schema: &Value, properties: &mut usize, values: &mut usize) -> usize {
    let Some(members) = schema.as_object() else { return 0 };
    *values += members.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
    let own = members.get("properties").and_then(Value::as_object);
    *properties += own.map_or(0, Map::len);
    let inner = own.into_iter().flat_map(Map::values).chain(members.get("items"));
    let inner = inner.chain(members.get("anyOf").and_then(Value::as_array).into_iter().flatten());
    let deepest = inner.map(|inner| measure(inner, properties, values)).max().unwrap_or(0);
    for word in ["$defs", "definitions"] {
        for definition in
            members.get(word).and_then(Value::as_object).into_iter().flat_map(Map::values)
        {
            measure(definition, properties, values);
        }
    }
    deepest + usize::from(own.is_some())
}

/// Returns a string, or the strings of a list, as a list.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
