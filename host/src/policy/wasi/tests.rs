//! The key `wasi` in each layer of the policy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::policy::live::PolicyFiles;
use crate::policy::remedy::RemedyHints;
use crate::policy::{Authority, Backend, Decision, Overrides, ToolOrigin};
use crate::toml_file::TomlError;

const CEILING: &str = "ceiling.toml";
const USER: &str = "user.toml";
const WORKSPACE: &str = "work/.ikigai/policy.toml";

/// An authority over these files. The directory lives as long as the test.
fn authority(files: &[(&str, &str)]) -> (tempfile::TempDir, Authority) {
    let (dir, opened) = open(files);
    (dir, opened.unwrap_or_else(|error| panic!("{}", error.line())))
}

fn open(files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Authority, TomlError>) {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    fs::create_dir_all(root.join("work/.ikigai")).expect("made");
    for (name, text) in files.iter().chain([&(USER, "")]) {
        let path = root.join(name);
        if !path.exists() {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permitted");
        }
    }
    let files = PolicyFiles {
        ceiling: Some(root.join(CEILING)),
        further_ceilings: Vec::new(),
        user: Some(root.join(USER)),
        user_is_named: true,
        workspace: root.join("work"),
        home: None,
        state: None,
    };
    let opened =
        Authority::open(&files, Overrides::default(), Vec::new(), RemedyHints::default(), None);
    (dir, opened)
}

/// The versions that a component of WASI 0.2 and 0.3 uses.
fn both() -> [WasiUse; 2] {
    [(WasiVersion::V0_2, "`wasi:cli/run@0.2.0`"), (WasiVersion::V0_3, "`wasi:cli/stdin@0.3.0`")]
        .map(|(version, by)| WasiUse { version, by: by.to_owned() })
}

fn request(wasi: &[WasiUse]) -> PolicyRequest<'_> {
    PolicyRequest {
        name: Some("glob"),
        names: &[],
        registered: &[],
        origin: ToolOrigin::System,
        backend: Backend::Wasm,
        fell_back: false,
        path: Path::new("/system/glob.wasm"),
        program: None,
        contents: &[],
        wasi,
        tool: None,
    }
}

/// Returns the reason for which these files refuse the component, or nothing. Both ways to ask must
/// give the same answer.
fn refusal(files: &[(&str, &str)]) -> Option<String> {
    let (dir, authority) = authority(files);
    let (uses, root) = (both(), dir.path().display().to_string());
    let decided = authority.decide(&request(&uses)).err().map(|denial| denial.to_string());
    let checked = authority.check_wasi(&request(&uses)).err().map(|denial| denial.to_string());
    assert_eq!(decided, checked);
    decided.map(|reason| reason.replace(&format!("{root}/"), ""))
}

/// Returns the decision of these files about a component of WASI 0.2.
fn decision(files: &[(&str, &str)]) -> Decision {
    let (_dir, authority) = authority(files);
    authority.decide(&request(&both()[..1])).unwrap_or_else(|denial| panic!("{denial}"))
}

#[test]
fn each_layer_refuses_a_version_that_its_rule_does_not_list() {
    assert_eq!(refusal(&[]), None);
    for file in [CEILING, USER, WORKSPACE] {
        for table in ["[tools.glob]", "[tools.\"*\"]"] {
            let rule = |list: &str| format!("{table}\nwasi = {list}\n");
            let expected = |allowed: &str| {
                Some(format!(
                    "it needs WASI 0.3 for `wasi:cli/stdin@0.3.0`, and {file}:2 allows {allowed}"
                ))
            };
            let narrow = rule("[\"0.2\", \"0.1\"]");
            assert_eq!(refusal(&[(file, &narrow)]), expected("WASI 0.1 and 0.2 only"), "{table}");
            let only = rule("[\"0.2\"]");
            assert_eq!(refusal(&[(file, &only)]), expected("WASI 0.2 only"), "{table}");
            let wide = rule("[\"0.2\", \"0.3\"]");
            assert_eq!(refusal(&[(file, &wide)]), None, "{file} {table}");
            let none = refusal(&[(file, &rule("[]"))]).expect("refused");
            assert!(none.starts_with("it needs WASI 0.2 for `wasi:cli/run@0.2.0`"), "{none}");
            assert!(none.ends_with("allows no version of WASI"), "{none}");
        }
    }
}

#[test]
fn no_layer_lifts_the_rule_of_another() {
    let (narrow, wide) = ("wasi = [\"0.2\"]", "wasi = [\"0.2\", \"0.3\"]");
    let files = [CEILING, USER, WORKSPACE];
    for narrowing in files {
        let text =
            |file| format!("[tools.glob]\n{}\n", if file == narrowing { narrow } else { wide });
        let texts = files.map(text);
        let all: Vec<_> = files.iter().zip(&texts).map(|(file, text)| (*file, &**text)).collect();
        let reason = refusal(&all).expect(narrowing);
        assert!(reason.contains(narrowing), "{reason}");
    }
}

