//! The check of a licence expression.

/// Checks that a text is an SPDX expression, according to the grammar of
/// <https://spdx.github.io/spdx-spec/v3.0.1/annexes/spdx-license-expressions/>. Identifiers are not
/// looked up in SPDX's list, which grows faster than this program.
///
/// # Errors
///
/// Fails if it is not such an expression. The error's text completes a sentence that begins with
/// the expression.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut expected = ExpectedWord::License;
    let mut open = 0_usize;
    for word in spaced.split(' ').filter(|word| !word.is_empty()) {
        expected = match (expected, word) {
            (ExpectedWord::License, "(") => {
                open += 1;
                ExpectedWord::License
            }
            (ExpectedWord::Operator | ExpectedWord::OperatorOrWith, ")") if open > 0 => {
                open -= 1;
                ExpectedWord::Operator
            }
            (ExpectedWord::Operator | ExpectedWord::OperatorOrWith, "AND" | "OR") => {
                ExpectedWord::License
            }
            (ExpectedWord::OperatorOrWith, "WITH") => ExpectedWord::Exception,
            (ExpectedWord::License, word) if is_license(word) => ExpectedWord::OperatorOrWith,
            (ExpectedWord::Exception, word) if is_identifier(word) => ExpectedWord::Operator,
            _ => return Err(NO_EXPRESSION),
        };
    }
    let is_whole =
        matches!(expected, ExpectedWord::Operator | ExpectedWord::OperatorOrWith) && open == 0;
    if is_whole { Ok(()) } else { Err(NO_EXPRESSION) }
}

const NO_EXPRESSION: &str =
    "is not an SPDX licence expression; write it as `MIT` or `Apache-2.0 OR MIT`";

/// The kinds of words that may come next in an expression.
#[derive(Clone, Copy)]
enum ExpectedWord {
    License,
    Exception,
    Operator,
    OperatorOrWith,
}

/// Returns whether a word is the identifier of a licence, with or without `+`, or a reference to a
/// licence that SPDX does not list.
fn is_license(word: &str) -> bool {
    let word = match word.strip_prefix("DocumentRef-").and_then(|word| word.split_once(':')) {
        Some((document, license)) if is_identifier(document) => license,
        Some(_) => return false,
        None => word.strip_suffix('+').unwrap_or(word),
    };
    is_identifier(word)
}

fn is_identifier(word: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_operator = ["AND", "OR", "WITH"].iter().any(|it| it.eq_ignore_ascii_case(word));
    !word.is_empty() && word.bytes().all(is_known) && !is_operator
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn expressions_of_spdx_are_told_from_other_texts() {
        for text in [
            "MIT",
            "Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND BSD-3-Clause",
            "GPL-2.0+",
            "Apache-2.0 WITH LLVM-exception OR MIT",
            "((ISC))",
            "LicenseRef-acme-1.0",
            "DocumentRef-acme:LicenseRef-own",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            "",
            " ",
            "MIT/Apache-2.0",
            "MIT,Apache-2.0",
            "MIT or ISC",
            "MIT ISC",
            "MIT OR",
            "OR MIT",
            "(MIT",
            "MIT)",
            "()",
            "(MIT OR ISC) WITH LLVM-exception",
            "MIT WITH",
            "see LICENSE file",
            "MIT\u{202e}",
            "MIT\nOR ISC",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
