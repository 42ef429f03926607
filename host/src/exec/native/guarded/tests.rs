//! The search in repositories that a test lays out, within bounds that it chooses.

use std::fs::{self, Permissions, create_dir_all, remove_file, write};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ikigai_protocol::{Access, GrantedDir};
use tempfile::TempDir;

use super::*;
use crate::exec::native::set_aside::PlaceState;
use crate::policy::Reserved;

/// A writable directory with a repository in it.
struct ScratchRepository {
    _scratch: TempDir,
    root: PathBuf,
}

impl ScratchRepository {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let workspace = Self { _scratch: scratch, root };
        for file in [".git/HEAD", ".git/config", ".git/objects/o", "src/a", "Makefile"] {
            workspace.write(file);
        }
        workspace
    }

    fn write(&self, name: &str) {
        let path = self.root.join(name);
        create_dir_all(path.parent().expect("a parent")).expect("made");
        write(path, "good").expect("written");
    }

    fn link(&self, target: &str, name: &str) {
        symlink(target, self.root.join(name)).expect("linked");
    }

    /// Finds the places for a tool that may write to the directory, and to what is named.
    fn find(&self, named: &[&str], bounds: GuardBounds) -> Guarded {
        let named = named.iter().map(|name| self.root.join(name));
        let named = named.chain([self.root.clone()]);
        let named = named.map(|path| GrantedDir { access: Access::ReadWrite, path });
        let dirs = vec![GrantedDir { access: Access::ReadWrite, path: self.root.clone() }];
        let reserved = Reserved::guarding(named.collect());
        let grant = Grant { dirs, reserved, ..Grant::default() };
        let ended = CancellationToken::new();
        Guarded::find_within(&grant, bounds, true, &ended, None).expect("found")
    }

    /// Returns what is read-only, and what was too large to be searched.
    fn closed(&self, named: &[&str], bounds: GuardBounds) -> [Vec<String>; 2] {
        let guarded = self.find(named, bounds);
        let name =
            |path: &Path| path.strip_prefix(&self.root).expect("within").display().to_string();
        let read_only = guarded.read_only.iter();
        let read_only = read_only.map(|it| name(Path::new(OsStr::from_bytes(it.path.to_bytes()))));
        let mut read_only: Vec<String> = read_only.collect();
        read_only.sort();
        [read_only, guarded.too_large.iter().map(|path| name(path)).collect()]
    }
}

#[test]
fn every_name_among_the_submodules_counts_and_too_many_close_the_repository() {
    let workspace = ScratchRepository::new();
    workspace.write("scripts/hook");
    workspace.write(".git/hooks/sample");
    workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
    for number in 0..5 {
        workspace.write(&format!(".git/modules/{number}"));
    }
    let bounds = GuardBounds::default();
    let [read_only, too_large] = workspace.closed(&[], GuardBounds { inner: 5, ..bounds });
    assert_eq!(read_only, [".git/config", ".git/hooks", "scripts/hook"]);
    assert_eq!(too_large, Vec::<String>::new());
    let [read_only, too_large] = workspace.closed(&[], GuardBounds { inner: 4, ..bounds });
    assert_eq!(read_only, [".git", "scripts/hook"]);
    assert_eq!(too_large, [".git"]);
    // What the grant names stays open.
    let bounds = GuardBounds { inner: 4, ..bounds };
    let [read_only, too_large] = workspace.closed(&[".git/config"], bounds);
    assert_eq!(read_only, [".git/hooks", ".git/modules", "scripts/hook", "scripts/hook"]);
    assert_eq!(too_large, [".git"]);
}

#[test]
fn too_many_places_in_submodules_close_the_repository() {
    let workspace = ScratchRepository::new();
    workspace.write(".git/modules/sub/HEAD");
    workspace.write(".git/modules/sub/config");
    workspace.write(".git/modules/sub/hooks/pre-commit");
    let bounds = GuardBounds { places: 3, ..GuardBounds::default() };
    assert_eq!(workspace.closed(&[], bounds), [[".git"], [".git"]]);
    let [read_only, _] = workspace.closed(&[], GuardBounds::default());
    let inner = [".git/modules/sub/config", ".git/modules/sub/hooks"];
    assert_eq!(read_only, [".git/config", inner[0], inner[1]]);
}

