//! The templates of projects: a small complete tool in each language, the same in all of them.
//!
//! The files lie in `cli/templates` as a project of a tool called [`NAME`], and build there
//! unchanged.

use std::borrow::Cow;

use ikigai_host::policy::WasiVersion;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::wit;

/// The name of the tool in the templates. The name of the new tool replaces it.
const NAME: &str = "word_count";

/// A language that a tool is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(super) enum ToolLanguage {
    Script,
    Rust,
    Python,
    Js,
    Go,
    C,
    Shell,
}

/// A file of a new project.
pub(super) struct ProjectFile {
    /// The path in the directory of the project.
    pub(super) path: &'static str,
    /// The contents.
    pub(super) text: Cow<'static, str>,
}

/// Returns the paths and contents of files of a language.
macro_rules! files {
    ($language:literal: $($path:literal),+ $(,)?) => {
        &[$((
            $path,
            include_str!(concat!("../../../../templates/", $language, "/", $path)),
        )),+]
    };
}

impl ToolLanguage {
    /// Returns the help of the flag.
    pub(super) fn help(self) -> &'static str {
        match self {
            Self::Script => "A native Python script, which needs no build",
            Self::Rust => "A component, with cargo",
            Self::Python => {
                "A component that includes the interpreter, 19 MB, with componentize-py"
            }
            Self::Js => "A component that includes the engine, 14 MB, with componentize-js",
            Self::Go => "A core module, with the standard toolchain",
            Self::C => "A core module, with Zig or clang",
            Self::Shell => "A component from a script for ikigai's shell; needs no other program",
        }
    }

    /// Returns whether there is a template in this language for a WASI version. All languages have a
    /// template for the version that they are compiled to by default.
    pub(super) fn has_template(self, wasi: WasiVersion) -> bool {
        wasi != WasiVersion::V0_3 || matches!(self, Self::Rust | Self::Python)
    }

    /// Returns the files of a new tool.
    pub(super) fn files(self, wasi: WasiVersion, name: &str) -> Vec<ProjectFile> {
        let own = self.templates(wasi).iter();
        let own = own.map(|(path, text)| (*path, Cow::Owned(text.replace(NAME, name))));
        let wit = wit::FILES.iter().filter(|_| self.needs_wit(wasi));
        let wit = wit.map(|(path, text)| (*path, Cow::Borrowed(*text)));
        own.chain(wit).map(|(path, text)| ProjectFile { path, text }).collect()
    }

    fn templates(self, wasi: WasiVersion) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Script => files!("script": "tool.py"),
            Self::Rust if wasi == WasiVersion::V0_3 => {
                files!("rust-0.3": "tool.toml", "Cargo.toml", "src/lib.rs", "src/arguments.rs",
                                   "src/count.rs", "cases.jsonl", "README.md", ".gitignore")
            }
            Self::Python if wasi == WasiVersion::V0_3 => {
                files!("python-0.3": "tool.toml", "app.py", "arguments.py", "count.py",
                                     "cases.jsonl", "README.md", ".gitignore", "wit/tool.wit",
                                     "wit/deps/LICENSE", "wit/deps/wasi-cli-0.3.0/package.wit",
                                     "wit/deps/wasi-clocks-0.3.0/package.wit",
                                     "wit/deps/wasi-filesystem-0.3.0/package.wit",
                                     "wit/deps/wasi-random-0.3.0/package.wit",
                                     "wit/deps/wasi-sockets-0.3.0/package.wit")
            }
            Self::Rust => files!("rust": "tool.toml", "Cargo.toml", "src/main.rs", "cases.jsonl",
                                         "README.md", ".gitignore"),
            Self::Python => {
                files!("python": "tool.toml", "app.py", "cases.jsonl", "README.md", ".gitignore")
            }
            Self::Js => files!("js": "tool.toml", "tool.js", "package.json", "cases.jsonl",
                                     "README.md", ".gitignore"),
            Self::Go => files!("go": "tool.toml", "go.mod", "main.go", "cases.jsonl", "README.md",
                                     ".gitignore"),
            Self::C => files!("c": "tool.toml", "main.c", "json.c", "json.h", "cases.jsonl",
                                   "README.md", ".gitignore"),
            Self::Shell => {
                files!("shell": "tool.toml", "tool.sh", "cases.jsonl", "README.md", ".gitignore")
            }
        }
    }

    /// Returns whether the compiler reads the interfaces of WASI 0.2. Other compilers bring their
    /// own, and the template for WASI 0.3 in Python contains those of WASI 0.3.
    fn needs_wit(self, wasi: WasiVersion) -> bool {
        wasi != WasiVersion::V0_3 && matches!(self, Self::Python | Self::Js)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use ikigai_packages::Project;

    use super::*;

    /// Returns the files below a directory, relative to it.
    fn files_below(root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    found.push(path.strip_prefix(root).expect("below").to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// Returns each language with each WASI version that it has a template for.
    fn of_all() -> impl Iterator<Item = (ToolLanguage, WasiVersion)> {
        ToolLanguage::VARIANTS.iter().flat_map(|language| {
            let versions = [WasiVersion::V0_2, WasiVersion::V0_3].into_iter();
            let versions = versions.filter(|wasi| language.has_template(*wasi));
            versions.map(|wasi| (*language, wasi))
        })
    }

    #[test]
    fn every_file_of_a_template_is_written() {
        for (language, wasi) in of_all() {
            let name: &str = language.into();
            let name = match wasi {
                WasiVersion::V0_3 => format!("{name}-{wasi}"),
                _ => name.to_owned(),
            };
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(&name);
            let mut known: Vec<PathBuf> =
                language.templates(wasi).iter().map(|(path, _)| PathBuf::from(path)).collect();
            known.sort();
            assert_eq!(known, files_below(&folder), "{name}");
        }
    }

    #[test]
    fn rust_and_python_have_a_template_for_wasi_0_3() {
        let names = of_all().filter(|(_, wasi)| *wasi == WasiVersion::V0_3);
        let names: Vec<&str> = names.map(|(language, _)| language.into()).collect();
        assert_eq!(names, ["rust", "python"]);
    }

    #[test]
    fn the_interfaces_are_those_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut known: Vec<PathBuf> = wit::FILES.iter().map(|(path, _)| path.into()).collect();
        known.sort();
        let found = files_below(&root.join("wit"));
        assert_eq!(known, found.iter().map(|it| Path::new("wit").join(it)).collect::<Vec<_>>());
    }

    /// Returns the templates of projects.
    fn of_projects() -> impl Iterator<Item = (ToolLanguage, WasiVersion)> {
        of_all().filter(|(language, _)| *language != ToolLanguage::Script)
    }

    #[test]
    fn a_new_project_has_the_name_of_the_tool_everywhere() {
        for (language, wasi) in of_projects() {
            let files = language.files(wasi, "pi_day");
            let text = |path: &str| &*files.iter().find(|it| it.path == path).expect(path).text;
            let project = Project::parse(text("tool.toml").as_bytes()).expect("a project");
            assert_eq!(project.manifest.name, "pi_day");
            let needs: Vec<_> = project.manifest.needs.iter().map(|it| it.to_string()).collect();
            assert!(project.build.is_some() && needs == ["fs ro:."], "{needs:?}");
            assert!(files.iter().all(|file| !file.text.contains(NAME)));
            let schemas = files
                .iter()
                .filter(|it| it.text.contains("Count the lines and the words of a text or"));
            assert!(
                schemas.clone().count() == 1
                    && schemas.clone().all(|it| it.text.contains("pi_day"))
            );
            assert!(text("README.md").contains("dist/pi_day.wasm"));
        }
    }

    #[test]
    fn one_set_of_cases_serves_all_languages() {
        let cases = |language: ToolLanguage, wasi| {
            let file = language.templates(wasi).iter().find(|(path, _)| *path == "cases.jsonl");
            file.expect("cases").1
        };
        let all = cases(ToolLanguage::Go, WasiVersion::V0_2);
        assert!(of_projects().all(|(language, wasi)| cases(language, wasi) == all));
    }

    #[test]
    fn a_project_in_go_builds_with_every_go_that_has_the_target() {
        let files = ToolLanguage::Go.files(WasiVersion::V0_2, "pi_day");
        let module = files.iter().find(|file| file.path == "go.mod").expect("go.mod");
        assert!(module.text.ends_with("\n\ngo 1.21\n"), "{}", module.text);
    }
}
