use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn parse(text: &str) -> Result<Reference, ReferenceError> {
    text.parse()
}

#[test]
fn each_form_is_told_by_its_text() {
    for path in ["a.wasm", "./a.wasm", "/t/a.wasm", "../ghcr.io/a", "dir/a.wasm", "a:1.wasm", "."] {
        assert_eq!(parse(path).expect(path), Reference::Path(PathBuf::from(path)));
    }
    for text in ["ghcr.io/acme/weather:1.2.0", "oci://ghcr.io/acme/weather:1.2.0"] {
        let Reference::Registry(found) = parse(text).expect(text) else { panic!("{text}") };
        assert_eq!((found.host(), found.tag()), ("ghcr.io", Some("1.2.0")));
        assert_eq!(found.repository(), "acme/weather");
        assert_eq!(found.to_string(), "oci://ghcr.io/acme/weather:1.2.0");
    }
    let text = format!("localhost:5000/a@sha256:{HEX}");
    let Reference::Registry(found) = parse(&text).expect("a registry") else { panic!("{text}") };
    assert_eq!(found.pointer().to_string(), format!("sha256:{HEX}"));
    let text = format!("https://example.org/a.wasm?x=1#sha256={HEX}");
    let Reference::Url(file) = parse(&text).expect("an address") else { panic!("{text}") };
    assert_eq!(file.url().as_str(), "https://example.org/a.wasm?x=1");
    assert_eq!(file.sha256().expect("pinned").to_string(), HEX);
    assert_eq!(file.beside(".sig").as_str(), "https://example.org/a.wasm.sig?x=1");
    let other = Digest::from_bytes(b"another");
    assert_eq!(file.pinned(other).sha256(), Some(other));
}

#[test]
fn docker_hub_is_asked_by_its_own_names() {
    let Reference::Registry(hub) = parse("docker.io/busybox").expect("a registry") else {
        panic!("no registry");
    };
    assert_eq!(
        (hub.server(), hub.repository()),
        ("registry-1.docker.io", "library/busybox".into())
    );
    assert_eq!(hub.pointer(), Pointer::Tag("latest".into()));
    assert_eq!(hub.to_string(), "oci://docker.io/busybox");
}

