//! The programs by which wasmtime tests its own WASI: built from a checkout, and described here as
//! wasmtime's tests in `crates/wasi/tests/all` and `tests/all/cli_tests.rs` run them.
//!
//! A program runs in an empty directory, which is its argument. Programs for servers, for libraries
//! and for wasmtime's own options are not among the cases. wasmtime also runs the programs of
//! preview 1 in components, with the adapter of the checkout. With the toolchain's adapter, some of
//! these components fail in wasmtime as well, so they are not among the cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::case::{CaseDescription, CasePart, CaseStep, TestCase};
use super::{RootPlace, TestSuite};
use crate::place;
use crate::project::CargoProject;
use crate::run::{self, step};
use crate::toolchain::{self, Components, WASM_TARGET};

/// The package of the programs in the checkout, and the folder of their sources.
const PACKAGE: &str = "test-programs";
const SOURCES: &str = "crates/test-programs/src/bin";

/// The target of core modules of preview 1.
const MODULE_TARGET: &str = "wasm32-wasip1";

/// The suites: name, beginning of the programs' names, and their target.
const SUITES: [(&str, &str, &str); 3] = [
    ("wasmtime, preview 1", "p1_", MODULE_TARGET),
    ("wasmtime, WASI 0.2", "p2_", WASM_TARGET),
    ("wasmtime, WASI 0.3", "p3_", WASM_TARGET),
];

/// The families of programs that need a server, are libraries, or test options of wasmtime.
const OTHER_FAMILIES: [&str; 4] = ["_api_", "_cli_", "_http_", "_tls_"];

/// The line that several programs print.
const HELLO: &str = "hello, world\n";

/// The parts of a directory for programs that compare two grants: no policy grants a part of a
/// writable directory for reading.
const PARTS: &[CasePart] = &[("rw", WORK), ("ro", READ_ONLY)];
const WORK: &str = "work";
const READ_ONLY: &str = "readonly";

/// The files in the part that programs may only read, with their contents.
const READ_ONLY_FILES: [(&str, &str); 2] =
    [("test.txt", "read only test file\n"), ("stream-perms.txt", "stream permission test\n")];

/// Builds the programs of a checkout, and describes their runs.
///
/// # Errors
///
/// Fails if the programs cannot be built.
pub(super) fn suites(project: &CargoProject, checkout: &Path) -> anyhow::Result<Vec<TestSuite>> {
    let checkout =
        checkout.canonicalize().with_context(|| format!("cannot find `{}`", checkout.display()))?;
    let directory = project.target.join("wasmtime-programs");
    let roots = Roots::lay_out(&directory.join("roots"))?;
    let programs = program_names(&checkout.join(SOURCES))?;
    let mut suites = Vec::new();
    for (name, beginning, target) in SUITES {
        step(&format!("Building the programs of the suite: {name}"));
        let of_suite = programs.iter().filter(|program| program.starts_with(beginning));
        let mut cases = Vec::new();
        for program in of_suite {
            let file = directory.join(target).join("release").join(format!("{program}.wasm"));
            let description = describe(program, &roots);
            cases.push(TestCase { name: program.clone(), file, description });
        }
        build(project, &checkout, &directory, target, &cases)?;
        suites.push(TestSuite { name, root: RootPlace::Workspace, cases });
    }
    Ok(suites)
}

fn build(
    project: &CargoProject,
    checkout: &Path,
    directory: &Path,
    target: &str,
    cases: &[TestCase],
) -> anyhow::Result<()> {
    let is_buildable = toolchain::add(project, target)? == Components::Buildable;
    ensure!(is_buildable, "the target {target} is missing, and there is no rustup to add it");
    let mut command = project.cargo(&["build", "--locked", "--release", "--package", PACKAGE]);
    command.current_dir(checkout).args(["--target", target, "--target-dir"]).arg(directory);
    run::run(command.args(cases.iter().flat_map(|case| ["--bin", case.name.as_str()])))
}

