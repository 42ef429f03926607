//! The list of the shell's commands: the interpreter's, without those that would invent a machine,
//! a user or a network, and our own in place of those that are incomplete.

mod absent;
mod answer;
mod checked;
mod cp;
mod date;
mod diff;
mod du;
mod empty;
mod endless;
mod expr;
mod head;
mod inner;
mod links;
mod ls;
mod machine;
mod modes;
mod mv;
mod options;
mod patch;
mod plain;
mod rm;
mod seq;
mod stat;
mod text;
mod timeout;
mod transfer;
mod zcat;
mod zip;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bashkit::{BashBuilder, CommandContext, CommandStatus, Result, normalize_path};

use super::world::World;

/// The commands that are programs elsewhere, and so have a file in `/usr/bin`.
const PROGRAMS: &[&str] = &[
    "[",
    "awk",
    "base32",
    "base64",
    "basename",
    "basenc",
    "bash",
    "bc",
    "bunzip2",
    "bzcat",
    "bzip2",
    "cat",
    "chmod",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "env",
    "expand",
    "expr",
    "factor",
    "false",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "gawk",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "hexdump",
    "iconv",
    "install",
    "join",
    "jq",
    "less",
    "link",
    "ln",
    "ls",
    "make",
    "mawk",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "numfmt",
    "od",
    "paste",
    "patch",
    "pr",
    "printenv",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shasum",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "tree",
    "true",
    "truncate",
    "tsort",
    "uname",
    "unexpand",
    "uniq",
    "unlink",
    "unzip",
    "uuidgen",
    "wc",
    "which",
    "xargs",
    "xxd",
    "yes",
    "zcat",
    "zip",
];

/// The commands that are part of the shell itself.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "alias",
    "bg",
    "break",
    "caller",
    "cd",
    "compgen",
    "continue",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exit",
    "export",
    "fg",
    "hash",
    "jobs",
    "kill",
    "local",
    "mapfile",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "times",
    "trap",
    "type",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Returns the names in `/usr/bin`.
pub(super) fn names() -> BTreeSet<String> {
    PROGRAMS.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns `true` if a command of the interpreter stays.
pub(super) fn is_kept(name: &str) -> bool {
    PROGRAMS.contains(&name) || BUILTINS.contains(&name)
}

/// Adds our own commands, which replace the interpreter's.
pub(super) fn add_own(builder: BashBuilder, world: &Arc<World>) -> BashBuilder {
    text::add(checked::add(builder))
        .before_tool(Box::new(empty::named))
        .command_resolver(Arc::new(absent::UnknownCommands))
        .command("cp", cp::Cp(Arc::clone(world)))
        .command("mv", mv::Mv)
        .command("rm", rm::Rm)
        .command("date", date::Date)
        .command("diff", diff::Diff)
        .command("patch", patch::Patch)
        .command("pwd", plain::Pwd)
        .command("timeout", timeout::Timeout(Arc::clone(world)))
        .command("zip", zip::Zip)
        .command("unzip", zip::Unzip)
        .command("dirname", plain::Dirname)
        .command("file", plain::FileCommand)
        .command("mkdir", plain::Mkdir)
        .command("printenv", plain::Printenv)
        .command("which", plain::Which)
        .command("expr", expr::Expr)
        .command("ls", ls::Ls)
        .command("yes", endless::Yes)
        .command("sleep", endless::Sleep)
        .command("seq", seq::Seq)
        .command("head", head::Head)
        .command("ln", links::Ln(Arc::clone(world)))
        .command("link", links::Link(Arc::clone(world)))
        .command("chmod", modes::Chmod)
        .command("umask", modes::Umask)
        .command("du", du::Du)
        .command("stat", stat::Stat)
        .command("zcat", zcat::Zcat)
        .command("uname", machine::Uname)
        .command("nproc", machine::Nproc)
}

/// Makes the path in a command's argument absolute.
fn absolute(cwd: &Path, path: &str) -> PathBuf {
    normalize_path(&cwd.join(path))
}

/// Ends a command that was called wrongly or failed, with its reason.
async fn fail(context: &CommandContext<'_>, reason: &str) -> Result<CommandStatus> {
    context.stderr.write_all(format!("{}: {reason}\n", context.name).as_bytes()).await?;
    Ok(CommandStatus::with_code(1))
}

/// Returns the C library's words for a file error when only the kind of the error is known.
fn reason(error: &bashkit::Error) -> String {
    let bashkit::Error::Io(error) = error else { return error.to_string() };
    match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        io::ErrorKind::NotADirectory => "Not a directory".to_owned(),
        io::ErrorKind::IsADirectory => "Is a directory".to_owned(),
        _ => error.to_string(),
    }
}
