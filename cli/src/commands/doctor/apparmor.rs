//! The command that loads ikigai's AppArmor profile, for machines on which AppArmor keeps other
//! programs from user namespaces, such as Ubuntu 24.04.
//!
//! Reads the profiles and runs nothing, because only an administrator can load one.

use std::fs;
use std::path::Path;

/// The setting of the kernel that needs the profile. The host names it in its remedy.
pub(super) const SETTING: &str = "kernel.apparmor_restrict_unprivileged_userns";

/// The profile that the machine loads when it starts.
pub(super) const PROFILE: &str = "/etc/apparmor.d/ikigai";

/// The profile of an installation, relative to its prefix.
const INSTALLED: &str = "share/ikigai/apparmor/ikigai";

/// The prefixes in the profile of a release. `cargo xtask install` replaces them by its own.
const RELEASED: &str = "/usr/{,local/}";

/// The programs after the prefix, as a profile names them.
const PROGRAMS: &str = "{bin/ikigai,libexec/ikigai-supervisor}";

/// Returns the command that loads the profile for the programs below `prefix`. `profile` is the
/// path of [`PROFILE`]. Returns `None` if the installation has no profile, or if its path has
/// characters with a meaning in a profile or in a shell.
pub(super) fn command(prefix: &Path, profile: &Path) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let programs = prefix.to_str().filter(|prefix| prefix.chars().all(is_plain))?;
    let shown = profile.display();
    let load = format!("sudo apparmor_parser --replace {shown}");
    if fs::read_to_string(profile).is_ok_and(|text| applies(&text, programs)) {
        return Some(load);
    }
    let installed = prefix.join(INSTALLED);
    let text = fs::read_to_string(&installed).ok()?;
    let installed = installed.display();
    if applies(&text, programs) {
        return Some(format!("sudo cp {installed} {shown} && {load}"));
    }
    let edit = format!("sed 's|{RELEASED}{{|{programs}/{{|' {installed}");
    text.contains(RELEASED).then(|| format!("{edit} | sudo tee {shown} > /dev/null && {load}"))
}

/// Returns whether a profile applies to the programs below a prefix.
fn applies(profile: &str, prefix: &str) -> bool {
    let is_released = ["/usr", "/usr/local"].contains(&prefix);
    profile.contains(&format!(" {prefix}/{PROGRAMS} "))
        || is_released && profile.contains(&format!(" {RELEASED}{PROGRAMS} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = include_str!("../../../../etc/apparmor/ikigai");

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn the_command_fits_the_profile_that_is_there() {
        let scratch = tempfile::Builder::new().prefix("apparmor-").tempdir().expect("a directory");
        let (prefix, profile) = (scratch.path().join("opt"), scratch.path().join("etc/ikigai"));
        let (root, etc) = (prefix.display(), profile.display());
        let load = format!("sudo apparmor_parser --replace {etc}");
        assert_eq!(command(&prefix, &profile), None, "there is no profile");

        let installed = prefix.join(INSTALLED);
        let shown = installed.display();
        write(&installed, RELEASE);
        let found = command(&prefix, &profile).expect("a command");
        let edit = format!("sed 's|/usr/{{,local/}}{{|{root}/{{|' {shown}");
        assert_eq!(found, format!("{edit} | sudo tee {etc} > /dev/null && {load}"));
        let own = RELEASE.replace(RELEASED, &format!("{root}/"));
        assert!(own.contains(&format!("profile ikigai {root}/{{bin/ikigai,")), "{own}");
        write(&installed, &own);
        let found = command(&prefix, &profile).expect("a command");
        assert_eq!(found, format!("sudo cp {shown} {etc} && {load}"));
        write(&profile, RELEASE);
        assert_eq!(command(&prefix, &profile).expect("a command"), found, "it is of /usr");
        write(&profile, &own);
        assert_eq!(command(&prefix, &profile), Some(load));
        assert_eq!(command(&scratch.path().join("a b"), &profile), None);
    }

    #[test]
    fn the_released_profile_is_for_usr() {
        for prefix in ["/usr", "/usr/local"] {
            assert!(applies(RELEASE, prefix), "{prefix}");
        }
        assert!(!applies(RELEASE, "/opt") && !applies(RELEASE, "/usr/local/lib"));
    }
}
