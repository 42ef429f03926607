//! The order of defaults, flags and files, for limits and for the calls that need consent.

use std::time::Duration;

use ikigai_host::policy::{
    Approve, Backend, BackendChoice, LimitKey, Overrides, Profile, Provenance, ToolOrigin,
};

use crate::policy_layers::rig::{Rig, asked, contents, granted, system, users};

#[test]
fn a_default_for_the_shell_is_above_the_profile_and_below_everything_else() {
    let minutes = |number: u64| Duration::from_secs(60 * number);
    let nanos = |minutes: u64| minutes * 60_000_000_000;
    let of_shell = Overrides {
        shell_limits: vec![(LimitKey::WallClock, asked(nanos(2)))],
        ..Overrides::default()
    };
    let bound = "[tools.\"*\"]\nlimits = { wall_clock = \"1m\" }";
    let own = "[tools.bash]\nlimits = { wall_clock = \"5m\" }";
    let flag =
        Overrides { limits: vec![(LimitKey::WallClock, asked(nanos(3)))], ..of_shell.clone() };
    let week = 7 * 24 * 60;
    for (ceiling, user, overrides, minutes_allowed, at_most) in [
        ("", "", &of_shell, 2, week),
        ("", "", &flag, 3, week),
        ("", own, &of_shell, 5, 5),
        ("", own, &flag, 3, 5),
        (bound, own, &of_shell, 1, 1),
        (bound, "", &of_shell, 1, 1),
        ("", bound, &of_shell, 1, 1),
    ] {
        let mut rig = Rig::with(ceiling, user, "");
        rig.overrides = overrides.clone();
        let decision = rig.allowed(system("bash", Backend::Native));
        assert_eq!(decision.limits.wall_clock, minutes(minutes_allowed), "{ceiling} {user}");
        // A person cannot give more time than the files allow.
        assert_eq!(decision.limits.wall_clock_ceiling, minutes(at_most), "{ceiling} {user}");
    }
    let mut rig = Rig::with("", "", "");
    rig.overrides = of_shell;
    let decision = rig.allowed(system("bash", Backend::Native));
    assert_eq!(
        decision.provenance.for_capability("wall_clock"),
        [Provenance::Override("--flag".into())]
    );
    let other = rig.allowed(system("grep", Backend::Native));
    assert_eq!(other.limits.wall_clock, Duration::from_secs(30));
}

#[test]
fn a_flag_lowers_a_limit_of_a_file_and_never_lifts_it() {
    let entry = "[tools.grep]\nlimits = { fuel = 50 }";
    let every = "[tools.\"*\"]\nlimits = { fuel = 50 }";
    let flag = Provenance::Override("--flag".into());
    for (ceiling, user, workspace) in
        [("", entry, ""), ("", every, ""), (entry, "", ""), ("", "", entry)]
    {
        let mut rig = Rig::with(ceiling, user, workspace);
        for (value, expected) in [(100, 50), (50, 50), (5, 5)] {
            rig.overrides.limits = vec![(LimitKey::Fuel, asked(value))];
            let decision = rig.allowed(system("grep", Backend::Wasm));
            assert_eq!(decision.limits.fuel, expected, "{ceiling}{user}{workspace}: {value}");
            let by = decision.provenance.for_capability("fuel");
            // The file set the limit, unless the flag lowered it.
            assert_eq!(by.contains(&flag), user != entry || value < 50, "{value}: {by:?}");
        }
    }
}

#[test]
fn a_limit_takes_away_from_a_tool_whose_contents_its_entry_does_not_name() {
    let rig = Rig::with("", "[tools.tool]\nlimits = { fuel = 50, memory = \"1TiB\" }", "");
    for backend in [Backend::Wasm, Backend::Native] {
        let decision = rig.allowed(users(backend, &contents()));
        assert_eq!(decision.limits.fuel, 50);
        assert_eq!(decision.limits.wasm_memory, 512 << 20, "it gives nothing");
        assert!(decision.notes.is_empty(), "{:?}", decision.notes);
        assert!(!decision.is_unconfined(backend));
    }
}

