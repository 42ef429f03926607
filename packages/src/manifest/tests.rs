use proptest::prelude::*;

use super::*;
use crate::Project;
use crate::needs::tests::any_needs;

const WHOLE: &str = r#"{"manifest":1,"name":"weather","version":"1.2.0","license":"MIT","description":"Forecasts","homepage":"https://weather.example","repository":"https://git.example/acme/weather","needs":{"assets":"read","env":[{"name":"KEY","optional":true,"why":"the key"}],"fs":[{"dir":"ro:.","why":"reads stations.csv"}],"limits":{"fuel":7,"wall_clock":"2m"},"net":[{"peer":"api.weather.example:443","why":"forecasts"}]}}"#;

fn refusal(json: &str) -> String {
    let error = Manifest::from_json(json.as_bytes()).expect_err(json);
    format!("{error}; {}", error.hint.as_deref().unwrap_or_default())
}

#[test]
fn the_json_is_the_one_that_is_documented() {
    let manifest = Manifest::from_json(WHOLE.as_bytes()).expect("a manifest");
    assert_eq!(String::from_utf8(manifest.to_json()).expect("text"), WHOLE);
    let bare = r#"{"manifest":1,"name":"a","version":"0.1.0-rc.1+x"}"#;
    let manifest = Manifest::from_json(bare.as_bytes()).expect("a manifest");
    assert!(manifest.needs.is_empty());
    assert_eq!(String::from_utf8(manifest.to_json()).expect("text"), bare);
}

