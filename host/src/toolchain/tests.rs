use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::policy::{
    Authority, Backend, NewValue, Overrides, PolicyFiles, PolicyRequest, RemedyHints, ToolOrigin,
    holds_secret_place, secret_place,
};

/// A home with managers of toolchains, and the environment of its user.
struct Rig {
    scratch: tempfile::TempDir,
    variables: BTreeMap<&'static str, OsString>,
    downloads: bool,
    seen: Vec<PathBuf>,
}

impl Rig {
    /// Creates a home with these programs. `LINK -> TARGET` is a link, with a target that is
    /// relative to the scratch directory, and a name that ends with a slash is a directory.
    fn new(files: &[&str]) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let (variables, seen) = (BTreeMap::new(), Vec::new());
        let rig = Self { scratch, variables, downloads: false, seen };
        fs::create_dir(rig.path("home")).expect("made");
        for file in files {
            let (name, target) = file.split_once(" -> ").unwrap_or((file, ""));
            let path = rig.path(name);
            let dir = if name.ends_with('/') { Some(path.as_path()) } else { path.parent() };
            fs::create_dir_all(dir.expect("a directory")).expect("made");
            match target {
                "" if name.ends_with('/') => {}
                "" => {
                    fs::write(&path, "#!/bin/sh\n").expect("written");
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
                }
                target => symlink(rig.path(target), &path).expect("linked"),
            }
        }
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    fn with_path(self, dirs: &[&str]) -> Self {
        let dirs = dirs.iter().map(|dir| self.path(dir));
        let joined = std::env::join_paths(dirs).expect("no colons");
        self.with("PATH", joined)
    }

    fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name, value.into());
        self
    }

    fn find(&self, name: &str) -> Option<ToolchainInstallation> {
        let home = self.path("home");
        let machine = ToolchainContext {
            home: &home,
            variable: &|name| self.variables.get(name).cloned(),
            seen: &self.seen,
            downloads: self.downloads,
        };
        Toolchain::named(name).expect("a toolchain").find(&machine)
    }

    /// Returns the places of a toolchain in the form of an entry, without the scratch directory.
    fn places(&self, found: &ToolchainInstallation) -> Vec<String> {
        let place = |place: &InstalledPlace| {
            let path = place.path.strip_prefix(self.path("")).expect("in the scratch directory");
            format!("{}:{}", place.access.as_str(), path.display())
        };
        found.places.iter().map(place).collect()
    }

    fn dirs(&self, dirs: &[PathBuf]) -> Vec<String> {
        let dir = |dir: &PathBuf| {
            let path = dir.strip_prefix(self.path("")).expect("in the scratch directory");
            path.display().to_string()
        };
        dirs.iter().map(dir).collect()
    }
}

const RUSTUP: &[&str] = &[
    "home/.cargo/bin/rustup",
    "home/.cargo/bin/cargo -> home/.cargo/bin/rustup",
    "home/.cargo/registry/",
    "home/.cargo/config.toml",
    "home/.cargo/credentials.toml",
    "home/.rustup/toolchains/stable/bin/cargo",
];

#[test]
fn rustup_is_granted_without_the_tokens_of_cargo() {
    let mut rig = Rig::new(RUSTUP).with_path(&["home/.cargo/bin"]);
    let found = rig.find("rust").expect("found");
    assert_eq!(
        rig.places(&found),
        ["ro:home/.cargo/bin", "ro:home/.cargo/registry", "ro:home/.rustup"]
    );
    assert_eq!(
        rig.dirs(&found.withheld),
        ["home/.cargo/config.toml", "home/.cargo/credentials.toml"]
    );
    assert_eq!((found.env.len(), found.path.len()), (0, 0), "{found:?}");
    let names: Vec<&str> = found.programs.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["cargo", "rustup"]);
    // With downloads allowed, the tool may write to the caches.
    rig.downloads = true;
    let found = rig.find("rust").expect("found");
    assert_eq!(
        rig.places(&found),
        ["ro:home/.cargo/bin", "rw:home/.cargo/registry", "ro:home/.rustup"]
    );
}