#[test]
fn flags_pass_the_users_profile_and_no_bound() {
    let user = "profile = \"strict\"\n[tools.grep]\nbackend = \"wasm\"\nlimits = { fuel = 500 }";
    let asked = Overrides {
        profile: Some(asked(Profile::Standard)),
        backend: Some(asked(BackendChoice::Native)),
        limits: vec![(LimitKey::Fuel, asked(100)), (LimitKey::WallClock, asked(60_000_000_000))],
        ..Overrides::default()
    };
    let mut rig = Rig::with("", user, "");
    rig.overrides = asked.clone();
    let decision = rig.allowed(system("grep", Backend::Native));
    assert_eq!((decision.profile, decision.limits.fuel), (Profile::Standard, 100));
    let by = decision.provenance.for_capability("fuel");
    assert_eq!(by.last(), Some(&Provenance::Override("--flag".into())));
    let bound = "profile = \"strict\"\n[tools.grep]\nbackend = \"wasm\"\n\
                 limits = { wall_clock = \"1s\", fuel = 50 }";
    for text in [bound, &bound.replace("backend = \"wasm\"\n", "")] {
        let mut rig = Rig::with(text, user, "");
        rig.overrides = asked.clone();
        let decision = rig.allowed(system("grep", Backend::Wasm));
        assert_eq!((decision.profile, decision.limits.fuel), (Profile::Strict, 50));
        assert_eq!(decision.limits.wall_clock, Duration::from_secs(1));
        let native = rig.decide(system("grep", Backend::Native));
        assert_eq!(native.is_err(), text.contains("backend"), "{native:?}");
        let choice = rig.host().expect("a policy").authority().choose("grep", ToolOrigin::System);
        let expected = if text.contains("backend") { "wasm" } else { "native" };
        assert_eq!(choice.backend.as_str(), expected);
    }
    // A workspace cannot choose a build.
    let rig = Rig::with("", "", "[tools.bash]\nbackend = \"native\"\n");
    let choice = rig.host().expect("a policy").authority().choose("bash", ToolOrigin::System);
    assert_eq!(choice.backend.as_str(), "auto");
}

#[test]
fn the_strictest_of_all_layers_decides_who_is_asked() {
    const VALUES: [Option<Approve>; 5] = [
        None,
        Some(Approve::None),
        Some(Approve::Changes),
        Some(Approve::Unlisted),
        Some(Approve::Always),
    ];
    let own = contents();
    let said = |table: &str, value: Option<Approve>| {
        value.map_or_else(String::new, |it| format!("[tools.{table}]\napprove = \"{it}\"\n"))
    };
    for ceiling in VALUES {
        for user in VALUES {
            for workspace in VALUES {
                // An entry without a digest is not a grant. Its `approve` counts nevertheless.
                let mut rig = Rig::with(
                    &said("\"*\"", ceiling),
                    &said("tool", user),
                    &said("tool", workspace),
                );
                for flag in VALUES {
                    rig.overrides.approve = flag.map(asked);
                    let decision = rig.allowed(users(Backend::Wasm, &own));
                    let all = [ceiling, user, workspace, flag];
                    let strictest = all.into_iter().flatten().max().unwrap_or_default();
                    assert_eq!(decision.approve, strictest, "{all:?}");
                    assert_eq!(decision.needs_consent(Backend::Wasm), strictest == Approve::Always);
                    assert!(decision.notes.is_empty(), "{:?}", decision.notes);
                    let by_profile = decision.provenance.for_capability("approve")
                        == [Provenance::Profile(Profile::Standard)];
                    assert_eq!(by_profile, strictest == Approve::None, "{all:?}");
                }
            }
        }
    }
}

#[test]
fn changes_are_what_the_grant_allows() {
    let own = contents();
    for (grant, backend, changes) in [
        ("", Backend::Wasm, false),
        ("fs = [\"ro:docs\"]", Backend::Wasm, false),
        ("fs = [\"rw:docs\"]", Backend::Wasm, true),
        ("net = [\"db.internal:5432\"]", Backend::Wasm, true),
        ("assets = \"read\"", Backend::Wasm, false),
        ("assets = \"write\"", Backend::Wasm, true),
        ("fs = [\"ro:docs\"]", Backend::Native, false),
        ("fs = [\"ro:docs\"]\nsandbox = \"prefer\"", Backend::Native, true),
    ] {
        let rig = Rig::with("[tools.\"*\"]\napprove = \"changes\"\n", &granted(grant), "");
        let decision = rig.allowed(users(backend, &own));
        assert_eq!(decision.needs_consent(backend), changes, "{grant} {backend}");
    }
}
