//! The AppArmor profile of an installation, which names the paths of its programs.

use std::path::Path;

use anyhow::bail;

/// The profile in the repository, for programs in `/usr` and `/usr/local`.
pub(crate) const SOURCE: &str = "etc/apparmor/ikigai";

/// The profile of an installation, relative to its prefix. `ikigai doctor` looks for it there.
pub(crate) const INSTALLED: &str = "share/ikigai/apparmor/ikigai";

/// The prefixes in the profile of the repository.
const PREFIXES: &str = "/usr/{,local/}";

/// Returns the profile for the programs below a prefix. Returns `None` if the prefix has characters
/// that have a meaning in a profile.
pub(crate) fn for_prefix(profile: &str, prefix: &Path) -> anyhow::Result<Option<String>> {
    if profile.matches(PREFIXES).count() != 1 {
        bail!("`{SOURCE}` must have `{PREFIXES}` once");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let prefix = prefix.to_str().filter(|prefix| prefix.chars().all(is_plain));
    Ok(prefix.map(|prefix| match prefix {
        "/usr" | "/usr/local" => profile.to_owned(),
        other => profile.replace(PREFIXES, &format!("{}/", other.trim_end_matches('/'))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = include_str!("../../etc/apparmor/ikigai");

    #[test]
    fn the_profile_names_the_programs_of_the_installation() {
        let of = |prefix: &str| for_prefix(PROFILE, Path::new(prefix)).expect("a profile");
        assert_eq!(of("/usr/local").as_deref(), Some(PROFILE));
        let own = of("/home/u/.local").expect("a profile");
        let line = "profile ikigai /home/u/.local/{bin/ikigai,libexec/ikigai-supervisor} flags=";
        assert!(own.contains(line), "{own}");
        for prefix in ["/home/a b", "/home/{a,b}", "/home/*", "/home/é"] {
            assert_eq!(of(prefix), None, "{prefix}");
        }
        assert!(for_prefix("", Path::new("/usr")).is_err());
    }
}
