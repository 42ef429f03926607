//! The tools, the servers and the checks that the tests share.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ikigai_host::Digest;
use ikigai_packages::{Manifest, section};
use ikigai_packages_testing::{Fake, Proxy, Style, Waves};
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const WASM: &str = "application/wasm";

/// The repository that the tests publish in.
pub(crate) const REPOSITORY: &str = "acme/weather";

/// The servers of one test, which run concurrently with it.
pub(crate) struct Net(Runtime);

impl Net {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self(runtime.expect("a runtime"))
    }

    /// Starts a registry that sends parts and lists referrers.
    pub(crate) fn registry(&self) -> Fake {
        self.fake(Style { ranges: true, referrers: true, ..Style::default() })
    }

    pub(crate) fn fake(&self, style: Style) -> Fake {
        self.0.block_on(Fake::start(style)).expect("a registry")
    }

    pub(crate) fn proxy(&self, upstream: &str) -> Proxy {
        self.0.block_on(Proxy::start(upstream)).expect("a proxy")
    }

    pub(crate) fn waves(&self, upstream: &str, width: usize) -> Waves {
        self.0.block_on(Waves::start(upstream, width)).expect("a proxy")
    }
}

/// Returns the schema of a tool, which is the answer to its calls as well. The description
/// distinguishes the versions.
pub(crate) fn schema(name: &str, says: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"{says}","parameters":{{"type":"object","properties":{{}}}}}}"#
    )
}

/// Returns a component without a manifest.
pub(crate) fn component(name: &str, says: &str) -> Vec<u8> {
    printing(schema(name, says), Ending::Well)
}

/// Returns a file with this JSON as its manifest, valid or not.
pub(crate) fn with_manifest(file: &[u8], json: &str) -> Vec<u8> {
    section::write(file, json.as_bytes()).expect("a section")
}

/// Returns a version of the tool `weather`, which has no needs and answers `weather VERSION`.
pub(crate) fn weather(version: &str) -> Vec<u8> {
    needing(version, "{}")
}

/// Returns a version of `weather` with these needs.
pub(crate) fn needing(version: &str, needs: &str) -> Vec<u8> {
    named("weather", version, needs)
}

/// Returns a tool with this name, version and needs.
pub(crate) fn named(name: &str, version: &str, needs: &str) -> Vec<u8> {
    let json = format!(
        r#"{{"manifest":1,"name":"{name}","version":"{version}","license":"MIT","needs":{needs}}}"#
    );
    let manifest = Manifest::from_json(json.as_bytes()).expect("a manifest");
    manifest.embed(&component(name, &format!("{name} {version}"))).expect("a tool")
}

/// Returns the digest of a file as a lock has it.
pub(crate) fn sha256(file: &[u8]) -> String {
    Digest::from_bytes(file).to_string()
}

/// Publishes a file as a tag of [`REPOSITORY`], and returns the digest of the manifest with its
/// algorithm.
pub(crate) fn publish(fake: &Fake, tag: &str, file: &[u8]) -> String {
    let text = artifact(fake, &[(WASM, file)]);
    fake.manifest(REPOSITORY, tag, MANIFEST, text.as_bytes())
}

/// Returns the manifest of an artifact with these layers, whose blobs the registry gets.
pub(crate) fn artifact(fake: &Fake, layers: &[(&str, &[u8])]) -> String {
    artifact_of(fake, layers, ("application/vnd.oci.empty.v1+json", "{}"))
}

/// Returns such a manifest with a configuration.
pub(crate) fn artifact_of(fake: &Fake, layers: &[(&str, &[u8])], config: (&str, &str)) -> String {
    let descriptor = |(kind, bytes): &(&str, &[u8])| {
        let (digest, size) = (fake.blob(bytes), bytes.len());
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}"#)
    };
    let layers: Vec<String> = layers.iter().map(descriptor).collect();
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{},"layers":[{}]}}"#,
        descriptor(&(config.0, config.1.as_bytes())),
        layers.join(",")
    )
}

/// Returns the reference of [`REPOSITORY`] at a host, followed by `rest`.
pub(crate) fn at(host: &str, rest: &str) -> String {
    format!("{host}/{REPOSITORY}{rest}")
}

/// Returns a host with `weather` 1.0.0, which was installed from a registry without a tag.
pub(crate) fn installed_from(fake: &Fake) -> Host {
    let host = Host::without_system_tools();
    publish(fake, "1.0.0", &weather("1.0.0"));
    host.run(["tool", "install", "--yes", &at(&fake.host(), "")]).expect_code(0);
    host
}

/// Returns a host with `weather` 1.0.0, which was installed from a file, and the path of that file.
pub(crate) fn installed() -> (Host, PathBuf) {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    install(&host, &path).expect_code(0);
    (host, path)
}

