//! Tests of the verdicts on scripts, without a policy file.

use super::fuzzing;
use super::{CommandPrefix, RuleList, ScriptVerdict, arguments};

const ALLOW: &[&str] =
    &["git status", "git log *", "cargo test *", "ls *", "echo *", "test *", "a", "b *"];
const DENY: &[&str] = &["rm *", "sudo *", "git push *", "a last"];

fn verdict(script: &str) -> ScriptVerdict {
    fuzzing::verdict(ALLOW, DENY, script).expect("rules")
}

/// Returns the words of the commands of a listed script.
#[track_caller]
fn words(script: &str) -> Vec<Vec<String>> {
    match verdict(script) {
        ScriptVerdict::Listed { commands, .. } => commands,
        other => panic!("{script:?}: {other:?}"),
    }
}

#[test]
fn a_script_of_listed_commands_is_listed() {
    for (script, expected) in [
        ("git status", vec![vec!["git", "status"]]),
        ("  git  status\t", vec![vec!["git", "status"]]),
        ("cargo test", vec![vec!["cargo", "test"]]),
        (
            "cargo test -p x -- --nocapture",
            vec![vec!["cargo", "test", "-p", "x", "--", "--nocapture"]],
        ),
        (
            "a && b x || a; a | b\n\n a # $(x) `y` 'z",
            vec![vec!["a"], vec!["b", "x"], vec!["a"], vec!["a"], vec!["b"], vec!["a"]],
        ),
        ("a;", vec![vec!["a"]]),
        ("# why\n\na", vec![vec!["a"]]),
        ("a &&\n # then\n\tb", vec![vec!["a"], vec!["b"]]),
        ("b 'x y' \"u v\" w\\ z ''", vec![vec!["b", "x y", "u v", "w z", ""]]),
        ("b x'y'\"z\"\\$", vec![vec!["b", "xyz$"]]),
        ("b '$(c) `d` * !' \"a\\\"b\\\\c\\$d\\`\"", vec![vec!["b", "$(c) `d` * !", "a\"b\\c$d`"]]),
        ("'git' st\\atus", vec![vec!["git", "status"]]),
        ("b 'two\nlines'", vec![vec!["b", "two\nlines"]]),
        ("b gr\u{fc}n '\u{4e16}'", vec![vec!["b", "gr\u{fc}n", "\u{4e16}"]]),
        ("ls -l 2>&1 | b >/dev/null 2>/dev/null </dev/null", vec![vec!["ls", "-l"], vec!["b"]]),
        ("b x&>/dev/null 2>&1; a 2> /dev/null;a", vec![vec!["b", "x"], vec!["a"], vec!["a"]]),
        ("b 2>&1 x", vec![vec!["b", "x"]]),
        ("b x#y 2 a=b", vec![vec!["b", "x#y", "2", "a=b"]]),
        ("test -f x && echo yes", vec![vec!["test", "-f", "x"], vec!["echo", "yes"]]),
    ] {
        assert_eq!(words(script), expected, "{script:?}");
    }
}

#[test]
fn anything_else_is_unlisted() {
    for script in [
        "",
        " \n",
        "# a",
        "c",
        "git",
        "git stat",
        "git status -s",
        "gits tatus",
        "a b",
        "'git status'",
        "./ls",
        "/bin/ls",
        "bin/ls",
        "ls/",
        "..",
        ".",
        "./a",
        "b $x",
        "b ${x}",
        "b $(c)",
        "b `c`",
        "b \"$x\"",
        "b \"`c`\"",
        "b \"$(c)\"",
        "b $((1))",
        "b $'x'",
        "b $\"x\"",
        "b *",
        "b ?",
        "b [x]",
        "b ~",
        "b a~",
        "b {x,y}",
        "b {1..2}",
        "b !x",
        "b \"!x\"",
        "! a",
        "b <(c)",
        "b >(c)",
        "b '<(c)'",
        "b <<x\nx\n",
        "b <<<x",
        "b >x",
        "b >>x",
        "b <x",
        "b >/dev/nullx",
        "b >/dev/null/x",
        "b >/dev/null'x'",
        "b 2>&1x",
        "b 2>&12",
        "b >&x",
        "b 3>&1",
        "b >/dev/tcp/h/1",
        "b x>/dev/null",
        "b 22>/dev/null",
        "b >|/dev/null",
        "b <>/dev/null",
        "b >/dev/null>x",
        "b &",
        "a & b",
        // In a shell that is not bash, `x` is a separate command.
        "b &>/dev/null x",
        "a &&",
        "a ||",
        "a |",
        "&& a",
        "| a",
        "; a",
        "a ;; b",
        "a ; ; b",
        "a ;& b",
        "a |& b",
        "a && && b",
        "a && ; b",
        "a || \n ; b",
        "a\n;b",
        "a\n&& b",
        "(a)",
        "{ a; }",
        "a() { b; }",
        "a ()",
        "function a { b; }",
        "if a; then b; fi",
        "time a",
        "for x in a; do b; done",
        "while a; do b; done",
        "case a in a) b;; esac",
        "coproc a",
        "[[ a ]]",
        "((1))",
        "[ a ]",
        "x=1 a",
        "x=1",
        "b[0]=1",
        "eval a",
        "'eval' a",
        "e\\val a",
        "source a",
        ". a",
        "exec a",
        "command a",
        "builtin a",
        "alias a=b",
        "trap a EXIT",
        "export a",
        "set -k",
        "shopt -s x",
        "enable a",
        "hash a",
        "cd x && a",
        "unset a",
        "read a",
        "let a",
        "declare a",
        "printf -v PATH .",
        "test -v 'a[$(b)]'",
        "test x -R y",
        "a \\\n b",
        "b \\",
        "b 'x",
        "b \"x",
        "b \"x\\y\"",
        "b \"x\\\ny\"",
        "b x\\\u{e9}",
        "b \r",
        "b\u{a0}x",
        "b x\u{0}",
        "b x\u{1b}[0m",
        "b x\u{7f}",
        "b x\u{202e}",
        "b x\u{200b}",
        "b \u{3000}",
        "b 'x\r'",
        ">/dev/null a",
        "2>&1 a",
        "a # b\u{7}",
        "%1",
        "\u{e9}",
        "-x",
        "git status\u{feff}",
    ] {
        assert_eq!(verdict(script).as_str(), "unlisted", "{script:?}: {:?}", verdict(script));
    }
    let long = format!("b {}", "x".repeat(64 << 10));
    assert_eq!(verdict(&long).as_str(), "unlisted");
}

