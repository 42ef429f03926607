//! Grants of single files: no other file in the directory is accessible, and the granted ones can
//! be written only if the grant allows it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::policy::{Grant, Sandbox};
use ikigai_protocol::{Access, GrantedDir};
use ikigai_tests::mode::permit;

use super::rig::{Rig, each_user, text};

/// Runs a script with files granted in addition to its workspace.
fn run(rig: &Rig, script: &str, sandbox: Sandbox, files: &[(Access, &Path)]) -> Outcome {
    rig.run(&rig.script(script), |call| {
        let mut grant = Grant { sandbox, ..(*call.grant).clone() };
        let files = files.iter();
        grant.dirs.extend(
            files.map(|(access, path)| GrantedDir { access: *access, path: (*path).to_owned() }),
        );
        call.grant = Arc::new(grant);
    })
}

/// Creates files outside of the workspace that every user may write to.
fn beside() -> (tempfile::TempDir, [std::path::PathBuf; 2]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = fs::canonicalize(scratch.path()).expect("a path");
    permit(&path, 0o777);
    let files = ["granted", "secret"].map(|name| {
        let path = path.join(name);
        fs::write(&path, format!("the {name}\n")).expect("written");
        permit(&path, 0o666);
        path
    });
    (scratch, files)
}

#[test]
fn a_single_file_is_granted_without_what_lies_beside_it() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, [granted, secret]) = beside();
        let dir = granted.parent().expect("a directory").display().to_string();
        let script = format!(
            "cat {dir}/granted; cat {dir}/secret; ls {dir}; echo x >{dir}/granted; echo x >{dir}/new; \
             rm -f {dir}/granted; mv {dir}/granted {dir}/moved; cat {dir}/granted"
        );
        let outcome = run(rig, &script, Sandbox::Require, &[(Access::ReadOnly, &granted)]);
        assert_eq!(text(&outcome.stdout), "the granted\ngranted\nthe granted\n", "{outcome:?}");
        assert_eq!(fs::read_to_string(&granted).expect("there"), "the granted\n");
        // Without a grant the script prints nothing. Without a sandbox it can read the secret.
        let outcome = run(rig, &script, Sandbox::Require, &[]);
        assert_eq!(text(&outcome.stdout), "", "{outcome:?}");
        let outcome = run(rig, &format!("cat {dir}/secret"), Sandbox::Off, &[]);
        assert_eq!(text(&outcome.stdout), "the secret\n", "{outcome:?}");
        assert!(secret.exists());
    });
}

#[test]
fn a_single_file_is_written_where_that_is_granted() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, [granted, secret]) = beside();
        let dir = granted.parent().expect("a directory").display().to_string();
        let script = format!(
            "cat {dir}/granted; echo written >{dir}/granted; echo x >{dir}/secret; echo x >{dir}/new"
        );
        let outcome = run(rig, &script, Sandbox::Require, &[(Access::ReadWrite, &granted)]);
        // A file that the script creates in that directory is in the tool's own `/tmp`.
        assert_eq!(text(&outcome.stdout), "the granted\n", "{outcome:?}");
        assert_eq!(fs::read_to_string(&granted).expect("there"), "written\n");
        assert_eq!(fs::read_to_string(&secret).expect("there"), "the secret\n");
        assert!(!granted.with_file_name("new").exists());
        // The file may be written, and its directory may be read.
        let script = format!("echo again >{dir}/granted; echo x >{dir}/secret; cat {dir}/secret");
        let grants =
            [(Access::ReadWrite, &*granted), (Access::ReadOnly, granted.parent().expect("one"))];
        let outcome = run(rig, &script, Sandbox::Require, &grants);
        assert_eq!(text(&outcome.stdout), "the secret\n", "{outcome:?}");
        assert_eq!(fs::read_to_string(&granted).expect("there"), "again\n");
    });
}

#[test]
fn without_namespaces_a_single_file_is_granted_by_its_rule() {
    each_user(Sandbox::Prefer, |rig| {
        let rig = rig.lacking(OmittedLayers { namespaces: true, ..OmittedLayers::default() });
        let (_scratch, [granted, _]) = beside();
        let dir = granted.parent().expect("a directory").display().to_string();
        let script = format!(
            "cat {dir}/granted; cat {dir}/secret; echo x >{dir}/granted; cat {dir}/granted"
        );
        let outcome = run(&rig, &script, Sandbox::Prefer, &[(Access::ReadOnly, &granted)]);
        assert_eq!(text(&outcome.stdout), "the granted\nthe granted\n", "{outcome:?}");
    });
}

#[test]
fn a_link_is_no_file_that_is_granted() {
    each_user(Sandbox::Require, |rig| {
        let (_scratch, [granted, _]) = beside();
        let link = rig.path("link");
        symlink(&granted, &link).expect("linked");
        let outcome = run(rig, "exit 0", Sandbox::Require, &[(Access::ReadOnly, &link)]);
        let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
        assert!(reason.contains("symbolic link"), "{reason}");
    });
}
