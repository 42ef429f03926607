//! The figure of the signature check before each call, by the processor time of one server. Its
//! policy alternates between requiring the signature of its tool and only naming the signer. There
//! is one server, because two servers that do the same differ by more than this check takes.

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
use super::super::{BenchLayout, renumbered};
use super::{StdioServer, host};
use crate::place;
use crate::run::{self, note};

/// The signed tool and the unsigned one.
const TOOL: &str = "bench_tool_0000";
const UNSIGNED: &str = "bench_tool_0001";

/// The calls between two readings of the processor time. They are few, so that the machine's other
/// load affects both policies alike.
const CALLS: u64 = 100;

/// The time after which the host treats a file as unchanged without reading it, plus a margin.
const SETTLED: Duration = Duration::from_millis(150);

/// Measures one call after another under both policies in turn, in microseconds of processor time
/// per call. Returns `None` if no program can make keys.
pub(super) fn each(layout: &BenchLayout, rounds: usize) -> anyhow::Result<Option<Samples>> {
    let Some(place) = SignedInstallation::prepare(layout)? else { return Ok(None) };
    let mut command = place.host(layout);
    command.args(["mcp", "serve"]);
    let mut server = StdioServer::start("ikigai", &mut command, TOOL, json!({ "text": "x" }))?;
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, is_required) in [("required", true), ("free", false)] {
            place.set_policy(is_required)?;
            thread::sleep(SETTLED);
            // This call makes the host read the policy, and shows that the policy is in force.
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

/// Returns the processor time of all threads of a process, in nanoseconds. Our server's threads
/// never end, so none is missing from the sum.
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
struct SignedInstallation {
    root: PathBuf,
    signer: String,
}

impl SignedInstallation {
    /// Makes a key, signs the tool and installs it.
    fn prepare(layout: &BenchLayout) -> anyhow::Result<Option<Self>> {
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

    /// Replaces the policy. The new one names the signer, and requires signatures if `is_required`
    /// is set.
    fn set_policy(&self, is_required: bool) -> anyhow::Result<()> {
        let text = format!("require_signed = {is_required}\n{}", self.signer);
        let (draft, policy) = (self.root.join("draft.toml"), self.root.join("policy.toml"));
        fs::write(&draft, text)?;
        // The host ignores a policy that others may write.
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))?;
        fs::rename(draft, policy).context("cannot replace the policy")
    }

    /// Returns the host of this user.
    fn host(&self, layout: &BenchLayout) -> Command {
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
