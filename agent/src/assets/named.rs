//! Assets by the short names that the user or the model writes.

use ikigai_assets::{AssetMetadata, AssetPath, Error, Store, resolution};
use ikigai_host::nearest::nearest_named;

/// The reason why no asset was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotNamed {
    /// The error.
    pub error: Error,
    /// The asset that was probably meant.
    pub nearest: Option<String>,
}

impl From<Error> for NotNamed {
    fn from(error: Error) -> Self {
        Self { error, nearest: None }
    }
}

/// Finds the asset with the path `name`, or else `NAME.md`, `blocks/NAME` or `blocks/NAME.md`, in
/// this order.
///
/// # Errors
///
/// Fails if no asset has one of these paths, or if the store fails.
pub async fn named(store: &Store, name: &str) -> Result<AssetMetadata, NotNamed> {
    for path in resolution(name).map_err(Error::from)? {
        match store.metadata(&path).await {
            Err(Error::NotFound(_)) => {}
            found => return Ok(found?),
        }
    }
    let missing = AssetPath::parse(name).map_err(Error::from)?;
    let all = store.list("", None).await?;
    let named = all.iter().flat_map(|it| it.path.names().map(move |name| (name, &it.path)));
    let nearest = nearest_named(missing.as_str(), named);
    let nearest = nearest.map(|path| path.as_str().to_owned());
    Err(NotNamed { error: Error::NotFound(missing), nearest })
}
