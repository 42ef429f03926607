//! Signatures over tools. The signer is shown, and expected from then on. A bad signature never
//! counts as no signature.

use std::fs;
use std::path::Path;

use ikigai_packages_testing::Reply;
use ikigai_tests::host::Host;
use ikigai_tests::paths;

use crate::shipping::scene::*;
use crate::shipping::signing::Signer;

/// Returns a host with `weather` 1.0.0 from a file, signed by the key `acme`.
fn signed() -> Option<(Host, std::path::PathBuf, Signer)> {
    let host = Host::without_system_tools();
    let acme = Signer::ssh(&host, "acme")?;
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    acme.sign_beside(&host, &path);
    let ran = install(&host, &path).expect_code(0);
    assert!(ran.stderr().contains(&acme.text), "{ran}");
    assert!(
        ran.stderr().contains("first approval of this tool; this signer is expected from now on"),
        "{ran}"
    );
    assert_eq!(locked(&lock_text(&host), "signer"), acme.text);
    Some((host, path, acme))
}

/// Replaces the installation source by an unsigned version.
fn next(path: &Path, version: &str) {
    fs::write(path, weather(version)).expect("written");
    for suffix in ["sig", "minisig", "sigstore.json"] {
        let _ = fs::remove_file(format!("{}.{suffix}", path.display()));
    }
}

#[test]
fn a_signer_is_told_once_and_expected_from_then_on() {
    let Some((host, path, acme)) = signed() else { return };
    next(&path, "1.1.0");
    acme.sign_beside(&host, &path);
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["signer"], acme.text.as_str(), "{ran}");
    assert!(ran.stderr().contains("(the same as before)"), "{ran}");
    answers(&host, "1.1.0");
    let record = records(&host).pop().expect("a record");
    assert_eq!(record["installed"]["signer"], acme.text.as_str(), "{record:#}");
}

#[test]
fn another_signer_and_none_are_refused_until_a_person_accepts_them() {
    let Some((host, path, acme)) = signed() else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let file = path.display().to_string();
    next(&path, "1.1.0");
    let gone = [acme.text.as_str(), "is signed by `none`", "--accept-signer"];
    for args in [
        &["tool", "update", "--yes"][..],
        &["tool", "update", "--yes", "--grant"],
        &["tool", "install", &file, "--yes", "--replace"],
    ] {
        refused(&host, args, 1, &gone);
    }
    mallory.sign_beside(&host, &path);
    let changed = [acme.text.as_str(), &mallory.text, "--accept-signer"];
    for args in [
        &["tool", "update", "--yes"][..],
        &["tool", "update", "--yes", "--grant"],
        &["tool", "install", &file, "--yes", "--replace"],
    ] {
        refused(&host, args, 1, &changed);
    }
    let ran = host.run(["tool", "update", "--yes", "--accept-signer"]).expect_code(0);
    assert!(ran.stderr().contains("changed, and accepted"), "{ran}");
    assert_eq!(locked(&lock_text(&host), "signer"), mallory.text);
    answers(&host, "1.1.0");
    // From here on, this signer is expected.
    next(&path, "1.2.0");
    acme.sign_beside(&host, &path);
    let ran = host.run(["tool", "update", "--yes"]).expect_code(1);
    assert!(error(&ran).contains(&mallory.text) && error(&ran).contains(&acme.text), "{ran}");
    answers(&host, "1.1.0");
}

