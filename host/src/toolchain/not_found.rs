//! The programs that a command did not find, read from the messages of shells and other programs.
//!
//! A command can print any text. So a name found here is only proposed to the user, and grants
//! nothing.

use std::collections::BTreeSet;

use super::TOOLCHAINS;

/// The number of bytes at the end of an output that are searched.
const SEARCHED: usize = 64 << 10;

/// The endings of lines that name a program or a file that was not found.
const NOT_FOUND: [&str; 3] = [": command not found", ": not found", ": No such file or directory"];

/// Returns the name of the program, or of the file, that a line says was not found.
#[must_use]
pub fn missing_program(line: &str) -> Option<&str> {
    let before = NOT_FOUND.iter().find_map(|end| line.trim_end().strip_suffix(*end))?;
    let name = before.rsplit(": ").next().unwrap_or(before);
    let name = name.trim_matches(['‘', '’', '\'', '`', '"']);
    let is_name = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    is_name.then_some(name)
}

/// Returns the toolchain programs that, by these outputs of a run, were not found.
pub(crate) fn missing_programs(outputs: [&[u8]; 2]) -> BTreeSet<&'static str> {
    let mut programs = BTreeSet::new();
    for output in outputs {
        let text = String::from_utf8_lossy(&output[output.len().saturating_sub(SEARCHED)..]);
        // A JSON answer has escaped line breaks, and its last line ends at the end of the string.
        let text = text.replace("\\n", "\n");
        let lines = text.split(['\n', '"']);
        programs.extend(lines.filter_map(missing_program).filter_map(known));
    }
    programs
}

/// Returns the program of a toolchain with this name.
fn known(name: &str) -> Option<&'static str> {
    let programs = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.programs);
    programs.copied().find(|program| *program == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_is_found_in_what_shells_say() {
        for (line, name) in [
            ("bash: line 1: cargo: command not found", "cargo"),
            ("sh: 1: cargo: not found", "cargo"),
            ("/bin/sh: 3: rust-analyzer: not found\r", "rust-analyzer"),
            ("env: ‘node’: No such file or directory", "node"),
            ("make: cargo: No such file or directory", "cargo"),
        ] {
            assert_eq!(missing_program(line), Some(name), "{line}");
        }
        for line in
            ["cargo", "cat: /etc/x: No such file or directory", ": not found", "a not found"]
        {
            assert_eq!(missing_program(line), None, "{line}");
        }
    }

    #[test]
    fn the_programs_of_toolchains_are_found_in_an_answer_and_in_messages() {
        let last = r#"{"output":"/bin/bash: line 1: cargo: command not found","exit_code":127}"#;
        assert_eq!(missing_programs([last.as_bytes(), b""]), BTreeSet::from(["cargo"]));
        let answer = r#"{"output":"bash: line 1: npx: command not found\nbash: line 2: mine: command not found","exit_code":127}"#;
        let messages = "/tools/x: 5: cargo: not found\ncargo: done\n";
        let programs = missing_programs([answer.as_bytes(), messages.as_bytes()]);
        assert_eq!(programs, BTreeSet::from(["cargo", "npx"]));
        assert!(missing_programs([b"", b"cargo: error"]).is_empty());
    }
}
