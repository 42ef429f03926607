//! `ikigai asset edit`: no text is lost, even if the editor fails.

use std::fs;
use std::path::PathBuf;

use ikigai_tests::host::{Host, Ran};

use crate::assets::rig::{get, host, put, text};

/// Opens an asset in an editor that is this script; `$1` is the file.
fn edit(host: &Host, script: &str, path: &str) -> Ran {
    let editor = host.write("editor", format!("#!/bin/sh\n{script}\n"), 0o755);
    let mut command = host.command();
    command.env("EDITOR", format!("{} --wait", editor.display())).args(["asset", "edit", path]);
    // The first argument of the script is the editor's option.
    Ran::from_command(&mut command, b"")
}

/// Returns the path of the file with the text, from the error message.
fn kept(ran: &Ran) -> PathBuf {
    let stderr = ran.stderr();
    let name = stderr.split("saved in `").nth(1).and_then(|rest| rest.split('`').next());
    PathBuf::from(name.unwrap_or_else(|| panic!("no file is named\n{ran}")))
}

#[test]
fn what_the_editor_leaves_is_stored() {
    let host = host();
    edit(&host, "echo new > \"$2\"", "blocks/new.md").expect_code(0);
    assert_eq!(get(&host, "new"), "new\n");
    // Many editors replace the file by a new one.
    let ran = edit(&host, "sed 's/new/old/' \"$2\" > \"$2.x\"; mv \"$2.x\" \"$2\"", "new");
    ran.expect_code(0);
    assert_eq!(get(&host, "new"), "old\n");
    let ran = edit(&host, "true", "new").expect_code(0);
    assert!(ran.stderr().contains("is unchanged"), "{ran}");
    let ran = edit(&host, "exit 3", "new").expect_code(1);
    assert!(ran.stderr().contains("the asset is unchanged"), "{ran}");
    assert_eq!(get(&host, "new"), "old\n");
    let left = fs::read_dir(host.scratch().join("tmp")).expect("read").count();
    assert_eq!(left, 0, "files are left behind");
}

#[test]
fn an_editor_that_a_tool_could_replace_is_not_started() {
    let host = host();
    let ran = host.scratch().join("ran");
    let script = format!("#!/bin/sh\n: > '{}'\n", ran.display());
    let inside = host.write("workspace/bin/vi", script, 0o755);
    host.write("bin/vi", "#!/bin/sh\necho new > \"$1\"\n", 0o755);
    let dirs = [host.workspace().join("bin"), host.scratch().join("bin")];
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&old)));
    let host = host.env("PATH", path.expect("a path"));
    // Without a variable, the editor is the first `vi` that no tool can replace.
    host.run(["asset", "edit", "blocks/a.md"]).expect_code(0);
    assert_eq!(get(&host, "a"), "new\n");
    let around = host.scratch().display();
    for editor in [inside.display().to_string(), format!("env -C {around} workspace/bin/vi")] {
        let mut command = host.command();
        command.env("EDITOR", &editor).args(["asset", "edit", "a"]);
        let refused = Ran::from_command(&mut command, b"").expect_code(1);
        let text = refused.stderr();
        assert!(text.contains("was not started: a tool could change the command"), "{refused}");
        assert!(text.contains("the asset is unchanged"), "{refused}");
    }
    assert!(!ran.exists());
}

#[test]
fn a_text_that_cannot_be_stored_is_kept() {
    let host = host();
    put(&host, "blocks/a.md", b"mine\n");
    let ran = edit(&host, "echo lost > \"$2\"; kill -9 $$", "a").expect_code(1);
    assert_eq!(fs::read_to_string(kept(&ran)).expect("kept"), "lost\n");
    // The host ignores Ctrl-C, which is for the editor.
    let interrupt = "p=$PPID; [ \"$(cat /proc/$p/comm)\" = ikigai ] || \
                     p=$(awk '{ print $4 }' /proc/$p/stat); kill -INT $p";
    let ran = edit(&host, &format!("{interrupt}; echo more >> \"$2\""), "a").expect_code(0);
    assert_eq!(get(&host, "a"), "mine\nmore\n", "{ran}");
    put(&host, "blocks/a.md", b"mine\n");
    // In the meantime, another program changes the asset.
    let other = host.command();
    let store = host.home().join(".local/share/ikigai/store.db");
    let program = other.get_program().to_str().expect("UTF-8").to_owned();
    let script = format!(
        "echo theirs | '{program}' --store 'sqlite:{}' asset put blocks/a.md 2>/dev/null\n\
         echo both >> \"$2\"",
        store.display()
    );
    let ran = edit(&host, &script, "a").expect_code(1);
    assert!(ran.stderr().contains("has changed"), "{ran}");
    assert_eq!(fs::read_to_string(kept(&ran)).expect("kept"), "mine\nboth\n");
    assert_eq!(get(&host, "a"), "theirs\n");

    let large = host.write("large", text(100_001), 0o644);
    let ran = edit(&host, &format!("cp '{}' \"$2\"", large.display()), "blocks/b.md");
    let ran = ran.expect_code(1);
    assert!(ran.stderr().contains("Block budget exceeded"), "{ran}");
    assert_eq!(fs::read_to_string(kept(&ran)).expect("kept"), text(100_001));

    put(&host, "blocks/law.md", b"");
    host.run_with(["asset", "put", "blocks/law.md", "--read-only"], b"law").expect_code(0);
    let ran = edit(&host, "echo x > \"$2\"", "law").expect_code(1);
    assert!(ran.stderr().contains("read-only"), "{ran}");
}
