//! The project of a tool in a directory: its author's files, and the place where its tool is built.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ikigai_packages::{
    MAX_PROJECT_BYTES, Manifest, PROJECT_FILE, Project, ProjectBuild, open_regular,
};

use crate::error::CliError;

/// The directory in a project for the built tool.
const BUILT: &str = "dist";

/// The directory of a project.
pub(crate) struct ProjectDirectory {
    /// Its path, as it was given.
    pub(crate) path: PathBuf,
    project: Project,
}

impl ProjectDirectory {
    /// Reads the project in a directory.
    ///
    /// # Errors
    ///
    /// Fails if there is no project, or if it has a mistake.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let file = path.join(PROJECT_FILE);
        let text = read_bounded(&file).map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let error =
                anyhow::Error::new(error).context(format!("cannot read `{}`", file.display()));
            let error = CliError::usage(error);
            error.hints(is_missing.then_some("`ikigai tool new NAME --lang go` creates a project"))
        })?;
        let project = Project::parse(&text).map_err(|error| {
            let hint = error.hint.clone();
            let error = anyhow::Error::msg(format!("{}:{error}", file.display()));
            CliError::usage(error).hints(hint)
        })?;
        Ok(Self { path: path.to_owned(), project })
    }

    /// Returns the manifest of the tool.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.project.manifest
    }

    /// Returns how the tool is built.
    ///
    /// # Errors
    ///
    /// Fails if the project does not specify it, or if its output would be in the directory of the
    /// built tool.
    pub(crate) fn build(&self) -> Result<&ProjectBuild, CliError> {
        let Some(build) = &self.project.build else {
            let file = self.path.join(PROJECT_FILE);
            let what = format!("`{}` does not say how the tool is built", file.display());
            return Err(CliError::usage(anyhow::Error::msg(what)).hint(
                "add a table `[build]` with the `command` that compiles it, and the `output` that \
                 the command writes",
            ));
        };
        if is_within(Path::new(&build.output), Path::new(BUILT)) {
            let what =
                format!("`{}` is in `{BUILT}`, which is for the finished tool", build.output);
            return Err(CliError::usage(anyhow::Error::msg(what))
                .hint("have the command write elsewhere, such as to `out.wasm`"));
        }
        Ok(build)
    }

    /// Returns the directory of the built tool.
    pub(crate) fn built_directory(&self) -> PathBuf {
        self.path.join(BUILT)
    }

    /// Returns the name of the file of the tool.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.wasm", self.manifest().name)
    }

    /// Returns the file of the built tool.
    pub(crate) fn built(&self) -> PathBuf {
        self.built_directory().join(self.file_name())
    }
}

/// Reads a file, but only far enough to see whether it is too long.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_regular(path)?.take(MAX_PROJECT_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns whether a relative path lies in a directory, by comparing names.
fn is_within(path: &Path, directory: &Path) -> bool {
    // `components` leaves out every `.` except the first.
    path.strip_prefix(".").unwrap_or(path).starts_with(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_finished_tool_is_found_however_it_is_written() {
        for path in ["dist/a.wasm", "./dist/a.wasm", "dist/./a/b.wasm", ".//dist//a.wasm"] {
            assert!(is_within(Path::new(path), Path::new(BUILT)), "{path}");
        }
        for path in ["out.wasm", "target/dist/a.wasm", "dist.wasm", "distant/a.wasm"] {
            assert!(!is_within(Path::new(path), Path::new(BUILT)), "{path}");
        }
    }
}
