//! The parts of a model's context other than the prompt: files, pins, and the part of a long result
//! that fits.

use ikigai_provider_testing::{Reply, Vendor};
use ikigai_tests::host::Host;
use regex::Regex;
use serde_json::json;

use crate::agent::rig::{Rig, envelopes};

/// Returns the URI of an output that a text contains.
fn output_uri(text: &str) -> Option<String> {
    let uri = Regex::new(r"ikigai:///outputs/[A-Za-z0-9_-]+\.txt").expect("a pattern");
    uri.find(text).map(|found| found.as_str().to_owned())
}

#[test]
fn a_long_result_is_cut_and_the_whole_can_be_read_by_lines() {
    for vendor in Vendor::ALL {
        let mut asked = 0;
        let rig = Rig::with(vendor, move |request| {
            asked += 1;
            match asked {
                1 => Reply::answer().call("file_read", &json!({ "file_path": "long.txt" })),
                2 => {
                    let uri = output_uri(&request.body.to_string()).expect("a place");
                    let window = json!({ "file_path": uri, "offset": 12_345, "limit": 2 });
                    Reply::answer().call("file_read", &window)
                }
                _ => Reply::answer().text("Found."),
            }
        });
        let long: String = (1..=20_000).map(|line| format!("ä line {line}\n")).collect();
        rig.file("long.txt", &long);
        let ran = rig.ask(&["--json", "read it"]).expect_code(0);
        let envelopes = envelopes(&ran.json());
        let shown = envelopes[0]["result"]["output"].as_str().expect("a text");
        assert!(shown.starts_with("ä line 1\n") && shown.ends_with("ä line 20000\n"), "{shown}");
        let count = shown.chars().count();
        assert!((29_000..=30_100).contains(&count), "{count} characters");
        let told = envelopes[0]["truncated"].as_str().expect("a text");
        let characters = format!("{} characters in 20000 lines", long.chars().count());
        assert!(told.contains(&characters), "{told}");
        assert_eq!(envelopes[1]["result"]["output"], "ä line 12345\nä line 12346\n", "{ran}");
        let uri = output_uri(told).expect("a place");
        let kept = rig.host.run(["asset", "get", &uri]).expect_code(0);
        assert_eq!(kept.stdout(), long);
        rig.assert_valid();
    }
}

#[test]
fn without_a_store_a_conversation_goes_on_and_says_so() {
    let replies = [
        Reply::answer().call("file_read", &json!({ "file_path": "long.txt" })),
        Reply::answer().text("Done."),
    ];
    let host = Host::new().env("IKIGAI_STORE", "nonsense://");
    let server = ikigai_provider_testing::FakeServer::start(Vendor::OpenAi, replies);
    let rig = Rig::with_host(host, server);
    rig.file("long.txt", "a line\n".repeat(10_000));
    let ran = rig.ask(&["--json", "read it"]).expect_code(0);
    let told = envelopes(&ran.json())[0]["truncated"].clone();
    assert!(told.as_str().expect("a text").contains("could not be kept: "), "{ran}");
    assert!(ran.stderr().contains("warning: pinned assets are not in the context"), "{ran}");
    rig.assert_valid();
}

#[test]
fn pinned_assets_are_blocks_of_their_own_in_the_order_of_pinning() {
    for vendor in Vendor::ALL {
        let edit = json!({
            "file_path": "ikigai:///blocks/b.md", "old_string": "of b", "new_string": "changed",
        });
        let rig = Rig::new(
            vendor,
            [Reply::answer().call("file_edit", &edit), Reply::answer().text("Done.")],
        );
        for (path, text) in [("blocks/a.md", "text of a"), ("blocks/b.md", "text of b")] {
            rig.host.run_with(["asset", "put", path], text.as_bytes()).expect_code(0);
        }
        rig.host.run(["asset", "pin", "b"]).expect_code(0);
        rig.host.run(["asset", "pin", "a"]).expect_code(0);
        rig.ask(&["--system", "The person's own.", "go"]).expect_code(0);
        let first = rig.request(0);
        let place = |text: &str| first.find(text).unwrap_or_else(|| panic!("{text}: {first}"));
        let order = [
            place("You are the assistant of ikigai"),
            place("The person's own."),
            place("Pinned asset ikigai:///blocks/b.md:\\n\\ntext of b"),
            place("Pinned asset ikigai:///blocks/a.md:\\n\\ntext of a"),
        ];
        assert!(order.is_sorted(), "{vendor}: {first}");
        assert!(rig.request(1).contains("b.md:\\n\\ntext changed"), "{vendor}: read anew");
        rig.assert_valid();
    }
}

