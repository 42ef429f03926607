//! Advice about sandbox layers that a machine lacks. The host only gives a remedy as data.

use ikigai_supervisor::isolation::LayerRemedy;

/// Returns the advice, without a full stop.
pub(crate) fn sentence(remedy: &LayerRemedy) -> String {
    let advice = match remedy {
        LayerRemedy::EnableLandlock => {
            "needs Linux 5.13 with Landlock among its security modules: add `landlock` to the \
             kernel's `lsm=` parameter"
        }
        LayerRemedy::EnableSeccomp => "needs a kernel with CONFIG_SECCOMP_FILTER",
        LayerRemedy::UnmaskProc => {
            "a container that masks parts of its `/proc` forbids mounting a new one; start it with `/proc` unmasked"
        }
        LayerRemedy::DelegateCgroup => {
            "let a service manager hand over a group: `systemd-run --user --pty --same-dir -p \
             Delegate=yes -p DelegateSubgroup=host ikigai` for a session, or the drop-in in \
             etc/systemd of ikigai's source for a service"
        }
        LayerRemedy::UpgradeForPidMax => "needs Linux 6.14; RLIMIT_NPROC or a cgroup does the same",
        LayerRemedy::RunUnprivileged => "run ikigai as a user other than root",
        LayerRemedy::AllowNamespaces { setting, value } => {
            return format!(
                "`sysctl {setting}={value}`, as root, until the next start of the machine; to keep it, \
                 write `{setting} = {value}` to /etc/sysctl.d/60-ikigai.conf"
            );
        }
        LayerRemedy::UnfilterHost => {
            "a seccomp filter, such as a container's, applies to ikigai itself; allow the container to create \
             user namespaces"
        }
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_as_it_is_shown() {
        let setting = "user.max_user_namespaces".to_owned();
        let remedies = [
            LayerRemedy::EnableLandlock,
            LayerRemedy::EnableSeccomp,
            LayerRemedy::UnmaskProc,
            LayerRemedy::DelegateCgroup,
            LayerRemedy::UpgradeForPidMax,
            LayerRemedy::RunUnprivileged,
            LayerRemedy::AllowNamespaces { setting, value: "10000".to_owned() },
            LayerRemedy::UnfilterHost,
        ];
        insta::assert_snapshot!(remedies.each_ref().map(sentence).join("\n"));
    }
}
