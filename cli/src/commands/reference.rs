//! `ikigai __reference`: writes the reference pages of the documentation, for `cargo xtask docs`.

mod command_line;
mod environment;
mod markdown;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use super::Cli;
use crate::error::{CliError, with_path};
use crate::help;

/// The beginning of each page, after its title.
const MADE: &str = "`cargo xtask docs` writes this page from the definitions in the program.";

/// Writes the page of the commands and the page of the variables into a directory.
pub(super) fn write(dir: &Path) -> Result<ExitCode, CliError> {
    let program = program();
    for (name, page) in
        [("cli.md", command_line::page(&program)), ("environment.md", environment::page(&program))]
    {
        let path = dir.join(name);
        with_path(fs::write(&path, page), "write", &path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the program as clap completes it, with the names of its commands and all options.
fn program() -> clap::Command {
    let mut program = help::for_manual(Cli::command());
    program.build();
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of all commands that do something, such as `ikigai tool list`.
    fn names(command: &clap::Command) -> Vec<String> {
        let below = command.get_subcommands();
        let below = below.filter(|it| !it.is_hide_set() && it.get_name() != "help");
        let names: Vec<String> = below.flat_map(names).collect();
        match (names.is_empty(), command.get_bin_name()) {
            (true, Some(name)) => vec![name.to_owned()],
            _ => names,
        }
    }

    #[test]
    fn every_command_has_one_section() {
        let program = program();
        let page = command_line::page(&program);
        let names = names(&program);
        assert!(names.len() > 40, "{names:?}");
        for name in names {
            let sections =
                page.lines().filter(|line| line.strip_prefix("### ") == Some(name.as_str()));
            assert_eq!(sections.count(), 1, "{name}: {page}");
        }
        assert!(!page.contains("ikigai __") && !page.contains("--ceiling"), "{page}");
    }

    #[test]
    fn shared_options_are_described_once() {
        let page = command_line::page(&program());
        for option in ["--timeout <DURATION>", "--store <URL>", "--provider <NAME>"] {
            assert_eq!(page.matches(&format!("| `{option}` |")).count(), 1, "{option}: {page}");
        }
        let (_, list) = page.split_once("### ikigai tool list\n").expect("a section");
        let (list, _) = list.split_once("### ").expect("another section");
        for part in [
            "ikigai tool list [OPTIONS]",
            "| `--json` |",
            "[Directories](#directories), [Policy](#policy) except `--approve`.",
        ] {
            assert!(list.contains(part), "{part}: {list}");
        }
    }

    #[test]
    fn every_variable_is_listed() {
        let page = environment::page(&program());
        for row in [
            "| `IKIGAI_TIMEOUT` | `--timeout <DURATION>` |",
            "| `IKIGAI_CEILING` |",
            "| `ANTHROPIC_API_KEY` | Key for `anthropic` |",
            "| `OPENAI_BASE_URL` | Address of the server for `openai` and `openai-chat` |",
            "| `IKIGAI_LOG` |",
        ] {
            assert_eq!(page.matches(row).count(), 1, "{row}: {page}");
        }
        assert!(page.contains("[`tool install`](cli.md#ikigai-tool-install)"), "{page}");
    }
}
