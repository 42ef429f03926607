//! The hints for errors of the asset store, with the commands and flags of this program. The store
//! only gives a remedy as a type.

use ikigai_assets::{Error, StoreRemedy};

/// Returns the hint for an error, without a full stop.
pub(crate) fn hint(error: &Error) -> Option<&'static str> {
    error.remedy().map(sentence)
}

pub(crate) fn sentence(remedy: StoreRemedy) -> &'static str {
    match remedy {
        StoreRemedy::ListAssets => "`ikigai asset list` shows the assets",
        StoreRemedy::ListVersions => "`ikigai asset log PATH` shows the versions",
        StoreRemedy::ListSessions => "`ikigai session list` shows the sessions",
        StoreRemedy::ForkSession => {
            "close it in the other terminal, or continue in a copy: `ikigai session fork`"
        }
        StoreRemedy::ReadAgain => "read it again and repeat the change",
        StoreRemedy::TryAgain => "try again",
        StoreRemedy::AllowChanges => {
            "write to another path, or allow changes with `ikigai asset put --writable`"
        }
        StoreRemedy::Split => "split it, or store it as a file",
        StoreRemedy::AllowWriting => "check who may write to the file and to its directory",
        StoreRemedy::FreeBudget => {
            "free space with `ikigai asset unpin`, or in a conversation with `/compact` or `/unpin`"
        }
        StoreRemedy::FreeCapacity => "`ikigai asset rm` removes assets; `--capacity` allows more",
        StoreRemedy::FreeDevice => "free space on the device, or remove old outputs",
        StoreRemedy::RaiseLimit => "raise that limit before you start ikigai, and try again",
        StoreRemedy::ReleaseStore => "end the process that locks it, or try again later",
        StoreRemedy::CheckServer => "check the server and its load",
        StoreRemedy::CheckAddress => "check that it exists, or specify another with `--store`",
        StoreRemedy::CheckCredentials => "check the user and the password in its URL",
        StoreRemedy::DenyOthers => "`chmod go-w` it if you own it, or put the store elsewhere",
        StoreRemedy::NameAnother => "`--store` names another",
        StoreRemedy::RestoreVersion => {
            "`ikigai asset log PATH` shows the versions, and `ikigai asset restore PATH VERSION` brings \
             an older one back"
        }
        StoreRemedy::ForkBefore => {
            "`ikigai session fork SESSION --turns N` copies the turns before it"
        }
        StoreRemedy::Recover => {
            "first end every ikigai process and copy the file; `ikigai asset check` lists the \
             damage, and docs/concepts/assets.md has the steps that save what `sqlite3 FILE .dump` \
             can read"
        }
        StoreRemedy::Upgrade => "use the newer ikigai; nothing was changed",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use ikigai_assets::{
        AssetPath, Budget, BudgetExcess, BudgetedOperation, Capacity, Overfull, StoreUrl,
    };

    use super::*;

    fn path() -> AssetPath {
        AssetPath::parse("x").expect("a path")
    }

    #[test]
    fn an_error_has_the_hint_for_its_remedy() {
        let shows = |error: Error, expected: &str| {
            let hint = hint(&error).expect("a hint");
            assert!(hint.contains(expected), "{error}: {hint}");
        };
        let store = StoreUrl::memory;
        let waited = Duration::from_secs(1);
        let exceeded = BudgetExcess {
            purpose: BudgetedOperation::Write,
            other: None,
            pinned: 1,
            budget: Budget(1),
            wanted: 1,
        };
        let overfull = Overfull { others: 1, capacity: Capacity(1), wanted: 1 };
        shows(Error::NotFound(path()), "`ikigai asset list`");
        shows(Error::NoVersion { path: path(), version: 1 }, "`ikigai asset log PATH`");
        shows(Error::Changed { path: path(), found: None }, "read it again");
        shows(Error::ReadOnly(path()), "`ikigai asset put --writable`");
        shows(Error::BudgetExceeded(exceeded), "`/compact` or `/unpin`");
        shows(Error::Overfull(overfull), "`--capacity`");
        shows(Error::Locked { store: store(), waited }, "end the process");
        shows(Error::Unreachable { store: store(), reason: String::new() }, "`--store`");
        assert_eq!(hint(&Error::EmptyString), None);
    }

    #[test]
    fn no_two_remedies_have_one_hint() {
        let all = [
            StoreRemedy::ListAssets,
            StoreRemedy::ListVersions,
            StoreRemedy::ListSessions,
            StoreRemedy::ForkSession,
            StoreRemedy::ReadAgain,
            StoreRemedy::TryAgain,
            StoreRemedy::AllowChanges,
            StoreRemedy::Split,
            StoreRemedy::AllowWriting,
            StoreRemedy::FreeBudget,
            StoreRemedy::FreeCapacity,
            StoreRemedy::FreeDevice,
            StoreRemedy::RaiseLimit,
            StoreRemedy::ReleaseStore,
            StoreRemedy::CheckServer,
            StoreRemedy::CheckAddress,
            StoreRemedy::CheckCredentials,
            StoreRemedy::DenyOthers,
            StoreRemedy::NameAnother,
            StoreRemedy::RestoreVersion,
            StoreRemedy::ForkBefore,
            StoreRemedy::Recover,
            StoreRemedy::Upgrade,
        ];
        assert_eq!(all.map(sentence).into_iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