/// Links that take the kernel long to follow. A tool could have made those among submodules.
#[test]
fn links_that_lead_too_far_close_the_repository_and_are_reported_elsewhere() {
    let far = |up: &str| format!("{up}{}scripts/hook", "src/../".repeat(80));
    let bounds = GuardBounds::default();
    for (up, link, read_only, too_large) in [
        ("../../../../", ".git/modules/sub/hooks/h", vec![".git"], ".git"),
        ("../../../../", ".git/worktrees/w/hooks/h", vec![".git"], ".git"),
        ("../../../", ".git/modules/sub/hooks", vec![".git"], ".git"),
        ("../../", ".git/modules/h", vec![".git"], ".git"),
        ("../../", ".git/hooks/h", vec![".git/config", ".git/hooks"], ".git/hooks"),
        ("", ".vscode", vec![".git/config"], ".vscode"),
    ] {
        let workspace = ScratchRepository::new();
        workspace.write("scripts/hook");
        for file in [".git/modules/sub/HEAD", ".git/worktrees/w/HEAD"] {
            workspace.write(file);
        }
        let path = workspace.root.join(link);
        create_dir_all(path.parent().expect("a parent")).expect("made");
        workspace.link(&far(up), link);
        assert_eq!(path.canonicalize().expect("there"), workspace.root.join("scripts/hook"));
        let [found, reported] = workspace.closed(&[], bounds);
        assert_eq!((found, reported), (strings(&read_only), strings(&[too_large])), "{link}");
    }
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.to_owned()).collect()
}

#[test]
fn links_among_submodules_use_up_a_share_of_their_own() {
    let workspace = ScratchRepository::new();
    for file in ["scripts/hook", ".git/hooks/sample", ".git/modules/sub/hooks/sample"] {
        workspace.write(file);
    }
    workspace.write(".git/modules/sub/HEAD");
    workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
    let of_one = workspace.root.components().count() + 16;
    for number in 0..10 {
        workspace.link("../../../../Makefile", &format!(".git/modules/sub/hooks/{number}"));
    }
    let bounds = GuardBounds::default();
    let [read_only, too_large] = workspace.closed(&[], GuardBounds { ways: of_one, ..bounds });
    assert!(read_only.contains(&"scripts/hook".to_owned()), "{read_only:?}");
    assert_eq!(too_large, [".git"]);
    let [_, too_large] = workspace.closed(&[], GuardBounds { ways: of_one * 10, ..bounds });
    assert_eq!(too_large, Vec::<String>::new());
}

#[test]
fn links_on_a_way_and_the_directories_that_it_leaves_stay_where_they_are() {
    let workspace = ScratchRepository::new();
    for file in ["away/down/file", "scripts/hook", ".git/hooks/sample"] {
        workspace.write(file);
    }
    workspace.link("../../away/down/../chain", ".git/hooks/pre-commit");
    workspace.link("../scripts/hook", "away/chain");
    workspace.link("scripts", ".vscode");
    let guarded = workspace.find(&[], GuardBounds::default());
    let pinned: Vec<&PathBuf> = guarded.pinned.keys().collect();
    let names = [".git", ".git/hooks", ".git/hooks/pre-commit", ".vscode", "away", "away/chain"];
    let expected = names.iter().chain(&["away/down"]).map(|name| workspace.root.join(name));
    assert_eq!(pinned, expected.collect::<Vec<_>>().iter().collect::<Vec<_>>());
    // No descriptor is held for a link, and a tool can make many.
    assert!(guarded.dangling.is_empty());
    let other = ScratchRepository::new();
    other.write(".git/hooks/sample");
    let without = other.find(&[], GuardBounds::default());
    assert_eq!(guarded.expected.len() + 1, without.expected.len(), "only `.vscode`");
}