#[test]
fn variables_that_move_a_manager_are_respected_and_granted() {
    let files = [RUSTUP, &["big/cargo/bin/cargo", "big/cargo/git/", "big/rustup/"]].concat();
    let rig = Rig::new(&files).with_path(&["big/cargo/bin"]);
    let (cargo, rustup) = (rig.path("big/cargo"), rig.path("big/rustup"));
    let rig = rig.with("CARGO_HOME", cargo).with("RUSTUP_HOME", rustup);
    let rig = rig.with("RUSTUP_TOOLCHAIN", "");
    let found = rig.find("rust").expect("found");
    assert_eq!(rig.places(&found), ["ro:big/cargo/bin", "ro:big/cargo/git", "ro:big/rustup"]);
    assert_eq!(found.env, ["CARGO_HOME", "RUSTUP_HOME"]);
}

#[test]
fn a_version_of_nvm_is_put_on_the_path_unless_it_is_there() {
    let files = [
        "home/.nvm/nvm.sh",
        "home/.nvm/.git/config",
        "home/.nvm/alias/default",
        "home/.nvm/versions/node/v9.11.2/bin/node",
        "home/.nvm/versions/node/v22.1.0/bin/node",
        "home/.npm/_cacache/",
        "home/.npmrc",
    ];
    let rig = Rig::new(&files).with_path(&["bin"]);
    let found = rig.find("node").expect("found");
    assert_eq!(rig.dirs(&found.path), ["home/.nvm/versions/node/v22.1.0/bin"]);
    assert_eq!(
        rig.places(&found),
        [
            "ro:home/.nvm/versions",
            "ro:home/.nvm/alias",
            "ro:home/.nvm/nvm.sh",
            "ro:home/.npm/_cacache"
        ]
    );
    assert_eq!(rig.dirs(&found.withheld), ["home/.npmrc"]);
    let rig = rig.with_path(&["home/.nvm/versions/node/v9.11.2/bin"]);
    let found = rig.find("node").expect("found");
    assert_eq!((found.path.len(), found.programs.len()), (0, 1), "{found:?}");
}

/// A program that a tool writes there would run outside of the sandbox.
#[test]
fn programs_of_pnpm_are_not_written_even_with_a_network() {
    let files = ["home/.local/share/pnpm/pnpm", "home/.local/share/pnpm/store/"];
    let mut rig = Rig::new(&files).with_path(&["home/.local/share/pnpm"]);
    rig.downloads = true;
    let found = rig.find("node").expect("found");
    assert_eq!(rig.places(&found), ["ro:home/.local/share/pnpm"]);
}

/// fnm puts a new link on `PATH` for each shell, in a directory that no tool sees.
#[test]
fn a_link_on_the_path_is_replaced_by_its_target() {
    let version = "home/.local/share/fnm/node-versions/v22.1.0/installation";
    let node = format!("{version}/bin/node");
    let npm = format!("{version}/bin/npm -> {version}/lib/npm-cli.js");
    let link = format!("run/fnm_multishells/1 -> {version}");
    let files = [node.as_str(), &format!("{version}/lib/npm-cli.js"), &npm, &link];
    let rig = Rig::new(&files).with_path(&["run/fnm_multishells/1/bin"]);
    let found = rig.find("node").expect("found");
    assert_eq!(rig.places(&found), ["ro:home/.local/share/fnm"]);
    assert_eq!(rig.dirs(&found.path), [format!("{version}/bin")]);
}

