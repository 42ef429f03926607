//! The requirement of a signature. No layer lifts it, and only the user and ceilings can name
//! signers.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use ikigai_host::Digest;
use ikigai_host::policy::{
    Backend, LayerKind, PolicyRequest, Provenance, Signatures, SignerIdentity, SignerRule,
    SignersInForce, ToolOrigin,
};
use ikigai_tests::draw::Draw;

use crate::policy_layers::rig::{
    CEILING, Rig, USER, WORKSPACE, contents, granted_server, of_server, server_contents, system,
    users,
};

/// A lock that records the signer of each digest. A signer's key is the same as its name.
pub(crate) struct Signed(BTreeMap<Digest, &'static str>);

impl Signatures for Signed {
    fn check(&self, rule: &SignerRule) -> Result<(), String> {
        match &rule.identity {
            SignerIdentity::Ssh(key) if key == "broken" => Err("has no key".to_owned()),
            _ => Ok(()),
        }
    }

    fn admit(
        &self,
        tool: &str,
        contents: &[Digest],
        signers: &Arc<SignersInForce>,
    ) -> Result<(), String> {
        let is_admitted = |digest: &Digest| {
            let signer = self.0.get(digest).map(|key| SignerIdentity::Ssh((*key).to_owned()));
            signers.signers.iter().any(|rule| Some(&rule.identity) == signer.as_ref())
        };
        match contents.iter().all(is_admitted) {
            true => Ok(()),
            false => Err(format!("`{tool}` is not signed; ask its author")),
        }
    }
}

/// Returns a rig in which `acme` signed the tests' tool.
fn signed_by_acme(ceiling: &str, user: &str, workspace: &str) -> Rig {
    let mut rig = Rig::with(ceiling, user, workspace);
    rig.signatures = Some(Arc::new(Signed([(contents()[0], "acme")].into())));
    rig
}

/// Returns a table of signers with these names. Each name is the signer's key as well.
fn naming(names: &[&str]) -> String {
    names.iter().map(|name| format!("[signers.{name}]\nssh = \"{name}\"\n")).collect()
}

#[test]
fn a_tool_of_the_user_needs_a_signer_in_force() {
    let (own, other) = (contents(), [Digest::from_bytes(b"another")]);
    let user = format!("require_signed = true\n{}", naming(&["acme"]));
    let rig = signed_by_acme("", &user, "");
    for backend in [Backend::Wasm, Backend::Native] {
        rig.allowed(users(backend, &own));
        // A component runs with the contents that were found, but its file must still be the signed
        // one.
        let both = [own[0], other[0]];
        for contents in [&other[..], &both, &[]] {
            let denial = rig.decide(users(backend, contents)).expect_err("denied");
            let said = denial.to_string();
            assert!(said.contains("policy.toml:1 requires signed tools: `tool` is"), "{said}");
            let Some(Provenance::File { kind: LayerKind::User, line: 1, .. }) = denial.provenance
            else {
                panic!("{denial:?}")
            };
        }
        // A tool that is installed with the host is as trusted as the host.
        rig.allowed(system("grep", backend));
    }
    rig.write(USER, "require_signed = true\n");
    rig.decide(users(Backend::Wasm, &own)).expect_err("its signer is gone");
    rig.write(USER, &naming(&["acme"]));
    rig.allowed(users(Backend::Wasm, &other));
}

#[test]
fn what_nobody_can_sign_is_refused_with_its_reason() {
    let own = contents();
    let user = format!("require_signed = true\n{}", granted_server(""));
    let rig = signed_by_acme("", &format!("{user}{}", naming(&["acme"])), "");
    let refused = |request: PolicyRequest<'_>, part: &str| {
        let said = rig.decide(request).expect_err("denied").to_string();
        assert!(said.contains(part) && said.contains("policy.toml:1"), "{said}");
    };
    for tool in [None, Some("echo")] {
        refused(of_server(tool, &server_contents()), "the definition of a server cannot be signed");
    }
    for backend in [Backend::Wasm, Backend::Native] {
        refused(PolicyRequest { name: None, ..users(backend, &own) }, "named by its path");
    }
    let mut unable = Rig::with("", "require_signed = true\n", "");
    unable.signatures = None;
    let said = unable.decide(users(Backend::Wasm, &own)).expect_err("denied").to_string();
    assert!(said.contains("this program checks no signature"), "{said}");
    unable.allowed(system("grep", Backend::Wasm));
}