#[test]
fn too_many_directories_on_the_ways_of_links_are_reported() {
    let workspace = ScratchRepository::new();
    workspace.write("scripts/hook");
    workspace.write(".git/hooks/sample");
    for number in 0..5 {
        create_dir_all(workspace.root.join(format!("away{number}"))).expect("made");
        let target = format!("../../away{number}/../scripts/hook");
        workspace.link(&target, &format!(".git/hooks/{number}"));
    }
    let bounds = GuardBounds { places: 6, ..GuardBounds::default() };
    let [_, too_large] = workspace.closed(&[], bounds);
    assert_eq!(too_large, [".git/hooks"]);
    let [_, too_large] = workspace.closed(&[], GuardBounds::default());
    assert_eq!(too_large, Vec::<String>::new());
}

#[test]
fn a_link_that_led_nowhere_is_set_aside_once_it_leads_somewhere() {
    let workspace = ScratchRepository::new();
    workspace.write(".git/hooks/sample");
    let hook = workspace.root.join(".git/hooks/pre-commit");
    let set_aside = |guarded: Guarded| guarded.set_aside().len();
    workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
    let find = || workspace.find(&[], GuardBounds::default());
    let first = find();
    workspace.write("scripts/hook");
    // The second call finds the target, and knows from the first one that it is new.
    let second = find();
    fs::rename(workspace.root.join("scripts"), workspace.root.join("away")).expect("renamed");
    assert_eq!((set_aside(first), hook.is_symlink()), (0, true));
    fs::rename(workspace.root.join("away"), workspace.root.join("scripts")).expect("renamed");
    assert_eq!((set_aside(second), hook.is_symlink()), (1, false));
    // A tool that takes rights away does not keep the host from renaming it.
    for file in ["scripts/hook", ".git/hooks/pre-commit.withheld"] {
        remove_file(workspace.root.join(file)).expect("removed");
    }
    workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
    let third = find();
    workspace.write("scripts/hook");
    let git = workspace.root.join(".git");
    let permit = |mode| fs::set_permissions(&git, Permissions::from_mode(mode)).expect("set");
    permit(0o000);
    let renamed = set_aside(third);
    permit(0o700);
    assert_eq!((renamed, hook.is_symlink()), (1, false));
    // Now it was there before.
    workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
    assert_eq!((set_aside(find()), hook.is_symlink()), (0, true));
}

#[test]
fn a_search_that_has_ended_looks_at_no_place() {
    let workspace = ScratchRepository::new();
    workspace.write(".vscode/tasks.json");
    let dirs = vec![GrantedDir { access: Access::ReadWrite, path: workspace.root.clone() }];
    let reserved = Reserved::guarding(dirs.clone());
    let grant = Grant { dirs, reserved, ..Grant::default() };
    let ended = CancellationToken::new();
    let found = |ended: &CancellationToken| {
        Guarded::find(&grant, true, ended, None).expect("found").read_only.len()
    };
    assert_eq!(found(&ended), 2);
    ended.cancel();
    assert_eq!(found(&ended), 0);
}

#[test]
fn too_many_names_beside_a_named_one_close_the_directory() {
    let workspace = ScratchRepository::new();
    workspace.write(".claude/settings.json");
    for number in 0..5 {
        workspace.write(&format!(".claude/{number}"));
    }
    let named = [".claude/settings.json"];
    let bounds = GuardBounds::default();
    for few in [GuardBounds { places: 4, ..bounds }, GuardBounds { names: 5, ..bounds }] {
        let [read_only, too_large] = workspace.closed(&named, few);
        assert_eq!(read_only, [".claude", ".git/config"]);
        assert_eq!(too_large, [".claude"]);
    }
    let enough = GuardBounds { places: 6, names: 6, ..bounds };
    let [read_only, too_large] = workspace.closed(&named, enough);
    assert_eq!((read_only.len(), too_large.len()), (6, 0), "{read_only:?}");
}

#[test]
fn what_is_new_in_a_place_that_is_open_in_part_is_noted_with_the_place() {
    let workspace = ScratchRepository::new();
    workspace.write(".claude/settings.json");
    let guarded = workspace.find(&[".claude/settings.json"], GuardBounds::default());
    for file in [".claude/hooks.json", ".claude/more.json"] {
        workspace.write(file);
    }
    let done = guarded.set_aside();
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|it| it.place == workspace.root.join(".claude")));
}

