//! The reference pages of the documentation.

use std::ffi::OsStr;
use std::fs;

use ikigai_tests::host::Host;
use ikigai_tests::paths;

#[test]
fn the_reference_pages_are_those_that_the_program_writes() {
    let host = Host::without_system_tools();
    let dir = host.scratch().join("reference");
    fs::create_dir(&dir).expect("a directory of the test");
    let ran = host.run([OsStr::new("__reference"), dir.as_ref()]).expect_code(0);
    assert!(ran.stdout().is_empty() && ran.stderr().is_empty(), "{ran}");
    let committed = paths::repository().join("docs").join("reference");
    for name in ["cli.md", "environment.md"] {
        let written = fs::read_to_string(dir.join(name)).expect("a page");
        let found = fs::read_to_string(committed.join(name)).unwrap_or_default();
        let mut lines = written.lines().zip(found.lines());
        let differing = lines.find(|(written, found)| written != found);
        assert!(
            written == found,
            "docs/reference/{name} is not what the program writes; renew it with `cargo xtask docs`. \
             The first line that differs, new and old: {differing:?}"
        );
    }
}
