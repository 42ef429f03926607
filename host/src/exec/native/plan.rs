//! The plan of a native call for the supervisor, made from the call and its grant.

use std::ffi::{CString, OsStr, OsString};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;
use ikigai_protocol::host_socket::HOST_FD_VARIABLE;
use ikigai_supervisor::plan::{
    self, CallBounds, HOST_SOCKET, Link, OmittedLayers, PathGrant, Plan, RunMode, ToolNetwork,
    WatchLevel,
};
use thiserror::Error;

use super::hidden::Unseen;
use crate::exec::Call;
use crate::exec::net::relay;
use crate::policy::{AssetAccess, Net, Sandbox};

/// The reason that a call has no plan.
#[derive(Debug, Error)]
pub(super) enum PlanError {
    /// A C string ends at its first NUL.
    #[error("{0} contains a NUL byte, which no program can receive")]
    Nul(String),
    /// An environment cannot hold such a name.
    #[error("environment variable name `{0}` is empty or contains `=`")]
    Name(String),
    /// A relative path would depend on the supervisor's own directory.
    #[error("{0} `{1}` is not an absolute path")]
    Relative(&'static str, String),
    /// The policy refuses such a grant before it gets here.
    #[error(
        "a native tool without a sandbox has the whole network, so a list of hosts cannot be \
         enforced"
    )]
    Peers,
    /// It is too large to be sent.
    #[error(transparent)]
    Message(#[from] plan::PlanError),
}

/// Returns the network of a call. A call that may try to use more than its grant gets the relay
/// even if it was granted no peer. So does a server, whose refusals are recorded.
pub(super) fn network(call: &Call, is_server: bool) -> ToolNetwork {
    let Net { any, peers } = &call.grant.net;
    let is_open = || is_server || call.widening.as_ref().is_some_and(|widening| widening.watches());
    match call.grant.sandbox {
        _ if *any => ToolNetwork::Host,
        Sandbox::Prefer | Sandbox::Require if !peers.is_empty() || is_open() => ToolNetwork::Relay,
        _ => ToolNetwork::None,
    }
}

/// Returns the plan of a call of `program` with this network. The tool neither sees nor writes the
/// files that are taken from `Unseen`. Its accesses are watched as `watch` says.
pub(super) fn for_call(
    program: &Path,
    call: &Call,
    (net, watch): (ToolNetwork, WatchLevel),
    Unseen { hidden, guarded, machine, searched, .. }: &mut Unseen,
    without: OmittedLayers,
) -> Result<Plan, PlanError> {
    let args = std::iter::once(program.as_os_str())
        .chain(call.args.iter().map(|arg| arg.as_os_str()))
        .enumerate()
        .map(|(index, arg)| c_string(arg, || format!("argument {index}")))
        .collect::<Result<_, _>>()?;
    // If this host is itself a tool of another host, its tools must not get that host's socket.
    let of_relay: Vec<_> = if net == ToolNetwork::Relay {
        relay::variables(&call.grant).collect()
    } else {
        Vec::new()
    };
    // The host's proxy cannot be reached from the relay's network.
    let is_own = |name: &OsStr| {
        name == HOST_FD_VARIABLE || of_relay.iter().any(|(own, _)| name == OsStr::new(own))
    };
    let inherited = call.grant.env.iter().filter(|(name, _)| !is_own(name));
    let env = inherited.map(|(name, value)| variable(name, value));
    let of_relay = of_relay.iter().map(|(name, value)| variable(name.as_ref(), value.as_ref()));
    let host_socket = call.grant.assets != AssetAccess::None;
    let number = OsString::from(HOST_SOCKET.to_string());
    let own = host_socket.then(|| variable(HOST_FD_VARIABLE.as_ref(), &number));
    let dirs = call.grant.dirs.iter().map(|dir| {
        let path = absolute("the granted directory", &dir.path)?;
        let writable = dir.access == Access::ReadWrite;
        Ok(PathGrant { path, writable, searched: searched.get(&dir.path).copied() })
    });
    let links = call.grant.links.iter().map(|link| {
        let path = absolute("the granted link", &link.path)?;
        Ok(Link { path, target: absolute("the target of a granted link", &link.target)? })
    });
    let closed = |places: &[PathBuf]| -> Vec<CString> {
        // Nothing on the machine has such a path.
        let places = places.iter().filter(|place| place.is_absolute());
        places.filter_map(|place| CString::new(place.as_os_str().as_bytes()).ok()).collect()
    };
    if net == ToolNetwork::None && !call.grant.net.is_none() {
        return Err(PlanError::Peers);
    }
    Ok(Plan {
        program: absolute("the program", program)?,
        directory: absolute("the workspace", &call.workspace)?,
        args,
        env: env.chain(of_relay).chain(own).collect::<Result<_, _>>()?,
        dirs: dirs.collect::<Result<_, PlanError>>()?,
        hidden: mem::take(hidden),
        read_only: mem::take(&mut guarded.read_only),
        pinned: mem::take(&mut guarded.pinned).into_values().collect(),
        machine: machine.take(),
        links: links.collect::<Result<_, PlanError>>()?,
        closed: closed(&call.grant.closed.places),
        closed_except: closed(&call.grant.closed.except),
        kind: RunMode {
            sandbox: call.grant.sandbox,
            net,
            own_sockets: call.grant.own_sockets,
            host_socket,
            probe: false,
            watch,
            without,
        },
        bounds: CallBounds {
            // It may have been extended since the policy decided.
            wall_clock: call.deadline.applied(call.limits).wall_clock,
            memory: call.limits.native_memory,
            processes: call.limits.processes,
        },
    })
}

fn c_string(text: &OsStr, what: impl FnOnce() -> String) -> Result<CString, PlanError> {
    CString::new(text.as_bytes()).map_err(|_| PlanError::Nul(what()))
}

fn absolute(what: &'static str, path: &Path) -> Result<CString, PlanError> {
    if !path.is_absolute() {
        return Err(PlanError::Relative(what, path.display().to_string()));
    }
    c_string(path.as_os_str(), || format!("the path of {what}"))
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString, PlanError> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(PlanError::Name(name.to_string_lossy().into_owned()));
    }
    let mut variable = name.to_os_string();
    variable.push("=");
    variable.push(value);
    c_string(&variable, || format!("environment variable `{}`", name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        assert!(matches!(variable(OsStr::new("A=B"), OsStr::new("1")), Err(PlanError::Name(_))));
        assert!(matches!(variable(OsStr::new(""), OsStr::new("1")), Err(PlanError::Name(_))));
        assert!(matches!(variable(OsStr::new("A"), OsStr::new("\0")), Err(PlanError::Nul(_))));
        assert!(matches!(absolute("it", Path::new("a")), Err(PlanError::Relative(..))));
    }
}
