//! The files in a workspace before each command.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

const FILES: [(&str, &str); 12] = [
    (
        "words.txt",
        "alpha beta gamma\nbeta alpha\ngamma delta\ndelta epsilon alpha zeta\nzeta\nbeta gamma\n",
    ),
    ("table.csv", "# name,kind,count\nanna,cat,12\nbob,dog,7\ncleo,cat,3\ndan,bird,21\n"),
    ("tabs.txt", "a\tb\n\u{e9}\tend \n"),
    ("blank.txt", "one\n\n\n\ntwo\n"),
    ("empty.txt", ""),
    (
        "data.json",
        r#"{"name":"demo","version":"1.0","items":[{"id":"a","n":1,"kind":"x"},{"id":"b","n":2,"kind":"y"},{"id":"c","n":3,"kind":"x"}]}"#,
    ),
    (
        "access.log",
        "10.0.0.1 \"GET /index.html\" - 200 512\n10.0.0.2 \"GET /missing\" - 404 90\n\
         10.0.0.1 \"POST /login\" - 500 0\n10.0.0.3 \"GET /index.html\" - 200 512\n",
    ),
    ("src/main.rs", "mod lib;\n\nfn main() {\n    lib::run(); // TODO: arguments\n}\n"),
    ("src/lib.rs", "// FIXME later\npub fn run() {\n    println!(\"run\");\n}\nfn helper() {}\n"),
    ("src/deep/nested.rs", "pub fn nested() {}\n// TODO nest deeper\n"),
    ("src/.hidden.rs", "fn hidden() {}\n"),
    ("tool.sh", "#!/bin/sh\necho \"tool $#\"\n"),
];

pub(super) fn lay_out(dir: &Path) {
    fs::create_dir_all(dir.join("src/deep")).expect("directories");
    for (name, text) in FILES {
        fs::write(dir.join(name), text).expect("a file");
    }
    // More than a block, with each byte, and text in between.
    let mut bytes: Vec<u8> = (0..=255).cycle().take(2048).collect();
    bytes.extend(b"plain text\x00more text\xff");
    fs::write(dir.join("big.bin"), bytes).expect("a file");
    fs::set_permissions(dir.join("tool.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    symlink("words.txt", dir.join("link")).expect("a link");
}
