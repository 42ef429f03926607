//! The scripts of `bash`, which models write, and the rules that list their commands.

use ikigai_host::policy::{ScriptVerdict, fuzzing_commands};

const ALLOW: &[&str] =
    &["a", "b *", "git status", "git log *", "no *", "cargo test *", "echo *", "test *"];

const DENY: &[&str] = &["rm *", "sudo"];

/// A command that no rule names.
const OTHER: &str = "evil";

/// Checks that a script gets a verdict, and that the words of a listed script, quoted again, are
/// the same words. If a command that no rule names stands next to the script, the verdict must no
/// longer be "listed", which proves that nothing in the script is left open. With a comment next to
/// it the script must stay listed.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let ScriptVerdict::Listed { commands, .. } = verdict(&text) else { return };
    assert!(!commands.is_empty() && commands.iter().all(|words| !words.is_empty()), "{text:?}");
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    let simple = |words: &Vec<String>| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let again = commands.iter().map(simple).collect::<Vec<_>>().join("; ");
    match verdict(&again) {
        ScriptVerdict::Listed { commands: others, .. } => assert_eq!(commands, others, "{text:?}"),
        // A substitution that quotes had cut in two may now be in one piece, and longer.
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
        assert!(!matches!(verdict(&other), ScriptVerdict::Listed { .. }), "{other:?}");
    }
    let beside = format!("# '\"$(\n{text}\n\t# `&\n");
    assert!(matches!(verdict(&beside), ScriptVerdict::Listed { .. }), "{beside:?}");
    let denied = format!("{text}\nrm $x");
    assert!(matches!(verdict(&denied), ScriptVerdict::Denied { .. }), "{denied:?}");
}

fn verdict(script: &str) -> ScriptVerdict {
    fuzzing_commands::verdict(ALLOW, DENY, script).expect("the rules are words")
}
