use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"version = 1

[[tool]]
name = "local"
from = "/home/jane/my \"tools\"/c:\\local.wasm"
sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
size = 8
signer = "none"

[[tool]]
name = "weather"
version = "1.2.0"
from = "oci://ghcr.io/acme/weather"
wanted = "^1.2"
manifest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
size = 52846
signer = "ssh:SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0"
needs = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"#;

fn lock(text: &str) -> ToolsLock {
    ToolsLock::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    let error = ToolsLock::parse(text.as_bytes()).expect_err(text);
    format!("{error}; {}", error.hint.as_deref().unwrap_or_default())
}

#[test]
fn a_lock_is_written_as_it_is_read_and_sorted() {
    let whole = lock(WHOLE);
    assert_eq!(whole.to_string(), WHOLE);
    let weather = whole.get("weather").expect("locked");
    assert_eq!(weather.wanted.as_ref().map(WantedVersion::to_string).as_deref(), Some("^1.2"));
    assert_eq!(weather.needs, Some(Digest::from_bytes(b"")));
    let local = whole.get("local").expect("locked");
    assert_eq!(local.from, r#"/home/jane/my "tools"/c:\local.wasm"#);
    assert_eq!((local.version.as_ref(), local.manifest, local.needs), (None, None, None));

    let mut sections = WHOLE.split("\n[[tool]]\n");
    let [head, one, two] = std::array::from_fn(|_| sections.next().expect("a part"));
    let turned = format!("{head}[[tool]]\n{two}# a comment\n[[tool]]\n{one}");
    assert_eq!(lock(&turned).to_string(), WHOLE);
    assert_eq!(lock("version = 1").to_string(), "version = 1\n");
    assert!(lock("version = 1").is_empty());
    assert_eq!(lock(&WHOLE.replace('\n', "\r\n")).to_string(), WHOLE);
}

#[test]
fn tools_are_put_and_removed() {
    let mut changed = lock(WHOLE);
    let local = changed.remove("local").expect("was there");
    assert_eq!(changed.remove("local"), None);
    assert_eq!(changed.put("a", local.clone()), Ok(None));
    let newer = LockedTool { size: 9, ..local.clone() };
    assert_eq!(changed.put("a", newer.clone()), Ok(Some(local.clone())));
    let names: Vec<&str> = changed.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "weather"]);
    assert_eq!(changed.of_source(&newer.from).map(|(_, tool)| tool), Some(&newer));
    assert_eq!(changed.of_source("oci://ghcr.io/acme"), None);

    let before = changed.clone();
    for name in ["", "a b", "a\"\n", ikigai_protocol::RESERVED_NAMES[0]] {
        let error = changed.put(name, newer.clone()).expect_err(name);
        assert!(matches!(error, UnlockableTool::Name(_)), "{error}");
    }
    for from in ["", " ", "a\nb", "a\u{202e}b", &"a".repeat(4097)] {
        let tool = LockedTool { from: from.to_owned(), ..newer.clone() };
        let error = changed.put("a", tool).expect_err(from);
        assert!(matches!(error, UnlockableTool::From(_)), "{error}");
    }
    assert_eq!(changed, before);
}

#[test]
fn a_tool_that_is_locked_twice_is_told_with_both_lines() {
    let twice = WHOLE.replace("\"weather\"", "\"local\"");
    let told = "11:8: `local` is locked twice; remove this entry or the one of line 4";
    assert_eq!(refusal(&twice), told);
}

#[test]
fn the_marks_of_a_conflict_are_told_with_their_line() {
    let told = |line| {
        format!(
            "{line}:1: has the marks of a conflict of git; merge both sides by hand, or take one of \
             them (`git checkout --ours` or `--theirs`)"
        )
    };
    let conflict = "version = 1\n<<<<<<< HEAD\nsize = 1\n=======\nsize = 2\n>>>>>>> b\n";
    assert_eq!(refusal(conflict), told(2));
    assert_eq!(refusal("version = 1\r\n=======\r\n"), told(2));
    assert_eq!(refusal("version = 1\n\n||||||| base"), told(3));
    assert_eq!(refusal(">>>>>>>"), told(1));
}