/// Returns the names of the programs that are cases, sorted.
fn program_names(sources: &Path) -> anyhow::Result<Vec<String>> {
    let list = || format!("cannot list `{}`; it needs a checkout of wasmtime", sources.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(sources).with_context(list)? {
        let name = entry.with_context(list)?.file_name();
        let program = name.to_str().and_then(|name| name.strip_suffix(".rs"));
        names.extend(program.filter(|program| is_case(program)).map(str::to_owned));
    }
    names.sort();
    ensure!(!names.is_empty(), "`{}` has no programs", sources.display());
    Ok(names)
}

fn is_case(program: &str) -> bool {
    let is_of_other_family = OTHER_FAMILIES.iter().any(|family| program.contains(family));
    let is_listed = SUITES.iter().any(|(_, beginning, _)| program.starts_with(beginning));
    is_listed && (!is_of_other_family || command_steps(program).is_some())
}

/// Returns the steps of a program for wasmtime's command line that needs no option of it.
fn command_steps(program: &str) -> Option<Vec<CaseStep>> {
    Some(match program {
        "p2_cli_hello_stdout"
        | "p2_cli_export_cabi_realloc"
        | "p3_cli_hello_stdout"
        | "p3_cli_hello_stdout_post_return" => {
            vec![CaseStep::ReadStdout(HELLO.to_owned()), CaseStep::Wait(0)]
        }
        "p2_cli_exit_failure" => vec![CaseStep::Wait(1)],
        "p2_cli_default_clocks"
        | "p2_cli_exit_default"
        | "p2_cli_exit_success"
        | "p2_cli_sleep"
        | "p3_cli_deny_listen"
        | "p3_cli_many_stream" => vec![CaseStep::Wait(0)],
        "p3_cli_read_stdin" => vec![CaseStep::Write("hello!".to_owned()), CaseStep::Wait(0)],
        "p3_cli_stdout_flush" => vec![
            CaseStep::ReadStdout("READY".to_owned()),
            CaseStep::Write("x".to_owned()),
            CaseStep::Wait(0),
        ],
        _ => return None,
    })
}

fn describe(program: &str, roots: &Roots) -> CaseDescription {
    let has_parts = ["_across_perms", "_truncation_readonly", "_stream_not_permitted"]
        .iter()
        .any(|ending| program.ends_with(ending));
    let steps = command_steps(program).unwrap_or_else(|| {
        vec![match program {
            "p2_pollable_traps" => CaseStep::Trap("empty poll list"),
            "p2_stream_pollable_traps" => CaseStep::Trap("resource has children"),
            "p2_udp_send_too_much" => CaseStep::Trap("argument exceeds permitted size"),
            _ => CaseStep::Wait(0),
        }]
    });
    let (root, argument, parts) = match has_parts {
        true => (&roots.with_parts, WORK, PARTS),
        false => (&roots.empty, ".", &[][..]),
    };
    CaseDescription {
        args: vec![argument.to_owned()],
        // The programs expect the errors of Unix.
        variables: BTreeMap::from([("ERRNO_MODE_UNIX".to_owned(), "1".to_owned())]),
        root: Some(root.clone()),
        parts,
        left_out: left_out(program),
        steps,
    }
}

fn left_out(program: &str) -> Option<&'static str> {
    match program {
        "p1_stdio_isatty" => Some("needs a terminal"),
        "p1_stat_extreme_host_mtime" => Some("needs a file with a time that the runner cannot set"),
        "p2_ip_name_lookup" | "p3_sockets_ip_name_lookup" => Some("looks names up in the internet"),
        _ => None,
    }
}

/// The directories that the programs work in. Each run has a copy.
struct Roots {
    empty: String,
    /// Has [`PARTS`].
    with_parts: String,
}

impl Roots {
    fn lay_out(directory: &Path) -> anyhow::Result<Self> {
        let (empty, with_parts) = (directory.join("empty"), directory.join("with-parts"));
        place::empty_directory(&empty)?;
        place::empty_directory(&with_parts)?;
        for (_, part) in PARTS {
            place::directory(&with_parts.join(part))?;
        }
        let read_only = with_parts.join(READ_ONLY);
        for (name, contents) in READ_ONLY_FILES {
            let file = read_only.join(name);
            fs::write(&file, contents)
                .with_context(|| format!("cannot write `{}`", file.display()))?;
        }
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("`{}` is not UTF-8", path.display()))
        };
        Ok(Self { empty: text(&empty)?, with_parts: text(&with_parts)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_a_server_or_options_are_no_cases() {
        for program in ["p1_file_write", "p2_tcp_bind", "p3_readdir", "p3_cli_read_stdin"] {
            assert!(is_case(program), "{program}");
        }
        for program in ["p2_http_x", "p2_cli_args", "p3_api_proxy", "async_readiness", "nn_wit"] {
            assert!(!is_case(program), "{program}");
        }
    }
}