#[test]
fn a_model_is_told_which_shell_it_has_and_what_is_not_there() {
    for (backend, told) in [
        (
            "wasm",
            &[
                "shell inside WebAssembly",
                "no program of this machine",
                "no network; `/tmp` is empty and ends with the call",
            ][..],
        ),
        (
            "native",
            &[
                "in a sandbox",
                "the home directory are empty",
                "There is no network",
                "may listen on the loopback",
            ],
        ),
    ] {
        let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("Hello.")]);
        rig.ask(&["--backend", backend, "hello"]).expect_code(0);
        let request = rig.request(0);
        for told in told {
            assert!(request.contains(told), "{backend}: {told}: {request}");
        }
    }
}

#[test]
fn a_model_is_told_whose_temporary_files_end_with_the_call() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("Hello.")]);
    for name in ["confined", "beside", "free"] {
        rig.host.script(name, "echo '{}'");
    }
    rig.host.run(["tool", "list"]).expect_code(0);
    let grant = |tool: &str, more: &[&str]| {
        rig.host.run([&["policy", "grant", tool, "--yes"], more].concat()).expect_code(0);
    };
    grant("confined", &["--replace", "--sandbox", "prefer", "--read", "."]);
    grant("beside", &["--replace", "--sandbox", "prefer", "--read", "/tmp"]);
    grant("free", &["--unconfined"]);
    rig.ask(&["hello"]).expect_code(0);
    let request = rig.request(0);
    let told = "what they write there is gone after the call: confined.";
    assert!(request.contains(told), "{request}");
}

#[test]
fn nothing_is_made_where_nothing_is_kept() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("Hello.")]);
    rig.ask(&["hello"]).expect_code(0);
    let store = rig.host.home().join(".local/share/ikigai/store.db");
    assert!(!store.exists(), "{}", store.display());
}

#[test]
fn mentions_are_put_in_their_place() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("I see.")]);
    rig.file("src/a b.c", "int main;\n````\n");
    rig.file("plain.txt", "no newline");
    rig.host.run_with(["asset", "put", "blocks/rules.md"], b"Be kind.\n").expect_code(0);
    let prompt = r#"Follow @@rules in @"src/a b.c" and (@plain.txt), not \@rules or me@example.org; again @plain.txt."#;
    let ran = rig.ask(&["--json", prompt]).expect_code(0);
    let text = ran.json()["messages"][0]["parts"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(
        text,
        "Follow \nAsset ikigai:///blocks/rules.md:\n```\nBe kind.\n```\n in \n\
         File src/a b.c:\n`````\nint main;\n````\n`````\n and (\n\
         File plain.txt:\n```\nno newline\n```\n), not @rules or me@example.org; again \
         File plain.txt (shown above)."
    );
    assert!(!ran.stderr().contains("warning"), "{ran}");
}

#[test]
fn what_cannot_be_shown_stays_as_it_is_written() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("I see.")]);
    rig.file("binary", b"a\0b");
    rig.file("latin", b"\xe4");
    rig.file("large", "a".repeat((256 << 10) + 1));
    rig.file("largest", "a".repeat(256 << 10));
    let outside = rig.host.write("outside.txt", "secret of the outside", 0o644);
    std::os::unix::fs::symlink(&outside, rig.host.workspace().join("link")).expect("a link");
    let prompt = "@missing @binary @latin @large @../outside.txt @link @. @@absent";
    let ran = rig.ask(&["--json", prompt]).expect_code(0);
    let sent = ran.json()["messages"][0]["parts"][0]["text"].clone();
    assert_eq!(sent, prompt, "{ran}");
    for (name, why) in [
        ("@missing", "no file `missing` in the workspace"),
        ("@binary", "it is neither text nor a PNG"),
        ("@latin", "it is neither text nor a PNG"),
        ("@large", "it has 262145 bytes"),
        ("@../outside.txt", "it is outside the workspace"),
        ("@link", "it is outside the workspace"),
        ("@@absent", "no asset `absent`"),
    ] {
        let line = format!("warning: `{name}` is sent as it is: {why}");
        assert!(ran.stderr().contains(&line), "{line}\n{ran}");
    }

    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("I see.")]);
    let outside = rig.host.write("outside.txt", "secret of the outside", 0o644);
    rig.ask(&[&format!("@{}", outside.display())]).expect_code(0);
    assert!(rig.request(0).contains("secret of the outside"), "{}", rig.request(0));
}