#[test]
fn mistakes_are_told_with_the_member() {
    let with = |member: &str| format!(r#"{{"manifest":1,"name":"a","version":"1.0.0",{member}}}"#);
    for (json, told) in [
        ("".into(), "is not JSON: EOF while parsing a value at line 1 column 0; "),
        ("{}{}".into(), "is not JSON: trailing characters at line 1 column 3; "),
        ("[]".into(), "`the manifest`: expected a table, found a list; "),
        ("{}".into(), "`manifest` is missing; write `manifest = 1`"),
        (
            r#"{"manifest":2,"news":[]}"#.into(),
            "in `manifest`: `manifest = 2` needs a newer ikigai; this one reads `manifest = 1`; update ikigai",
        ),
        (
            r#"{"manifest":0}"#.into(),
            "in `manifest`: `manifest = 0` does not exist; write `manifest = 1`",
        ),
        (
            r#"{"manifest":"1"}"#.into(),
            "in `manifest`: `manifest`: expected a whole number, found a string; ",
        ),
        (
            with(r#""licence":"MIT""#),
            "in `licence`: unknown key `licence`; did you mean `license`?",
        ),
        (
            with(r#""build":{}"#),
            "in `build`: unknown key `build`; known here are manifest, name, version, license, description, \
             homepage, repository, needs",
        ),
        (with(r#""name":"b""#), "is not JSON: `name` is there twice at line 1 column 49; "),
        (
            with(r#""needs":{"net":[{"peer":"a:1","why":"x"},{"peer":"a","why":"x"}]}"#),
            "in `needs.net[1].peer`: `a` has no port; write HOST:PORT or HOST:*; ",
        ),
        (
            with(r#""needs":{"net":[{"peer":"a:1"}]}"#),
            "in `needs.net[0]`: `why` is missing; say in one line what the tool does with it; people read it \
             before they grant it",
        ),
        (
            with(r#""needs":{"net":[{"peer":"a:1","why":"x","w\u001b[2J\u202e":1}]}"#),
            "in `needs.net[0].w\\u{1b}[2J\\u{202e}`: unknown key `w\\u{1b}[2J\\u{202e}`; known here are peer, why",
        ),
        (with(r#""needs":null"#), "in `needs`: `needs`: expected a table, found a null; "),
        (
            with(r#""license":"MIT/ISC""#),
            "in `license`: `MIT/ISC` is not an SPDX licence expression; write it as `MIT` or `Apache-2.0 OR MIT`; ",
        ),
        (
            with(r#""homepage":"javascript:alert(1)""#),
            "in `homepage`: `javascript:alert(1)` is not a web page's URL; write it as `https://HOST/PATH`; ",
        ),
        (
            r#"{"manifest":1,"name":"a-b","version":"1.0.0"}"#.into(),
            "in `name`: `a-b` is not a valid tool name; tools are named with underscores: `a_b`",
        ),
        (
            r#"{"manifest":1,"name":"a b","version":"1.0.0"}"#.into(),
            "in `name`: `a b` is not a valid tool name; names have letters, digits and underscores, at most 64",
        ),
        (
            r#"{"manifest":1,"name":"a","version":"1.0"}"#.into(),
            "in `version`: `1.0` is not a version such as `1.2.0`: unexpected end of input while parsing minor \
             version number; ",
        ),
    ] {
        assert_eq!(refusal(&json), told);
    }
    for name in RESERVED_NAMES {
        let error = refusal(&format!(r#"{{"manifest":1,"name":"{name}","version":"1.0.0"}}"#));
        assert!(error.contains("is reserved for ikigai"), "{error}");
    }
    let deep = format!("{}{}", "[".repeat(20), "]".repeat(20));
    let error = refusal(&with(&format!("\"needs\":{deep}")));
    assert!(error.contains("nests more than 16 values"), "{error}");
    let large = vec![b' '; MAX_SECTION_BYTES + 1];
    let error = Manifest::from_json(&large).expect_err("large").to_string();
    assert_eq!(error, "has more than 65536 bytes");
}

#[test]
fn what_steers_a_terminal_is_made_harmless_in_the_file_of_somebody_else() {
    let json = r#"{"manifest":1,"name":"a","version":"1.0.0","description":"a\u001b[2Jb\nc\u202ed","needs":{"env":[{"name":"A","why":"\u0007x"}]}}"#;
    let manifest = Manifest::from_json(json.as_bytes()).expect("a manifest");
    assert_eq!(manifest.description.as_deref(), Some("a\u{fffd}[2Jb\u{fffd}c\u{fffd}d"));
    assert_eq!(manifest.needs.env[0].why, "\u{fffd}x");
    let again = Manifest::from_json(&manifest.to_json()).expect("a manifest");
    assert_eq!(again, manifest);
}

#[test]
fn a_file_carries_its_manifest() {
    let manifest = Manifest::from_json(WHOLE.as_bytes()).expect("a manifest");
    for text in ["(module)", "(component)"] {
        let file = wat::parse_str(text).expect("a file");
        assert_eq!(Manifest::of_file(&file[..]).expect("read"), None);
        let file = manifest.embed(&file).expect("written");
        assert_eq!(Manifest::of_file(&file[..]).expect("read").as_ref(), Some(&manifest));
        let broken = section::write(&file, br#"{"manifest":2}"#).expect("written");
        let error = Manifest::of_file(&broken[..]).expect_err("newer");
        let told = "has a manifest that cannot be used: in `manifest`: `manifest = 2` needs a newer ikigai";
        assert_eq!(error.to_string(), told);
        let hint = "this one reads `manifest = 1`; update ikigai";
        assert_eq!(error.hint(), Some(hint));
    }
}

proptest! {
    #[test]
    fn a_manifest_reads_back_from_json_and_from_a_file(
        needs in any_needs(),
        version in "[0-9]{1,3}\\.(0|[1-9][0-9]?)\\.0(-rc\\.[1-9])?(\\+[a-z]{1,4})?",
        license in proptest::option::of("(MIT|ISC)( OR Apache-2\\.0)?"),
        description in proptest::option::of("[ -~é世]{0,30}[!-~]"),
    ) {
        let Ok(version) = Version::parse(&version) else { return Ok(()) };
        let (homepage, repository) = (None, Some("http://git.example/a".to_owned()));
        let name = "_a1".to_owned();
        let manifest =
            Manifest { name, version, license, description, homepage, repository, needs };
        let back = Manifest::from_json(&manifest.to_json());
        prop_assert_eq!(back.as_ref(), Ok(&manifest));
        prop_assert_eq!(back.expect("a manifest").needs.digest(), manifest.needs.digest());
        let file = manifest.embed(b"\0asm\x01\0\0\0").expect("written");
        prop_assert_eq!(Manifest::of_file(&file[..]).expect("read"), Some(manifest));
    }

    #[test]
    fn random_json_never_panics_and_never_steers_a_terminal(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cut in 0..WHOLE.len(),
        replaced in any::<char>(),
    ) {
        let start = WHOLE.chars().take(cut);
        let changed: String = start.chain([replaced]).chain(WHOLE.chars().skip(cut + 1)).collect();
        for text in [&bytes[..], changed.as_bytes()] {
            if let Err(error) = Manifest::from_json(text) {
                let told = format!("{error}{}", error.hint.clone().unwrap_or_default());
                prop_assert!(!told.contains(ikigai_protocol::is_invisible), "{:?}", told);
            }
            let _ = Project::parse(text);
        }
    }
}
