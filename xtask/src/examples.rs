//! The component examples of docs/guides/write-a-component.md, built as a reader of the page builds
//! them. The build starts from an empty folder, with the files and the commands that the page shows
//! and an `ikigai` on the `PATH`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::build::{self, EVERYDAY};
use crate::place;
use crate::project::CargoProject;
use crate::run::{self, note, step};

/// The requirements of an example's build beyond Rust's toolchain.
struct Needs {
    example: &'static str,
    program: &'static str,
    /// The arguments with which a suitable `program` exits 0.
    probe: &'static [&'static str],
}

const NEEDS: &[Needs] = &[
    Needs { example: "python-component", program: "python3", probe: &["-c", "import ensurepip"] },
    Needs { example: "javascript-component", program: "npm", probe: &["--version"] },
];

/// The beginning of a comment before a block that is a file. The comment names the path of the
/// file, whose folder is the example.
const FILE: &str = "file: ";

/// The beginning of a comment before commands. The comment names the example that they build.
const RUN: &str = "run in: ";

/// The file that lists everything that went into the last complete build.
const STAMP: &str = ".built";

/// One example of the page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Example<'p> {
    folder: &'p str,
    /// The names and contents of the files in the folder.
    files: Vec<(&'p str, &'p str)>,
    commands: Vec<&'p str>,
}

/// Builds every example of the page that has commands, unless all its sources are the same as in
/// the last build.
///
/// An example whose language is missing on this machine is left out, and its tests report that; in
/// CI it is an error, because CI leaves nothing out.
pub(crate) fn build(project: &CargoProject) -> anyhow::Result<()> {
    let page = project.root.join("docs/guides/write-a-component.md");
    let page = fs::read_to_string(&page)
        .with_context(|| format!("cannot read `{}`", project.shown(&page)))?;
    let examples = examples(&page);
    if examples.is_empty() {
        bail!("docs/guides/write-a-component.md shows no example that is built");
    }
    for example in examples {
        build_one(project, &example)?;
    }
    Ok(())
}

fn build_one(project: &CargoProject, example: &Example) -> anyhow::Result<()> {
    let name = example.folder;
    let needs = NEEDS.iter().find(|needs| needs.example == name);
    if let Some(Needs { program, .. }) =
        needs.filter(|needs| !run::works(needs.program, needs.probe))
    {
        if env::var_os("CI").is_some() {
            bail!("the example `{name}` needs {program}, and in CI nothing may be left out");
        }
        note(&format!("the example `{name}` needs {program}; its tests are skipped"));
        return Ok(());
    }
    let directory = project.built_examples().join(name);
    let stamp = directory.join(STAMP);
    let made_from = format!("{example:#?}\n{}", tree_text(&project.staged_wit())?);
    if fs::read_to_string(&stamp).is_ok_and(|built| built == made_from) {
        return Ok(());
    }
    step(&format!("Building the example {name}"));
    let lay_out = || {
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        for (file, text) in &example.files {
            let file = directory.join(file);
            fs::create_dir_all(file.parent().unwrap_or(&directory))?;
            fs::write(file, text)?;
        }
        Ok::<_, io::Error>(())
    };
    lay_out().with_context(|| format!("cannot lay out `{}`", directory.display()))?;
    let programs = installed_programs(project)?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path)))
        .context("cannot put `ikigai` on the PATH")?;
    for commands in &example.commands {
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", commands]).current_dir(&directory).env("PATH", &path);
        // The example is a separate package, as it is for its author.
        shell.env_remove("CARGO_TARGET_DIR").env_remove("WIT");
        run::run(&mut shell).with_context(|| format!("cannot build the example `{name}`"))?;
    }
    fs::write(&stamp, made_from).context("cannot mark the example as built")
}

/// Creates a directory with a link to the host as its only program. The link leads to a place with
/// the layout of an installation.
fn installed_programs(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let directory = project.built_examples().join("bin");
    place::directory(&directory)?;
    let host = build::host(project, EVERYDAY);
    match symlink(&host.file, directory.join(&host.name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).context("cannot put `ikigai` on the PATH")
        }
        _ => Ok(directory),
    }
}

/// Returns the examples of `page` that have commands, in its order.
fn examples(page: &str) -> Vec<Example<'_>> {
    let mut examples: Vec<Example> = Vec::new();
    for part in page.split("\n<!-- ").skip(1) {
        let Some((what, name, text)) = block(part) else { continue };
        let (folder, file) = match what {
            FILE => match name.split_once('/') {
                Some((folder, file)) => (folder, Some(file)),
                None => continue,
            },
            _ => (name, None),
        };
        let known = examples.iter().position(|example| example.folder == folder);
        let index = known.unwrap_or_else(|| {
            examples.push(Example { folder, ..Example::default() });
            examples.len() - 1
        });
        match file {
            Some(file) => examples[index].files.push((file, text)),
            None => examples[index].commands.push(text),
        }
    }
    examples.retain(|example| !example.commands.is_empty());
    examples
}

/// Returns the block after a comment of the page: the kind of the comment, the name in it, and the
/// text of the block. `part` begins within the comment.
fn block(part: &str) -> Option<(&'static str, &str, &str)> {
    let what = [FILE, RUN].into_iter().find(|what| part.starts_with(what))?;
    let (name, rest) = part[what.len()..].split_once(" -->\n```")?;
    let (_language, rest) = rest.split_once('\n')?;
    let end = rest.find("\n```")?;
    Some((what, name, &rest[..=end]))
}

/// Returns the names and the contents of all files below `from`.
fn tree_text(from: &Path) -> anyhow::Result<String> {
    let list = || format!("cannot list `{}`", from.display());
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut paths: Vec<_> = entries.with_context(list)?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        text += &if path.is_dir() {
            tree_text(&path)?
        } else {
            let read = fs::read_to_string(&path);
            read.with_context(|| format!("cannot read `{}`", path.display()))?
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_the_files_and_the_commands_of_its_folder() {
        let page = "# A\n\n<!-- file: alone -->\n```sh\necho\n```\n\n<!-- file: a/one -->\n```toml\n\
                    [x]\n```\n<!-- file: b/one -->\n```\nb\n```\nText\n\n```sh\nnot this\n```\n\
                    <!-- run in: a -->\n```sh\nsh one\nls\n```\n<!-- other -->\n";
        let expected =
            Example { folder: "a", files: vec![("one", "[x]\n")], commands: vec!["sh one\nls\n"] };
        assert_eq!(examples(page), [expected]);
    }
}
