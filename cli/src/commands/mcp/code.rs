//! The directories with the code of a server's program. The sandbox hides them unless they are
//! granted: `node_modules`, or a Python virtual environment with the interpreter that it refers to.
//! Also finds the files among its arguments that are hidden.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ikigai_host::policy::is_broad_place;

use crate::commands::policy::is_seen_without_grant;

/// The directory that every sandboxed tool sees.
const VISIBLE: &str = "/usr";

/// The file that marks a virtual environment.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// Returns the directories that contain a program or a file among its arguments, except those in
/// `granted` and those that are visible anyway. Relative paths start in `workspace`, as the
/// server's own do.
pub(super) fn directories(
    command: &[String],
    granted: &[PathBuf],
    workspace: &Path,
) -> Vec<PathBuf> {
    let granted: Vec<PathBuf> = granted.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
    let files = command.iter().map(|word| workspace.join(word)).filter(|path| path.is_file());
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in files.flat_map(|file| holding(&file)) {
        let is_seen = dir.starts_with(VISIBLE) || granted.iter().any(|it| dir.starts_with(it));
        if !is_seen && !found.contains(&dir) {
            found.push(dir);
        }
    }
    found
}

/// Returns the directory of each file among the arguments of a program that the sandbox does not
/// show and that is in no `granted` directory. Returns the file itself if its directory contains
/// much more than one program needs, such as the home.
pub(super) fn of_hidden_files(
    arguments: &[String],
    granted: &[PathBuf],
    workspace: &Path,
    home: Option<&Path>,
) -> Vec<PathBuf> {
    let granted: Vec<PathBuf> = granted.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
    let files = arguments.iter().map(|word| workspace.join(word)).filter(|path| path.is_file());
    let mut found: Vec<PathBuf> = Vec::new();
    for file in files.flat_map(|file| own_and_target(&file)) {
        let is_seen = is_seen_without_grant(&file, workspace, home)
            || granted.iter().any(|it| file.starts_with(it));
        let dir = file.parent().filter(|dir| !is_broad_place(dir, home));
        let place = dir.unwrap_or(&file).to_owned();
        if !is_seen && !found.contains(&place) {
            found.push(place);
        }
    }
    found
}

/// Returns the path of a file with links in its directory resolved, and the target of the file if
/// it is a link.
fn own_and_target(file: &Path) -> Vec<PathBuf> {
    let dir = file.parent().and_then(|dir| dir.canonicalize().ok());
    let own = dir.zip(file.file_name()).map(|(dir, name)| dir.join(name));
    let target = file.canonicalize().ok().filter(|target| own.as_ref() != Some(target));
    own.into_iter().chain(target).collect()
}

/// Returns the directories that contain a file, by its own path and by its link target.
fn holding(file: &Path) -> Vec<PathBuf> {
    let linked = file.canonicalize().ok();
    let paths = [Some(file), linked.as_deref()].into_iter().flatten();
    let dirs = paths.flat_map(|path| {
        let environment = path.ancestors().skip(1).find(|dir| dir.join(ENVIRONMENT).is_file());
        node_modules(path).into_iter().chain(environment.into_iter().flat_map(python))
    });
    dirs.filter_map(|dir| dir.canonicalize().ok()).collect()
}

/// Returns the outermost `node_modules` that contains a file. If it belongs to an installation of
/// Node, returns the installation, since its `node` runs the program.
fn node_modules(file: &Path) -> Option<PathBuf> {
    let is_modules = |dir: &&Path| dir.file_name() == Some(OsStr::new("node_modules"));
    let modules = file.ancestors().skip(1).filter(is_modules).last()?;
    let installation = modules.parent().filter(|dir| dir.ends_with("lib")).and_then(Path::parent);
    let installation = installation.filter(|dir| dir.join("bin/node").is_file());
    Some(installation.unwrap_or(modules).to_owned())
}