#[test]
fn a_tools_entry_replaces_the_rule_for_every_tool_in_its_file_only() {
    let own = "[tools.\"*\"]\nwasi = [\"0.2\"]\n[tools.glob]\nwasi = [\"0.2\", \"0.3\"]\n";
    for file in [CEILING, USER, WORKSPACE] {
        assert_eq!(refusal(&[(file, own)]), None, "{file}");
        // An entry with another key leaves the rule as it is.
        let other = "[tools.\"*\"]\nwasi = [\"0.2\"]\n[tools.glob]\nask = false\n";
        assert!(refusal(&[(file, other)]).is_some(), "{file}");
    }
    assert!(refusal(&[(USER, own), (CEILING, "[tools.\"*\"]\nwasi = [\"0.2\"]\n")]).is_some());
}

/// Otherwise, a file with the name of a granted tool would run its `--schema` call by that grant.
#[test]
fn an_entry_for_other_contents_replaces_no_rule() {
    let digest = "0".repeat(64);
    let text = format!(
        "[tools.\"*\"]\nwasi = [\"0.2\"]\n[tools.glob]\nsha256 = [\"{digest}\"]\n\
         wasi = [\"0.2\", \"0.3\"]\n"
    );
    let (_dir, authority) = authority(&[(USER, &text)]);
    let (uses, other) = (both(), [ikigai_protocol::Digest::from_bytes(b"other")]);
    let of_user = |contents| PolicyRequest { origin: ToolOrigin::User, contents, ..request(&uses) };
    let refused = authority.check_wasi(&of_user(&other)).expect_err("refused").to_string();
    assert!(refused.contains("WASI 0.3"), "{refused}");
    let granted = [digest.parse().expect("a digest")];
    assert!(authority.check_wasi(&of_user(&granted)).is_ok());
}

#[test]
fn a_decision_says_which_versions_are_allowed_and_by_which_rule() {
    let all = decision(&[]);
    assert_eq!(all.wasi, WasiVersion::VARIANTS);
    let rules = |decision: &Decision| {
        let rules = decision.provenance.for_capability("wasi").iter();
        rules
            .map(|rule| rule.to_string().rsplit('/').next().unwrap_or_default().to_owned())
            .collect()
    };
    let named: Vec<String> = rules(&all);
    assert_eq!(named, ["profile standard"]);
    let narrowed = decision(&[
        (CEILING, "[tools.\"*\"]\nwasi = [\"0.1\", \"0.2\"]\n"),
        // This rule takes nothing away.
        (USER, "[tools.glob]\nwasi = [\"0.2\", \"0.3\"]\n"),
        (WORKSPACE, "[tools.glob]\nwasi = [\"0.2\"]\n"),
    ]);
    assert_eq!(narrowed.wasi, [WasiVersion::V0_2]);
    let named: Vec<String> = rules(&narrowed);
    assert_eq!(named, ["profile standard", "ceiling.toml:2", "policy.toml:2"]);
}

#[test]
fn a_program_that_uses_no_wasi_is_not_concerned() {
    let (_dir, authority) = authority(&[(CEILING, "[tools.\"*\"]\nwasi = []\n")]);
    let native = PolicyRequest { backend: Backend::Native, ..request(&[]) };
    assert!(authority.decide(&native).is_ok() && authority.check_wasi(&native).is_ok());
}

#[test]
fn a_mistake_in_the_key_is_reported_with_the_versions_that_exist() {
    for (text, part) in [
        ("wasi = [\"0.4\"]", "invalid value `0.4` for `wasi`; expected one of `0.1`, `0.2`, `0.3`"),
        ("wasi = \"0.2\"", "`wasi`"),
        ("wasi = [2]", "`wasi`"),
    ] {
        let text = format!("[tools.glob]\n{text}\n");
        for file in [CEILING, USER] {
            let line = open(&[(file, &text)]).1.err().expect("a mistake").line();
            assert!(line.contains(part) && line.contains(&format!("{file}:2")), "{line}");
        }
    }
}

#[test]
fn a_server_has_no_such_key() {
    let text = "[servers.peer]\nwasi = [\"0.2\"]\n";
    let line = open(&[(CEILING, text)]).1.err().expect("a mistake").line();
    assert!(line.contains("unknown key `wasi`"), "{line}");
}

#[test]
fn versions_are_read_and_listed_by_their_numbers() {
    for (text, version) in
        [("0.1", WasiVersion::V0_1), ("0.2", WasiVersion::V0_2), ("0.3", WasiVersion::V0_3)]
    {
        assert_eq!(text.parse(), Ok(version));
        assert_eq!(version.as_str(), text);
        let json = serde_json::to_value(version).expect("JSON");
        assert_eq!(json, serde_json::json!(text));
    }
    for other in ["0", "0.3.0", "0.4", "p1", "preview1", ""] {
        assert!(other.parse::<WasiVersion>().is_err(), "{other}");
    }
    assert_eq!(listed(&[]), "no version of WASI");
    assert_eq!(listed(&[WasiVersion::V0_2]), "WASI 0.2 only");
    assert_eq!(listed(WasiVersion::VARIANTS), "WASI 0.1, 0.2 and 0.3 only");
}