#[test]
fn no_layer_lifts_what_another_requires() {
    let other = [Digest::from_bytes(b"another")];
    let (yes, no) = ("require_signed = true\n", "require_signed = false\n");
    for (ceiling, user, workspace) in
        [("", yes, no), (yes, no, no), (no, no, yes), (yes, "", ""), ("", "", yes), (no, yes, "")]
    {
        let user = format!("{user}{}", naming(&["acme"]));
        let rig = signed_by_acme(ceiling, &user, workspace);
        let request = users(Backend::Wasm, &other);
        rig.decide(request).expect_err("denied");
        rig.allowed(users(Backend::Wasm, &contents()));
    }
    let rig = signed_by_acme(no, no, no);
    rig.allowed(users(Backend::Wasm, &other));
}

#[test]
fn a_workspace_names_no_signer() {
    let attack = format!("require_signed = true\n{}", naming(&["acme"]));
    let rig = signed_by_acme("", "require_signed = true\n", &attack);
    let error = rig.host().err().expect("refused").to_string();
    let place = ".ikigai/policy.toml:2:2: the policy of a workspace cannot name signers";
    assert!(error.contains(place), "{error}");
    assert!(error.contains("its authors could name themselves"), "{error}");
    // A workspace's signer that is written while the host runs has no effect.
    rig.write(WORKSPACE, "");
    let host = rig.host().expect("a policy");
    rig.write(WORKSPACE, &attack);
    host.authority().decide(&users(Backend::Wasm, &contents())).expect_err("denied");
    assert!(host.authority().signers().expect("in force").signers.is_empty());
}

#[test]
fn the_signers_of_a_ceiling_are_the_only_ones() {
    let user = format!("require_signed = true\n{}", naming(&["acme"]));
    let rig = signed_by_acme(&naming(&["corp"]), &user, "");
    rig.decide(users(Backend::Wasm, &contents())).expect_err("denied");
    let host = rig.host().expect("a policy");
    let names = |rules: &[SignerRule]| rules.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&host.authority().signers().expect("in force").signers), ["corp"]);
    assert_eq!(names(&host.authority().void_signers().expect("in force")), ["acme"]);
    // A ceiling that requires signatures but names no signer leaves the choice to the user.
    let rig = signed_by_acme("require_signed = true\n", &naming(&["acme"]), "");
    rig.allowed(users(Backend::Wasm, &contents()));
}

#[test]
fn a_ceiling_that_somebody_adds_names_no_further_signer() {
    let rig = signed_by_acme(&naming(&["corp"]), "require_signed = true\n", "");
    let rule = |text: &str| {
        rig.write("further.toml", text);
        let host = rig.builder().ceiling(rig.path("further.toml")).build().expect("a policy");
        let signers = host.authority().signers().expect("in force");
        signers.signers.iter().map(|it| (it.name.clone(), it.tools.clone())).collect::<Vec<_>>()
    };
    assert_eq!(rule(&naming(&["acme"])), []);
    assert_eq!(rule("require_signed = true\n"), [("corp".to_owned(), None)]);
    let both = format!("{}tools = [\"weather\"]\n{}", naming(&["corp"]), naming(&["acme"]));
    assert_eq!(rule(&both), [("corp".to_owned(), Some(vec!["weather".to_owned()]))]);
}

#[test]
fn the_signers_in_force_are_the_same_until_a_file_changes() {
    let rig = signed_by_acme("", &naming(&["acme"]), "");
    let host = rig.host().expect("a policy");
    let signers = || host.authority().signers().expect("in force");
    let first = signers();
    // The file is so new that its times cannot reveal a change, so it is read each time.
    assert!(Arc::ptr_eq(&first, &signers()));
    host.authority().decide(&users(Backend::Wasm, &contents())).expect("allowed");
    let proposal = host.authority().propose_grant("tool", &[]).expect("a proposal");
    let own = contents();
    let request = users(Backend::Wasm, &own);
    host.authority().decide_with(&proposal, &request).expect("allowed");
    assert!(Arc::ptr_eq(&first, &signers()), "a proposal is not in force");
    rig.write(USER, &naming(&["acme", "corp"]));
    assert_eq!(signers().signers.len(), 2);
    rig.write(USER, &naming(&["acme"]));
    assert_eq!(*signers(), *first);
    fs::remove_file(rig.path(USER)).expect("removed");
    let none = signers();
    assert!(none.signers.is_empty() && Arc::ptr_eq(&none, &signers()));
}

