//! The figure of the check of signatures before each call, by the processor time of one server, whose
//! policy in turn requires the signature of its tool and only names the signer. One server, because
//! two that do the same differ by more than this.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::super::processes::finish;
use super::super::samples::Samples;
use super::super::{Layout, renumbered};
use super::{Server, host};
use crate::place;
use crate::run::{self, note};

/// The tool that is signed, and one that is not.
const TOOL: &str = "bench_tool_0000";
const UNSIGNED: &str = "bench_tool_0001";

/// The calls between two looks at the processor time: few, so that both policies share whatever else
/// the machine does.
const CALLS: u64 = 100;

/// The time after which the host takes a file for unchanged without reading it, and some more.
const SETTLED: Duration = Duration::from_millis(150);

/// Measures one call after another under both policies in turn, in microseconds of processor time a
/// call; nothing where no program makes keys.
pub(super) fn each(layout: &Layout, rounds: usize) -> anyhow::Result<Option<Samples>> {
    let Some(place) = Place::prepare(layout)? else { return Ok(None) };
    let mut command = place.host(layout);
    command.args(["mcp", "serve"]);
    let mut server = Server::start("ikigai", &mut command, TOOL, json!({ "text": "x" }))?;
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, is_required) in [("required", true), ("free", false)] {
            place.set_policy(is_required)?;
            thread::sleep(SETTLED);
            // Reads the policy, and sees that it is in force.
            let params = json!({ "name": UNSIGNED, "arguments": {} });
            let answer = server.ask("tools/call", &params)?;
            let is_refused = answer["result"]["isError"] == true;
            ensure!(is_refused == is_required, "the policy of `{name}`: {answer}");
            server.calls(CALLS / 10, 1)?;
            let before = processor_time(server.child.id())?;
            server.calls(CALLS, 1)?;
            let spent = processor_time(server.child.id())?.saturating_sub(before);
            if round > 0 {
                let micros = spent as f64 * 1e-3 / CALLS as f64;
                samples.entry(name.to_owned()).or_default().push(micros);
            }
        }
    }
    Ok(Some(samples))
}

/// Returns the processor time of all threads that a process has, in nanoseconds. Ours keep theirs.
fn processor_time(process: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"));
        let text = text.context("the kernel does not count processor time by threads")?;
        sum += text.split(' ').next().context("no time")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// The directory of a user with one installed tool, and the table of its signer.
struct Place {
    root: PathBuf,
    signer: String,
}

impl Place {
    /// Makes a key, signs the tool and installs it.
    fn prepare(layout: &Layout) -> anyhow::Result<Option<Self>> {
        let root = layout.at("signed");
        place::empty_directory(&root)?;
        for folder in ["home", "tools", "source"] {
            place::directory(&root.join(folder))?;
        }
        let (key, source) = (root.join("key"), root.join("source/tool.wasm"));
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&key);
        if !make.output().is_ok_and(|made| made.status.success()) {
            note("`ssh-keygen` is not installed, and no tool is signed (Debian: `openssh-client`)");
            return Ok(None);
        }
        let public = fs::read_to_string(root.join("key.pub"))?;
        let signer = format!("[signers.bench]\nssh = \"{}\"\n", public.trim());
        let guest = fs::read(layout.at("guest.wasm")).context("cannot read the guest")?;
        fs::write(&source, &guest)?;
        let mut sign = Command::new("ssh-keygen");
        sign.args(["-q", "-Y", "sign", "-n", "ikigai-tool", "-f"]).arg(&key).arg(&source);
        run::output(&mut sign)?;
        let place = Self { root, signer };
        place.set_policy(true)?;
        finish(place.host(layout).args(["tool", "install", "--yes"]).arg(&source), b"")?;
        fs::write(place.root.join("tools/unsigned.wasm"), renumbered(&guest, 1)?)?;
        Ok(Some(place))
    }

    /// Replaces the policy by one that names the signer, and requires signatures or does not.
    fn set_policy(&self, is_required: bool) -> anyhow::Result<()> {
        let text = format!("require_signed = {is_required}\n{}", self.signer);
        let (draft, policy) = (self.root.join("draft.toml"), self.root.join("policy.toml"));
        fs::write(&draft, text)?;
        // A policy that others may write is none.
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        fs::rename(draft, policy).context("cannot replace the policy")
    }

    /// Returns the host of this user.
    fn host(&self, layout: &Layout) -> Command {
        let home = self.root.join("home");
        let mut command = host(layout);
        command.current_dir(&home).env("HOME", &home);
        command.env("IKIGAI_USER_TOOLS", self.root.join("tools"));
        command.env("IKIGAI_POLICY", self.root.join("policy.toml"));
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command
    }
}