#[test]
fn a_program_that_is_a_link_comes_with_its_target() {
    let files = [
        "opt/node/bin/node",
        "home/.local/bin/node -> opt/node/bin/node",
        "home/.local/bin/uv",
        "home/.local/bin/python3 -> home/.local/share/uv/python/cpython-3.13/bin/python3",
        "home/.local/share/uv/python/cpython-3.13/bin/python3",
        "home/.local/share/uv/credentials/credentials.toml",
        "home/.cache/uv/",
    ];
    let rig = Rig::new(&files).with_path(&["home/.local/bin"]);
    let found = rig.find("node").expect("found");
    assert_eq!(rig.places(&found), ["ro:opt/node"]);
    assert_eq!(rig.dirs(&found.path), ["opt/node/bin"]);
    let found = rig.find("python").expect("found");
    assert_eq!(
        rig.places(&found),
        ["ro:home/.local/share/uv/python", "rw:home/.cache/uv", "ro:home/.local/bin/uv"]
    );
    assert_eq!(rig.dirs(&found.path), ["home/.local/share/uv/python/cpython-3.13/bin"]);
}

#[test]
fn no_place_of_secrets_is_granted_because_a_program_or_a_variable_leads_there() {
    let files = ["home/.aws/bin/go", "home/lnk/go -> home/.aws/bin/go", "home/.gnupg/toolchains/"];
    let rig = Rig::new(&files).with_path(&["home/lnk"]);
    let granted = rig.find("go").map(|found| rig.places(&found)).unwrap_or_default();
    assert!(granted.iter().all(|place| !place.contains(".aws")), "{granted:?}");
    let gnupg = rig.path("home/.gnupg");
    let rig = rig.with("RUSTUP_HOME", gnupg);
    let granted = rig.find("rust").map(|found| rig.places(&found)).unwrap_or_default();
    assert!(granted.iter().all(|place| !place.contains(".gnupg")), "{granted:?}");
}

#[test]
fn a_manager_of_another_home_is_granted_without_its_tokens() {
    let files = ["other/.cargo/bin/cargo", "other/.cargo/credentials.toml"];
    let rig = Rig::new(&files).with_path(&["other/.cargo/bin"]);
    let found = rig.find("rust").expect("found");
    assert_eq!(rig.places(&found), ["ro:other/.cargo/bin/cargo"]);
    let files = ["opt/rust/bin/cargo", "opt/rust/lib/std"];
    let rig = Rig::new(&files).with_path(&["opt/rust/bin"]);
    let found = rig.find("rust").expect("found");
    assert_eq!(rig.places(&found), ["ro:opt/rust"]);
}

/// A manager behind a link is granted by its real path, and its programs are found there.
#[test]
fn a_manager_behind_a_link_is_found_by_its_real_path() {
    let files = ["data/nvm/versions/node/v22.1.0/bin/node", "home/.nvm -> data/nvm"];
    let rig = Rig::new(&files).with_path(&["home/.nvm/versions/node/v22.1.0/bin"]);
    let found = rig.find("node").expect("found");
    assert_eq!(rig.dirs(&found.path), ["data/nvm/versions/node/v22.1.0/bin"]);
}

#[test]
fn a_toolchain_without_a_program_is_not_there() {
    let rig = Rig::new(&["home/.npm/_cacache/", "home/.rustup/", "bin/node/"]).with_path(&["bin"]);
    for toolchain in TOOLCHAINS {
        assert!(rig.find(toolchain.name).is_none(), "{}", toolchain.name);
    }
}

#[test]
fn a_program_of_the_system_needs_no_grant() {
    // Any system program can stand in for a toolchain's program.
    let rig = Rig::new(&["bin/"]).with_path(&["bin"]);
    symlink("/usr/bin/env", rig.path("bin/ruby")).expect("linked");
    let found = rig.find("ruby").expect("found");
    assert!(found.places.is_empty() && found.env.is_empty(), "{found:?}");
}

#[test]
fn a_variable_opens_no_home_and_no_directory_of_many_programs() {
    let rig = Rig::new(&["home/bin/java", "home/bin/go"]).with_path(&["home/bin"]);
    let home = rig.path("home");
    let rig = rig.with("JAVA_HOME", home.clone()).with("GOROOT", home);
    for name in ["java", "go"] {
        let found = rig.find(name).expect("found");
        // The system's own Java settings may be there too.
        let own = found.places.iter().filter(|place| place.path.starts_with(rig.path("")));
        let own: Vec<&Path> = own.map(|place| place.path.as_path()).collect();
        assert_eq!(own, [rig.path("home/bin").join(name)]);
        let is_around = |place: &InstalledPlace| rig.path("home").starts_with(&place.path);
        assert!(!found.places.iter().any(is_around), "{found:?}");
    }
}

