use ikigai_protocol::Digest;
use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::lock::LockedTool;
use crate::signature::SshKey;
use crate::signer::CertificateIdentity;

/// Two lines that `ssh-keygen` wrote. Their private keys were not kept.
const KEYS: [&str; 2] = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJibRM43+nNH2JWbRSp9xtntEdb9ps46VO+97ueB2bE2 a",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBts0Wk2w4pTxC50rCFGYB6lvpun9X3VPOtXkvwcfmmZ b",
];
const ISSUER: &str = "https://token.actions.githubusercontent.com";
const TODAY: Date = date(2027, 6, 30);

fn key(index: usize) -> SignerKey {
    SignerKey::Ssh(SshKey::parse(KEYS[index]).expect("a key"))
}

fn workflow(subject: &str) -> Signer {
    Signer::Sigstore(CertificateIdentity::new(ISSUER, subject).expect("an identity"))
}

fn acme() -> TrustedSigner {
    let tools = ["weather", "acme_*"].map(|text| text.parse().expect("a pattern"));
    TrustedSigner {
        name: "acme".to_owned(),
        identity: TrustedIdentity::Key(key(0)),
        tools: Some(tools.into()),
        until: Some(TODAY),
    }
}

fn ci(subject: &str) -> TrustedSigner {
    let subject = subject.parse().expect("a pattern");
    let identity = TrustedIdentity::Sigstore { issuer: ISSUER.to_owned(), subject };
    TrustedSigner { name: "ci".to_owned(), identity, tools: None, until: None }
}

#[test]
fn a_signer_admits_the_tools_of_its_patterns() {
    let trust = Trust::new(vec![acme()], true);
    for tool in ["weather", "acme_", "acme_forecast"] {
        assert_eq!(
            trust.admit(tool, &key(0).signer(), TODAY),
            Ok(TrustAdmission::By("acme")),
            "{tool}"
        );
    }
    for tool in ["weather2", "acme", "Acme_x", "x_acme_"] {
        let refusal = trust.admit(tool, &key(0).signer(), TODAY).expect_err(tool).to_string();
        assert!(refusal.contains("`acme` may sign only `weather`, `acme_*`"), "{refusal}");
    }
    let refusal = trust.admit("weather", &key(1).signer(), TODAY).expect_err("unknown");
    assert!(matches!(refusal, TrustRefusal::Unknown { .. }), "{refusal}");
}

#[test]
fn the_last_day_of_a_signer_ends_installs_and_no_calls() {
    let trust = Trust::new(vec![acme()], true);
    let tomorrow = TODAY.tomorrow().expect("a day");
    let refusal = trust.admit("weather", &key(0).signer(), tomorrow).expect_err("too late");
    let expected = "files of `acme` are installed until 2027-06-30 only";
    assert!(refusal.to_string().contains(expected), "{refusal}");
    assert_eq!(trust.admit_call("weather", &key(0).signer()), Ok(()));
}

#[test]
fn a_second_entry_of_a_signer_admits_what_the_first_does_not() {
    let other = TrustedSigner { name: "later".to_owned(), tools: None, until: None, ..acme() };
    let trust = Trust::new(vec![acme(), other], true);
    let admission = trust.admit("anything", &key(0).signer(), TODAY);
    assert_eq!(admission, Ok(TrustAdmission::By("later")));
}

#[test]
fn a_removed_signer_ends_the_calls_of_its_tools() {
    let mut trust = Trust::new(vec![acme()], true);
    trust.signers.clear();
    let refusal = trust.admit_call("weather", &key(0).signer());
    assert!(matches!(refusal, Err(TrustRefusal::Unknown { .. })), "{refusal:?}");
    let refusal = trust.admit_call("weather", &Signer::None);
    assert!(matches!(refusal, Err(TrustRefusal::Unsigned { .. })), "{refusal:?}");
    trust.require_signed = false;
    assert_eq!(trust.admit_call("weather", &key(0).signer()), Ok(()));
}

#[test]
fn a_subject_is_exact_or_ends_in_one_star() {
    let subject = "https://github.com/acme/weather/.github/workflows/release.yml@refs/tags/v1";
    for (pattern, admitted) in [
        (subject, true),
        ("https://github.com/acme/*", true),
        ("https://github.com/acme/weather", false),
        ("https://github.com/ACME/*", false),
    ] {
        let trust = Trust::new(vec![ci(pattern)], true);
        let is_admitted = trust.admit("weather", &workflow(subject), TODAY).is_ok();
        assert_eq!(is_admitted, admitted, "{pattern}");
    }
    let other =
        Signer::Sigstore(CertificateIdentity::new("https://issuer", subject).expect("an identity"));
    assert!(Trust::new(vec![ci(subject)], true).admit("weather", &other, TODAY).is_err());
    for text in ["*", "", "a*b", "a**"] {
        assert!(text.parse::<NamePattern>().is_err(), "{text}");
    }
}

