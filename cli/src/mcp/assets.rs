//! Assets as resources.
//!
//! The policy decides about them by the name `mcp_assets`, as about a tool. Each read is recorded.

use bytes::Bytes;
use ikigai_agent::SessionAssets;
use ikigai_assets::{AssetMetadata, AssetPath, Error};
use ikigai_host::Host;
use ikigai_host::assets::MAX_CONTENT;
use ikigai_host::audit::Requester;
use ikigai_host::exec::envelope::Envelope;
use ikigai_host::policy::{AssetAccess, CLIENTS};
use ikigai_mcp::{Resource, ResourceError, ResourceText, UriTemplate};
use ikigai_protocol::EnvelopeCode;
use serde_json::json;
use serde_json::value::RawValue;

/// The form of the URIs of assets.
pub(super) const TEMPLATE: UriTemplate = UriTemplate {
    uri: "ikigai:///{+path}",
    name: "asset",
    description: "A text that is stored between calls, by its path",
};

/// Returns all assets, in the order of their paths.
pub(super) async fn list(
    host: &Host,
    requester: &Requester,
    assets: Option<&SessionAssets>,
) -> Result<Vec<AssetMetadata>, ResourceError> {
    let question = json!({ "list": "" });
    decided(host, requester, (&question, None), found, assets).await
}

/// Returns all assets, for a client that wants to watch one of them.
pub(super) async fn watch(
    host: &Host,
    requester: &Requester,
    assets: Option<&SessionAssets>,
    uri: &str,
) -> Result<Vec<AssetMetadata>, ResourceError> {
    let question = json!({ "watch": uri });
    decided(
        host,
        requester,
        (&question, None),
        async |assets: &SessionAssets| {
            path_for(assets, uri)?;
            found(assets).await
        },
        assets,
    )
    .await
}

/// Returns whether clients may read assets now.
pub(super) fn are_granted(host: &Host, requester: &Requester) -> bool {
    host.own_access(requester, CLIENTS) >= AssetAccess::Read
}

/// Returns the text of an asset.
pub(super) async fn read(
    host: &Host,
    requester: &Requester,
    assets: Option<&SessionAssets>,
    uri: &str,
) -> Result<ResourceText, ResourceError> {
    let question = json!({ "read": uri });
    let asked = (&question, Some(uri));
    decided(
        host,
        requester,
        asked,
        async |assets: &SessionAssets| {
            let path = path_for(assets, uri)?;
            let store = assets.store.open().await.map_err(|error| failed(&error))?;
            let content = store.read(&path).await.map_err(|error| failed(&error))?.content;
            if content.len() > MAX_CONTENT {
                let message = format!(
                    "the asset has more than {MAX_CONTENT} bytes; read parts of it with the tool \
             file_read"
                );
                return Err(ResourceError::Refused(message));
            }
            let text = String::from_utf8_lossy(&content).into_owned();
            Ok(ResourceText { mime_type: "text/plain", text })
        },
        assets,
    )
    .await
}

/// Returns the assets of the store. Does not create a store only to find it empty.
pub(super) async fn found(assets: &SessionAssets) -> Result<Vec<AssetMetadata>, ResourceError> {
    if !assets.store.may_hold_assets() {
        return Ok(Vec::new());
    }
    let store = assets.store.open().await.map_err(|error| failed(&error))?;
    store.list("", None).await.map_err(|error| failed(&error))
}

/// Does `work` if the policy lets clients read assets, or if it concerns an asset that is kept for
/// this client. Records it.
async fn decided<T>(
    host: &Host,
    requester: &Requester,
    (question, uri): (&serde_json::Value, Option<&str>),
    work: impl AsyncFnOnce(&SessionAssets) -> Result<T, ResourceError>,
    assets: Option<&SessionAssets>,
) -> Result<T, ResourceError> {
    let is_own = |assets: &SessionAssets| {
        uri.and_then(|uri| path(uri).ok()).is_some_and(|path| assets.is_own(&path))
    };
    let mut done = None;
    let answer = async |access: AssetAccess| {
        let answered = match assets {
            Some(assets) if access >= AssetAccess::Read || is_own(assets) => work(assets).await,
            _ => Err(ResourceError::Refused(format!(
                "assets are not granted to clients; the user can grant them with the key \
                 `[tools.{CLIENTS}] assets` of the policy"
            ))),
        };
        let envelope = match &answered {
            Ok(_) => Envelope::answered(RawValue::NULL.to_owned()),
            Err(error) => Envelope::refused(EnvelopeCode::PermissionDenied, error.to_string()),
        };
        done = Some(answered);
        envelope
    };
    let arguments = Bytes::from(question.to_string());
    let envelope = host.call_own(requester, CLIENTS, arguments, answer).await;
    done.unwrap_or_else(|| {
        let reason = envelope.failure().map_or("", |(_, reason)| reason);
        Err(ResourceError::Refused(reason.to_owned()))
    })
}

/// Returns an asset as an entry of a list.
pub(super) fn resource(metadata: AssetMetadata) -> Resource {
    let AssetMetadata { path, size, .. } = metadata;
    Resource { uri: path.to_uri(), name: path.as_str().to_owned(), size: Some(size) }
}

/// Returns the path of an asset from its canonical URI, since clients compare URIs as texts.
fn path(uri: &str) -> Result<AssetPath, ResourceError> {
    let path = AssetPath::parse(uri).ok().filter(|path| path.to_uri() == uri);
    path.ok_or_else(|| missing(uri))
}

/// Returns the path of an asset, unless it is kept for another client.
fn path_for(assets: &SessionAssets, uri: &str) -> Result<AssetPath, ResourceError> {
    let path = path(uri)?;
    if assets.is_of_another(&path) { Err(missing(uri)) } else { Ok(path) }
}

fn missing(uri: &str) -> ResourceError {
    let shown: String = uri.escape_debug().take(200).collect();
    ResourceError::NotFound(format!("there is no resource `{shown}`"))
}

fn failed(error: &Error) -> ResourceError {
    match error {
        Error::NotFound(path) => {
            ResourceError::NotFound(format!("there is no resource `{}`", path.to_uri()))
        }
        other => {
            // A client must not see the address of the store or the messages of its server.
            tracing::warn!("assets could not be read: {other}");
            ResourceError::Failed("the asset store cannot be read".to_owned())
        }
    }
}