/// Returns the policy of a rig's user, with this policy in the workspace.
fn authority(rig: &Rig, workspace: &str) -> Authority {
    for (file, text) in [("policy.toml", ""), ("work/.ikigai/policy.toml", workspace)] {
        let path = rig.path(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    }
    let files = PolicyFiles {
        ceiling: None,
        further_ceilings: Vec::new(),
        user: Some(rig.path("policy.toml")),
        user_is_named: true,
        workspace: rig.path("work"),
        home: Some(rig.path("home")),
        state: None,
    };
    let authority =
        Authority::open(&files, Overrides::default(), Vec::new(), RemedyHints::default(), None)
            .expect("opened");
    for (name, value) in &rig.variables {
        authority.set_variable(name, value.to_str().expect("UTF-8")).expect("set");
    }
    authority
}

fn glob() -> PolicyRequest<'static> {
    PolicyRequest {
        name: Some("glob"),
        names: &[],
        registered: &[],
        origin: ToolOrigin::System,
        backend: Backend::Wasm,
        fell_back: false,
        path: Path::new("/system/glob.wasm"),
        program: None,
        contents: &[],
        wasi: &[],
        tool: None,
    }
}

#[test]
fn a_tool_is_offered_the_toolchains_that_it_lacks_and_that_no_bound_takes_away() {
    // The variables of the test process would lead to its own toolchain.
    let rig = Rig::new(RUSTUP).with_path(&["home/.cargo/bin"]);
    let (cargo, rustup) = (rig.path("home/.cargo"), rig.path("home/.rustup"));
    let rig = rig.with("CARGO_HOME", cargo).with("RUSTUP_HOME", rustup);
    let offer = |authority: &Authority, path: &str, program: &str| {
        let paths = [rig.path(path)];
        ToolchainOffer::find(&paths, &BTreeSet::from([program]), authority, &glob())
    };
    let open = authority(&rig, "");
    for (path, program, is_offered) in [
        ("home/.rustup/toolchains/stable/bin/cargo", "", true),
        ("elsewhere", "cargo", true),
        ("home/.cargo/credentials.toml", "ls", false),
    ] {
        let offer = offer(&open, path, program);
        let names: Vec<_> =
            offer.iter().flat_map(|it| &it.found).map(|it| it.toolchain.name).collect();
        assert_eq!(names, if is_offered { vec!["rust"] } else { Vec::new() }, "{path} {program}");
    }
    let bounded = authority(&rig, "[tools.glob]\nfs = [\"ro:.\"]\n");
    assert!(offer(&bounded, "elsewhere", "cargo").is_none());
    // After the proposal is written, nothing is lacking.
    let open = authority(&rig, "");
    let found = offer(&open, "elsewhere", "cargo").expect("an offer");
    found.proposal.write().expect("written");
    let text = fs::read_to_string(rig.path("policy.toml")).expect("a policy");
    for place in &found.found[0].places {
        let entry = format!("\"{}:{}\"", place.access.as_str(), place.path.display());
        assert!(text.contains(&entry), "{entry}: {text}");
    }
    assert!(offer(&open, "elsewhere", "cargo").is_none());
}

#[test]
fn the_table_names_no_place_of_secrets() {
    let home = Path::new("/home/u");
    let machine = ToolchainContext { home, variable: &|_| None, seen: &[], downloads: true };
    let mut names = Vec::new();
    for toolchain in TOOLCHAINS {
        let Toolchain { name, programs, places, withheld, hosts, .. } = toolchain;
        assert!(!names.contains(name) && !programs.is_empty(), "{name}");
        names.push(name);
        assert!(hosts.iter().all(|host| host.ends_with(":443")), "{name}");
        let of = |root: ManagerDir, part: &str| {
            let roots = root.candidates(&machine).into_iter();
            roots.map(|root| root.join(part)).collect::<Vec<_>>()
        };
        let granted: Vec<PathBuf> =
            places.iter().flat_map(|place| of(place.root, place.part)).collect();
        for path in &granted {
            assert!(secret_place(path, Some(home)).is_none(), "{}", path.display());
            assert!(!holds_secret_place(path, Some(home)), "{}", path.display());
        }
        for file in withheld.iter().flat_map(|(root, part)| of(*root, part)) {
            let is_open = granted.iter().any(|dir| file.starts_with(dir));
            assert!(!is_open, "{}", file.display());
        }
    }
}

