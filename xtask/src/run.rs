//! Runs other programs. Each is shown before it starts, its output is passed through, and a failure
//! names the command.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Prints the name of a step.
pub(crate) fn step(text: &str) {
    eprintln!("==> {text}");
}

/// Prints a note that stops nothing.
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// Runs `command` to its end; anything but exit 0 is an error.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    eprintln!("    $ {shown}");
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status}); its output is above");
    }
    Ok(())
}

/// Returns the stdout of `command`, whose stderr is passed through.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = show(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no UTF-8"))
}

/// Returns `true` if `program ARGS` can be run and exits 0. Prints nothing.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Formats the command so that a user can paste it into a shell.
fn show(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
        let quoted = if !arg.is_empty() && arg.chars().all(plain) {
            arg.into_owned()
        } else {
            format!("'{}'", arg.replace('\'', r"'\''"))
        };
        // Writing to a `String` cannot fail.
        let _ = write!(shown, " {quoted}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_could_type_it() {
        let mut command = Command::new("ikigai");
        command.args(["tool", "call", "x", r#"{"a":"it's"}"#, ""]);
        assert_eq!(show(&command), r#"ikigai tool call x '{"a":"it'\''s"}' ''"#);
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("false").arg("x")).expect_err("`false` fails");
        assert!(error.to_string().contains("`false x` failed"), "{error}");
        let error = run(&mut Command::new("/nonexistent/program")).expect_err("nothing there");
        assert!(error.to_string().contains("cannot run"), "{error}");
    }
}
