//! `ikigai tool new`: creates a project that builds, in a new directory, or a script, or the
//! definition of a wrapped program.

mod place;
mod script;
mod template;
mod wit;
mod wrap;

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ikigai_protocol::{RESERVED_NAMES, is_tool_name};
use serde_json::json;
use strum::VariantArray as _;

use crate::choice;
use crate::commands::policy::answer;
use crate::error::{CliError, with_path};
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use ikigai_host::policy::{WasiVersion, shell_quoted};
use template::{ProjectFile, ToolLanguage};

/// Example uses of the command.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool new word_count --lang script\n  \
    ikigai tool new word_count --lang rust --dir tools/word-count\n  \
    ikigai tool new word_count --lang rust --wasi 0.3\n  \
    ikigai tool new --wrap rg\n  \
    ikigai tool new synth --wrap yosys.wasm\n\n\
    A script goes into ~/.ikigai/tools, or the directory that --user-tools specifies, and you can call it right \
    away. Every executable there that answers --schema is a tool. A project has to be built and installed first.";

/// The flag for a script.
const LANG_SCRIPT: &str = "--lang script";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool's name: letters, digits and underscores [default with --wrap: the program's]
    #[arg(required_unless_present = "wrap")]
    name: Option<String>,
    /// The language to write it in; at a terminal, ikigai asks if you leave it out
    #[arg(long, value_name = "LANG",
          value_parser = choice::parser(ToolLanguage::VARIANTS, |it| Some(it.help())))]
    lang: Option<ToolLanguage>,
    /// The WASI version of the component; `0.3` needs a project in Rust or Python
    #[arg(long, value_name = "VERSION", default_value = WasiVersion::V0_2.as_str(), conflicts_with = "wrap",
          value_parser = choice::parser(WasiVersion::VARIANTS, wasi_help))]
    wasi: WasiVersion,
    /// Turn this program, an executable or a WebAssembly command, into a tool, without code
    #[arg(long, value_name = "PROGRAM", conflicts_with = "lang", value_hint = ValueHint::ExecutablePath)]
    wrap: Option<String>,
    /// The directory to write to; a project needs a new or empty directory [default: NAME; your tools directory for a
    /// script and with --wrap]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { name, lang, wasi, wrap, dir, json } = arguments;
    let name = match (wrap, name) {
        (Some(program), name) => return wrap::run(options, &program, name, dir, json).await,
        (None, Some(name)) => name,
        // clap refuses a command line without a name.
        (None, None) => return Err(CliError::usage(anyhow::Error::msg("a name is missing"))),
    };
    let lang = lang.map_or_else(asked_language, Ok)?;
    check_wasi(lang, wasi)?;
    match lang {
        ToolLanguage::Script => script::run(options, &name, dir, json).await,
        lang => begin(NewProject { name, lang, wasi, dir }, json),
    }
}

/// Returns the help of a value of `--wasi`.
fn wasi_help(version: WasiVersion) -> Option<&'static str> {
    match version {
        // Languages that are compiled to core modules have no other version.
        WasiVersion::V0_1 => None,
        WasiVersion::V0_2 => Some("Runs in every component host"),
        WasiVersion::V0_3 => Some("Async functions; the project reads its input as a stream"),
    }
}

/// Checks that there is a template for a language and a WASI version.
fn check_wasi(lang: ToolLanguage, wasi: WasiVersion) -> Result<(), CliError> {
    if lang.has_template(wasi) {
        return Ok(());
    }
    let what = format!(
        "invalid value `{wasi}` for `--wasi` with `--lang {}`; expected `--lang rust` or `--lang python`",
        <&str>::from(lang)
    );
    Err(CliError::usage(anyhow::Error::msg(what))
        .hint("leave out `--wasi`, or choose one of the two"))
}

/// Asks the user at the terminal for the language.
fn asked_language() -> Result<ToolLanguage, CliError> {
    let names: Vec<&str> = ToolLanguage::VARIANTS.iter().map(<&str>::from).collect();
    let missing = |what: &str| {
        let error = CliError::usage(anyhow::Error::msg(what.to_owned()));
        error.hint(format!("specify it with `--lang`: {}", names.join(", ")))
    };
    if !io::stdin().is_terminal() {
        return Err(missing("the tool's language is missing"));
    }
    for language in ToolLanguage::VARIANTS {
        eprint(&format!("  {:<8}{}\n", <&str>::from(language), language.help()));
    }
    loop {
        match answer("Which language? ")?.as_deref() {
            None | Some("") => return Err(missing("no language was chosen")),
            Some(typed) => match typed.parse() {
                Ok(language) => return Ok(language),
                Err(_) => eprint(&format!("`{typed}` is not one of these\n")),
            },
        }
    }
}

