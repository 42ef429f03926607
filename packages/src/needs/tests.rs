use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Parses needs from the TOML of a project.
pub(crate) fn needs(text: &str) -> Needs {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parse(text: &str) -> Result<Needs, crate::DocumentError> {
    let text = format!("manifest = 1\nname = \"a\"\nversion = \"1.0.0\"\n{text}");
    crate::Project::parse(text.as_bytes()).map(|project| project.manifest.needs)
}

/// Returns the error for needs whose first line is line 4.
fn refusal(text: &str) -> String {
    let error = parse(text).expect_err(text);
    format!("{error}; {}", error.hint.as_deref().unwrap_or_default())
}

#[test]
fn each_kind_is_read_and_told_in_the_words_of_a_policy() {
    let needs = needs(
        r#"
        [needs]
        assets = "read"
        limits = { wall_clock = "2m", memory = "1GiB", fuel = 7 }
        [[needs.net]]
        peer = "API.example.:443"
        why = "forecasts"
        [[needs.env]]
        name = "KEY"
        why = "the key"
        optional = true
        [[needs.fs]]
        dir = "rw:./data//cache/"
        why = "caches"
        "#,
    );
    let told: Vec<String> = needs.iter().map(|need| need.to_string()).collect();
    assert_eq!(
        told,
        [
            "net api.example:443",
            "env KEY (optional)",
            "fs rw:data/cache",
            "assets read",
            "limits.fuel 7",
            "limits.memory 1GiB",
            "limits.wall_clock 2m",
        ]
    );
    let why: Vec<_> = needs.iter().filter_map(|need| need.why().map(str::to_owned)).collect();
    assert_eq!(why, ["forecasts", "the key", "caches"]);
    let lines: Vec<String> = needs.iter().map(|need| need.with_reason()).collect();
    assert_eq!(lines[..2], ["net api.example:443: forecasts", "env KEY (optional): the key"]);
    assert_eq!(lines[3], "assets read");
    assert_eq!(needs.limits[&LimitName::WallClock].value, 120_000_000_000);
    assert_eq!(needs.limits[&LimitName::Memory].value, 1 << 30);
}

#[test]
fn directories_outside_of_the_workspace_are_refused() {
    for dir in ["ro:..", "rw:a/../..", "ro:/etc", "ro:~", "ro:~/x", "ro:./~root", "ro:a/../b"] {
        let error = refusal(&format!("[[needs.fs]]\ndir = \"{dir}\"\nwhy = \"x\""));
        let told =
            format!("5:7: `{dir}` is not in the workspace; a tool needs the workspace (`.`)");
        assert!(error.starts_with(&told), "{error}");
    }
    for (dir, told) in [
        (".", "5:7: `.` begins with neither `ro:` nor `rw:`; to read it, write `ro:.`; "),
        ("ro:", "5:7: `ro:` is not the path of a directory that can be granted; "),
        ("ro:a\\nb", "5:7: `ro:a\\u{a}b` is not the path of a directory that can be granted; "),
    ] {
        assert_eq!(refusal(&format!("[[needs.fs]]\ndir = \"{dir}\"\nwhy = \"x\"")), told);
    }
    let error =
        refusal("needs.fs = [{ dir = \"ro:a/b\", why = \"x\" }, { dir = \"rw:a\", why = \"x\" }]");
    let told = "4:13: `ro:a/b` lies in `rw:a`: a directory has one access, which applies to \
        everything in it";
    assert!(error.starts_with(told), "{error}");
    needs("needs.fs = [{ dir = \"ro:ab\", why = \"x\" }, { dir = \"rw:a\", why = \"x\" }]");
}

#[test]
fn variables_of_ikigai_and_keys_of_providers_are_refused() {
    for (name, told) in [
        ("IKIGAI_STORE", "`IKIGAI_STORE` is for ikigai itself: it may hold a password"),
        ("IKIGAI_DIRS", "`IKIGAI_DIRS` is set by ikigai itself"),
        ("IKIGAI_HOST_FD", "`IKIGAI_HOST_FD` is set by ikigai itself"),
        ("A=B", "`A=B` is not a valid variable name"),
        ("*", "`*` is not a valid variable name"),
        ("", "`` is not a valid variable name"),
        ("A\\u200bB", "`A\\u{200b}B` is not a valid variable name"),
    ] {
        let error = refusal(&format!("[[needs.env]]\nname = \"{name}\"\nwhy = \"x\""));
        assert!(error.starts_with(&format!("5:8: {told}; ")), "{error}");
    }
    for key in ikigai_protocol::ProviderKey::ALL {
        let error = refusal(&format!("[[needs.env]]\nname = \"{key}\"\nwhy = \"x\""));
        let told = format!("5:8: `{key}` is the key of a provider of models");
        assert!(error.starts_with(&told), "{error}");
    }
}

#[test]
fn peers_are_those_of_a_policy() {
    for (text, normal) in [
        ("*", "*"),
        ("db.internal:5432", "db.internal:5432"),
        ("A_b-c.Example.:1", "a_b-c.example:1"),
        ("10.0.0.0/8:*", "10.0.0.0/8:*"),
        ("10.1.2.3:80", "10.1.2.3:80"),
        ("[FD00::7]:443", "[fd00::7]:443"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
    ] {
        assert_eq!(text.parse::<NetworkPeer>().expect(text).to_string(), normal);
    }
    for (text, error) in [
        ("https://a", PeerError::Url),
        ("a", PeerError::NoPort),
        ("", PeerError::NoPort),
        ("a:0", PeerError::Port),
        ("a:65536", PeerError::Port),
        ("a:+1", PeerError::Port),
        ("a:", PeerError::Port),
        ("::1:80", PeerError::Brackets),
        ("[a]:80", PeerError::Host),
        (":80", PeerError::Host),
        ("1.2.3:80", PeerError::Host),
        ("10.0.0.0/33:80", PeerError::Host),
        ("*.example:80", PeerError::Host),
        ("a b:80", PeerError::Host),
        ("gооgle.example:80", PeerError::Host),
        ("a\u{202e}:80", PeerError::Host),
    ] {
        assert_eq!(text.parse::<NetworkPeer>(), Err(error), "{text}");
    }
}

#[test]
fn other_mistakes_are_told_with_their_place() {
    for (text, told) in [
        ("needs = 1", "4:9: `needs`: expected a table, found an integer; "),
        ("[needs]\nnett = []", "5:1: unknown key `nett`; did you mean `net`?"),
        ("[needs]\nnet = [\"a:1\"]", "5:8: `net`: expected a table, found a string; "),
        ("[needs]\nnet = {}", "5:7: `net`: expected a list, found a table; "),
        (
            "[needs]\nassets = \"all\"",
            "5:10: `all` is not an access to assets; expected `none`, `read` or `write`; ",
        ),
        (
            "[needs]\nlimits = { time = \"1s\" }",
            "5:12: unknown key `time`; known here are fuel, handles, memory, output, processes, wall_clock",
        ),
        ("[needs.limits]\nfuel = 0", "5:8: `fuel` must be more than zero; "),
        (
            "[needs.limits]\nfuel = -1",
            "5:8: `fuel`: expected a whole number, found a number out of range; ",
        ),
        ("[needs.limits]\nmemory = 5", "5:10: `memory`: expected a string, found an integer; "),
        (
            "[needs.limits]\nmemory = \"much\"",
            "5:10: `much` is not a size; write it as 64KiB or 512MiB; ",
        ),
        (
            "[needs.limits]\nwall_clock = \"8days\"",
            "5:14: `8days` must be more than zero and at most 7days; ",
        ),
        (
            "[[needs.net]]\npeer = \"a:1\"",
            "4:1: `why` is missing; say in one line what the tool does with it; people read it before they grant it",
        ),
        ("[[needs.net]]\npeer = \"a:1\"\nwhy = \" \"", "6:7: `why` is empty; "),
        (
            "[[needs.net]]\npeer = \"a:1\"\nwhy = \"a\\u001b[31m\"",
            "6:7: `why` has the character U+001B; write one line, without control characters and marks of direction",
        ),
        (
            "[[needs.net]]\npeer = \"a:1\"\nwhy = \"x\"\n[[needs.net]]\npeer = \"A:1\"\nwhy = \"y\"",
            "7:1: this `peer` of `needs.net` is there twice; ",
        ),
        (
            "[[needs.env]]\nname = \"A\"\nwhy = \"x\"\noptional = 1",
            "7:12: `optional`: expected `true` or `false`, found an integer; ",
        ),
    ] {
        assert_eq!(refusal(text), told);
    }
    let many = "{ name = \"A\", why = \"x\" },".repeat(101);
    let told = "4:13: `env` has more than 100 entries; ";
    assert_eq!(refusal(&format!("needs.env = [{many}]")), told);
    let long = "x".repeat(501);
    let error = refusal(&format!("[[needs.net]]\npeer = \"a:1\"\nwhy = \"{long}\""));
    assert_eq!(error, "6:7: `why` has more than 500 characters; ");
}

#[test]
fn the_digest_does_not_hang_on_the_order() {
    let one = needs("needs.env = [{ name = \"A\", why = \"x\" }, { name = \"B\", why = \"y\" }]");
    let other = needs("needs.env = [{ name = \"B\", why = \"y\" }, { why = \"x\", name = \"A\" }]");
    assert_ne!(one, other, "the order of the author is kept");
    assert_eq!(one.digest(), other.digest());
    let canonical = br#"{"env":[{"name":"A","why":"x"},{"name":"B","why":"y"}]}"#;
    assert_eq!(one.digest(), Digest::from_bytes(canonical));
    assert_eq!(Needs::default().digest(), Digest::from_bytes(b"{}"));
    let reason =
        needs("needs.env = [{ name = \"A\", why = \"x\" }, { name = \"B\", why = \"z\" }]");
    assert_ne!(one.digest(), reason.digest(), "a person agreed with the reasons");
}

#[test]
fn only_more_counts_as_grown() {
    let grown = |old: &str, new: &str| needs(new).grown(&needs(old));
    let net = |peer: &str| format!("needs.net = [{{ peer = \"{peer}\", why = \"x\" }}]\n");
    let fs = |dir: &str| format!("needs.fs = [{{ dir = \"{dir}\", why = \"x\" }}]\n");
    for (old, new) in [
        (net("a:1"), String::new()),
        (net("a:*"), net("a:1")),
        (net("*"), net("a:1")),
        (fs("rw:."), fs("ro:a/b")),
        (fs("ro:a"), fs("ro:a")),
        ("needs.assets = \"write\"".into(), "needs.assets = \"read\"".into()),
        (String::new(), "needs.assets = \"none\"".into()),
        ("needs.limits.memory = \"2GiB\"".into(), "needs.limits.memory = \"2048MiB\"".into()),
        (
            "needs.env = [{ name = \"A\", why = \"x\", optional = true }]".into(),
            "needs.env = [{ name = \"A\", why = \"y\" }]".into(),
        ),
    ] {
        assert!(!grown(&old, &new), "{old} -> {new}");
    }
    for (old, new) in [
        (String::new(), net("a:1")),
        (net("a:1"), net("a:2")),
        (net("a:1"), net("a:*")),
        (net("a:1"), net("*")),
        (net("*"), net("10.0.0.1:1")),
        (net("*"), net("[::1]:1")),
        (fs("ro:."), fs("rw:.")),
        (fs("ro:a"), fs("ro:ab")),
        (fs("ro:a"), fs("ro:.")),
        (fs("rw:a/b"), fs("ro:a")),
        (String::new(), "needs.assets = \"read\"".into()),
        ("needs.assets = \"read\"".into(), "needs.assets = \"write\"".into()),
        (String::new(), "needs.limits.fuel = 1".into()),
        ("needs.limits.fuel = 1".into(), "needs.limits.fuel = 2".into()),
        (String::new(), "needs.env = [{ name = \"A\", why = \"x\", optional = true }]".into()),
    ] {
        assert!(grown(&old, &new), "{old} -> {new}");
    }
    let [old, new] = [net("a:1"), format!("{}{}", net("b:1"), fs("ro:."))].map(|text| needs(&text));
    let beyond: Vec<String> = new.beyond(&old).iter().map(Need::to_string).collect();
    assert_eq!(beyond, ["net b:1", "fs ro:."]);
}

/// Generates needs as an author may write them.
pub(crate) fn any_needs() -> impl Strategy<Value = Needs> {
    let why = || "[ -~äß世]{0,12}[!-~]";
    let peer = prop_oneof![
        Just("*".to_owned()),
        "[a-z]{1,5}\\.example:[1-9][0-9]{0,3}",
        "10\\.[0-9]\\.0\\.0/(8|16):\\*",
        "\\[fd00::[1-9]\\]:443",
    ];
    let net = proptest::collection::btree_map(peer, why(), 0..4);
    let env = proptest::collection::btree_map("[A-Z_]{1,8}X", (why(), any::<bool>()), 0..4);
    let fs = proptest::collection::btree_map("[a-zé. ]{0,3}[a-z](/[a-z]){0,2}", why(), 0..4);
    let limits = proptest::option::of((1..9_u64, 1..99_u64));
    let assets = proptest::option::of(proptest::sample::select(AssetNeed::VARIANTS));
    let access = proptest::sample::select(vec!["ro", "rw"]);
    (net, env, fs, limits, assets, access).prop_map(|(net, env, fs, limits, assets, access)| {
        let limits = limits.map_or_else(
            || json!({}),
            |(fuel, seconds)| json!({ "fuel": fuel, "wall_clock": format!("{seconds}s") }),
        );
        let peer = |(peer, why)| json!({ "peer": peer, "why": why });
        let variable =
            |(name, (why, optional))| json!({ "name": name, "why": why, "optional": optional });
        let dir = |(dir, why)| json!({ "dir": format!("{access}:{dir}"), "why": why });
        let json = json!({
            "manifest": 1,
            "name": "a",
            "version": "1.0.0",
            "needs": {
                "net": Vec::from_iter(net.into_iter().map(peer)),
                "env": Vec::from_iter(env.into_iter().map(variable)),
                "fs": Vec::from_iter(fs.into_iter().map(dir)),
                "assets": assets.unwrap_or(AssetNeed::None),
                "limits": limits,
            },
        });
        let manifest = crate::Manifest::from_json(json.to_string().as_bytes());
        manifest.unwrap_or_else(|error| panic!("{json}: {error}")).needs
    })
}

proptest! {
    #[test]
    fn needs_ask_for_no_more_than_themselves(needs in any_needs()) {
        prop_assert!(!needs.grown(&needs));
        prop_assert!(!Needs::default().grown(&needs));
        let asks = needs.iter().any(|need| need != Need::Assets(AssetNeed::None));
        prop_assert_eq!(needs.grown(&Needs::default()), asks);
    }

    #[test]
    fn growth_hides_in_no_way_through_another_version(
        one in any_needs(),
        two in any_needs(),
        three in any_needs(),
    ) {
        if !two.grown(&one) && !three.grown(&two) {
            prop_assert!(!three.grown(&one));
        }
    }
}
