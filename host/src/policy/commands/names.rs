//! The names of commands that are never listed, because they change the meaning of the words after
//! them.

/// The words that begin or continue a compound command where bash expects the name of a command.
const RESERVED: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while",
];

/// The commands that are part of bash, or of another shell on the machine, and that run or assign
/// something or change how the rest of a script is read. `printf` assigns with `-v` and `%n`.
/// `let`, `unset` and `read` run the command in a subscript: `a[$(…)]`.
const BUILTIN: &[&str] = &[
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// The words that a command follows, for the rules that deny.
const BEFORE_A_COMMAND: &[&str] =
    &["builtin", "command", "do", "elif", "else", "exec", "if", "then", "time", "until", "while"];

/// Checks that a command can be listed.
///
/// # Errors
///
/// Fails if it cannot be listed. The text is the reason.
pub(super) fn check(words: &[String]) -> Result<(), String> {
    let name = words.first().map_or("", String::as_str);
    check_name(name)?;
    // Both options take a variable's subscript, in which bash runs substitutions.
    if name == "test" && words.iter().any(|word| matches!(word.as_str(), "-v" | "-R")) {
        return Err("`test` looks at a variable, whose subscript may run commands".to_owned());
    }
    Ok(())
}

/// Checks that a command with this name can be listed.
///
/// # Errors
///
/// Fails if it cannot be listed. The text is the reason.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let shown = || ikigai_protocol::written_out(name);
    if name.contains('/') {
        return Err(format!("`{}` is a path, and not the name of a command", shown()));
    }
    if RESERVED.contains(&name) {
        return Err(format!("`{name}` is a word of the shell's own"));
    }
    if BUILTIN.contains(&name) {
        return Err(format!(
            "`{name}` is part of the shell, and may change what the words after it mean"
        ));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!("`{}` is not the plain name of a command", shown()))
}

/// Returns the words of a command without the assignments and shell words before it, as far as they
/// can be known without running them.
pub(super) fn without_prefixes(words: &[String]) -> &[String] {
    let is_prefix =
        |word: &String| BEFORE_A_COMMAND.contains(&word.as_str()) || is_assignment(word);
    let count = words.iter().take_while(|word| is_prefix(word)).count();
    &words[count..]
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.trim_end_matches('+');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
