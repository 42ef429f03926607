//! The structure that docs/contributing/architecture.md describes. Checks the packages that a
//! package may depend on and those that are published, the modules that a module may use, the files
//! that read the environment, the opening of doc comments, the links among the pages, the files and
//! tests that the pages name, and the forms that docs/reference/compatibility.md promises to keep.
//!
//! Each rule is also tried on something that breaks it, to prove that it can fail.

mod evidence;
mod links;
mod modules;
mod packages;
mod sentences;
mod stable;
mod variables;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::paths;
use serde_json::{Value, json};

use modules::{ASSETS, HOST, PROGRAM, SUPERVISOR};
use wording::Count;

#[test]
fn packages_depend_downward_only() {
    assert_eq!(packages::wrong_arrows(&metadata()), Vec::<String>::new());
}

#[test]
fn the_library_can_be_published() {
    assert_eq!(packages::unpublishable(&metadata()), Vec::<String>::new());
}

#[test]
fn a_package_that_cannot_be_published_is_found() {
    let license = |is_whole: bool| if is_whole { json!("a text") } else { Value::Null };
    let package = |name: &str, is_whole: bool, publish: Value, dependencies: Value| {
        json!({
            "name": name, "publish": publish, "dependencies": dependencies,
            "description": "a text", "license": license(is_whole), "readme": "README.md",
        })
    };
    let path = |name: &str| json!([{ "name": name, "req": "*", "kind": null }]);
    let metadata = json!({ "packages": [
        package("ikigai-protocol", true, Value::Null, json!([])),
        package("ikigai-supervisor", false, Value::Null, path("ikigai-protocol")),
        package("ikigai-host", true, json!([]), path("ikigai-agent")),
        package("ikigai-agent", true, Value::Null, json!([])),
    ] });
    assert_eq!(
        packages::unpublishable(&metadata),
        [
            "`ikigai-supervisor` has no license",
            "`ikigai-supervisor` names no version of `ikigai-protocol`",
            "`ikigai-host` needs `publish = true`",
            "`ikigai-agent` needs `publish = false`",
        ]
    );
}

#[test]
fn a_package_that_depends_upward_is_found() {
    let package = |name: &str, dependencies: &[(&str, Value)]| {
        let dependency = |(name, kind): &(&str, Value)| json!({ "name": name, "kind": kind });
        let dependencies: Vec<Value> = dependencies.iter().map(dependency).collect();
        json!({ "name": name, "dependencies": dependencies })
    };
    let metadata = json!({ "packages": [
        package("ikigai-protocol", &[("serde", Value::Null)]),
        package("ikigai-tools", &[("ikigai-protocol", Value::Null), ("ikigai", json!("dev"))]),
        package("ikigai", &[("ikigai-tools", Value::Null), ("wasmtime", Value::Null)]),
        package("newcomer", &[]),
    ] });
    assert_eq!(
        packages::wrong_arrows(&metadata),
        [
            "`ikigai-tools` must not depend on `ikigai`",
            "`ikigai` must not depend on `ikigai-tools`",
            "`newcomer` has no place in the architecture: give it a row in \
             tests/tests/architecture/packages.rs",
        ]
    );
}

#[test]
fn forms_that_are_promised_stay() {
    let root = paths::repository();
    let (file, found) = (root.join(stable::LIST), stable::list(|path| read(&root.join(path))));
    if std::env::var_os("IKIGAI_RECORD").is_some() {
        fs::write(&file, &found).expect("the list");
    }
    let differences = stable::differences(&read(&file), &found);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let page = read(&root.join("docs/reference/compatibility.md"));
    for form in stable::forms() {
        assert!(page.contains(&format!("\n| {form} |")), "the page has no row for {form}");
    }
}

#[test]
fn a_break_of_a_promised_form_is_found() {
    let root = paths::repository();
    let list = stable::list(|path| read(&root.join(path)));
    let line = "Record.total_us: u64";
    let shorter = list.replace(&format!("{line}\n"), "");
    assert_eq!(stable::differences(&list, &list), Vec::<String>::new());
    assert_eq!(
        stable::differences(&list, &shorter),
        [format!(
            "this is a break of the audit log: either take it back, or record it in CHANGELOG.md \
             and docs/reference/compatibility.md:\n    - {line}"
        )]
    );
    let added = stable::differences(&shorter, &list);
    assert!(added.len() == 1 && added[0].starts_with("this adds to the audit log"), "{added:?}");
    let listed = ["AssetEntry.read_only: bool", "INTERRUPTED = 130", "SERVER_KEYS: approve"];
    let variant = "RequestedAccess.Path.path: PathBuf serde(with = \"lossy\")";
    for line in
        listed.into_iter().chain([variant, "export EnvelopeCode", "package ikigai:tool@0.1.0;"])
    {
        assert!(list.contains(&format!("\n{line}\n")), "`{line}` is missing");
    }
}

