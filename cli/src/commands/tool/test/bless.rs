//! Rewrites the expected answers of cases.

use std::fs;
use std::io::{self, Write as _};

use ikigai_host::paths::draft_in;

use super::cases::{Case, Cases};
use super::judge::Judgement;
use crate::error::{CliError, with_path};

/// Writes the newly expected answers. Every other byte of the file stays.
pub(super) fn write(cases: &Cases, judgements: &[Judgement]) -> Result<(), CliError> {
    let text = rewritten(cases, judgements);
    if text == cases.text {
        return Ok(());
    }
    let replace = || {
        // A symlink must still lead to the file afterwards.
        let path = cases.path.canonicalize()?;
        let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
        let mut file = draft_in(directory, 0o600)?;
        file.write_all(text.as_bytes())?;
        file.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    with_path(replace(), "rewrite", &cases.path)
}

fn rewritten(cases: &Cases, judgements: &[Judgement]) -> String {
    let mut text = String::with_capacity(cases.text.len());
    let mut end = 0;
    for (Case { place, expected, .. }, judgement) in cases.iter().zip(judgements) {
        let Some(answer) = &judgement.rewritten else { continue };
        let before = &cases.text[end..place.start];
        match expected {
            Some(_) => text += before,
            None => text += &format!("{}, \"expect\": ", before.trim_end()),
        }
        text += answer;
        end = place.end;
    }
    text + &cases.text[end..]
}

#[cfg(test)]
mod tests {
    use ikigai_host::exec::envelope::Envelope;
    use serde_json::value::RawValue;

    use super::super::judge::judge;
    use super::super::names::Names;
    use super::super::trials::Trial;
    use super::*;

    #[test]
    fn nothing_but_what_is_expected_changes() {
        let text = "\n{ \"name\":\"a\",\"arguments\": {},\t\"expect\": 1 } \r\n\
                    {\"expect\": [ 2 ], \"name\": \"ü\", \"arguments\": {}}\n\
                    {\"name\": \"none\", \"arguments\": {\"expect\": 1} }\n\
                    {\"name\": \"same\", \"arguments\": {}, \"expect\":  { \"a\" : 1 }}";
        let cases = Cases::parse("cases.jsonl".into(), text.as_bytes().to_vec()).expect("cases");
        let answers = ["{\"x\": 1}", "[3]", "null", "{\"a\":1}"];
        let judged = cases.iter().zip(answers).map(|(case, answer)| {
            let result = RawValue::from_string(answer.to_owned()).expect(answer);
            let (envelope, names) = (Envelope::answered(result), Names::default());
            judge(case, &Trial { envelope, names, unexpected: Vec::new() }, true).expect("judged")
        });
        let text = rewritten(&cases, &judged.collect::<Vec<_>>());
        assert_eq!(
            text,
            "\n{ \"name\":\"a\",\"arguments\": {},\t\"expect\": {\"x\":1} } \r\n\
             {\"expect\": [3], \"name\": \"ü\", \"arguments\": {}}\n\
             {\"name\": \"none\", \"arguments\": {\"expect\": 1}, \"expect\": null}\n\
             {\"name\": \"same\", \"arguments\": {}, \"expect\":  { \"a\" : 1 }}"
        );
        let again = Cases::parse("cases.jsonl".into(), text.into_bytes()).expect("cases");
        assert!(again.iter().all(|case| case.expected.is_some()));
    }
}