#[test]
fn a_file_whose_signer_cannot_be_used_is_no_policy() {
    let broken = "require_signed = true\n[signers.acme]\nssh = \"broken\"\n";
    let rig = signed_by_acme("", broken, "");
    let error = rig.host().err().expect("refused").to_string();
    assert!(error.contains("policy.toml:3:7: `[signers.acme]` has no key"), "{error}");
    let rig = signed_by_acme("", &naming(&["acme"]), "");
    let host = rig.host().expect("a policy");
    let decide =
        |name| host.authority().decide(&PolicyRequest { name, ..system("grep", Backend::Wasm) });
    rig.write(USER, broken);
    decide(Some("grep")).expect("the earlier text is in force");
    assert_eq!(host.authority().signers().expect("in force").signers[0].name, "acme");
    rig.write(CEILING, broken);
    let said = decide(Some("grep")).expect_err("nothing may run").to_string();
    assert!(said.contains("ceiling.toml:3:7: `[signers.acme]` has no key"), "{said}");
}

#[test]
fn a_mistake_in_a_signer_is_told_with_its_place() {
    let signer = "[signers.acme]\n";
    for (text, place, part) in [
        ("require_signed = \"yes\"\n", "1:18", "expected true or false, found a string"),
        ("require_sign = true\n", "1:1", "did you mean `require_signed`?"),
        ("[signer.acme]\n", "1:2", "did you mean `signers`?"),
        ("signers = 1\n", "1:11", "expected a table, found an integer"),
        ("signers.acme = 1\n", "1:16", "`acme`: expected a table, found an integer"),
        ("[signers.\"a b\"]\nssh = \"x\"\n", "1:10", "is not a valid signer name"),
        ("[signers.\"\"]\nssh = \"x\"\n", "1:10", "is not a valid signer name"),
        (signer, "1:10", "add one of `ssh`, `minisign`, `key`, `sigstore`"),
        ("[signers.acme]\nssh = 1\n", "2:7", "expected a string, found an integer"),
        ("[signers.acme]\nssh = \" \"\n", "2:7", "`ssh` is empty"),
        ("[signers.acme]\nssh = \"x\"\nkey = \"y\"\n", "3:1", "has `key` and `ssh`"),
        ("[signers.acme]\nminisig = \"x\"\n", "2:1", "did you mean `minisign`?"),
        ("[signers.acme]\nsigstore = \"x\"\n", "2:12", "expected a table, found a string"),
        ("[signers.acme]\nsigstore = { issuer = \"x\" }\n", "2:12", "has no `subject`"),
        ("[signers.acme]\nsigstore = { isuer = \"x\" }\n", "2:14", "did you mean `issuer`?"),
        ("[signers.acme]\nssh = \"x\"\ntools = \"weather\"\n", "3:9", "write [\"weather\"]"),
        ("[signers.acme]\nssh = \"x\"\ntools = [\"*\"]\n", "3:10", "leave `tools` out"),
        ("[signers.acme]\nssh = \"x\"\ntools = [\"a*b\"]\n", "3:10", "names no tools"),
        ("[signers.acme]\nssh = \"x\"\ntools = [\"file-read\"]\n", "3:10", "names no tools"),
        ("[signers.acme]\nssh = \"x\"\nuntil = \"2027-06-30\"\n", "3:9", "without quotes"),
        ("[signers.acme]\nssh = \"x\"\nuntil = 2027-06-30T10:00:00\n", "3:9", "only the day"),
        ("[signers.acme]\nssh = \"x\"\nuntil = 10:00:00\n", "3:9", "only the day"),
        ("[signers.acme]\nssh = \"x\"\nuntil = 2027-02-30\n", "3:", ""),
    ] {
        for (file, rig) in
            [("policy", Rig::with("", text, "")), ("ceiling", Rig::with(text, "", ""))]
        {
            let Err(ikigai_host::BuildError::Policy(error)) = rig.host().map(drop) else {
                panic!("accepted: {text}")
            };
            let line = error.line();
            assert!(line.contains(&format!("{file}.toml:{place}")), "{text}: {line}");
            assert!(line.contains(part), "{text}: {line}");
        }
    }
    let whole = "[signers.one]\nsigstore = { issuer = \"https://i\", subject = \"https://s/*\" }\n\
                 [signers.two]\nkey = \"\"\"\n-----BEGIN PUBLIC KEY-----\nAAAA\n\
                 -----END PUBLIC KEY-----\n\"\"\"\ntools = [\"weather\", \"acme_*\"]\n\
                 until = 2027-06-30\n";
    let rig = Rig::with("", whole, "");
    let host = rig.host().expect("a policy");
    let signers = host.authority().signers().expect("in force");
    let [one, two] = &signers.signers[..] else { panic!("{signers:?}") };
    assert_eq!(one.identity.to_string(), "https://s/* (by https://i)");
    assert_eq!((two.identity.kind(), two.identity.to_string()), ("key", "AAAA".to_owned()));
    assert_eq!(two.until.as_deref(), Some("2027-06-30"));
    assert_eq!(two.tools.as_deref(), Some(&["weather".to_owned(), "acme_*".to_owned()][..]));
    assert!(two.provenance.to_string().ends_with("policy.toml:3"), "{two:?}");
}

