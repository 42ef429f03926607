//! `ikigai tool push`: a component with its signatures, to a registry or into an OCI layout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueHint};
use ikigai_packages::Signer;
use ikigai_packages::layout::OciLayout;
use ikigai_packages::oci::{
    self, ArtifactDetails, Attached, ComponentInterfaces, OciError, Packed,
};
use ikigai_packages::reference::{Pointer, Reference, RegistryReference};
use ikigai_packages::signature::{
    MAX_SIGNATURE_BYTES, Payload, Signature, SignatureError, SignatureKind,
};
use ikigai_packages::trust::Trust;
use serde_json::json;

use super::install::RegistryFlags;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use crate::shipping::{
    ExaminedTool, Interfaces, RegistryClient, ToolRequest, root, trust, typed, version_of,
};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool push ghcr.io/acme/weather dist/weather.wasm\n  \
    ikigai tool push ghcr.io/acme/weather:1.2.0 . --sign dist/weather.wasm.sig\n\n\
    The tag is the manifest's version, unless the reference has a tag. To sign with an SSH key:\n  \
    ssh-keygen -Y sign -n ikigai-tool -f ~/.ssh/id_ed25519 dist/weather.wasm\n\n\
    ikigai uses the credentials of docker and podman, which `docker login ghcr.io` stores.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The destination: HOST/REPOSITORY[:TAG], or the directory of an OCI layout
    #[arg(value_name = "REF")]
    reference: String,
    /// The component, or the directory of its project
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    file: PathBuf,
    /// A signature of the file, made by ssh-keygen, minisign or cosign
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    sign: Vec<PathBuf>,
    /// Move the tag if it points to another file
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    network: RegistryFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { reference, file, sign, replace, network, json } = arguments;
    let reference = typed(&reference)?;
    let host = options.host()?;
    let client = RegistryClient::new(&options.paths(), network.offline, options.command_gate()?)?;
    let request = ToolRequest { reference: Reference::Path(file), versions: None, locked: None };
    let mut fetched = request.fetch(&client).await?;
    let fetched = match (fetched.pop(), fetched.is_empty()) {
        (Some(fetched), true) => fetched,
        _ => return Err(wrong("only one tool can be pushed, and a layout has several".to_owned())),
    };
    let examined = ExaminedTool::from_fetched(&host, fetched).await?;
    let component: Bytes = std::fs::read(&examined.fetched.path)
        .context("cannot read the copy of the file")
        .map_err(CliError::failed)?
        .into();
    let tag = tag(&reference, &examined)?;
    let packed = packed(&examined, &component)?;
    let signers = trust(&*host.authority().signers()?)?;
    let roots = root(network.trusted_root.as_deref())?;
    let mut attached = Vec::new();
    for path in &sign {
        attached.push(signed(path, &component, &packed, &signers, &roots)?);
    }
    let shown = match &reference {
        Reference::Path(path) => {
            let layout = OciLayout::create(path)?;
            let name = format!("{}:{tag}", examined.name());
            layout.add(&packed, &name)?;
            for (attached, _) in &attached {
                layout.attach(attached)?;
            }
            format!("{} ({name})", path.display())
        }
        Reference::Registry(registry) => {
            push(&client, registry, &tag, &packed, attached.iter().map(|(it, _)| it), replace)
                .await?
        }
        Reference::Url(_) => {
            return Err(wrong("push to a registry or into a layout".to_owned())
                .hint("write the registry as HOST/REPOSITORY:TAG"));
        }
    };
    let signers: Vec<String> = attached.iter().map(|(_, signer)| signer.clone()).collect();
    if signers.is_empty() {
        eprint(
            "it is not signed; `--sign FILE` attaches a signature, and `tool push --help` shows how to make one\n",
        );
    }
    if json {
        return print_json(&json!({
            "reference": shown,
            "tag": tag,
            "manifest": format!("sha256:{}", packed.digest()),
            "sha256": examined.fetched.digest,
            "size": examined.fetched.size,
            "signers": signers,
        }))
        .map(|()| ExitCode::SUCCESS);
    }
    print(&format!("{shown}\nsha256:{}\n", packed.digest()))?;
    Ok(ExitCode::SUCCESS)
}

