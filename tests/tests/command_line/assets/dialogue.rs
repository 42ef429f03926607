//! The dialogue of the specification: the budget refuses a write, the model looks at another asset,
//! shortens that, and repeats the write. This time the write is stored.

use ikigai_tests::host::Host;
use serde_json::json;

use crate::assets::rig::{call, get, put, read, text, with_each_store};

const LARGE: &str = "ikigai:///blocks/large-doc.md";
const OLD: &str = "ikigai:///blocks/old-block.md";

const REFUSED: &str = "Block budget exceeded: 95k/100k tokens. This write would use 80k tokens.";

/// Pins 95,000 tokens, 25,000 of them in an asset of filler.
fn prepare(host: &Host) {
    put(host, "blocks/large-doc.md", text(70_000).as_bytes());
    put(host, "blocks/old-block.md", text(25_000).as_bytes());
    for path in ["large-doc", "old-block"] {
        let ran = host.run(["asset", "pin", path]).expect_code(0);
        assert_eq!(ran.stdout(), format!("Pinned: blocks/{path}.md\n"));
    }
}

/// Returns a tenth of the text, as a model's shorter version.
fn compacted(old: &str) -> String {
    old[..old.len() / 10].to_owned()
}

#[test]
fn a_model_makes_room_and_writes_again() {
    with_each_store(|host| {
        for backend in ["wasm", "native"] {
            prepare(host);
            let flags = ["--backend", backend];
            let write = json!({ "file_path": LARGE, "content": text(80_000) });
            let refused = call(host, &flags, "file_write", &write);
            let message = format!("{REFUSED} Use /compact or /unpin to free space.");
            assert_eq!(refused, json!({ "error": message, "error_code": "BUDGET_EXCEEDED" }));
            // The budget applies to edits as well.
            let old = "a b\n".repeat(40_000);
            let edit = json!({
                "file_path": LARGE, "old_string": old, "new_string": text(50_000),
            });
            let refused = call(host, &flags, "file_edit", &edit);
            assert_eq!(refused["error_code"], "BUDGET_EXCEEDED", "{refused}");
            assert_eq!(get(host, "large-doc"), text(70_000), "nothing of it was written");

            let old = call(host, &flags, "file_read", &json!({ "file_path": OLD }));
            let old = old["output"].as_str().expect("a text");
            let shorter = json!({ "file_path": OLD, "content": compacted(old) });
            assert_eq!(call(host, &flags, "file_write", &shorter)["bytes"], 10_000);

            assert_eq!(call(host, &flags, "file_write", &write)["bytes"], 320_000);
            assert_eq!(read(host, LARGE)["output"], text(80_000));
            let log = host.run(["asset", "log", "old-block", "--json"]).expect_code(0).json();
            assert_eq!(log["versions"][1]["bytes"], 100_000, "{log}");
            host.run(["asset", "rm", "large-doc", "old-block"]).expect_code(0);
        }
    });
}

#[test]
fn a_person_does_the_same_with_commands_alone() {
    with_each_store(|host| {
        prepare(host);
        let write = ["asset", "put", "blocks/large-doc.md"];
        let ran = host.run_with(write, text(80_000).as_bytes()).expect_code(1);
        let hint = "free space with `ikigai asset unpin`, or in a conversation with `/compact` or \
                    `/unpin`";
        assert_eq!(ran.stderr(), format!("error: {REFUSED}\nhint: {hint}\n"));
        let shorter = compacted(&get(host, "old-block"));
        put(host, "blocks/old-block.md", shorter.as_bytes());
        host.run_with(write, text(80_000).as_bytes()).expect_code(0);
        assert_eq!(get(host, "blocks/large-doc.md"), text(80_000));
        let pins = host.run(["asset", "pin"]).expect_code(0);
        assert_eq!(
            pins.stdout(),
            "Pinned Blocks (82k/100k tokens):\n  blocks/large-doc.md (80k tokens)\n  \
             blocks/old-block.md (2k tokens)\n"
        );
        // The long text is still in the history.
        host.run(["asset", "unpin", "large-doc"]).expect_code(0);
        host.run(["asset", "restore", "old-block", "1"]).expect_code(0);
        assert_eq!(get(host, "old-block"), text(25_000));
    });
}
