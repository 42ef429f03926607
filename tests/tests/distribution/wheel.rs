//! The wheel, installed into a fresh environment of Python and removed.

use crate::artifacts::{Machine, file, has};

#[test]
fn an_environment_gets_the_program_and_its_tools() {
    let machine = Machine::new();
    let Some(wheel) = file("ikigai_host-", ".whl") else { return };
    if !has("python3") {
        return;
    }
    let environment = machine.path("environment");
    machine.run("python3", &["-m", "venv", environment.to_str().expect("UTF-8")]);
    let pip = environment.join("bin/pip");
    let wheel = wheel.to_str().expect("UTF-8");
    machine.run(&pip, &["install", "--no-index", "--disable-pip-version-check", wheel]);
    machine.assert_works(&environment.join("bin/ikigai"));

    let files = machine.run(&pip, &["show", "--files", "ikigai-host"]);
    assert!(files.contains(".dist-info/sboms/ikigai.cdx.json"), "{files}");
    machine.run(&pip, &["uninstall", "--yes", "--disable-pip-version-check", "ikigai-host"]);
    for path in ["bin/ikigai", "libexec/ikigai", "libexec/ikigai-supervisor"] {
        assert!(!environment.join(path).exists(), "{path}");
    }
}