#[test]
fn other_mistakes_are_told_with_line_and_column() {
    let changed = |from: &str, to: &str| WHOLE.replacen(from, to, 1);
    for (text, told) in [
        ("".into(), "1:1: `version` is missing; write `version = 1`"),
        (
            changed("version = 1", "version = 2\nnews = 1"),
            "1:11: `version = 2` needs a newer ikigai; this one reads `version = 1`; update ikigai",
        ),
        (changed("[[tool]]", "[[tools]]"), "3:3: unknown key `tools`; did you mean `tool`?"),
        ("version = 1\ntool = 1".into(), "2:8: `tool`: expected a list, found an integer; "),
        ("version = 1\ntool = [1]".into(), "2:9: `tool`: expected a table, found an integer; "),
        (changed("signer = \"none\"\n", ""), "3:1: `signer` is missing; "),
        (changed("size = 8", "seize = 8"), "7:1: unknown key `seize`; did you mean `size`?"),
        (
            changed("size = 8", "size = -8"),
            "7:8: `size`: expected a whole number, found a number out of range; ",
        ),
        (
            changed("\"local\"", "\"a b\""),
            "4:8: `a b` is not a valid tool name; names have letters, digits and underscores, at most 64",
        ),
        (
            changed("sha256 = \"e3", "sha256 = \"3"),
            "6:10: `3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855` is not a \
             SHA-256 digest (64 hexadecimal digits); ",
        ),
        (
            changed("manifest = \"sha256:", "manifest = \"md5:"),
            "15:12: `md5:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad` is not \
             a digest; expected `sha256:` and 64 hexadecimal digits; ",
        ),
        (
            changed("\"none\"", "\"jane\""),
            "8:10: `jane` does not name a signer; expected `ssh:SHA256:…`, `minisign:KEYID`, \
             `sigstore:ISSUER#SUBJECT` or `none`; ",
        ),
        (
            changed("^1.2", "a b"),
            "14:10: `a b` is neither a requirement of versions such as `^1.2` nor a tag; ",
        ),
        (
            changed("\"1.2.0\"", "\"1.2\""),
            "12:11: `1.2` is not a version such as `1.2.0`: unexpected end of input while parsing minor version \
             number; ",
        ),
        (
            changed("/home", "\\u001b[2J"),
            "5:8: `from` is empty, longer than 4096 bytes, or has characters that cannot be seen; ",
        ),
    ] {
        assert_eq!(refusal(&text), told);
    }
    let large = vec![b'\n'; MAX_LOCK_BYTES + 1];
    let error = ToolsLock::parse(&large).expect_err("large").to_string();
    assert_eq!(error, "has more than 4194304 bytes");
}

fn tool() -> impl Strategy<Value = LockedTool> {
    let version = proptest::option::of("[1-9]\\.[0-9]\\.0(-rc\\.[1-9])?(\\+a)?");
    let wanted = proptest::option::of("(\\^|>=|~|=)[1-9](\\.[0-9])?|[a-z][a-z0-9.]{0,5}|\\*");
    let digest = || any::<[u8; 4]>().prop_map(|bytes| Digest::from_bytes(&bytes));
    let signer = prop_oneof![
        Just(Signer::None),
        any::<[u8; 32]>().prop_map(Signer::Ssh),
        any::<u64>().prop_map(Signer::Minisign),
        "[!-~]{1,9}".prop_map(|subject| {
            let identity = crate::CertificateIdentity::new("https://issuer", &subject);
            Signer::Sigstore(identity.expect("an identity"))
        }),
    ];
    let digests = (digest(), proptest::option::of(digest()), proptest::option::of(digest()));
    let from = "[ -~äöü世]{0,30}[!-~]";
    (version, wanted, from, digests, any::<u64>(), signer).prop_map(
        |(version, wanted, from, (sha256, manifest, needs), size, signer)| LockedTool {
            version: version.map(|text| text.parse().expect("a version")),
            from,
            wanted: wanted.map(|text| text.parse().expect("wanted")),
            manifest,
            sha256,
            size,
            signer,
            needs,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        tools in proptest::collection::vec(("[a-z_][a-zA-Z0-9_]{0,6}", tool()), 0..6),
    ) {
        let (mut one, mut turned) = (ToolsLock::default(), ToolsLock::default());
        let tools: BTreeMap<String, LockedTool> = tools.into_iter().collect();
        for (name, tool) in &tools {
            one.put(name, tool.clone()).expect("put");
        }
        for (name, tool) in tools.iter().rev() {
            turned.put(name, tool.clone()).expect("put");
        }
        let text = one.to_string();
        prop_assert_eq!(&text, &turned.to_string());
        let read = ToolsLock::parse(text.as_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&one), "{}", text);
        prop_assert_eq!(one.iter().count(), tools.len());
    }

    #[test]
    fn a_changed_lock_is_read_or_refused_at_a_place_in_it(
        cut in 0..WHOLE.len(),
        length in 0..8_usize,
        replaced in proptest::collection::vec(any::<char>(), 0..3),
    ) {
        let start = WHOLE.chars().take(cut);
        let text: String = start.chain(replaced).chain(WHOLE.chars().skip(cut + length)).collect();
        match ToolsLock::parse(text.as_bytes()) {
            Ok(lock) => prop_assert_eq!(ToolsLock::parse(lock.to_string().as_bytes()), Ok(lock)),
            Err(error) => {
                let position = error.position().expect("a position");
                let line = text.split('\n').nth(position.line - 1).expect("a line of the text");
                prop_assert!((1..=line.chars().count() + 1).contains(&position.column));
                let told = format!("{error}{}", error.hint.clone().unwrap_or_default());
                prop_assert!(!told.contains(ikigai_protocol::is_invisible), "{:?}", told);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = [b"version = 1\n", &bytes[..]].concat();
        let _ = (ToolsLock::parse(&bytes), ToolsLock::parse(&text));
    }
}