#[test]
fn a_signature_that_is_not_good_is_never_none() {
    let (host, path) = installed();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let refuse = |suffix: &str, signature: &[u8], texts: &[&str]| {
        next(&path, "1.1.0");
        fs::write(format!("{}.{suffix}", path.display()), signature).expect("written");
        let all = [&["no signature of", "nothing was installed"], texts].concat();
        for args in [&["tool", "update"][..], &["tool", "update", "--yes", "--accept-signer"]] {
            let ran = refused(&host, args, 1, &all);
            assert!(!error(&ran).contains("is not signed"), "{ran}");
        }
    };
    refuse("sig", &acme.sign(&host, b"another file"), &["is bad", &acme.text]);
    let for_git = acme.sign_for(&host, &weather("1.1.0"), "git");
    refuse("sig", &for_git, &["is for the namespace \"git\"", "ssh-keygen -Y sign -n ikigai-tool"]);
    let whole = acme.sign(&host, &weather("1.1.0"));
    refuse("sig", &whole[..whole.len() / 2], &["malformed"]);
    refuse("sig", b"anything", &["neither an ssh signature, nor a minisign signature"]);
    refuse("sig", &vec![b' '; (1 << 20) + 1], &["more than 1048576 bytes"]);
    // One good signature is enough. The others may have a format that does not exist yet.
    next(&path, "1.1.0");
    fs::write(format!("{}.sig", path.display()), whole).expect("written");
    fs::write(format!("{}.minisig", path.display()), "anything").expect("written");
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["signer"], acme.text.as_str(), "{ran}");
}

#[test]
fn a_key_of_minisign_has_to_be_named() {
    let (host, path) = installed();
    let Some(acme) = Signer::minisign(&host, "acme") else { return };
    next(&path, "1.1.0");
    acme.sign_beside(&host, &path);
    let unknown = "a key that no signer in the policy has";
    let texts = [acme.text.as_str(), unknown, "[signers.NAME]\n  minisign = \"RW…\""];
    let ran = refused(&host, &["tool", "update", "--yes"], 1, &texts);
    for wrong in ["``", "is good", "is bad"] {
        assert!(!error(&ran).contains(wrong), "{wrong}\n{ran}");
    }
    write_policy(&host, &acme.table(""));
    let ran = host.run(["tool", "update", "--yes", "--json"]).expect_code(0);
    assert_eq!(
        (&ran.json()[0]["signer"], &ran.json()[0]["signer_name"]),
        (&acme.text.as_str().into(), &"acme".into())
    );
    assert!(ran.stderr().contains("`acme` of the policy"), "{ran}");
    answers(&host, "1.1.0");
}

#[test]
fn bundles_of_sigstore_that_are_bad_expired_or_unknown_are_told_apart() {
    let (host, path) = installed();
    let bundles = paths::repository().join("packages/tests/sigstore-conformance");
    for (case, text) in [
        (
            "happy-path-v0.3",
            "Sigstore bundle by `sigstore:https://token.actions.githubusercontent.com#",
        ),
        ("integrated-time-in-future_fail", "is expired: "),
        ("intoto-expired-certificate_fail", "is expired: "),
        ("bundle-from-wrong-instance_fail", "is not in the trusted root"),
        ("bundle-malformed-json_fail", "is malformed: "),
    ] {
        let bundle = fs::read(bundles.join(case).join("bundle.sigstore.json")).expect(case);
        next(&path, "1.1.0");
        fs::write(format!("{}.sigstore.json", path.display()), bundle).expect("written");
        let mut line = vec!["tool", "update", "--yes", "--accept-signer"];
        let root = bundles.join(case).join("trusted_root.json");
        if root.is_file() {
            line.extend(["--trusted-root", root.to_str().expect("UTF-8")]);
        }
        let ran = refused(&host, &line, 1, &["no signature of", text]);
        assert!(!error(&ran).contains("is not signed"), "{case}\n{ran}");
    }
}