#[test]
fn a_name_that_a_signer_claims_is_admitted_by_its_signature_alone() {
    let stranger = key(1).signer();
    let trust = Trust::new(vec![acme()], false);
    assert_eq!(trust.admit("clock", &stranger, TODAY), Ok(TrustAdmission::Stranger));
    assert!(trust.admit("weather", &stranger, TODAY).is_err());
    // Stripping the signature does not help an attacker.
    let refusal = trust.admit("weather", &Signer::None, TODAY).expect_err("claimed").to_string();
    assert!(refusal.contains("only the signer `acme` signs"), "{refusal}");
    assert_eq!(trust.admit("clock", &Signer::None, TODAY), Ok(TrustAdmission::Unsigned));
    // A signer without `tools` claims no name.
    let trust = Trust::new(vec![ci("https://github.com/acme/*")], false);
    assert_eq!(trust.admit("weather", &stranger, TODAY), Ok(TrustAdmission::Stranger));
    assert_eq!(trust.admit("weather", &Signer::None, TODAY), Ok(TrustAdmission::Unsigned));
    assert!(Trust::new(vec![], true).admit("clock", &stranger, TODAY).is_err());
}

#[test]
fn another_signer_or_none_is_refused_with_both_shown_until_accepted() {
    let (first, other) = (key(0).signer(), key(1).signer());
    let (before, from) = ("oci://ghcr.io/acme/weather", "oci://ghcr.io/mallory/weather");
    let approved = |signer: &Signer| LockedTool {
        version: None,
        from: before.to_owned(),
        wanted: None,
        manifest: None,
        sha256: Digest::from_bytes(b""),
        size: 0,
        signer: signer.clone(),
        needs: None,
    };
    let check = |before: &Signer, found: &Signer, is_accepted| {
        check_pin(Some(("weather", &approved(before))), from, found, is_accepted)
    };
    for found in [&first, &Signer::None] {
        assert_eq!(check_pin(None, from, found, false), Ok(PinStatus::First));
        assert_eq!(check(found, found, false), Ok(PinStatus::Same));
    }
    assert_eq!(check(&Signer::None, &first, false), Ok(PinStatus::Gained));
    for found in [&other, &Signer::None] {
        let refusal = check(&first, found, false).expect_err("another");
        let parts = ["`weather`", before, from, &first.to_string(), &format!("`{found}`")];
        for part in parts.into_iter().chain(["--accept-signer"]) {
            assert!(refusal.to_string().contains(part), "{refusal}");
        }
        assert_eq!(check(&first, found, true), Ok(PinStatus::Accepted));
    }
}

fn any_signer() -> impl Strategy<Value = Signer> {
    prop_oneof![
        Just(Signer::None),
        Just(key(0).signer()),
        Just(key(1).signer()),
        "https://a/[ab]{0,2}".prop_map(|subject| workflow(&subject)),
    ]
}

fn any_trusted() -> impl Strategy<Value = TrustedSigner> {
    let pattern = "[ab]{1,2}\\*?".prop_map(|text| text.parse::<NamePattern>().expect("a pattern"));
    let identity = prop_oneof![
        (0..2_usize).prop_map(|index| TrustedIdentity::Key(key(index))),
        "https://a/[ab]{0,1}\\*?".prop_map(|subject| ci(&subject).identity),
    ];
    let tools = proptest::option::of(proptest::collection::vec(pattern, 0..3));
    let until = proptest::option::of((1..=28_i8).prop_map(|day| date(2027, 6, day)));
    ("[a-z]{1,3}", identity, tools, until)
        .prop_map(|(name, identity, tools, until)| TrustedSigner { name, identity, tools, until })
}

proptest! {
    #[test]
    fn no_policy_that_requires_a_signature_admits_an_unsigned_tool(
        signers in proptest::collection::vec(any_trusted(), 0..4),
        tool in "[ab]{1,3}",
        day in 1..=28_i8,
    ) {
        let trust = Trust::new(signers, true);
        let refusal = Err(TrustRefusal::Unsigned { tool: tool.clone() });
        prop_assert_eq!(trust.admit(&tool, &Signer::None, date(2027, 6, day)), refusal);
        prop_assert!(trust.admit_call(&tool, &Signer::None).is_err());
    }

    #[test]
    fn whoever_admits_a_tool_is_its_signer_and_may_sign_it_today(
        signers in proptest::collection::vec(any_trusted(), 0..4),
        signer in any_signer(),
        tool in "[ab]{1,3}",
        day in 1..=28_i8,
        require_signed: bool,
    ) {
        let today = date(2027, 6, day);
        let trust = Trust::new(signers.clone(), require_signed);
        let admits = |s: &&TrustedSigner| {
            let is_signer = match &s.identity {
                TrustedIdentity::Key(key) => key.signer() == signer,
                TrustedIdentity::Sigstore { subject, .. } => match &signer {
                    Signer::Sigstore(identity) => subject.matches(identity.subject()),
                    _ => false,
                },
            };
            let is_tool = match &s.tools {
                Some(tools) => tools.iter().any(|pattern| pattern.matches(&tool)),
                None => true,
            };
            is_signer && is_tool && s.until.is_none_or(|until| today <= until)
        };
        let expected = signers.iter().find(admits);
        match trust.admit(&tool, &signer, today) {
            Ok(TrustAdmission::By(name)) => prop_assert_eq!(Some(name), expected.map(|s| &*s.name)),
            Ok(TrustAdmission::Stranger) => {
                prop_assert!(expected.is_none() && !require_signed && !signer.is_none());
            }
            Ok(TrustAdmission::Unsigned) => prop_assert!(!require_signed && signer.is_none()),
            Err(_) => prop_assert!(expected.is_none()),
        }
    }
}