#[test]
fn what_is_wrong_with_a_reference_is_said_with_what_to_write() {
    let of = |text: &str| {
        let error = parse(text).expect_err(text);
        format!("{error}; {}", error.hint())
    };
    let forms = ReferenceError::Empty.hint();
    let cases = [
        ("", format!("the reference is empty; {forms}")),
        (
            "docker://ghcr.io/a/b",
            "`docker://ghcr.io/a/b` has the scheme of another program; write `oci://ghcr.io/a/b`"
                .into(),
        ),
        ("ftp://a/b", format!("`ftp://a/b` has an unknown scheme; {forms}")),
        (
            "http://example.org/a.wasm",
            "`http://example.org/a.wasm` is refused: `http` is only for this machine; use `https`"
                .into(),
        ),
        (
            "ghcr.io/Acme/weather:1",
            "`ghcr.io/Acme/weather:1` is not a reference to a registry: names of repositories are \
             in lower case; write `ghcr.io/acme/weather:1`"
                .into(),
        ),
        (
            "oci://weather",
            format!(
                "`oci://weather` is not a reference to a registry: the repository is missing \
                 behind the host; {forms}"
            ),
        ),
        (
            "ghcr.io/a@sha512:00",
            format!(
                "`ghcr.io/a@sha512:00` is not a reference to a registry: a digest is `@sha256:` \
                 with 64 hexadecimal digits; {forms}"
            ),
        ),
        (
            "https://example.org/a#md5=1",
            format!(
                "`https://example.org/a#md5=1` is not the address of a file: only `#sha256=HEX` \
                 may follow the address; {forms}"
            ),
        ),
        ("a\u{1b}[2J.wasm", format!(r"`a\u{{1b}}[2J.wasm` has a control character; {forms}")),
    ];
    for (text, expected) in cases {
        assert_eq!(of(text), expected);
    }
    for text in ["https://me:secret@example.org/a.wasm", "oci://me:secret@ghcr.io/a/b"] {
        let said = of(text);
        assert!(said.starts_with("the reference has a user or a password in it"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    for query in [
        "token=secret",
        "X-Amz-Signature=secret",
        "x-amz-security-token=secret",
        "x=1&access_token=secret",
        "sv=2024&sig=secret",
        "%74oken=secret",
        "API-Key=secret",
        "x=eyJsecret.eyJ.x",
        "x=secret0123456789abcdefghi",
        "secret0123456789abcdefghi",
    ] {
        // Neither the fault of the fragment nor that of the scheme shows the address.
        for text in [
            format!("https://example.org/a.wasm?{query}"),
            format!("https://example.org/a.wasm?{query}#md5=1"),
            format!("http://example.org/a.wasm?{query}"),
        ] {
            let said = of(&text);
            assert!(said.starts_with("the reference has a query that looks like"), "{said}");
            assert!(!said.contains("secret") && !said.contains("example"), "{said}");
        }
    }
    for query in [
        "raw=true",
        "inline=false&download=1",
        "ref=da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "file=dist/weather-x86_64-v1.2.wasm",
        "version=1.2.3",
        "",
    ] {
        let text = format!("https://example.org/a.wasm?{query}");
        assert!(matches!(parse(&text), Ok(Reference::Url(_))), "{text}");
    }
    for text in [
        "ghcr.io/a/b:",
        "ghcr.io/a//b",
        "ghcr.io/a/.b",
        "ghcr.io/a..b",
        "ghcr.io:0/a",
        "ghcr.io:x/a",
        "-x.io/a",
        "[::1/a",
        "ghcr.io/a:-x",
        "ghcr.io/ä",
    ] {
        assert!(matches!(parse(text), Err(ReferenceError::Registry { .. })), "{text}");
    }
}

#[test]
fn a_path_is_written_so_that_it_is_read_as_one() {
    for (path, text) in [
        ("a/b", "a/b"),
        ("/oci://ghcr.io/a", "/oci://ghcr.io/a"),
        ("oci://ghcr.io/a", "./oci://ghcr.io/a"),
        ("v1.0/a", "./v1.0/a"),
        ("a@b", "./a@b"),
    ] {
        let shown = Reference::Path(path.into()).to_string();
        assert_eq!(shown, text);
        assert_eq!(parse(&shown).expect("a path"), Reference::Path(text.into()));
    }
}

#[test]
fn a_path_is_looked_at_for_what_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["layout", "project", "both", "neither"] {
        fs::create_dir(at(name)).expect("a directory");
    }
    for file in
        ["tool.wasm", "layout/oci-layout", "project/tool.toml", "both/oci-layout", "both/tool.toml"]
    {
        fs::write(at(file), "").expect("written");
    }
    assert_eq!(
        LocalTool::from_path(&at("tool.wasm")).expect("a file"),
        LocalTool::File(at("tool.wasm"))
    );
    assert_eq!(
        LocalTool::from_path(&at("layout")).expect("a layout"),
        LocalTool::Layout(at("layout"))
    );
    assert_eq!(
        LocalTool::from_path(&at("project")).expect("a project"),
        LocalTool::Project(at("project"))
    );
    assert!(matches!(LocalTool::from_path(&at("both")), Err(ReferenceError::TwoInOne(_))));
    assert!(matches!(LocalTool::from_path(&at("neither")), Err(ReferenceError::NoTool(_))));
    let hub = LocalTool::from_path(Path::new("acme/weather:1")).expect_err("no such file");
    assert!(hub.hint().contains("`docker.io/acme/weather:1`"), "{}", hub.hint());
}

#[test]
fn a_name_that_is_a_file_and_a_repository_is_asked_about() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("v1.0")).expect("a directory");
    fs::write(directory.path().join("v1.0/a"), "").expect("written");
    let typed = |text: &str| Reference::typed(text, directory.path());
    let error = typed("v1.0/a").expect_err("both");
    assert_eq!(error.hint(), "write `./v1.0/a` for the file, or `oci://v1.0/a` for the repository");
    assert!(matches!(typed("./v1.0/a"), Ok(Reference::Path(_))));
    assert!(matches!(typed("oci://v1.0/a"), Ok(Reference::Registry(_))));
    assert!(matches!(typed("v1.0/b"), Ok(Reference::Registry(_))));
}

proptest! {
    #[test]
    fn a_reference_comes_back_from_its_text(
        host in "[a-z]{1,8}(-[a-z]{1,3})?\\.[a-z]{2,4}(:[1-9][0-9]{0,3})?",
        repository in "[a-z0-9]{1,6}((\\.|_|__|-{1,3}|/)[a-z0-9]{1,6}){0,4}",
        tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9._-]{0,20}"),
        digest in proptest::option::of("[0-9a-f]{64}"),
    ) {
        let tag = tag.map_or_else(String::new, |tag| format!(":{tag}"));
        let digest = digest.map_or_else(String::new, |digest| format!("@sha256:{digest}"));
        let text = format!("{host}/{repository}{tag}{digest}");
        let reference = parse(&text).expect("a reference");
        prop_assert_eq!(reference.to_string(), format!("oci://{text}"));
        prop_assert_eq!(parse(&reference.to_string()).expect("its text"), reference);
    }

    #[test]
    fn any_text_is_a_reference_that_comes_back_or_an_error(text in "\\PC{0,40}") {
        if let Ok(reference) = parse(&text) {
            let shown = reference.to_string();
            prop_assert_eq!(parse(&shown).expect("its text"), reference, "{}", shown);
        }
    }

    #[test]
    fn a_path_comes_back_from_its_text(text in "[a-z.:@/]{1,20}") {
        let path = Reference::Path(PathBuf::from(&text));
        let Reference::Path(found) = parse(&path.to_string()).expect("a path") else {
            panic!("no path: {path}");
        };
        let whole = |path: &Path| Path::new("/").join(path).components().collect::<PathBuf>();
        prop_assert_eq!(whole(&found), whole(Path::new(&text)));
    }
}