#[test]
fn signatures_lie_beside_an_address_as_beside_a_file() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let serve = |file: &[u8], signature: Option<&[u8]>| {
        fake.page("/weather.wasm", Reply::new(200, WASM, file));
        let none = Reply::new(404, "text/plain", "none");
        let reply = signature.map_or(none, |it| Reply::new(200, "text/plain", it));
        fake.page("/weather.wasm.sig", reply);
    };
    let (first, second) = (weather("1.0.0"), weather("1.1.0"));
    serve(&first, Some(&acme.sign(&host, &first)));
    let address = format!("http://{}/weather.wasm", fake.host());
    host.run(["tool", "install", "--yes", &address]).expect_code(0);
    assert_eq!(locked(&lock_text(&host), "signer"), acme.text);
    serve(&second, None);
    refused(&host, &["tool", "update", "--yes"], 1, &[&acme.text, "signed by `none`"]);
    serve(&second, Some(&acme.sign(&host, &first)));
    refused(&host, &["tool", "update", "--yes"], 1, &["is bad", "weather.wasm.sig"]);
    // A server error does not mean that the signature is missing.
    fake.page("/weather.wasm.sig", Reply::new(403, "text/plain", "no"));
    refused(&host, &["tool", "update", "--yes"], 1, &["answers 403"]);
    serve(&second, Some(&acme.sign(&host, &second)));
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.1.0");
    if let Some(mini) = Signer::minisign(&host, "mini") {
        write_policy(&host, &mini.table(""));
        let third = weather("1.2.0");
        serve(&third, None);
        let signature = mini.sign(&host, &third);
        fake.page("/weather.wasm.minisig", Reply::new(200, "text/plain", signature));
        let ran = host.run(["tool", "update", "--yes", "--accept-signer", "--json"]).expect_code(0);
        assert_eq!(ran.json()[0]["signer"], mini.text.as_str(), "{ran}");
    }
}

/// Removing or replacing signatures in a registry must not help an attacker.
#[test]
fn signatures_that_a_registry_loses_or_swaps_are_noticed() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let push = |version: &str, signer: Option<&Signer>| {
        let path = host.write("push/weather.wasm", weather(version), 0o644);
        let mut args = vec!["tool".to_owned(), "push".to_owned(), at(&fake.host(), "")];
        args.push(path.display().to_string());
        if let Some(signer) = signer {
            signer.sign_beside(&host, &path);
            args.extend(["--sign".to_owned(), format!("{}.sig", path.display())]);
        }
        host.run(args).expect_code(0);
    };
    push("1.0.0", Some(&acme));
    host.run(["tool", "install", "--yes", &at(&fake.host(), "")]).expect_code(0);
    assert_eq!(locked(&lock_text(&host), "signer"), acme.text);
    push("1.1.0", None);
    refused(&host, &["tool", "update", "--yes"], 1, &[&acme.text, "signed by `none`"]);
    push("1.2.0", Some(&mallory));
    refused(&host, &["tool", "update", "--yes"], 1, &[&acme.text, &mallory.text]);
    push("1.3.0", Some(&acme));
    host.run(["tool", "update", "--yes"]).expect_code(0);
    answers(&host, "1.3.0");
    host.run(["tool", "verify"]).expect_code(0);
    // The list of referrers is empty now. The installed tool still runs, and `verify` reports the
    // change.
    let referrers = format!("/v2/{REPOSITORY}/referrers/{}", locked(&lock_text(&host), "manifest"));
    let empty = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
    fake.page(&referrers, Reply::new(200, "application/vnd.oci.image.index.v1+json", empty));
    let ran = host.run(["tool", "verify"]).expect_code(1);
    assert!(ran.stdout().contains("signed by `none`"), "{ran}");
    answers(&host, "1.3.0");
}

/// A lock that a team shares, and a user who approved `weather` 1.0.0 with the signer `acme`.
struct Team {
    author: Host,
    user: Host,
    acme: Signer,
    mallory: Signer,
}

impl Team {
    fn new() -> Option<Self> {
        let (author, user) = (Host::without_system_tools(), Host::without_system_tools());
        let acme = Signer::ssh(&author, "acme")?;
        let mallory = Signer::ssh(&author, "mallory")?;
        let team = Self { author, user, acme, mallory };
        team.lock("good", "1.0.0", &team.acme);
        let ran = team.sync(&team.user, &["--yes"]).expect_code(0);
        assert!(ran.stderr().contains("first approval of this tool"), "{ran}");
        assert_eq!(ran.json()[0]["first_approval"], true, "{ran}");
        Some(team)
    }

