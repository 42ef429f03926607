//! Projects of tools: `ikigai tool new`, `build` and `test`, with the tests' own build commands and
//! with the compiler of each language.

mod build;
mod cases;
mod languages;
mod new;
mod wrap;

use std::fs;
use std::path::{Path, PathBuf};

use ikigai_tests::host::{Host, Ran};

/// A project of a host's user, without a compiler: its command copies a file.
struct Project {
    host: Host,
}

impl Project {
    /// Returns a project that copies `binary` to its output.
    fn from_binary(binary: &[u8]) -> Self {
        let project = Self { host: Host::without_system_tools() };
        project.describe("", "command = \"cp in.wasm out.wasm\"\noutput = \"out.wasm\"");
        project.write("in.wasm", binary);
        project
    }

    /// Returns the project's directory.
    fn directory(&self) -> PathBuf {
        self.host.scratch().join("project")
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.host.write(Path::new("project").join(path), content, 0o644)
    }

    /// Writes `tool.toml` of the tool `tool`, with these needs and this build.
    fn describe(&self, needs: &str, build: &str) {
        let head = "manifest = 1\nname = \"tool\"\nversion = \"1.2.3\"\n";
        self.write("tool.toml", format!("{head}{needs}\n[build]\n{build}\n"));
    }

    /// Runs a command of `ikigai tool` on the project.
    fn run(&self, verb: &str, flags: &[&str]) -> Ran {
        let directory = self.directory();
        let directory = directory.to_str().expect("UTF-8");
        self.host.run([&["tool", verb, directory], flags].concat())
    }

    /// Returns the tool that was built.
    #[track_caller]
    fn built(&self) -> Vec<u8> {
        fs::read(self.directory().join("dist/tool.wasm")).expect("a tool")
    }

    /// Returns the names in `dist`.
    fn names_in_dist(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory().join("dist")).expect("a directory");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.flatten().map(name).collect()
    }
}