#[test]
fn a_command_that_is_denied_is_denied_wherever_it_is_read() {
    for script in [
        "rm x",
        "a && rm -rf /",
        "ls | sudo b",
        "r\\m x",
        "'rm' x",
        "rm",
        "cd / && rm x",
        "x=1 rm y",
        "if a; then rm x; fi",
        "exec rm x",
        "rm $HOME",
        "rm x >/etc/x",
        "rm x & a",
        "git push --force",
        "a last",
        "time sudo a",
        "rm \u{202e}x",
    ] {
        assert_eq!(verdict(script).as_str(), "denied", "{script:?}: {:?}", verdict(script));
    }
    for script in ["a last $x", "echo rm", "b 'rm x'", "xrm y", "git pushy"] {
        assert_ne!(verdict(script).as_str(), "denied", "{script:?}");
    }
    let ScriptVerdict::Denied { command, rule } = verdict("a; rm \u{202e}x") else {
        panic!("denied")
    };
    assert_eq!((command.as_str(), rule.text()), ("rm \\u{202e}x", "rm *"));
}

#[test]
fn a_rule_is_words() {
    for (text, reason) in [
        ("", "without words"),
        ("  ", "without words"),
        ("*", "every command"),
        ("git 'x'", "without quotes"),
        ("git \"x\"", "without quotes"),
        ("git; ls", "operators"),
        ("git | ls", "operators"),
        ("git && ls", "operators"),
        ("git $x", "operators"),
        ("git st*", "words"),
        ("git * x", "words"),
        ("git\tstatus", "words"),
        ("git\nstatus", "words"),
        ("git \u{202e}x", "words"),
        ("~/x", "words"),
    ] {
        for purpose in [RuleList::Allow, RuleList::Ask, RuleList::Deny] {
            let error = CommandPrefix::parse(text, purpose).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
    // Words that cannot be listed can be denied.
    for text in ["eval *", "cd *", "./x", "/bin/rm *", "if", "printf *", ". x", "-x", "A=b"] {
        let error = CommandPrefix::parse(text, RuleList::Allow).expect_err(text);
        assert!(error.contains("cannot be listed"), "{text:?}: {error}");
        for purpose in [RuleList::Ask, RuleList::Deny] {
            assert!(CommandPrefix::parse(text, purpose).is_ok(), "{text:?}");
        }
    }
    assert!(CommandPrefix::parse("g++ -O2 gr\u{fc}n x=y", RuleList::Allow).is_ok());
}

#[test]
fn arguments_are_read_as_the_tool_reads_them() {
    for (json, expected) in [
        (r#"{"command":"a"}"#, Some("a")),
        (r#" {"x":[{"command":"b"}],"command":"a","y":null} "#, Some("a")),
        (r#"{"comm\u0061nd":"\u0061\n"}"#, Some("a\n")),
        // The last one counts, even if it is not a text.
        (r#"{"command":"b","command":"a"}"#, Some("a")),
        (r#"{"command":"b","command":null}"#, None),
        (r#"{"command":["a"]}"#, None),
        (r#"{"Command":"a"}"#, None),
        (r#"["a"]"#, None),
        (r#""a""#, None),
        (r#"{"command":"a"} {}"#, None),
        (r#"{"command":"\ud800"}"#, None),
        ("", None),
    ] {
        assert_eq!(arguments::script(json.as_bytes()).as_deref(), expected, "{json}");
    }
    assert_eq!(arguments::script(b"{\"command\":\"\xff\"}"), None);
}