/// Pushes to a registry. Signatures come before the tag, so that clients never find an unsigned
/// tool.
async fn push(
    client: &RegistryClient,
    registry: &RegistryReference,
    tag: &str,
    packed: &Packed,
    attached: impl Iterator<Item = &Attached>,
    replace: bool,
) -> Result<String, CliError> {
    let repository = client.repository(registry)?;
    let pointer = Pointer::Tag(tag.to_owned());
    match oci::resolve(&repository, &pointer).await {
        Ok(there) if there.manifest != packed.digest() && !replace => {
            let what =
                format!("`{tag}` in `{registry}` is another file, sha256:{}", there.manifest);
            return Err(CliError::failed(anyhow::Error::msg(what))
                .hint("bump the tool's version, or move the tag with `--replace`"));
        }
        // The push below handles a tag that leads to something else, or nowhere.
        Ok(_) | Err(OciError::NoManifest { .. } | OciError::NoWasm { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let digest = Pointer::Digest(packed.digest());
    repository.push(packed, &digest).await?;
    for attached in attached {
        repository.attach(attached).await?;
    }
    repository.push(packed, &pointer).await?;
    Ok(registry.with_tag(tag)?.to_string())
}

/// Returns the tag of the reference, or else the version.
fn tag(reference: &Reference, examined: &ExaminedTool) -> Result<String, CliError> {
    let version = examined.manifest.as_ref().map(|manifest| manifest.version.to_string());
    let Reference::Registry(registry) = reference else {
        return Ok(version.unwrap_or_else(|| "latest".to_owned()));
    };
    if registry.digest().is_some() {
        return Err(wrong("a digest is the result of a push".to_owned())
            .hint("leave out the `@` and what follows"));
    }
    match (registry.tag(), version) {
        (Some(tag), Some(version)) => {
            let named = version_of(tag).map(|named| named.to_string());
            if named.is_some_and(|named| named != version) {
                let what = format!("the tag is `{tag}`, and the version of the manifest {version}");
                return Err(wrong(what)
                    .hint("use the same version in both; `ikigai tool build` reads tool.toml"));
            }
            Ok(tag.to_owned())
        }
        (Some(tag), None) => Ok(tag.to_owned()),
        (None, Some(version)) if version.contains('+') => {
            let what = format!("the version {version} cannot be a tag: tags have no `+`");
            Err(wrong(what).hint("add a tag to the reference"))
        }
        (None, Some(version)) => Ok(version),
        (None, None) => {
            Err(wrong("neither the file has a manifest nor the reference a tag".to_owned())
                .hint("add a tag, or build the tool with `ikigai tool build`"))
        }
    }
}

/// Packs a component or a core module with the metadata that registries show.
pub(super) fn packed(examined: &ExaminedTool, tool: &Bytes) -> Result<Packed, CliError> {
    let from = &examined.fetched.source.from;
    if examined.is_native() {
        let what =
            format!("`{from}` is a native program, and tool registries have only components");
        return Err(wrong(what).hint("`ikigai tool build` also turns a script into a component"));
    }
    let interfaces = Interfaces::from_component(tool);
    let mut annotations = BTreeMap::new();
    let mut annotate = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            annotations.insert(format!("org.opencontainers.image.{key}"), value.to_owned());
        }
    };
    let description = examined.tool.schema.description.lines().next();
    annotate("title", Some(examined.name()));
    annotate("description", description);
    if let Some(manifest) = &examined.manifest {
        annotate("version", Some(&manifest.version.to_string()));
        annotate("licenses", manifest.license.as_deref());
        annotate("description", manifest.description.as_deref().or(description));
        annotate("url", manifest.homepage.as_deref());
        annotate("source", manifest.repository.as_deref());
    }
    let details = ArtifactDetails {
        title: format!("{}.wasm", examined.name()),
        annotations,
        interfaces: interfaces
            .map(|Interfaces { imports, exports }| ComponentInterfaces { exports, imports }),
        author: None,
        created: None,
    };
    Packed::new(tool.clone(), &details).map_err(CliError::failed)
}

/// Returns a signature in its attached form, with its signer.
fn signed(
    path: &Path,
    component: &Bytes,
    packed: &Packed,
    trust: &Trust,
    root: &ikigai_packages::signature::SigstoreRoot,
) -> Result<(Attached, String), CliError> {
    let shown = path.display();
    let read = std::fs::metadata(path).and_then(|metadata| {
        if metadata.len() > MAX_SIGNATURE_BYTES as u64 {
            return Err(std::io::Error::other("it is too large for a signature"));
        }
        std::fs::read(path)
    });
    let bytes: Bytes = read
        .with_context(|| format!("cannot read the signature `{shown}`"))
        .map_err(CliError::usage)?
        .into();
    let bad = |error: SignatureError| {
        let error = anyhow::Error::new(error).context(format!("`{shown}`"));
        CliError::failed(error).hint("sign the file that is pushed, and push it again")
    };
    let signature = Signature::parse(&bytes).map_err(bad)?;
    let manifest = packed.manifest();
    let payload = Payload::of_tool(component, Some(&manifest[..]));
    let signer = match signature.verify(payload, &trust.keys(), root) {
        Ok(signed) => signed.signer,
        // A minisign signature does not carry its key, and the author of the tool need not have the
        // key in a policy.
        Err(SignatureError::UnknownKey { signer, .. }) => {
            eprint(&format!(
                "`{shown}` is not verified here: no signer of your policy has its key\n"
            ));
            signer.parse().unwrap_or(Signer::None)
        }
        Err(error) => return Err(bad(error)),
    };
    let kind =
        SignatureKind::from_bytes(&bytes).ok_or_else(|| bad(SignatureError::UnknownFormat))?;
    let title = path.file_name().unwrap_or_default().to_string_lossy();
    let attached = attached(bytes, kind, &title, packed)?;
    Ok((attached, signer.to_string()))
}

/// Packs a signature so that it can be attached.
pub(super) fn attached(
    bytes: Bytes,
    kind: SignatureKind,
    title: &str,
    packed: &Packed,
) -> Result<Attached, CliError> {
    let media_type = kind.artifact_type();
    let subject = packed.descriptor();
    Attached::new(bytes, media_type, media_type, title, BTreeMap::new(), subject)
        .map_err(CliError::failed)
}

fn wrong(what: String) -> CliError {
    CliError::usage(anyhow::Error::msg(what))
}
