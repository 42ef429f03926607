//! The signer that was pinned for a source of files when the first of them was installed.

use crate::signer::Signer;

/// The relation of a file's signer to the one that is pinned for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Nobody was pinned, so this signer is from now on.
    First,
    /// The pinned one.
    Same,
    /// Another one, which a person accepted. It is pinned from now on.
    Accepted,
}

/// Another signer than the one that is pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The file is signed by another.
    #[error(
        "files from `{from}` were signed by `{pinned}`, and this one is by `{found}`; if its \
         author says that this is right, run again with `--accept-signer`"
    )]
    Changed {
        /// The source of the files.
        from: String,
        /// The signer that is pinned.
        pinned: Signer,
        /// The signer of this file.
        found: Signer,
    },
    /// The file is not signed.
    #[error(
        "files from `{from}` were signed by `{pinned}`, and this one is signed by `none`; if its \
         author says that this is right, run again with `--accept-signer`"
    )]
    Gone {
        /// The source of the files.
        from: String,
        /// The signer that is pinned.
        pinned: Signer,
    },
}

/// Compares the signer of a file with the one that is pinned for its source. A source whose files
/// nobody signed pins nobody, so the first signature there is a first use.
///
/// # Errors
///
/// The signer is another, or there is none any more, and nobody accepted that.
pub fn check_pin(
    from: &str,
    pinned: Option<&Signer>,
    found: &Signer,
    is_accepted: bool,
) -> Result<Pin, PinError> {
    match pinned {
        None | Some(Signer::None) => Ok(Pin::First),
        Some(pinned) if pinned == found => Ok(Pin::Same),
        Some(_) if is_accepted => Ok(Pin::Accepted),
        Some(pinned) => {
            let (from, pinned) = (from.to_owned(), pinned.clone());
            Err(match found {
                Signer::None => PinError::Gone { from, pinned },
                found => PinError::Changed { from, pinned, found: found.clone() },
            })
        }
    }
}
