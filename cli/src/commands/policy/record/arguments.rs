//! The arguments of the calls that are recorded: JSON objects on the command line and in files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::error::CliError;

/// The most calls of one recording.
const MOST_CALLS: usize = 1_000;

/// The size of the largest file of arguments, in bytes.
const LARGEST: u64 = 16 << 20;

/// Returns the arguments of each call: one JSON object, or the objects in `@FILE`. They follow each
/// other there, on separate lines or not.
pub(super) fn read(words: &[String]) -> Result<Vec<Bytes>, CliError> {
    let mut calls = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.strip_prefix('@') {
            Some(path) => {
                let text = contents(Path::new(path))?;
                let found = objects(&text).map_err(|why| wrong(format!("`{path}`: {why}")))?;
                if found.is_empty() {
                    return Err(wrong(format!("`{path}` has no JSON object, so it has no call")));
                }
                calls.extend(found);
            }
            None => {
                let found = objects(word)
                    .map_err(|why| wrong(format!("the arguments of call {}: {why}", at + 1)))?;
                let [one] = &found[..] else {
                    let text = "are not one JSON object; write each call as a separate word";
                    return Err(wrong(format!("the arguments of call {} {text}", at + 1)));
                };
                calls.push(one.clone());
            }
        }
    }
    match calls.len() {
        0 => Err(wrong("there is no call to record".to_owned())),
        many if many > MOST_CALLS => Err(wrong(format!(
            "a recording can have at most {MOST_CALLS} calls, but these are {many}"
        ))),
        _ => Ok(calls),
    }
}

fn wrong(text: String) -> CliError {
    CliError::usage(anyhow::Error::msg(text))
        .hint("write the arguments as a JSON object, such as '{}', or as @FILE")
}

fn contents(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    let size = read
        .with_context(|| format!("cannot read the arguments from `{}`", path.display()))
        .map_err(CliError::usage)?;
    if size as u64 > LARGEST {
        return Err(wrong(format!("`{}` is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// Returns the JSON objects of a text, each as it is written.
fn objects(text: &str) -> Result<Vec<Bytes>, String> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| error.to_string())?;
        if !value.get().starts_with('{') {
            return Err(format!("value {} is not a JSON object", found.len() + 1));
        }
        found.push(Bytes::copy_from_slice(value.get().as_bytes()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let calls = read(&words).expect("arguments");
        calls.iter().map(|call| String::from_utf8(call.to_vec()).expect("UTF-8")).collect()
    }

    fn refused(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let error = read(&words).expect_err("refused");
        assert_eq!(error.exit, crate::error::USAGE);
        error.text()
    }

    #[test]
    fn each_object_is_a_call_as_it_is_written() {
        assert_eq!(texts(&["{}", r#" {"a": 1.0, "b": 2} "#]), ["{}", r#"{"a": 1.0, "b": 2}"#]);
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("calls");
        let word = format!("@{}", file.display());
        for text in ["{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}{\"b\":2}", "\n{\"a\":1}\n\n{\"b\":2}"] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(texts(&["{}", &word]), ["{}", "{\"a\":1}", "{\"b\":2}"], "{text:?}");
        }
        std::fs::write(&file, "{\n  \"a\": [\n 1 ]\n}\n").expect("written");
        assert_eq!(texts(&[&word]).len(), 1);
        for (text, said) in [
            ("", "no JSON object"),
            ("  \n", "no JSON object"),
            ("[{}]", "not a JSON object"),
            ("{}\n{\"a\":", "EOF"),
            ("{} 1", "value 2"),
        ] {
            std::fs::write(&file, text).expect("written");
            assert!(refused(&[&word]).contains(said), "{text:?} {}", refused(&[&word]));
        }
        std::fs::write(&file, "{}".repeat(MOST_CALLS + 1)).expect("written");
        assert!(refused(&[&word]).contains("at most 1000"));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        assert!(refused(&[]).contains("no call"));
        for word in ["", "1", "[]", "{", "{}{}", "null", "{\"a\":1} x"] {
            assert!(
                refused(&["{}", word]).contains("call 2"),
                "{word}: {}",
                refused(&["{}", word])
            );
        }
        assert!(refused(&["@/nowhere/file"]).contains("cannot read"));
    }
}