/// Links that a tool could have made in an earlier call.
#[test]
fn links_among_submodules_do_not_guard_what_they_lead_to() {
    let workspace = ScratchRepository::new();
    for file in ["sub.git/HEAD", "sub.git/objects/o", "sub.git/refs/r", ".git/modules/x/HEAD"] {
        workspace.write(file);
    }
    let links = [
        ("../../Makefile", ".git/modules/m"),
        ("../../src", ".git/modules/s"),
        ("../objects", ".git/modules/o"),
        ("../..", ".git/modules/w"),
        ("../../nowhere", ".git/modules/n"),
        ("../../../.git/objects", ".git/modules/x/hooks"),
        ("../../sub.git", ".git/modules/sub"),
    ];
    for (target, link) in links {
        workspace.link(target, link);
    }
    let [read_only, _] = workspace.closed(&[], GuardBounds::default());
    assert_eq!(read_only, [".git/config", "sub.git"], "a repository is guarded");
    let guarded = workspace.find(&[], GuardBounds::default());
    for (_, link) in links {
        assert!(guarded.pinned.contains_key(&workspace.root.join(link)), "{link}");
    }
}

#[test]
fn a_link_that_takes_the_place_of_the_submodules_is_set_aside() {
    for is_there in [true, false] {
        let workspace = ScratchRepository::new();
        let modules = workspace.root.join(".git/modules");
        if is_there {
            create_dir_all(&modules).expect("made");
        }
        let guarded = workspace.find(&[], GuardBounds::default());
        if is_there {
            fs::remove_dir(&modules).expect("removed");
        }
        workspace.link("../src", ".git/modules");
        let done = guarded.set_aside();
        assert_eq!(done.len(), 1);
        assert!(matches!(&done[0].now, PlaceState::Renamed(name) if name == "modules.withheld"));
        let guarded = workspace.find(&[], GuardBounds::default());
        create_dir_all(&modules).expect("made");
        assert!(guarded.set_aside().is_empty(), "git makes it for the first submodule");
    }
}

#[test]
fn what_a_user_makes_while_a_server_runs_is_no_new_place_of_a_later_call() {
    let workspace = ScratchRepository::new();
    let dirs = vec![GrantedDir { access: Access::ReadWrite, path: workspace.root.clone() }];
    let reserved = Reserved::guarding(dirs.clone());
    let grant = Grant { dirs, reserved, ..Grant::default() };
    let ended = CancellationToken::new();
    for (lives_on, expected) in [(true, true), (false, false)] {
        let running = Guarded::find(&grant, !lives_on, &ended, None).expect("found");
        workspace.write(".envrc");
        let called = Guarded::find(&grant, true, &ended, None).expect("found");
        called.set_aside();
        assert_eq!(workspace.root.join(".envrc").exists(), expected, "a server: {lives_on}");
        drop(running);
        let _ = remove_file(workspace.root.join(".envrc"));
    }
}

#[test]
fn a_link_that_a_running_call_made_is_new_for_the_next_one() {
    let workspace = ScratchRepository::new();
    let find = || workspace.find(&[], GuardBounds::default());
    let link = workspace.root.join(".vscode");
    let first = find();
    workspace.link("src", ".vscode");
    let second = find();
    first.set_aside();
    assert!(second.set_aside().is_empty() && !link.is_symlink());
}

#[test]
fn a_place_that_was_replaced_during_the_call_is_reported_and_stays() {
    let workspace = ScratchRepository::new();
    workspace.write(".envrc");
    let (first, second) =
        (workspace.find(&[], GuardBounds::default()), workspace.find(&[], GuardBounds::default()));
    assert!(first.set_aside().is_empty());
    workspace.write("new");
    fs::rename(workspace.root.join("new"), workspace.root.join(".envrc")).expect("renamed");
    let done = second.set_aside();
    assert_eq!(done.len(), 1);
    assert!(matches!(done[0].now, PlaceState::Replaced));
    assert!(done[0].path.exists());
    // A link with the same text is another link.
    workspace.link("src", ".vscode");
    let guarded = workspace.find(&[], GuardBounds::default());
    workspace.link("src", "new");
    fs::rename(workspace.root.join("new"), workspace.root.join(".vscode")).expect("renamed");
    let done = guarded.set_aside();
    assert!(done.len() == 1 && matches!(done[0].now, PlaceState::Replaced));
}
