//! The translation against the results of `regcomp` of the GNU C library.

use grep_regex::RegexMatcherBuilder;

use super::*;

fn matches(pattern: &str, line: &[u8]) -> bool {
    use grep_matcher::Matcher as _;
    let translated = translate(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).line_terminator(Some(b'\n')).nest_limit(NEST_LIMIT);
    let matcher =
        builder.build(&translated).unwrap_or_else(|error| panic!("{translated}: {error}"));
    matcher.is_match(line).expect("no error")
}

#[test]
fn lines_match_as_in_the_c_library() {
    let cases: &[(&str, &str, bool)] = &[
        ("", "", true),
        ("a|", "b", true),
        ("(|a)b", "b", true),
        ("()", "x", true),
        ("a**", "", true),
        ("^a+?$", "", true),
        ("^(a?)*+$", "aaa", true),
        ("^x{2}{3}$", "xxxxxx", true),
        ("^x{2}{3}$", "xxxxx", false),
        ("^a{,3}$", "aaa", true),
        ("^a{,3}$", "aaaa", false),
        ("^a{,}$", "aaaaa", true),
        ("a{", "a{", true),
        ("{x", "{x", true),
        ("a{1,x}", "a{1,x}", true),
        ("fn main() {", "fn main {", true),
        (")", ")", true),
        ("^a)*$", "a)))", true),
        ("\\d", "d", true),
        ("\\d", "1", false),
        ("\\.", "x", false),
        ("\\{", "{", true),
        ("a\\|b", "a|b", true),
        ("\\<foo\\>", "a foo b", true),
        ("\\<foo\\>", "afoo", false),
        ("\\bfoo", "x foo", true),
        ("o\\B", "foo", true),
        ("^\\w+$", "a_9", true),
        ("^\\W+$", "-é-", true),
        ("\\s", "a b", true),
        ("^\\S+$", "aéb", true),
        ("\\`a", "ba", false),
        ("a\\'", "ab", false),
        ("a\\'", "ba", true),
        ("[]a]", "]", true),
        ("[^]a]", "]", false),
        ("[\\]", "\\", true),
        ("[\\n]", "n", true),
        ("[a-]", "-", true),
        ("[%--]", "+", true),
        ("[[.-.]-z]", "a", true),
        ("[[=a=]]", "a", true),
        ("[[:digit:][:upper:]_]x", "Zx", true),
        ("[^[:digit:]]", "5", false),
        ("[[:alpha:]-]", "-", true),
        ("^.$", "é", true),
        ("^caf.$", "café", true),
        ("^[^a]*$", "béé", true),
        ("[é]", "é", true),
        ("[à-ü]", "é", true),
        ("x[^é]", "xé", false),
        ("a\nb", "a", false),
        ("[\n]", "x", false),
        ("[a\n]", "a", true),
        ("a^b", "a^b", false),
        ("a$b", "a$b", false),
        ("(^a)", "ba", false),
        ("&&", "&&", true),
        ("[&&]", "&", true),
        ("[a&&b]", "a", true),
        ("[~~]", "~", true),
        ("[[]", "[", true),
        ("#x", "#x", true),
        (" a", "a", false),
        ("-", "-", true),
        ("\u{1F600}+", "\u{1F600}", true),
    ];
    for (pattern, line, expected) in cases {
        assert_eq!(matches(pattern, line.as_bytes()), *expected, "{pattern:?} on {line:?}");
    }
}

#[test]
fn bytes_that_are_no_characters_count_as_one() {
    assert!(matches("^caf.$", b"caf\xe9"));
    assert!(matches("^a[^b]c$", b"a\xffc"));
    assert!(matches("a.*c", b"a\xff\xfec"));
    assert!(matches("^a.{2}c$", b"a\xff\xfec"));
    assert!(matches("a.c", b"a\0c"));
}

#[test]
fn errors_are_those_of_the_c_library() {
    let cases: &[(&str, &str)] = &[
        ("(a", "Unmatched ( or \\("),
        ("((a)", "Unmatched ( or \\("),
        ("^*", "Invalid preceding regular expression"),
        ("*a", "Invalid preceding regular expression"),
        ("a|*b", "Invalid preceding regular expression"),
        ("(*a)", "Invalid preceding regular expression"),
        ("{1}", "Invalid preceding regular expression"),
        ("$*", "Invalid preceding regular expression"),
        ("\\<*", "Invalid preceding regular expression"),
        ("(?i)a", "Invalid preceding regular expression"),
        ("a{3,1}", "Invalid content of \\{\\}"),
        ("a{40000}", "Regular expression too big"),
        ("a{99999999999}", "Regular expression too big"),
        ("\\1", "Invalid back reference"),
        ("(a)\\2", "Invalid back reference"),
        ("(a)\\1", "Back-references such as \\1 are not supported"),
        ("a\\", "Trailing backslash"),
        ("[z-a]", "Invalid range end"),
        ("[a-b-c]", "Invalid range end"),
        ("[[:alpha:]-z]", "Invalid range end"),
        ("[a-[:alpha:]]", "Invalid range end"),
        ("[a-\\z]", "Invalid range end"),
        ("[a", "Unmatched [, [^, [:, [., or [="),
        ("[]", "Unmatched [, [^, [:, [., or [="),
        ("[^]", "Unmatched [, [^, [:, [., or [="),
        ("[[:alpha:]", "Unmatched [, [^, [:, [., or [="),
        ("[[.a", "Unmatched [, [^, [:, [., or [="),
        ("[[:foo:]]", "Invalid character class name"),
        ("[[.space.]]", "Invalid collation character"),
        ("[[=ab=]]", "Invalid collation character"),
    ];
    for (pattern, message) in cases {
        let error = translate(pattern).expect_err(pattern);
        assert_eq!(error.to_string(), *message, "{pattern}");
    }
}

#[test]
fn hostile_patterns_end_in_an_answer() {
    for pattern in [
        "(".repeat(100_000),
        "(".repeat(100_000) + &")".repeat(100_000),
        "a{2}".to_owned() + &"{2}".repeat(1000),
    ] {
        assert!(translate(&pattern).is_err());
    }
    assert_eq!(translate(&("a".to_owned() + &"*".repeat(100_000))).as_deref(), Ok("a*"));
    let nested = "(".repeat(50) + "a" + &")*".repeat(50);
    assert!(matches(&nested, b"a"));
}
