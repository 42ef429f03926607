//! The places on the machine in which a tool, its grant or its interpreter may lie.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_host::policy::Sandbox;
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::mode::permit;

use super::rig::{self, each_user, text};

#[test]
fn what_lies_in_var_tmp_is_shown_there_and_the_rest_of_it_is_the_tools_own() {
    each_user(Sandbox::Require, |rig| {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let place = place.path();
        permit(place, 0o777);
        let tool = place.join("tool");
        let script =
            "#!/bin/sh\npwd; echo x >new; ls -A /var/tmp; echo x >/var/tmp/own; cat /tmp/own";
        fs::write(&tool, script).expect("written");
        permit(&tool, 0o755);
        let (shown, name) = (place.display(), place.file_name().expect("a name").display());
        let outcome = rig.run(&tool, |call| {
            call.workspace = place.into();
            let dirs = vec![GrantedDir { access: Access::ReadWrite, path: place.to_owned() }];
            Arc::make_mut(&mut call.grant).dirs = dirs;
        });
        assert_eq!(text(&outcome.stdout), format!("{shown}\n{name}\nx\n"), "{outcome:?}");
        assert!(place.join("new").exists() && !Path::new("/var/tmp/own").exists());
        // A working directory that is not granted is empty.
        let elsewhere = rig.script("pwd; ls -A; echo x >/var/tmp/own; cat /tmp/own");
        let outcome = rig.run(&elsewhere, |call| {
            call.workspace = place.into();
            Arc::make_mut(&mut call.grant).dirs.clear();
        });
        assert_eq!(text(&outcome.stdout), format!("{shown}\nx\n"), "{outcome:?}");
        // The tool may read the whole machine.
        let all = rig.script("ls -A /var/tmp; echo x >/tmp/own && cat /tmp/own");
        let outcome = rig.run(&all, |call| {
            call.workspace = Path::new("/var/tmp").into();
            let dirs = vec![GrantedDir { access: Access::ReadOnly, path: "/var/tmp".into() }];
            Arc::make_mut(&mut call.grant).dirs = dirs;
        });
        let output = text(&outcome.stdout);
        assert!(output.contains(&name.to_string()) && output.ends_with("\nx\n"), "{outcome:?}");
    });
}

/// Checks that a link that climbs to `/` leads to the machine's root, and not to the root that is
/// made over it.
#[test]
fn an_interpreter_is_found_behind_a_link_that_climbs_to_the_root() {
    let place = match rig::started_as_root() {
        true => PathBuf::from("/var"),
        false => ikigai_tests::paths::shown_scratch(),
    };
    each_user(Sandbox::Require, |rig| {
        let bin = tempfile::tempdir_in(&place).expect("a directory");
        let bin = bin.path().canonicalize().expect("a path");
        permit(&bin, 0o755);
        let climb: PathBuf = bin.components().skip(1).map(|_| "..").collect();
        symlink(climb.join("usr/bin/env"), bin.join("climbing")).expect("linked");
        let text_of = format!("#!{}/climbing sh\necho found", bin.display());
        let outcome = rig.run(&rig.file("climber", &text_of, 0o755), |_| {});
        assert_eq!(text(&outcome.stdout), "found\n", "{outcome:?}");
    });
}