    /// Makes the lock contain a version from a directory, signed by `signer`, as if another author
    /// had written it.
    fn lock(&self, directory: &str, version: &str, signer: &Signer) {
        let file = self.author.write(format!("{directory}/weather.wasm"), weather(version), 0o644);
        signer.sign_beside(&self.author, &file);
        let _ = fs::remove_file(self.path());
        let other = self.author.write("other/mark", "", 0o644);
        let other = other.parent().expect("a directory").display().to_string();
        let file = file.display().to_string();
        let line = ["--workspace", &other, "tool", "install", &file, "--in-workspace", "--yes"];
        let line = line.iter().chain(&["--replace", "--accept-signer"]);
        self.author.run(line).expect_code(0);
        let written = self.author.scratch().join("other/.ikigai/tools.lock");
        fs::create_dir_all(self.path().parent().expect("a directory")).expect("made");
        fs::copy(written, self.path()).expect("copied");
    }

    fn path(&self) -> std::path::PathBuf {
        self.author.workspace().join(".ikigai/tools.lock")
    }

    fn sync(&self, user: &Host, flags: &[&str]) -> ikigai_tests::host::Ran {
        let workspace = self.author.workspace().display().to_string();
        let line = ["--workspace", &workspace, "tool", "sync", "--json"];
        user.run(line.iter().chain(flags))
    }

    #[track_caller]
    fn is_refused(&self) {
        for flags in [&["--yes"][..], &["--locked", "--yes"], &["--yes", "--grant"]] {
            let ran = self.sync(&self.user, flags).expect_code(1);
            for text in [&*self.acme.text, &self.mallory.text, "--accept-signer", "/bad/", "/good/"]
            {
                assert!(error(&ran).contains(text), "{text}\n{ran}");
            }
        }
    }
}

/// An author with write access to a repository can enter another signer, another source and other
/// bytes.
#[test]
fn a_lock_with_another_signer_than_the_approved_one_is_refused() {
    let Some(team) = Team::new() else { return };
    team.lock("bad", "1.0.0", &team.mallory);
    team.is_refused();
    // Removing the entry and adding it again does not make it a first approval.
    fs::write(team.path(), "version = 1\n").expect("written");
    let ran = team.sync(&team.user, &["--yes"]).expect_code(0);
    assert!(ran.stderr().contains("no longer in the lock: weather"), "{ran}");
    team.lock("bad", "1.0.0", &team.mallory);
    team.is_refused();
    let ran = team.sync(&team.user, &["--yes", "--accept-signer"]).expect_code(0);
    for text in ["changed, and accepted", "another source: you approved", "/good/"] {
        assert!(ran.stderr().contains(text), "{text}\n{ran}");
    }
    // A user who has not approved anything yet sees a first approval.
    let ran = team.sync(&Host::without_system_tools(), &["--locked", "--yes"]).expect_code(0);
    assert!(!ran.stderr().contains("the same as before"), "{ran}");
    assert!(ran.stderr().contains("first approval of this tool"), "{ran}");
}

#[test]
fn another_source_of_the_approved_signer_is_shown() {
    let Some(team) = Team::new() else { return };
    team.lock("moved", "1.0.0", &team.acme);
    let ran = team.sync(&team.user, &[]).expect_code(1);
    assert!(ran.stderr().contains("(you approved it from "), "{ran}");
    let ran = team.sync(&team.user, &["--yes"]).expect_code(0);
    for text in ["the same as before", "another source: you approved this tool from", "/good/"] {
        assert!(ran.stderr().contains(text), "{text}\n{ran}");
    }
}

/// A workspace's tool runs instead of the user's own.
#[test]
fn a_workspace_does_not_change_the_signer_of_a_tool_of_the_user() {
    let Some((host, path, acme)) = signed() else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let other = host.write("bad/weather.wasm", weather("6.6.6"), 0o644);
    mallory.sign_beside(&host, &other);
    let other = other.display().to_string();
    let line = ["tool", "install", &other, "--in-workspace", "--yes"];
    refused(&host, &line, 1, &[&acme.text, &mallory.text, "--accept-signer"]);
    let path = path.display().to_string();
    host.run(["tool", "install", &path, "--in-workspace", "--yes"]).expect_code(0);
}