fn held(rules: &[&str]) -> EntryLists {
    let rule = |rule: &&str| {
        let (access, written) = rule.split_once(':').expect("an access");
        let access = if access == "rw" { Access::ReadWrite } else { Access::ReadOnly };
        let path = Path::new("/w").join(written.trim_start_matches('.'));
        WrittenPath { access, written: written.to_owned(), path }
    };
    EntryLists { fs: rules.iter().map(rule).collect(), ..EntryLists::default() }
}

fn installation(places: &[(Access, &str)]) -> ToolchainInstallation {
    let place = |(access, path): &(Access, &str)| InstalledPlace {
        access: *access,
        path: path.into(),
        holds: "",
    };
    ToolchainInstallation {
        toolchain: &TOOLCHAINS[0],
        programs: Vec::new(),
        places: places.iter().map(place).collect(),
        env: vec!["CARGO_HOME"],
        path: vec!["/c/bin".into()],
        withheld: Vec::new(),
    }
}

#[test]
fn an_entry_keeps_what_it_has_and_gets_each_directory_once() {
    use Access::{ReadOnly, ReadWrite};
    let list = |words: &[&str]| NewValue::List(words.iter().map(|it| (*it).to_owned()).collect());
    let found = [installation(&[(ReadOnly, "/c/bin"), (ReadOnly, "/r"), (ReadWrite, "/u")])];
    let keys = |held: &EntryLists| {
        let mut lists = held.clone();
        add(&found, &mut lists, Path::new("/w")).expect("no conflict");
        lists.keys(held)
    };
    let before = held(&["rw:.", "rw:/c", "ro:/r/lib"]);
    assert_eq!(
        keys(&before),
        [
            ("fs".to_owned(), list(&["rw:.", "rw:/c", "ro:/r", "rw:/u"])),
            ("env".to_owned(), list(&["CARGO_HOME"])),
            ("path".to_owned(), list(&["/c/bin"])),
        ]
    );
    // A directory that is already granted gets the access that the toolchain needs.
    let (_, upgraded) = keys(&held(&["ro:/u"])).swap_remove(0);
    assert_eq!(upgraded, list(&["rw:/u", "ro:/c/bin", "ro:/r"]));
    // Accesses that the entry already has change nothing.
    let mut after = held(&["rw:.", "rw:/c", "ro:/r", "rw:/u"]);
    after.env = vec!["CARGO_HOME".to_owned()];
    after.path = vec!["/c/bin".into()];
    assert_eq!(keys(&after), []);
}

#[test]
fn a_directory_with_another_access_is_a_conflict() {
    let found = [installation(&[(Access::ReadOnly, "/r"), (Access::ReadWrite, "/c/u")])];
    for (rule, place) in [("rw:/r/x", "/r"), ("ro:/c", "/c/u")] {
        let mut lists = held(&[rule]);
        let conflict = add(&found, &mut lists, Path::new("/w")).expect_err("a conflict");
        assert_eq!(conflict.new.path, Path::new(place));
        assert_eq!(conflict.held, held(&[rule]).fs[0]);
    }
}

#[test]
fn versions_are_compared_by_their_numbers() {
    let mut names = ["v10.0.0", "v9.11.2", "v22.1.0", "v22.0.10"];
    names.sort_by(|one, other| search::by_version(one, other));
    assert_eq!(names, ["v9.11.2", "v10.0.0", "v22.0.10", "v22.1.0"]);
}