/// A project to begin.
struct NewProject {
    name: String,
    lang: ToolLanguage,
    wasi: WasiVersion,
    /// The directory, if it does not have the tool's name.
    dir: Option<PathBuf>,
}

impl NewProject {
    /// Returns the flags that choose the template.
    fn flags(&self) -> String {
        let lang = <&str>::from(self.lang);
        match self.wasi {
            WasiVersion::V0_3 => format!("--lang {lang} --wasi {}", self.wasi),
            WasiVersion::V0_1 | WasiVersion::V0_2 => format!("--lang {lang}"),
        }
    }
}

/// Begins a project.
fn begin(project: NewProject, json: bool) -> Result<ExitCode, CliError> {
    check_name(&project.name, &project.flags())?;
    let NewProject { name, lang, wasi, dir } = project;
    let dir = dir.unwrap_or_else(|| PathBuf::from(&name));
    check_directory(&dir)?;
    let files = lang.files(wasi, &name);
    write(&dir, &files)?;
    let word = shell_quoted(&dir.display().to_string());
    let next = ["build", "test", "install"].map(|verb| format!("ikigai tool {verb} {word}"));
    if json {
        print_json(&json!({
            "name": name,
            "lang": <&str>::from(lang),
            "dir": dir.to_string_lossy(),
            "files": files.iter().map(|file| file.path).collect::<Vec<_>>(),
            "next": next,
        }))?;
    } else {
        let [build, test, install] = next;
        let own = files.iter().filter(|file| !file.path.contains('/')).map(|file| file.path);
        print(&format!(
            "created {name} in {}: {}\n\nnext:\n  {build}\n  {test}\n  {install}\n",
            dir.display(),
            own.collect::<Vec<_>>().join(", ")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that a tool may have this name.
fn check_name(name: &str, kind: &str) -> Result<(), CliError> {
    let usage = |what: String| CliError::usage(anyhow::Error::msg(what));
    if RESERVED_NAMES.contains(&name) {
        return Err(usage(format!("the name `{name}` is reserved for ikigai")));
    }
    if is_tool_name(name) {
        return Ok(());
    }
    let error = usage(format!("`{}` is not a valid tool name", name.escape_debug()));
    let meant = name.replace('-', "_");
    if is_tool_name(&meant) {
        return Err(error.hint(format!(
            "tools are named with underscores: `ikigai tool new {meant} {kind} --dir {name}`"
        )));
    }
    Err(error.hint(
        "a name begins with a letter or `_`, and has letters, digits and `_`, 64 at most; `--dir` \
         names the directory",
    ))
}

/// Checks that a directory is empty or does not exist.
fn check_directory(dir: &Path) -> Result<(), CliError> {
    let what = match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(false) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(true) => "is not empty",
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => "is not a directory",
        Err(error) => {
            let what = format!("cannot look into `{}`", dir.display());
            return Err(CliError::failed(anyhow::Error::new(error).context(what)));
        }
    };
    let what = format!("`{}` {what}, and nothing was written", dir.display());
    Err(CliError::usage(anyhow::Error::msg(what))
        .hint("specify a new or empty directory with `--dir`"))
}

/// Writes the files. If one cannot be written, removes those that were written.
fn write(dir: &Path, files: &[ProjectFile]) -> Result<(), CliError> {
    let mut written = Vec::new();
    for file in files {
        let path = dir.join(file.path);
        let result = write_one(&path, &file.text, &mut written);
        if result.is_err() {
            for path in &written {
                // The first error is the one to report.
                let _ = fs::remove_file(path);
            }
        }
        with_path(result, "write", &path)?;
    }
    Ok(())
}

fn write_one(path: &Path, text: &str, written: &mut Vec<PathBuf>) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // Another program may write there at the same time.
    let mut file = File::create_new(path)?;
    written.push(path.to_owned());
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_tools() {
        for name in ["word_count", "_x", "A1"] {
            assert!(check_name(name, "--lang go").is_ok(), "{name}");
        }
        let told = |name: &str| check_name(name, "--lang go").expect_err(name).text();
        assert_eq!(
            told("word-count"),
            "error: `word-count` is not a valid tool name\nhint: tools are named with underscores: \
             `ikigai tool new word_count --lang go --dir word-count`\n"
        );
        assert!(told("slash_command").contains("is reserved for ikigai"));
        let long = "a".repeat(65);
        for name in ["", "1a", "a b", "a/b", "../a", "ä", "-", "--", long.as_str()] {
            assert!(told(name).contains("is not a valid tool name"), "{name}");
        }
        assert!(told("a\u{1b}[2J").contains(r"`a\u{1b}[2J`"));
    }
}