/// Returns a virtual environment, and the installation of Python that it refers to.
fn python(environment: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(environment.join(ENVIRONMENT)).unwrap_or_default();
    let mut homes = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| Path::new(value.trim()))
    });
    // The value names the interpreter's directory, `bin`.
    let base = homes.next_back().and_then(Path::parent);
    let base = base.filter(|base| base.is_absolute() && base.parent().is_some());
    [Some(environment), base].into_iter().flatten().map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(&path, text).expect("written");
        path
    }

    #[test]
    fn a_file_among_the_arguments_is_found_unless_the_server_sees_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = &scratch.path().canonicalize().expect("a path");
        let script = write(root, "servers/mini.py", "");
        let target = write(root, "elsewhere/real.py", "");
        let link = root.join("servers/link.py");
        symlink(&target, &link).expect("a link");
        let found = |words: &[&str], granted: &[PathBuf], home: Option<&Path>| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            of_hidden_files(&words, granted, root, home)
        };
        let servers = script.parent().expect("a directory");
        let word = script.to_str().expect("UTF-8");
        assert_eq!(found(&["-u", word, "servers/mini.py"], &[], None), [servers]);
        let elsewhere = target.parent().expect("a directory");
        assert_eq!(found(&["servers/link.py"], &[], None), [servers, elsewhere]);
        let granted = std::slice::from_ref(root);
        assert_eq!(found(&[word, "servers", "none.py"], granted, None), [] as [PathBuf; 0]);
        assert_eq!(found(&["/bin/sh", "/etc/passwd"], &[], None), [] as [PathBuf; 0]);
        // ikigai does not propose to grant a whole home.
        assert_eq!(found(&[word], &[], Some(servers)), [script.as_path()]);
    }

    #[test]
    fn the_code_of_a_program_is_found_behind_its_link() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = &scratch.path().canonicalize().expect("a path");
        let word = |path: &Path| path.display().to_string();
        let found = |command: &[String], granted: &[PathBuf]| directories(command, granted, root);

        let script = write(root, "mcp/node_modules/@a/server/node_modules/x/index.js", "");
        let link = root.join("mcp/node_modules/.bin/server");
        fs::create_dir_all(link.parent().expect("a directory")).expect("created");
        symlink(&script, &link).expect("a link");
        let modules = root.join("mcp/node_modules");
        for command in [
            vec![word(&link), "an argument".to_owned()],
            vec!["/usr/bin/env".to_owned(), word(&script)],
            vec!["/usr/bin/env".to_owned(), "mcp/node_modules/.bin/server".to_owned()],
        ] {
            assert_eq!(found(&command, &[]), std::slice::from_ref(&modules), "{command:?}");
            assert_eq!(found(&command, &[root.join("mcp")]), [] as [PathBuf; 0], "{command:?}");
        }

        // A version manager's Node has the server among its own modules.
        let global = write(root, "v20/lib/node_modules/server/index.js", "");
        write(root, "v20/bin/node", "");
        let link = root.join("v20/bin/server");
        symlink(&global, &link).expect("a link");
        assert_eq!(found(&[word(&link)], &[]), [root.join("v20")]);

        let base = write(root, "pythons/3.12/bin/python3", "");
        let program = write(root, "tools/git/bin/server", "");
        let home = base.parent().expect("a directory").display();
        write(root, "tools/git/pyvenv.cfg", &format!("home = {home}\nversion = 3.12\n"));
        let link = root.join("server");
        symlink(&program, &link).expect("a link");
        let expected = [root.join("tools/git"), root.join("pythons/3.12")];
        assert_eq!(found(&[word(&link)], &[]), expected);
        assert_eq!(found(&[word(&link)], &expected[..1]), expected[1..]);
        write(root, "tools/git/pyvenv.cfg", "home = /usr/bin\n");
        assert_eq!(found(&[word(&link)], &[]), expected[..1]);

        assert_eq!(found(&["/bin/sh".to_owned(), "-c".to_owned()], &[]), [] as [PathBuf; 0]);
    }
}