/// Installs the file at a path.
pub(crate) fn install(host: &Host, path: &Path) -> Ran {
    install_with(host, path, &[])
}

/// Installs the file at a path with these flags.
pub(crate) fn install_with(host: &Host, path: &Path, flags: &[&str]) -> Ran {
    let path = path.to_str().expect("UTF-8");
    let yes = if flags.contains(&"--yes") { None } else { Some(&"--yes") };
    host.run(["tool", "install", path].iter().chain(yes).chain(flags))
}

/// Returns the lock of the user.
pub(crate) fn lock(host: &Host) -> PathBuf {
    host.scratch().join("user-tools.lock")
}

/// Returns the text of the lock, or an empty text if there is no lock.
pub(crate) fn lock_text(host: &Host) -> String {
    fs::read_to_string(lock(host)).unwrap_or_default()
}

/// Returns the value of a key in a lock with one tool.
#[track_caller]
pub(crate) fn locked(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    line.unwrap_or_else(|| panic!("no `{key}` in {text}")).trim_matches('"').to_owned()
}

/// Returns the text of the user's policy, or an empty text if there is no policy.
pub(crate) fn policy_text(host: &Host) -> String {
    fs::read_to_string(host.home().join(".config/ikigai/policy.toml")).unwrap_or_default()
}

/// Writes the user's policy.
pub(crate) fn write_policy(host: &Host, text: &str) {
    host.write_policy(text);
}

/// Returns everything that an installation may change, with modes and contents: tools, locks,
/// policy, and the files that a workspace shares.
pub(crate) fn state(host: &Host) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    for place in [
        "user-tools",
        "user-tools.lock",
        "home/.config",
        "home/.local/share/ikigai/tools",
        "workspace/.ikigai",
    ] {
        collect(host.scratch(), &host.scratch().join(place), &mut found);
    }
    found
}

fn collect(root: &Path, path: &Path, found: &mut BTreeMap<String, (u32, String)>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("readable") {
            collect(root, &entry.expect("an entry").path(), found);
        }
        return;
    }
    let name = path.strip_prefix(root).expect("beneath").display().to_string();
    let bytes = fs::read(path).expect("readable");
    let shown = String::from_utf8(bytes).unwrap_or_else(|error| sha256(error.as_bytes()));
    found.insert(name, (metadata.permissions().mode() & 0o7777, shown));
}

/// Calls `weather` and returns its answer.
#[track_caller]
pub(crate) fn call(host: &Host) -> Value {
    host.run(["tool", "call", "weather", "{}"]).json()
}

/// Fails unless `weather` answers with this version.
#[track_caller]
pub(crate) fn answers(host: &Host, version: &str) {
    let envelope = call(host);
    let says = &envelope["result"]["description"];
    assert_eq!(*says, format!("weather {version}"), "{envelope}");
}

/// Returns the message and the hints of a failed command, and fails unless it printed exactly one
/// message.
#[track_caller]
pub(crate) fn error(ran: &Ran) -> String {
    let stderr = ran.stderr();
    let errors: Vec<_> = stderr
        .match_indices("error: ")
        .filter(|(place, _)| *place == 0 || stderr.as_bytes()[place - 1] == b'\n')
        .collect();
    assert_eq!(errors.len(), 1, "one error\n{ran}");
    stderr[errors[0].0..].to_owned()
}

/// Runs a command that must fail with these texts in its message. It must leave everything
/// unchanged, and `weather` 1.0.0 must still work.
#[track_caller]
pub(crate) fn refused(host: &Host, args: &[&str], code: i32, texts: &[&str]) -> Ran {
    let before = state(host);
    let ran = host.run(args).expect_code(code);
    let error = error(&ran);
    for text in texts {
        assert!(error.contains(text), "`{text}` is not in the message\n{ran}");
    }
    assert_eq!(state(host), before, "nothing changed\n{ran}");
    answers(host, "1.0.0");
    ran
}

/// Returns the records of installations, oldest first.
pub(crate) fn records(host: &Host) -> Vec<Value> {
    host.records().into_iter().filter(|record| record["via"] == "install").collect()
}

/// Returns the names of the files among the downloads.
pub(crate) fn downloads(host: &Host) -> Vec<String> {
    let Ok(listed) = fs::read_dir(host.cache().join("blobs/sha256")) else { return Vec::new() };
    let names = listed.map(|it| it.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns a program of this machine. If it is missing, reports that and returns `None`, unless the
/// variable requires it.
pub(crate) fn program(name: &'static str, required_by: &str) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        return Some(name);
    }
    let is_required = std::env::var_os(required_by).is_some_and(|value| value == "1");
    assert!(!is_required, "`{name}` is missing, and `{required_by}` asks for it");
    ikigai_tests::impossible_here(&format!("tools that are shipped with `{name}` need `{name}`"));
    None
}
