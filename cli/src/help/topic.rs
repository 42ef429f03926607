//! The pages of `ikigai help TOPIC`, which are also manual pages.

use std::ffi::OsString;
use std::str::FromStr as _;

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::with_all_flags;

/// A topic of help other than a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Topic {
    Sandbox,
    PolicyFile,
    Tools,
    Options,
}

/// The exit codes of the program, which apply to all commands.
const EXIT_CODES: &str = "\
EXIT CODES

  0     done
  1     the tool or the operation failed
  2     the command line or the configuration is wrong
  3     `ask` got an answer, but a call was refused
  130   interrupted

`tool run` exits with the tool's code.

VARIABLES

Each option has an environment variable: IKIGAI_ and its name in capitals, such as IKIGAI_TIMEOUT.
Options override variables, which override ~/.config/ikigai/config.toml. `ikigai config show` lists
all values.
IKIGAI_LOG sets the log filter, such as IKIGAI_LOG=debug.
";

/// Returns the topic that a line asks about.
pub(crate) fn asked_topic(line: &[OsString]) -> Option<Topic> {
    let [_, help, name] = line else { return None };
    if help != "help" {
        return None;
    }
    Topic::from_str(name.to_str()?).ok()
}

impl Topic {
    /// Returns the page. `program` is the definition of the commands.
    pub(crate) fn text(self, program: Command) -> String {
        match self {
            Self::Sandbox => include_str!("sandbox.txt").to_owned(),
            Self::PolicyFile => include_str!("policy-file.txt").to_owned(),
            Self::Tools => include_str!("tools.txt").to_owned(),
            Self::Options => options(program),
        }
    }

    /// Returns the name and the section of the manual page, with the line that lists it. The page
    /// of the program has the options.
    fn manual(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Sandbox => Some(("ikigai-sandbox", "7", "what a tool may access")),
            Self::PolicyFile => Some(("ikigai-policy", "5", "ikigai's policy file")),
            Self::Tools => Some(("ikigai-tools", "7", "tools for language models")),
            Self::Options => None,
        }
    }

    /// Returns the file name of the manual page, and the page.
    pub(crate) fn manual_page(self) -> Option<(String, String)> {
        let (name, section, what) = self.manual()?;
        let mut page = Roff::new();
        page.control("TH", [name, section, "", "ikigai", ""]);
        page.control("SH", ["NAME"]).text([roman(format!("{name} - {what}"))]);
        for block in self.text(Command::new("ikigai")).split("\n\n") {
            add_block(&mut page, block.trim_end_matches('\n'));
        }
        page.control("SH", ["SEE ALSO"]).text([bold("ikigai"), roman("(1)")]);
        Some((format!("{name}.{section}"), page.render()))
    }
}

/// Adds a block of a page: a heading in capitals, indented lines that stay unchanged, or a
/// paragraph.
fn add_block(page: &mut Roff, block: &str) {
    let is_heading = !block.contains(char::is_lowercase) && !block.starts_with(' ');
    if is_heading {
        page.control("SH", [block]);
    } else if block.starts_with(' ') {
        page.control("PP", []).control("nf", []);
        for line in block.lines() {
            page.text([roman(line)]);
        }
        page.control("fi", []);
    } else {
        page.control("PP", []).text([roman(block.replace('\n', " "))]);
    }
}

/// Returns the page with all options of the program.
fn options(program: Command) -> String {
    let program = with_all_flags(program).mut_subcommands(|command| command.hide(true));
    let mut program = program.help_template("{all-args}");
    format!(
        "OPTIONS\n\nEvery command takes these options, before or after its name. A command's `--help` lists \
         the options\nthat affect it. The model options are for `ikigai`, `ikigai ask` and `ikigai config \
         show`.\n\n{}\n\n{EXIT_CODES}",
        program.render_long_help()
    )
}

#[cfg(test)]
mod tests {
    use ikigai_supervisor::base_view::BASE_VIEW;

    use super::*;

    #[test]
    fn a_topic_is_asked_for_by_its_name() {
        let asked = |line: &[&str]| {
            let line: Vec<OsString> = line.iter().map(OsString::from).collect();
            asked_topic(&line)
        };
        assert_eq!(asked(&["ikigai", "help", "policy-file"]), Some(Topic::PolicyFile));
        assert_eq!(asked(&["ikigai", "help", "policy"]), None);
        assert_eq!(asked(&["ikigai", "tool", "tools"]), None);
        assert_eq!(asked(&["ikigai", "help", "tools", "list"]), None);
    }

    #[test]
    fn the_page_about_the_sandbox_lists_what_it_shows_of_etc() {
        let page = include_str!("sandbox.txt");
        let words: Vec<&str> = page.split(|c: char| c == ',' || c.is_whitespace()).collect();
        for name in BASE_VIEW.iter().filter_map(|place| place.path.strip_prefix("/etc/")) {
            assert!(words.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_page_has_headings_paragraphs_and_lines_as_they_are() {
        let (name, page) = Topic::PolicyFile.manual_page().expect("a page");
        assert_eq!(name, "ikigai-policy.5");
        for part in [".SH \"AN EXAMPLE\"", ".nf", "[tools.bash]", "fs = ["] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(Topic::Options.manual_page(), None);
    }
}
