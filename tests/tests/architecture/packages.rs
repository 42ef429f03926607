//! The packages of the workspace that a package may depend on, and those that are published.

use serde_json::Value;

/// The name that stands for any package of the workspace.
const ANY: &[&str] = &["*"];

/// A package, and the packages of the workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ikigai-protocol", &[]),
    ("ikigai-assets", &["ikigai-assets-testing", "ikigai-protocol"]),
    // A server for the tests of the store and of the host.
    ("ikigai-assets-testing", &[]),
    ("ikigai-tools", &["ikigai-protocol"]),
    ("ikigai-tools-native", &["ikigai-protocol", "ikigai-tools"]),
    ("ikigai-tools-wasm", &["ikigai-protocol", "ikigai-tools"]),
    ("ikigai-shell-wasm", &["ikigai-protocol", "ikigai-tools"]),
    ("ikigai-provider", &["ikigai-protocol", "ikigai-provider-testing"]),
    // The vendors' servers for tests, written from their documentation, without our code.
    ("ikigai-provider-testing", &[]),
    ("ikigai-terminal", &["ikigai-protocol", "ikigai-terminal-testing"]),
    // A terminal for the tests of the package and of the program.
    ("ikigai-terminal-testing", &[]),
    ("ikigai-supervisor", &[]),
    ("ikigai-packages", &["ikigai-protocol", "ikigai-packages-testing"]),
    // Registries for tests, written from the specification, without our code.
    ("ikigai-packages-testing", &[]),
    // The host must never depend on `ikigai-tools`: to the host, a built-in tool is a program like
    // any other.
    ("ikigai-host", &["ikigai-protocol", "ikigai-supervisor"]),
    ("ikigai-compiler", &["ikigai-host"]),
    // The package knows a host only through the trait that a program implements.
    ("ikigai-mcp", &["ikigai-protocol"]),
    // Servers that misbehave, written only from the specification, without our code.
    ("ikigai-mcp-testing", &[]),
    // Programs for the protocol's conformance suite, and the test that runs it.
    ("ikigai-mcp-conformance", &["ikigai-mcp", "ikigai-tests"]),
    (
        "ikigai-agent",
        &[
            "ikigai-assets",
            "ikigai-host",
            "ikigai-protocol",
            "ikigai-provider",
            "ikigai-supervisor",
        ],
    ),
    (
        "ikigai",
        &[
            "ikigai-agent",
            "ikigai-assets",
            "ikigai-host",
            "ikigai-mcp",
            "ikigai-protocol",
            "ikigai-provider",
            "ikigai-supervisor",
            "ikigai-packages",
            "ikigai-terminal",
        ],
    ),
    ("ikigai-bench", &["ikigai-host", "ikigai-protocol"]),
    ("ikigai-test-async-guests", &["ikigai-test-guests"]),
    ("ikigai-test-async-tools", &["ikigai-tools", "ikigai-tools-wasm"]),
    ("ikigai-test-guests", &[]),
    ("ikigai-tests", ANY),
    (
        "ikigai-fuzz",
        &[
            "ikigai-host",
            "ikigai-mcp",
            "ikigai-protocol",
            "ikigai-provider",
            "ikigai-supervisor",
            "ikigai-packages",
            "ikigai-tools",
        ],
    ),
    // `xtask` is compiled before everything, and builds the rest.
    ("xtask", &[]),
];

/// The packages that crates.io gets, in the order in which they are published.
const PUBLISHED: &[&str] = &["ikigai-protocol", "ikigai-supervisor", "ikigai-host"];

/// Returns the mistakes that keep a package from being published, and those that would publish
/// another one.
pub(crate) fn unpublishable(metadata: &Value) -> Vec<String> {
    let packages = list(metadata, "packages");
    let in_workspace = |name: &str| packages.iter().any(|package| text(package, "name") == name);
    let mut wrong = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let (is_listed, is_published) = (PUBLISHED.contains(&name), package["publish"].is_null());
        if is_listed != is_published {
            wrong.push(format!("`{name}` needs `publish = {is_listed}`"));
        }
        if !(is_listed && is_published) {
            continue;
        }
        for key in ["description", "license", "readme"] {
            if package[key].is_null() {
                wrong.push(format!("`{name}` has no {key}"));
            }
        }
        // Cargo removes the dependencies of tests that have no version.
        let own = list(package, "dependencies").iter().filter(|it| text(it, "kind") != "dev");
        for dependency in own.filter(|it| in_workspace(text(it, "name"))) {
            let other = text(dependency, "name");
            if text(dependency, "req") == "*" {
                wrong.push(format!("`{name}` names no version of `{other}`"));
            }
            if !PUBLISHED.contains(&other) {
                wrong.push(format!("`{name}` depends on `{other}`, which is not published"));
            }
        }
    }
    wrong
}

/// Returns every forbidden dependency in `cargo metadata`, in its order. Dependencies of tests
/// count as well.
pub(crate) fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let packages = list(metadata, "packages");
    let in_workspace = |name: &str| packages.iter().any(|package| text(package, "name") == name);
    let mut wrong = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!(
                "`{name}` has no place in the architecture: give it a row in \
                 tests/tests/architecture/packages.rs"
            ));
            continue;
        };
        let dependencies = list(package, "dependencies").iter();
        for dependency in dependencies.map(|dependency| text(dependency, "name")) {
            let is_allowed = *allowed == ANY || allowed.contains(&dependency);
            if in_workspace(dependency) && !is_allowed {
                wrong.push(format!("`{name}` must not depend on `{dependency}`"));
            }
        }
    }
    wrong
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
