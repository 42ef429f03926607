//! The round trips of a question about many tools. They are as many as for one tool.

use ikigai_host::Digest;
use ikigai_packages::{LockedTool, Signer, ToolsLock};
use ikigai_packages_testing::{Fake, Reply, Style, Waves};
use ikigai_tests::host::Host;

use crate::shipping::scene::*;

const TOOLS: usize = 20;

/// Returns a user of [`TOOLS`] tools in version 1.0.0 from a registry, which has nothing newer.
fn user_of(fake: &Fake, host_name: &str) -> Host {
    let host = Host::without_system_tools();
    let mut lock = ToolsLock::default();
    for number in 0..TOOLS {
        let (name, repository) = (format!("tool_{number:02}"), format!("acme/tool-{number:02}"));
        let file = named("weather", "1.0.0", "{}");
        let text = artifact(fake, &[(WASM, &file)]);
        let digest = fake.manifest(&repository, "1.0.0", MANIFEST, text.as_bytes());
        let digest = digest.strip_prefix("sha256:").expect("a digest");
        let tool = LockedTool {
            version: Some("1.0.0".parse().expect("a version")),
            from: format!("oci://{host_name}/{repository}"),
            wanted: None,
            manifest: Some(digest.parse().expect("a digest")),
            sha256: Digest::from_bytes(&file),
            size: file.len() as u64,
            signer: Signer::None,
            needs: None,
        };
        lock.put(&name, tool).expect("a tool");
    }
    host.write("user-tools.lock", lock.to_string(), 0o600);
    host
}

/// Asks for newer versions, and returns the requested paths of each round trip.
fn round_trips(host: &Host, waves: &Waves) -> Vec<Vec<String>> {
    let ran = host.run(["tool", "outdated", "--json"]).expect_code(0);
    let rows = ran.json().as_array().expect("a list").clone();
    assert_eq!(rows.len(), TOOLS, "{ran}");
    for row in rows {
        assert_eq!(row["state"], "current", "{ran}");
    }
    let mut passed = waves.passed();
    // Only a registry on this machine is first asked whether it supports TLS.
    let first = passed.remove(0);
    assert!(first.iter().all(|path| path == "/v2/"), "{first:?}");
    passed
}

/// Fails unless the first wave asked for the tags, and the second one for their manifests.
#[track_caller]
fn assert_asked(tags: &[String], manifests: &[String]) {
    assert!(tags.iter().all(|path| path.ends_with("/tags/list")), "{tags:?}");
    assert!(manifests.iter().all(|path| path.ends_with("/manifests/1.0.0")), "{manifests:?}");
}

#[test]
fn twenty_tools_are_asked_for_in_two_round_trips() {
    let net = Net::new();
    let fake = net.registry();
    let waves = net.waves(&fake.host(), TOOLS);
    let host = user_of(&fake, &waves.host());
    let trips = round_trips(&host, &waves);
    let [tags, manifests] = &trips[..] else { panic!("{trips:#?}") };
    assert_asked(tags, manifests);
}

/// If a registry needs a token, it is asked once without one, then its issuer once, then the
/// registry again.
#[test]
fn twenty_tools_are_asked_for_in_two_more_round_trips_where_tokens_are_wanted() {
    let net = Net::new();
    let fake = net.registry();
    let waves = net.waves(&fake.host(), TOOLS);
    let host = user_of(&fake, &waves.host());
    fake.page("/token", Reply::new(200, "application/json", r#"{"token":"abc"}"#));
    fake.restyle(Style {
        authorization: Some("Bearer abc".to_owned()),
        challenge: Some(format!("Bearer realm=\"http://{}/token\",service=\"s\"", waves.host())),
        ..Style::default()
    });
    let trips = round_trips(&host, &waves);
    let [refused, tokens, tags, manifests] = &trips[..] else { panic!("{trips:#?}") };
    assert_eq!(refused, tags);
    assert_asked(tags, manifests);
    let is_token = |path: &String| path.starts_with("/token?") && path.contains("scope=");
    assert!(tokens.iter().all(is_token), "{tokens:?}");
}
