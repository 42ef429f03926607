//! The asset that a person or a model means by a short name.

use ikigai_assets::{AssetPath, Error, Metadata, Store, resolution};

use ikigai_host::nearest::nearest_named;

/// Why no asset was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotNamed {
    /// What is wrong.
    pub error: Error,
    /// The asset that was probably meant.
    pub nearest: Option<String>,
}

impl From<Error> for NotNamed {
    fn from(error: Error) -> Self {
        Self { error, nearest: None }
    }
}

/// The asset called `name`: as it is given, else `NAME.md`, `blocks/NAME` or
/// `blocks/NAME.md`.
///
/// # Errors
///
/// There is none of them, or the store fails.
pub async fn named(store: &Store, name: &str) -> Result<Metadata, NotNamed> {
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
