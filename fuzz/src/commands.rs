//! The scripts of `bash`, which models write, and the rules that list their commands.

use ikigai_host::policy::{Verdict, fuzzing_commands};

const ALLOW: &[&str] =
    &["a", "b *", "git status", "git log *", "no *", "cargo test *", "echo *", "test *"];

const DENY: &[&str] = &["rm *", "sudo"];

/// A command that no rule names.
const OTHER: &str = "evil";

/// A script gets a verdict. The words of one that is listed, quoted again, are the same words. Beside
/// a command that no rule names it is listed no more, so that nothing in it is left open, and
/// beside a comment it stays listed.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Verdict::Listed { commands, .. } = verdict(&text) else { return };
    assert!(!commands.is_empty() && commands.iter().all(|words| !words.is_empty()), "{text:?}");
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    let simple = |words: &Vec<String>| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let again = commands.iter().map(simple).collect::<Vec<_>>().join("; ");
    match verdict(&again) {
        Verdict::Listed { commands: others, .. } => assert_eq!(commands, others, "{text:?}"),
        // A substitution that was cut in two by quotes may be in one piece now, and longer.
        other => assert!(again.contains("(") || again.len() > text.len(), "{text:?}: {other:?}"),
    }
    let others = [
        format!("{text}\n{OTHER}"),
        format!("{OTHER}\n{text}"),
        format!("{OTHER}; {text}"),
        format!("{text}\n>x"),
        format!("{text}\n(a)"),
    ];
    for other in others {
        assert!(!matches!(verdict(&other), Verdict::Listed { .. }), "{other:?}");
    }
    let beside = format!("# '\"$(\n{text}\n\t# `&\n");
    assert!(matches!(verdict(&beside), Verdict::Listed { .. }), "{beside:?}");
    let denied = format!("{text}\nrm $x");
    assert!(matches!(verdict(&denied), Verdict::Denied { .. }), "{denied:?}");
}

fn verdict(script: &str) -> Verdict {
    fuzzing_commands::verdict(ALLOW, DENY, script).expect("the rules are words")
}
