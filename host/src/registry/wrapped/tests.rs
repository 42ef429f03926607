use std::fs;

use super::*;

/// Reads a definition of the tool `tool` from this text.
fn parse(text: &str) -> Result<WrapDefinition, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = wrap_definition_path(dir.path(), "tool");
    fs::write(&path, text).expect("written");
    WrapDefinition::read(&path).map_err(|error| error.line())
}

/// The parameters of the definitions in these tests.
const PARAMETERS: &str = "
[parameters]
text = { type = \"string\", required = true }
limit = { type = \"integer\" }
names = { type = \"array\" }
others = { type = [\"array\", \"null\"] }
deep = { type = \"boolean\" }
";

fn with_parameters(keys: &str) -> String {
    format!("description = \"A tool\"\nprogram = \"/bin/x\"\n{keys}\n{PARAMETERS}")
}

#[test]
fn a_definition_is_read() {
    let definition = parse(&with_parameters(
        r#"args = ["-a", "{text}", ["-n", "{limit}"], { if = "deep", then = ["-r"] }, ["{names}"], ["{others}"]]
           leading_dash = ["names"]
           stdin = "text"
           success = [0, 0x1]"#,
    ))
    .expect("read");
    let Wrapper { schema, template, success, .. } = &*definition.wrapper;
    assert_eq!((&*schema.name, &*schema.description), ("tool", "A tool"));
    assert_eq!(schema.parameters["required"], json!(["text"]));
    let names = schema.parameters["properties"].as_object().expect("properties").keys();
    assert_eq!(names.collect::<Vec<_>>(), ["text", "limit", "names", "others", "deep"]);
    assert_eq!((template.groups.len(), &**success), (6, &[0, 1][..]));
    assert_eq!(definition.program, Path::new("/bin/x"));
}

#[test]
fn parameters_may_be_in_a_file_next_to_the_definition() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = wrap_definition_path(dir.path(), "tool");
    let schema = json!({ "type": "object", "properties": { "x": { "minimum": 1.5 } } });
    fs::write(dir.path().join("x.json"), schema.to_string()).expect("written");
    let text = "description = \"A\"\nprogram = \"x.wasm\"\nargs = [[\"{x}\"]]\n";
    let read = |name: &str| {
        fs::write(&path, format!("{text}parameters = {name:?}\n")).expect("written");
        WrapDefinition::read(&path).map_err(|error| error.line())
    };
    let definition = read("x.json").expect("read");
    assert_eq!(definition.wrapper.schema.parameters, schema);
    assert_eq!(definition.program, dir.path().join("x.wasm"));
    // Each part changes the digest.
    let program = Digest::from_bytes(b"program");
    let digest = definition.digest(program);
    assert_ne!(digest, definition.digest(Digest::from_bytes(b"another")));
    fs::write(dir.path().join("x.json"), format!("{schema} ")).expect("written");
    assert_ne!(digest, read("x.json").expect("read").digest(program));
    for (name, expected) in [
        ("../x.json", "a file next to the definition"),
        ("/etc/x.json", "a file next to the definition"),
        ("..", "a file next to the definition"),
        ("absent.json", "`absent.json` cannot be read"),
        ("tool.wrap.toml", "is not valid JSON"),
    ] {
        let error = read(name).expect_err(name);
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    let args = |args: &str| {
        let rest = "[\"{limit}{deep}\"], [\"{names}\"], [\"{others}\"]";
        with_parameters(&format!("args = [{args}, {rest}]"))
    };
    for (text, expected) in [
        ("", "has no `program`".to_owned()),
        ("program = \"/bin/x\"", "has no `description`".to_owned()),
        ("description = \"\"\nprogram = \"/bin/x\"", "`description` is empty".to_owned()),
        ("program = 1", "1:11: `program`: expected a string".to_owned()),
        ("program = \"a.wrap.toml\"", "is a definition itself".to_owned()),
        ("progam = \"x\"", "1:1: unknown key `progam`; did you mean `program`?".to_owned()),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(&expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("args = 1", "`args`: expected a list, found an integer"),
        ("args = [1]", "expected a string, a list of strings or a condition, found"),
        ("args = [[[\"a\"]]]", "expected a string, found an array"),
        ("stdin = 1", "`stdin`: expected a string, found an integer"),
        ("stdin = \"limit\"", "`stdin` takes a string, but `limit` is not a string"),
        ("stdin = \"txt\"", "`parameters` has no `txt`; did you mean `text`?"),
        ("success = [0, 256]", "exit codes from 0 to 255"),
        ("success = 0", "exit codes from 0 to 255"),
        ("leading_dash = [\"text\"]", "`args` has no parameter `text`"),
        ("args = [\"{text}\"]", "the parameter `limit` is used neither in `args` nor as `stdin`"),
    ] {
        let error = parse(&with_parameters(text)).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("\"{txt}\"", "3:9: `parameters` has no `txt`; did you mean `text`?"),
        ("\"{text\"", "has a brace that encloses no parameter"),
        ("\"a\\u0000\"", "has a NUL character"),
        ("\"{limit}\"", "`limit` may be absent, since it is not required; write a list of words"),
        ("[\"{names}\", \"{others}\"]", "`names` and `others` are lists"),
        ("{ if = \"text\", then = [] }", "`if` takes a boolean, but `text` is not a boolean"),
        ("{ if = \"deep\" }", "a condition has both"),
        ("{ iff = \"deep\" }", "unknown key `iff`"),
    ] {
        let error = parse(&args(text)).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (parameters, expected) in [
        ("x = { type = \"object\" }", "`x` is never a value of which a word can be made"),
        ("x = 1", "`parameters.x` must be an object"),
        ("x = { type = \"strin\" }", "`parameters.x` must be"),
        ("x = { type = \"string\", minLength = \"a\" }", "does not compile as JSON Schema"),
        ("x = { const = 1979-05-27 }", "a datetime of this form has no equivalent in JSON"),
        ("x = { const = inf }", "a float of this form has no equivalent in JSON"),
    ] {
        let text = format!(
            "description = \"A\"\nprogram = \"x\"\nargs = [[\"{{x}}\"]]\n[parameters]\n{parameters}\n"
        );
        let error = parse(&text).expect_err(parameters);
        assert!(error.contains(expected), "{parameters}: {error}");
    }
    let large = format!("# {}", "x".repeat(LARGEST as usize));
    assert!(parse(&large).expect_err("too large").contains("is larger than 64 KiB"));
}
