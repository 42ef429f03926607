//! The servers that get credentials, and those that must not.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ikigai_packages::credentials::Credentials;
use ikigai_packages::download::DownloadSource;
use ikigai_packages::oci::{OciError, resolve};
use ikigai_packages::transport::TransportSettings;
use ikigai_packages_testing::{Fake, Real, Reply, Style};

use crate::scene::*;

/// `me:secret` in base64.
const BASIC: &str = "bWU6c2VjcmV0";
/// The same for a `htpasswd` file, with bcrypt.
const HTPASSWD: &str = "me:$2y$05$MQy.fqh4nK.4X/gUOPP4yusWdZTvwZKgy8w7XHXhaFaTNvPBFewWW\n";

fn kept(directory: &Path, host: &str) -> Credentials {
    let path = directory.join("config.json");
    fs::write(&path, format!(r#"{{"auths":{{"{host}":{{"auth":"{BASIC}"}}}}}}"#)).expect("written");
    Credentials::of_files(vec![path])
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn guarded(authorization: &str, challenge: String) -> Style {
    let (authorization, challenge) = (Some(authorization.to_owned()), Some(challenge));
    Style { ranges: true, authorization, challenge, ..Style::default() }
}

#[tokio::test]
async fn a_registry_with_tls_and_a_password_is_pushed_to_and_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let names = vec!["127.0.0.1".to_owned()];
    let own = rcgen::generate_simple_self_signed(names).expect("a certificate");
    fs::write(at("cert.pem"), pem("CERTIFICATE", own.cert.der())).expect("written");
    let key = own.signing_key.serialized_der();
    fs::write(at("key.pem"), pem("PRIVATE KEY", key)).expect("written");
    fs::write(at("htpasswd"), HTPASSWD).expect("written");
    let real = Real::docker(Some((&at("cert.pem"), &at("key.pem"))), Some(&at("htpasswd")));
    let Some(real) = real.expect("a registry") else { return };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).expect("a root");
    let trusting = TransportSettings::trusting(roots).expect("settings");
    let credentials = kept(directory.path(), real.host());

    let repository = repository_with(real.host(), &trusting, credentials.clone());
    repository.push(&packed(1), &tag("1")).await.expect("pushed");
    let artifact = resolve(&repository, &tag("1")).await.expect("a tool");
    let (_cache, cache) = cache();
    cache
        .download(DownloadSource::Blob(&repository, &artifact), &|_, _| {})
        .await
        .expect("downloaded");

    let stranger = repository_with(real.host(), &trusting, Credentials::default());
    let error = resolve(&stranger, &tag("1")).await.expect_err("no credential");
    assert!(error.to_string().ends_with("no credential is kept for it"), "{error}");
    let hint = error.hint().expect("a hint");
    assert!(hint.starts_with(&format!("log in with `docker login {}`", real.host())), "{hint}");
    let wrong = at("wrong.json");
    let text = format!(r#"{{"auths":{{"{}":{{"auth":"bWU6d3Jvbmc="}}}}}}"#, real.host());
    fs::write(&wrong, text).expect("written");
    let other = repository_with(real.host(), &trusting, Credentials::of_files(vec![wrong]));
    let error = resolve(&other, &tag("1")).await.expect_err("another password");
    assert!(error.to_string().ends_with("does not suffice"), "{error}");
    let untrusting = repository_with(real.host(), &settings(), credentials);
    let error = resolve(&untrusting, &tag("1")).await.expect_err("no root").to_string();
    assert!(error.starts_with("no trusted connection to"), "{error}");
}

#[tokio::test]
async fn a_token_is_asked_for_with_the_credential_and_only_for_what_is_done() {
    let directory = tempfile::tempdir().expect("a directory");
    let issuing = Fake::start(guarded("Bearer t", String::new())).await.expect("a registry");
    let host = issuing.host();
    issuing.restyle(guarded(
        "Bearer t",
        format!("Bearer realm=\"http://{host}/token\",service=\"s\""),
    ));
    issuing.page("/token", Reply::new(200, "application/json", r#"{"token":"t"}"#));
    let repository = repository_with(&host, &settings(), kept(directory.path(), &host));
    repository.push(&packed(1), &tag("1")).await.expect("pushed");
    resolve(&repository, &tag("1")).await.expect("a tool");
    let seen = issuing.seen();
    let tokens: Vec<_> = seen.iter().filter(|it| it.path.starts_with("/token")).collect();
    let scopes: Vec<_> = tokens
        .iter()
        .map(|it| it.path.replace("%3A", ":").replace("%2F", "/").replace("%2C", ","))
        .collect();
    assert_eq!(scopes.len(), 2, "each token is used again: {scopes:?}");
    assert!(scopes[0].contains("scope=repository:acme/weather:pull,push&"), "{scopes:?}");
    assert!(scopes[1].contains("scope=repository:acme/weather:pull&"), "{scopes:?}");
    for token in tokens {
        assert_eq!(token.header("authorization"), Some(format!("Basic {BASIC}").as_str()));
    }
    let others = seen.iter().filter(|it| !it.path.starts_with("/token"));
    for other in others {
        let sent = other.header("authorization");
        assert!(sent.is_none_or(|it| it == "Bearer t"), "{}: {sent:?}", other.path);
    }
}

#[tokio::test]
async fn a_realm_elsewhere_gets_no_credential() {
    let directory = tempfile::tempdir().expect("a directory");
    let other = Fake::start(Style::default()).await.expect("a registry");
    for realm in [format!("http://{}/token", other.host()), "http://example.org/token".to_owned()] {
        let style = guarded("Bearer t", format!("Bearer realm=\"{realm}\""));
        let fake = Fake::start(style).await.expect("a registry");
        let credentials = kept(directory.path(), &fake.host());
        let repository = repository_with(&fake.host(), &settings(), credentials);
        let error = resolve(&repository, &tag("1")).await.expect_err("refused");
        assert!(matches!(&error, OciError::Realm { realm: it, .. } if *it == realm), "{error}");
    }
    assert_eq!(other.seen().len(), 0, "nobody was asked");
}

#[tokio::test]
async fn a_redirect_takes_no_credential_along() {
    let directory = tempfile::tempdir().expect("a directory");
    let basic = format!("Basic {BASIC}");
    let fake =
        Fake::start(guarded(&basic, "Basic realm=\"r\"".to_owned())).await.expect("a registry");
    let store = Fake::start(Style::default()).await.expect("a server");
    let repository =
        repository_with(&fake.host(), &settings(), kept(directory.path(), &fake.host()));
    repository.push(&packed(1), &tag("1")).await.expect("pushed");
    let artifact = resolve(&repository, &tag("1")).await.expect("a tool");
    let path = format!("/v2/acme/weather/blobs/sha256:{}", artifact.digest);
    let at = format!("http://{}/file", store.host());
    fake.page(&path, Reply::new(307, "text/plain", "").with("location", &at));
    store.page("/file", Reply::new(200, "application/octet-stream", component(1)));
    let (_directory, cache) = cache();
    cache
        .download(DownloadSource::Blob(&repository, &artifact), &|_, _| {})
        .await
        .expect("downloaded");
    let seen = store.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("authorization"), None);
    let asked = fake.seen();
    assert_eq!(asked.last().and_then(|it| it.header("authorization")), Some(basic.as_str()));
    // The store refuses, not the registry, and no credential would help.
    store.page("/file", Reply::new(403, "text/plain", "expired"));
    let (_other, fresh) = crate::scene::cache();
    let error = fresh.download(DownloadSource::Blob(&repository, &artifact), &|_, _| {}).await;
    let error = error.expect_err("refused").to_string();
    let host = store.host();
    assert!(error.starts_with(&format!("`{host}` answers 403")), "{error}");
    fake.page(&path, Reply::new(403, "text/plain", ""));
    let error = fresh.download(DownloadSource::Blob(&repository, &artifact), &|_, _| {}).await;
    let error = error.expect_err("refused").to_string();
    assert!(error.ends_with("the credential that is kept for it does not suffice"), "{error}");
}

#[tokio::test]
async fn http_to_other_machines_is_refused_wherever_it_is_named() {
    let fake = Fake::start(Style::default()).await.expect("a registry");
    let repository = repository(&fake.host());
    repository.push(&packed(1), &tag("1")).await.expect("pushed");
    let artifact = resolve(&repository, &tag("1")).await.expect("a tool");
    let away =
        || Reply::new(307, "text/plain", "").with("location", "http://example.org/x?secret=1");
    let path = format!("/v2/acme/weather/blobs/sha256:{}", artifact.digest);
    fake.page(&path, away());
    let (_directory, cache) = cache();
    let error = cache.download(DownloadSource::Blob(&repository, &artifact), &|_, _| {}).await;
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("leads to `http://example.org/x`, which is refused"), "{error}");
    fake.page("/v2/acme/weather/blobs/uploads/", Reply { status: 202, ..away() });
    let error = repository.push(&packed(2), &tag("2")).await.expect_err("refused").to_string();
    assert!(error.contains("leads to `http://example.org/x`, which is refused"), "{error}");
    let loops = Reply::new(302, "text/plain", "").with("location", "/v2/acme/weather/manifests/3");
    fake.page("/v2/acme/weather/manifests/3", loops);
    let error = resolve(&repository, &tag("3")).await.expect_err("endless").to_string();
    assert!(error.ends_with("there are more than 5 redirects"), "{error}");
}