#[test]
fn a_change_of_the_users_file_leaves_its_signers() {
    let user = format!("require_signed = true\n{}", naming(&["acme"]));
    let rig = signed_by_acme("", &user, "");
    let host = rig.host().expect("a policy");
    let keys = [("fs".to_owned(), ikigai_host::policy::NewValue::List(vec!["ro:docs".to_owned()]))];
    host.authority().propose_grant("tool", &keys).expect("proposed").write().expect("written");
    let text = fs::read_to_string(rig.path(USER)).expect("read");
    assert!(text.starts_with(&user) && text.contains("ro:docs"), "{text}");
}

#[test]
fn random_layers_never_admit_what_is_not_signed() {
    let (own, other) = (contents(), [Digest::from_bytes(b"another")]);
    let (mut refused, mut admitted) = (0, 0);
    for round in 0..300 {
        let mut draw = Draw::new(round);
        let [ceiling, user, workspace] = [true, true, false].map(|may_name| {
            let mut text = String::new();
            if draw.flip() {
                let value = draw.flip() && draw.flip();
                text += &format!("require_signed = {value}\n");
            }
            if draw.flip() {
                text += &format!("profile = \"{}\"\n", draw.one(&["strict", "standard"]));
            }
            if draw.flip() {
                text += &format!("[tools.tool]\nsha256 = [\"{}\", \"{}\"]\n", own[0], other[0]);
            }
            let names = draw.some(&["acme", "corp", "other"]);
            if may_name {
                text += &naming(&names.into_iter().copied().collect::<Vec<_>>());
            }
            text
        });
        let what = format!("round {round}\n{ceiling}\n---\n{user}\n---\n{workspace}");
        let requires = |text: &String| text.contains("require_signed = true");
        let is_required = [&ceiling, &user, &workspace].into_iter().any(requires);
        let naming = if ceiling.contains("[signers") { &ceiling } else { &user };
        let is_in_force = naming.contains("[signers.acme]");
        let rig = signed_by_acme(&ceiling, &user, &workspace);
        for backend in [Backend::Wasm, Backend::Native] {
            let unsigned = rig.decide(users(backend, &other));
            assert!(!(is_required && unsigned.is_ok()), "{what}");
            let unnamed = PolicyRequest { name: None, ..users(backend, &own) };
            assert!(!(is_required && rig.decide(unnamed).is_ok()), "{what}");
            let signed = rig.decide(users(backend, &own));
            assert!(!(is_required && !is_in_force && signed.is_ok()), "{what}");
            if !is_required || is_in_force {
                let says_unsigned = |said: String| said.contains("requires signed tools");
                let denial = signed.as_ref().err().map(ToString::to_string);
                assert!(!denial.is_some_and(says_unsigned), "{what}");
            }
            refused += usize::from(is_required);
            admitted += usize::from(is_required && signed.is_ok());
        }
        let request = PolicyRequest { origin: ToolOrigin::System, ..users(Backend::Wasm, &own) };
        rig.allowed(request);
    }
    assert!(refused > 100 && admitted > 10, "{refused} were required, {admitted} of them admitted");
}