/// An approval in one workspace applies in another, if both name the same reference.
#[test]
fn another_workspace_does_not_change_the_signer_of_a_reference() {
    let host = Host::without_system_tools();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    let mallory = Signer::ssh(&host, "mallory").expect("a key");
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    acme.sign_beside(&host, &path);
    let other = host.write("other/mark", "", 0o644);
    let other = other.parent().expect("a directory").display().to_string();
    let path_text = path.display().to_string();
    host.run(["tool", "install", &path_text, "--in-workspace", "--yes"]).expect_code(0);
    next(&path, "1.1.0");
    mallory.sign_beside(&host, &path);
    let there = ["--workspace", &other, "tool", "install", &path_text, "--in-workspace", "--yes"];
    let line = ["tool", "install", &path_text, "--yes"];
    for line in [&there[..], &line] {
        refused(&host, line, 1, &[&acme.text, &mallory.text, "--accept-signer"]);
    }
    let accepted: Vec<_> = there.into_iter().chain(["--accept-signer"]).collect();
    host.run(accepted).expect_code(0);
}

/// A tool that was downloaded once can be installed again with its signer, even if no lock contains
/// it.
#[test]
fn without_a_network_the_cache_has_tools_with_their_signatures() {
    let (net, host) = (Net::new(), Host::without_system_tools());
    let fake = net.registry();
    let Some(acme) = Signer::ssh(&host, "acme") else { return };
    for version in ["1.0.0", "1.1.0"] {
        let path = host.write("push/weather.wasm", weather(version), 0o644);
        acme.sign_beside(&host, &path);
        let (path, signature) = (path.display().to_string(), format!("{}.sig", path.display()));
        host.run(["tool", "push", &at(&fake.host(), ""), &path, "--sign", &signature])
            .expect_code(0);
        let reference = at(&fake.host(), &format!(":{version}"));
        host.run(["tool", "install", &reference, "--in-workspace", "--yes"]).expect_code(0);
    }
    let clock = named("clock", "1.0.0", "{}");
    fake.page("/clock.wasm", Reply::new(200, WASM, &*clock));
    let signature = acme.sign(&host, &clock);
    fake.page("/clock.wasm.sig", Reply::new(200, "text/plain", signature));
    let address = format!("http://{}/clock.wasm", fake.host());
    host.run(["tool", "install", &address, "--in-workspace", "--yes"]).expect_code(0);
    let name = fake.host();
    drop(fake);

    let offline = |reference: &str, more: &[&str]| {
        let line = ["tool", "install", reference, "--offline", "--yes", "--json"];
        let ran = host.run(line.iter().chain(more)).expect_code(0);
        assert_eq!(ran.json()[0]["signer"], acme.text.as_str(), "{ran}");
        ran.json()[0]["version"].as_str().map(str::to_owned)
    };
    assert_eq!(offline(&at(&name, ":1.0.0"), &[]).as_deref(), Some("1.0.0"));
    assert_eq!(offline(&at(&name, ""), &["--version", "<1.1"]).as_deref(), Some("1.0.0"));
    assert_eq!(offline(&at(&name, ""), &[]).as_deref(), Some("1.1.0"), "the newest");
    assert_eq!(offline(&address, &[]).as_deref(), Some("1.0.0"));
    // Everything is installed again from the cache, according to the workspace's lock.
    fs::remove_dir_all(host.home().join(".local/share/ikigai/tools")).expect("removed");
    let line = ["tool", "sync", "--offline", "--locked", "--yes", "--json"];
    let ran = host.run(line).expect_code(0);
    for index in [0, 1] {
        assert_eq!(ran.json()[index]["signer"], acme.text.as_str(), "{ran}");
        assert_eq!(ran.json()[index]["state"], "installed", "{ran}");
    }
    // A file whose signature is missing from the cache does not count as unsigned.
    let kept = host.cache().join("blobs/sha256").join(sha256(&acme.sign(&host, &clock)));
    fs::write(&kept, "another").expect("written");
    let line = ["tool", "install", &address, "--offline", "--yes", "--accept-signer", "--replace"];
    let ran = host.run(line).expect_code(1);
    assert!(error(&ran).contains("is not in the cache"), "{ran}");
}
