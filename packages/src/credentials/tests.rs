use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

fn credentials(directory: &Path, text: &str) -> Credentials {
    let path = directory.join("config.json");
    fs::write(&path, text).expect("written");
    Credentials::of_files(vec![directory.join("missing.json"), path])
}

fn password(user: &str, password: &str) -> Option<Credential> {
    Some(Credential::Password { user: user.to_owned(), password: password.to_owned() })
}

#[tokio::test]
async fn the_entry_of_the_longest_path_wins() {
    let directory = tempfile::tempdir().expect("a directory");
    // `me:one`, `me:two`, `me:three:3` in base64.
    let all = credentials(
        directory.path(),
        r#"{"auths": {
            "ghcr.io": {"auth": "bWU6b25l"},
            "ghcr.io/acme/tools": {"auth": "bWU6dHdv"},
            "https://index.docker.io/v1/": {"auth": "bWU6dGhyZWU6Mw=="},
            "token.example": {"auth": "", "identitytoken": "t"},
            "broken.example": {"auth": "%%%"},
            "empty.example": {}
        }}"#,
    );
    let find = async |host: &str, repository: &str| all.find(host, repository).await;
    assert_eq!(find("ghcr.io", "acme/weather").await.expect("read"), password("me", "one"));
    assert_eq!(find("ghcr.io", "acme/tools/a").await.expect("read"), password("me", "two"));
    assert_eq!(find("ghcr.io", "acme/toolsets").await.expect("read"), password("me", "one"));
    assert_eq!(find("docker.io", "a/b").await.expect("read"), password("me", "three:3"));
    let token = Some(Credential::IdentityToken("t".into()));
    assert_eq!(find("token.example", "a").await.expect("read"), token);
    for host in ["empty.example", "io", "evil-ghcr.io", "ghcr.io:5000"] {
        assert_eq!(find(host, "a").await.expect("read"), None, "{host}");
    }
    let broken = find("broken.example", "a").await.expect_err("no base64");
    assert!(broken.to_string().contains("the entry of `broken.example`"), "{broken}");
}

#[tokio::test]
async fn a_file_that_is_no_json_is_named_and_not_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = credentials(directory.path(), "{\"auths\": {\n\"a\": \"secret\"}}");
    let error = all.find("a", "b").await.expect_err("no credentials").to_string();
    assert!(error.contains("config.json") && error.contains("line 2"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[tokio::test]
async fn helpers_are_asked_ended_and_heard() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = |name: &str, text: &str| {
        let path = directory.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    };
    script(
        "good",
        r#"read -r it; echo "{\"ServerURL\":\"x\",\"Username\":\"$it\",\"Secret\":\"s\"}""#,
    );
    script("token", r#"echo '{"Username":"<token>","Secret":"s"}'"#);
    script("empty", "echo 'credentials not found in native keychain'; exit 1");
    script("locked", "echo 'the keys are locked' >&2; exit 1");
    script("babbling", "echo secret");
    script("bad", "echo never");
    script("placed", r#"echo "{\"Username\":\"$PWD\",\"Secret\":\"${CARGO_MANIFEST_DIR-none}\"}""#);
    script("stuck", "exec sleep 1000");
    let old = std::env::var_os("PATH").unwrap_or_default();
    let mut path = vec![directory.path().to_owned()];
    path.extend(std::env::split_paths(&old));
    let path = std::env::join_paths(path).expect("a path");
    let check = move |words: &[OsString]| -> Result<HelperEnv, String> {
        match words {
            [program, get] if program == "docker-credential-bad" && get == "get" => {
                Err("a tool could change it".to_owned())
            }
            _ => Ok(vec![("PATH".into(), path.clone())]),
        }
    };
    let ask = async |name: &str, longest: u64| {
        let longest = Duration::from_millis(longest);
        let text = format!(r#"{{"credHelpers": {{"ghcr.io": "{name}"}}}}"#);
        let all = credentials(directory.path(), &text).with_helper_check(check.clone());
        all.with_helper_time(longest).find("ghcr.io", "a").await
    };
    assert_eq!(ask("good", 60_000).await.expect("asked"), password("ghcr.io", "s"));
    let token = Some(Credential::IdentityToken("s".into()));
    assert_eq!(ask("token", 60_000).await.expect("asked"), token);
    assert_eq!(ask("empty", 60_000).await.expect("asked"), None);
    let locked = ask("locked", 60_000).await.expect_err("locked").to_string();
    assert!(locked.ends_with("failed for `ghcr.io`: the keys are locked"), "{locked}");
    let babbling = ask("babbling", 60_000).await.expect_err("no JSON").to_string();
    assert!(!babbling.contains("secret"), "{babbling}");
    // It starts in `/`, with the variables of the check.
    assert_eq!(ask("placed", 60_000).await.expect("asked"), password("/", "none"));
    let bad = ask("bad", 60_000).await.expect_err("refused").to_string();
    assert!(bad.ends_with("was not started: a tool could change it"), "{bad}");
    assert!(matches!(ask("stuck", 50).await, Err(CredentialError::HelperTime { .. })));
    assert!(matches!(ask("absent", 50).await, Err(CredentialError::NoHelper { .. })));
    assert!(matches!(ask("../good", 50).await, Err(CredentialError::HelperName(_))));
}

#[test]
fn the_files_are_those_of_podman_and_docker() {
    let of = |set: &[(&str, &str)]| {
        let find = |name: &str| set.iter().find(|(it, _)| *it == name).map(|(_, it)| it.into());
        Credentials::of_environment(find).files
    };
    let all = of(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/r"), ("REGISTRY_AUTH_FILE", "/a")]);
    let expected = [
        "/a",
        "/r/containers/auth.json",
        "/h/.config/containers/auth.json",
        "/h/.docker/config.json",
    ];
    assert_eq!(all, expected.map(PathBuf::from));
    let moved = of(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("DOCKER_CONFIG", "/d")]);
    assert_eq!(moved, ["/c/containers/auth.json", "/d/config.json"].map(PathBuf::from));
    assert_eq!(of(&[]), Vec::<PathBuf>::new());
}
