//! The page of the environment variables: those of options, those of providers, and the others.

use std::fmt::Write as _;

use clap::{Arg, Command};
use ikigai_protocol::ProviderKey;
use ikigai_provider::Provider;
use strum::VariantArray as _;

use super::MADE;
use super::command_line::{ArgDescription, describe, groups, link, shown};
use super::markdown::{MarkdownTable, cell, code, code_cell};
use crate::variables::ProgramVariable;

/// The variables that have no table, because other files name them.
const NAMED: &str = "\
## Variables that you name

- A grant passes the variables in its `env` to a tool: [policy](policy-file.md#environment).
- The definition of an MCP server can name a variable with a token or a client secret: [servers](mcp-client.md).
- `policy grant --toolchain` reads the variables that move a toolchain's directories, such as `CARGO_HOME`.
";

/// Returns the page.
pub(super) fn page(program: &Command) -> String {
    let mut page = format!("# Environment variables\n\n{MADE}\n\n## Options\n\n");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        page,
        "An option overrides its variable, and the variable overrides the [configuration](configuration.md). \
         The last column has the commands that the variable affects.\n"
    );
    page += &of_options(program);
    let _ = writeln!(page, "## Providers\n\nThese variables override the configuration.\n");
    page += &of_providers();
    let _ = writeln!(page, "## Others\n");
    page += &others();
    page + NAMED
}

/// Returns the table of the variables that options have. An option of several commands has one row.
fn of_options(program: &Command) -> String {
    let mut table =
        MarkdownTable::new(["variable", "option", "what it sets", "default", "commands"]);
    let commands: Vec<&Command> =
        groups(program).into_iter().flat_map(|(_, commands)| commands).collect();
    let mut seen = Vec::new();
    let below = commands.iter().flat_map(|command| command.get_arguments());
    for arg in program.get_arguments().chain(below) {
        let Some(variable) = arg.get_env() else { continue };
        if seen.contains(&variable) {
            continue;
        }
        seen.push(variable);
        let ArgDescription { name, text, default } = describe(arg);
        table.add([
            code_cell(&variable.to_string_lossy()),
            code_cell(&name),
            cell(&text),
            default,
            affected(program, &commands, arg),
        ]);
    }
    table.render()
}

/// Returns the commands that an option affects.
fn affected(program: &Command, commands: &[&Command], arg: &Arg) -> String {
    match (arg.is_global_set(), arg.get_help_heading()) {
        (true, None) => return "all".to_owned(),
        (true, Some(heading)) => {
            return format!("all with [{heading}](cli.md#{})", heading.to_lowercase());
        }
        (false, _) => {}
    }
    let has_it = |command: &Command| shown(command).any(|it| it.get_env() == arg.get_env());
    let own = has_it(program).then(|| code("ikigai"));
    let below = commands.iter().filter(|command| has_it(command));
    let below = below.map(|command| link("cli.md", command));
    own.into_iter().chain(below).collect::<Vec<_>>().join(", ")
}

/// Returns the table of the variables with the keys and the addresses of providers.
fn of_providers() -> String {
    let mut table = MarkdownTable::new(["variable", "what it sets", "default"]);
    let names = |has_it: &dyn Fn(Provider) -> bool| {
        let providers = Provider::ALL.into_iter().filter(|provider| has_it(*provider));
        providers.map(|provider| code(provider.as_str())).collect::<Vec<_>>().join(" and ")
    };
    for key in ProviderKey::ALL {
        let names = names(&|provider| provider.key_variable() == *key);
        let text = match names.as_str() {
            "" => "Another key, which ikigai hides from tools and does not use".to_owned(),
            names => format!("Key for {names}"),
        };
        table.add([code_cell(key.as_str()), text, String::new()]);
    }
    let mut seen = Vec::new();
    for provider in Provider::ALL {
        let variable = provider.base_url_variable();
        if seen.contains(&variable) {
            continue;
        }
        seen.push(variable);
        let names = names(&|provider| provider.base_url_variable() == variable);
        let text = format!("Address of the server for {names}");
        table.add([code_cell(variable), text, code_cell(provider.own_base_url())]);
    }
    table.render()
}

/// Returns the table of all other variables.
fn others() -> String {
    let mut table = MarkdownTable::new(["variable", "what it sets", "default"]);
    for variable in ProgramVariable::VARIANTS {
        let (purpose, default) = (variable.purpose(), variable.default_value());
        table.add([code_cell(variable.name()), purpose.to_owned(), default.to_owned()]);
    }
    table.render()
}
