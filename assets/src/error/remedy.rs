//! The remedies for errors, as a type. Commands, flags and the wording for the user or a model
//! belong to the callers.

use super::Error;
use crate::damage::{Damage, StoredText};

/// An action that may remove the cause of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreRemedy {
    /// List the assets, to find the right path.
    ListAssets,
    /// List the versions of the asset that are kept.
    ListVersions,
    /// List the sessions, to find the right one.
    ListSessions,
    /// End the session in the process that uses it, or continue in a fork of it.
    ForkSession,
    /// Read the asset again, and make the change for its current version.
    ReadAgain,
    /// Make the same call again.
    TryAgain,
    /// Write to another path, or allow changes of the asset.
    AllowChanges,
    /// Split the asset, or keep it as a file.
    Split,
    /// Give the user the permission to write to the file and to its directory.
    AllowWriting,
    /// Shorten or unpin pinned assets.
    FreeBudget,
    /// Remove assets, or raise the capacity.
    FreeCapacity,
    /// Free space on the device.
    FreeDevice,
    /// Raise the limit of the process.
    RaiseLimit,
    /// End the process that holds the store, or wait for it.
    ReleaseStore,
    /// Find out why the server is slow.
    CheckServer,
    /// Find out whether the store is there, or name another.
    CheckAddress,
    /// Correct the user and the password in the address.
    CheckCredentials,
    /// Take the write permission on the file or the directory from others, or move the store.
    DenyOthers,
    /// Name another store.
    NameAnother,
    /// Restore an older version of the asset.
    RestoreVersion,
    /// Copy the turns of the session that come before the damage.
    ForkBefore,
    /// Find the damage, and copy what can be read.
    Recover,
    /// Use the newer version of ikigai.
    Upgrade,
}

impl Error {
    /// Returns the action that may remove the cause, if the message does not imply it.
    #[must_use]
    pub fn remedy(&self) -> Option<StoreRemedy> {
        Some(match self {
            Self::NotFound(_) => StoreRemedy::ListAssets,
            Self::NoVersion { .. } => StoreRemedy::ListVersions,
            Self::NoSession(_) | Self::SessionId(_) => StoreRemedy::ListSessions,
            Self::SessionHeld { .. } | Self::SessionLost(_) => StoreRemedy::ForkSession,
            Self::Changed { .. } => StoreRemedy::ReadAgain,
            Self::Contended(_) => StoreRemedy::TryAgain,
            Self::ReadOnly(_) => StoreRemedy::AllowChanges,
            Self::TooLarge { .. } => StoreRemedy::Split,
            Self::StoreReadOnly(_) => StoreRemedy::AllowWriting,
            Self::BudgetExceeded(_) => StoreRemedy::FreeBudget,
            Self::Overfull(_) => StoreRemedy::FreeCapacity,
            Self::Full(_) => StoreRemedy::FreeDevice,
            Self::Limited { .. } => StoreRemedy::RaiseLimit,
            Self::Locked { .. } => StoreRemedy::ReleaseStore,
            Self::Slow { .. } => StoreRemedy::CheckServer,
            Self::Unreachable { .. } => StoreRemedy::CheckAddress,
            Self::Unauthenticated(_) => StoreRemedy::CheckCredentials,
            Self::Unsafe { .. } => StoreRemedy::DenyOthers,
            Self::NotAStore { .. } => StoreRemedy::NameAnother,
            Self::Altered { text, .. } => text.into(),
            Self::Damaged { .. } => StoreRemedy::Recover,
            Self::Newer { .. } => StoreRemedy::Upgrade,
            Self::Path(_)
            | Self::Agent(_)
            | Self::Url(_)
            | Self::EmptyString
            | Self::StringNotFound
            | Self::StringNotUnique(_)
            | Self::Unpinnable(_)
            | Self::SessionText(_)
            | Self::NoEvent { .. }
            | Self::EventTooLarge { .. }
            | Self::SessionChanged { .. }
            | Self::Denied { .. }
            | Self::OutOfMemory
            | Self::Read { .. }
            | Self::Write { .. } => return None,
        })
    }
}

impl From<&StoredText> for StoreRemedy {
    fn from(text: &StoredText) -> Self {
        match text {
            StoredText::Asset { .. } => Self::RestoreVersion,
            StoredText::Event { .. } => Self::ForkBefore,
        }
    }
}

impl From<&Damage> for StoreRemedy {
    fn from(damage: &Damage) -> Self {
        match damage {
            Damage::Text(text) => text.into(),
            Damage::File(_) => Self::Recover,
        }
    }
}
