//! The check whether this machine's sandbox confines native tools, remembered between runs. The
//! choice of builds depends on it.
//!
//! Trying the sandbox means starting a process in it, and the result changes only with the machine.
//! Code that shows the user what the sandbox lacks tries it anew.

use super::ScanDepth;
use super::memo::Memo;
use crate::exec::native::{self, MachineSandbox, Supervisor};

/// Tries the sandbox of this machine, and returns the result. Remembers whether it confines.
pub(super) async fn machine(supervisor: &Supervisor, memo: &Memo) -> MachineSandbox {
    try_in(native::surroundings(), supervisor, memo).await
}

/// Returns whether this machine's sandbox enforces every boundary that a grant can require for a
/// native tool. `depth` says which remembered result is trusted. A remembered failure is treated
/// like the failure of a file: its cause may have been fixed elsewhere.
pub(super) async fn is_confining(supervisor: &Supervisor, memo: &Memo, depth: ScanDepth) -> bool {
    let surroundings = native::surroundings();
    let known = memo.confines(&surroundings);
    let believed = match depth {
        ScanDepth::Remembered => known,
        ScanDepth::Failed => known.filter(|holds| *holds),
        ScanDepth::Everything => None,
    };
    match believed {
        Some(holds) => holds,
        None => holds(&try_in(surroundings, supervisor, memo).await),
    }
}

async fn try_in(surroundings: String, supervisor: &Supervisor, memo: &Memo) -> MachineSandbox {
    let machine = supervisor.machine().await;
    memo.keep_confines(&surroundings, holds(&machine));
    machine
}

fn holds(machine: &MachineSandbox) -> bool {
    machine.isolation.unmet().next().is_none()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns a supervisor whose sandbox always fails.
    fn broken() -> Supervisor {
        Supervisor::new(Some("/bin/false".into()), 0)
    }

    #[tokio::test]
    async fn a_sandbox_that_held_is_not_tried_again_unless_everything_is() {
        let memo = Memo::open(None, String::new());
        let surroundings = native::surroundings();
        memo.keep_confines(&surroundings, true);
        for depth in [ScanDepth::Remembered, ScanDepth::Failed] {
            assert!(is_confining(&broken(), &memo, depth).await, "{depth:?}");
        }
        assert!(!is_confining(&broken(), &memo, ScanDepth::Everything).await);
        assert_eq!(memo.confines(&surroundings), Some(false));
    }

    #[tokio::test]
    async fn a_sandbox_that_did_not_hold_is_tried_again_where_failures_are() {
        let cache = tempfile::tempdir().expect("a directory");
        let memo = Memo::open(Some(cache.path()), String::new());
        assert!(!is_confining(&broken(), &memo, ScanDepth::Failed).await);
        memo.save();
        let memo = Memo::open(Some(cache.path()), String::new());
        assert_eq!(memo.confines(&native::surroundings()), Some(false));
        // For other surroundings, nothing is remembered.
        assert_eq!(memo.confines("elsewhere"), None);
    }

    #[tokio::test]
    async fn whoever_wants_to_see_the_sandbox_has_it_tried() {
        let memo = Memo::open(None, String::new());
        let surroundings = native::surroundings();
        memo.keep_confines(&surroundings, true);
        assert!(!holds(&machine(&broken(), &memo).await));
        assert_eq!(memo.confines(&surroundings), Some(false));
    }
}