#[test]
fn modules_use_lower_ones_only() {
    for (of, source) in [
        (ASSETS, "database/schema.rs"),
        (HOST, "exec/envelope.rs"),
        (PROGRAM, "commands/tool/call.rs"),
        (SUPERVISOR, "filesystems/linux.rs"),
    ] {
        let sources = modules::read(&paths::repository().join(of.folder).join("src"));
        assert!(sources.contains_key(source), "the sources of `{}`: {sources:?}", of.folder);
        assert_eq!(modules::wrong_arrows(&of, &sources), Vec::<String>::new());
        assert_eq!(modules::stale_rows(&of, &sources), Vec::<&str>::new(), "each row has a module");
    }
}

#[test]
fn a_row_without_a_module_is_found() {
    let root = paths::repository().join("host").join("src");
    let mut sources = modules::read(&root);
    sources.retain(|path, _| !path.starts_with("audit"));
    // Modules with a similar name do not count.
    sources.insert("auditor.rs".to_owned(), String::new());
    sources.insert("exec/audit.rs".to_owned(), String::new());
    assert_eq!(modules::stale_rows(&HOST, &sources), ["audit"]);
}

#[test]
fn a_module_that_uses_an_upper_one_is_found() {
    let sources: BTreeMap<String, String> = [
        ("lib.rs", "pub mod host;\npub mod policy;\npub mod gossip;"),
        ("host.rs", "use crate::registry::Registry;\nuse crate::exec;"),
        ("host/call.rs", "use super::super::registry;\nuse super::error;"),
        ("policy.rs", "// crate::host is only spoken of here\nuse crate::limits::Limits;"),
        ("policy/file.rs", "use super::super::registry::Tool;\nuse super::Grant;"),
        ("exec.rs", "fn f() { crate::host::call(b\"\"); }"),
        ("exec/wasm/cache.rs", "use crate::{limits, registry::Snapshot, policy::{self, Grant}};"),
        ("registry.rs", "use crate::host;\nconst TEXT: &str = \"crate::host\";"),
        ("gossip.rs", "use crate::limits;"),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .collect();
    assert_eq!(
        modules::wrong_arrows(&HOST, &sources),
        [
            "exec.rs:1: `exec` must not use `host`",
            "exec/wasm/cache.rs:1: `exec` must not use `registry`",
            "`gossip` has no place in the architecture: give it a row in \
             tests/tests/architecture/modules.rs",
            "policy/file.rs:1: `policy` must not use `registry`",
            "registry.rs:1: `registry` must not use `host`",
        ]
    );
}

#[test]
fn few_files_read_the_environment_and_every_variable_is_documented() {
    let root = paths::repository();
    let mut found = Vec::new();
    for folder in variables::CHECKED {
        found.extend(variables::readers(folder, &modules::read(&root.join(folder))));
    }
    let expected: Vec<&str> = variables::READERS.iter().map(|(file, _)| *file).collect();
    assert_eq!(found, expected, "tests/tests/architecture/variables.rs lists the readers");
    let page = read(&root.join("docs/reference/environment.md"));
    for (file, names) in variables::READERS {
        for name in *names {
            assert!(page.contains(&format!("\n| `{name}` |")), "`{name}` of {file} has no row");
        }
    }
}

#[test]
fn a_file_that_reads_the_environment_is_found() {
    let sources: BTreeMap<String, String> = [
        ("a.rs", "fn f() {\n    std::env::var_os(\"A\");\n}"),
        ("b.rs", "//! std::env::var(\"B\")"),
        ("c/tests.rs", "fn f() { std::env::vars(); }"),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .collect();
    assert_eq!(variables::readers("src", &sources), ["src/a.rs"]);
}

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for folder in sentences::CHECKED {
        let sources = modules::read(&paths::repository().join(folder));
        assert!(!sources.is_empty(), "`{folder}` has no sources");
        found.extend(sentences::questions(folder, &sources));
    }
    assert!(found.is_empty(), "these open with a question:\n{}", found.join("\n"));
}

#[test]
fn comments_are_worded_plainly() {
    for folder in sentences::CHECKED {
        let mut count = Count::default();
        for (path, source) in modules::read(&paths::repository().join(folder)) {
            let mut of_file = Count::of_comments(&source);
            of_file.found.iter_mut().for_each(|it| *it = format!("{folder}/{path}:{it}"));
            count.merge(of_file);
        }
        assert!(!count.exceeds(6), "`{folder}` has too many of these:\n{}", count.found.join("\n"));
    }
}

#[test]
fn pages_are_worded_plainly() {
    for (path, page) in pages() {
        let count = Count::of_page(&page);
        assert!(!count.exceeds(12), "{path} has too many of these:\n{}", count.found.join("\n"));
    }
}

#[test]
fn a_habit_in_the_wording_is_found() {
    let source = [
        "//! What is no answer is typed.",
        "//! A tool of its own; it has none. Is it no answer?",
        "",
        "let text = \"nobody asks of yours\"; // Code is left out.",
        "    /// ```",
        "    /// let nobody = \"in code\"; // and nobody in its comment",
        "    /// ```",
        "    /// Returns `nobody` and `of yours`, which are code.",
    ];
    let found = Count::of_comments(&source.join("\n")).found;
    let lines: Vec<&str> = found.iter().map(|it| it.split(": ").nth(1).expect("a word")).collect();
    assert_eq!(
        lines,
        [
            "open with the subject",
            "negate the verb, and not the noun",
            "negate the verb, and not the noun",
            "write a compound, or `its own`",
        ],
        "{found:#?}"
    );
    let page = "| nobody asks them here | code `of yours` is left out |\n\nIt is told to them.";
    assert_eq!(Count::of_page(page).found.len(), 2);
    assert!(Count::of_page(page).exceeds(12) && !Count::default().exceeds(12));
}

#[test]
fn a_doc_comment_that_opens_with_a_question_is_found() {
    let source = [
        "//! What the module owns.",
        "//!",
        "//! How it does so may be asked further down.",
        "/// Returns the answer.",
        "/// Whether it is right is another question.",
        "fn a() {}",
        "// Why not.",
        "//// Where it was.",
        "    ///",
        "    /// Who is asked.",
        "    pub field: u8,",
        "    /// Whether: it holds.",
        "    #[must_use]",
        "    /// Where it was.",
        "    /// Whoever asks, `Why` is not answered, and `Where` is code.",
        "    fn b() {}",
        "    /// However it was.",
        "    fn c() {}",
        "    /// `What` is code.",
        "    fn d() {}",
        "    /// **How** it was.",
        "    let text = \"/// Why\";",
    ];
    let sources = BTreeMap::from([("a/b.rs".to_owned(), source.join("\n"))]);
    assert_eq!(
        sentences::questions("src", &sources),
        [
            "src/a/b.rs:1: What the module owns.",
            "src/a/b.rs:10: Who is asked.",
            "src/a/b.rs:12: Whether: it holds.",
            "src/a/b.rs:14: Where it was.",
            "src/a/b.rs:21: **How** it was.",
        ]
    );
}

#[test]
fn links_of_the_documentation_lead_to_headings() {
    let root = paths::repository();
    let pages = pages();
    for page in ["README.md", "docs/reference/policy-file.md", "docs/guides/claude-code.md"] {
        assert!(pages.contains_key(page), "{:?}", pages.keys());
    }
    let dead = links::dead(&pages, |path| root.join(path).exists());
    assert!(dead.is_empty(), "these lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn every_place_that_other_programs_execute_is_in_the_reference() {
    let pages = pages();
    let reference = &pages["docs/reference/policy-file.md"];
    let names = ikigai_host::policy::EXECUTED_PLACES.iter().map(|place| place.name);
    let unlisted =
        names.filter(|name| !reference.contains(&format!("`{name}`"))).collect::<Vec<_>>();
    assert_eq!(unlisted, Vec::<&str>::new(), "docs/reference/policy-file.md lists these");
}

#[test]
fn every_decision_is_in_the_index() {
    let pages = pages();
    let index = &pages["docs/contributing/decisions/README.md"];
    let decisions =
        pages.keys().filter_map(|path| path.strip_prefix("docs/contributing/decisions/"));
    let unlisted = decisions
        .filter(|name| *name != "README.md" && !index.contains(&format!("]({name})")))
        .collect::<Vec<_>>();
    assert_eq!(unlisted, Vec::<&str>::new(), "docs/contributing/decisions/README.md lists these");
}

#[test]
fn files_that_the_map_and_the_decisions_name_exist() {
    let mut pages = pages();
    pages.retain(|path, _| {
        path == "docs/contributing/architecture.md"
            || path.starts_with("docs/contributing/decisions/")
    });
    let sources = rust_files();
    assert!(sources.contains("host/src/host.rs"), "{sources:?}");
    let missing = links::missing_files(&pages, &sources);
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

#[test]
fn a_named_file_that_does_not_exist_is_found() {
    let text =
        "`a/src/one.rs` `src/one.rs` `one.rs` `ne.rs` `b/src/one.rs`\n\n```\n`two.rs`\n```\n";
    let pages = BTreeMap::from([("page.md".to_owned(), text.to_owned())]);
    let sources = BTreeSet::from(["a/src/one.rs".to_owned()]);
    assert_eq!(links::missing_files(&pages, &sources), ["page.md: ne.rs", "page.md: b/src/one.rs"]);
}

/// Returns what cargo says about the packages of the workspace.
fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"]);
    cargo.arg(paths::repository().join("Cargo.toml"));
    Ran::from_command(&mut cargo, b"").expect_code(0).json()
}

/// Returns the pages in the root of the repository and below `docs`, by their paths.
fn pages() -> BTreeMap<String, String> {
    let root = paths::repository();
    let is_page = |path: &String| !path.contains('/') || path.starts_with("docs/");
    let pages = files(&root, "md").into_iter().filter(is_page);
    pages.map(|path| (path.clone(), read(&root.join(path)))).collect()
}

/// Returns the paths of all Rust files of the repository.
fn rust_files() -> BTreeSet<String> {
    files(&paths::repository(), "rs").into_iter().collect()
}

/// Returns the paths of all files below `root` with an extension, relative to `root`. Leaves out
/// build results and names that begin with a dot.
fn files(root: &Path, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            if name.as_encoded_bytes().starts_with(b".") || name == "target" {
                continue;
            }
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == extension) {
                let path = path.strip_prefix(root).expect("below the root");
                found.push(path.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    found
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let first = "# The `first` page, 1.0\n\n```sh\n# no heading, and [no](link)\n```\n\n\
        [ok](#the-first-page-10) [ok](two.md#b_c-d) [ok](../README.md) [ok](../src) [ok](https://x.example/#y)\n\
        [dead](#no-heading) [dead](two.md#a) [dead](three.md) [dead](../docs/../src/x.rs)\n";
    let pages = [("docs/one.md", first), ("docs/two.md", "## B_c *d*\n"), ("README.md", "# A\n")];
    let pages = pages.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(
        links::dead(&BTreeMap::from(pages), |path| path == Path::new("src")),
        [
            "docs/one.md: #no-heading",
            "docs/one.md: two.md#a",
            "docs/one.md: three.md",
            "docs/one.md: ../docs/../src/x.rs",
        ]
    );
}

#[test]
fn each_claim_names_tests_that_exist() {
    let root = paths::repository();
    let page = read(&root.join("docs/security/evidence.md"));
    let named = evidence::tests(&page);
    assert!(named.len() > 30, "{} claims", named.len());
    let missing = evidence::missing(&named, |file| fs::read_to_string(root.join(file)).ok());
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

#[test]
fn a_claim_that_names_no_test_is_found() {
    let page = "| claim | tests |\n|---|---|\n\
        | a `word` is left | `a.rs`: `one`, `two`; `host/src/b.rs`: `three` |\n\
        | another claim | `c.rs` |\n\
        | a claim without a test | |\n";
    let named = evidence::tests(page);
    let sources = |file: &Path| match file.to_str() {
        Some("tests/tests/a.rs") => Some("fn one() {}\nfn twofold() {}".to_owned()),
        Some("host/src/b.rs") => Some("fn three() {}".to_owned()),
        _ => None,
    };
    assert_eq!(
        evidence::missing(&named, sources),
        ["tests/tests/a.rs: two", "tests/tests/c.rs", "no test for: a claim without a test",]
    );
}

/// Checks that the bans of clippy are in force, which keep certain calls in one place. Clippy
/// enforces the bans. This test notices if their file is dropped.
#[test]
fn the_bans_are_in_force() {
    let banned = |folder: &str, what: &[&str]| {
        let path = paths::repository().join(folder).join("clippy.toml");
        let text = read(&path);
        for what in what {
            assert!(text.contains(&format!("\"{what}\"")), "{} bans `{what}`", path.display());
        }
    };
    for folder in ["host", "agent", "cli"] {
        banned(folder, &["std::process::Command::new", "cap_std::ambient_authority"]);
    }
    banned("tools", &["std::process::Command", "std::fs::File", "std::net::TcpStream"]);
    let manifest = read(&paths::repository().join("Cargo.toml"));
    for lint in ["print_stdout", "print_stderr", "unwrap_used", "undocumented_unsafe_blocks"] {
        assert!(
            manifest.contains(&format!("{lint} = \"warn\"")),
            "the workspace warns of `{lint}`"
        );
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
