//! The variables that can be granted: the host's environment, overridden by the variables that the
//! user has set for the tools of this run.
//!
//! The environment of the process is never changed, because its threads read it, and because other
//! programs would inherit variables that are meant for tools.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use parking_lot::Mutex;

/// The variables that the user has set, by name.
#[derive(Debug, Default)]
pub(super) struct Variables(Mutex<BTreeMap<OsString, OsString>>);

impl Variables {
    /// Sets a variable for every later call.
    pub(super) fn set(&self, name: &str, value: &str) {
        self.0.lock().insert(name.into(), value.into());
    }

    pub(super) fn get(&self, name: &str) -> Option<OsString> {
        let set = self.0.lock().get(OsStr::new(name)).cloned();
        set.or_else(|| std::env::var_os(name))
    }

    pub(super) fn all(&self) -> Vec<(OsString, OsString)> {
        let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        all.extend(self.0.lock().iter().map(|(name, value)| (name.clone(), value.clone())));
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_for_this_run_comes_first_and_goes_nowhere_else() {
        let variables = Variables::default();
        let path = std::env::var_os("PATH").expect("tests are run with one");
        assert_eq!(variables.get("PATH"), Some(path.clone()));
        variables.set("PATH", "/mine");
        variables.set("IKIGAI_TEST_OF_VARIABLES", "x");
        assert_eq!(variables.get("PATH"), Some("/mine".into()));
        let all = variables.all();
        assert_eq!(all.iter().filter(|(name, _)| name == "PATH").count(), 1);
        assert!(all.contains(&("PATH".into(), "/mine".into())));
        assert!(all.contains(&("IKIGAI_TEST_OF_VARIABLES".into(), "x".into())));
        assert_eq!(std::env::var_os("PATH"), Some(path));
        assert_eq!(std::env::var_os("IKIGAI_TEST_OF_VARIABLES"), None);
    }
}
