//! The tool that is recorded: an installed one by its name, or one at a path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ikigai_host::audit::Requester;
use ikigai_host::exec::envelope::Envelope;
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::{CallTarget, Host};
use ikigai_host::policy::{Backend, Sandbox, ToolOrigin};
use ikigai_host::registry::{ScanDepth, Snapshot, Tool};
use ikigai_protocol::Digest;
use tokio_util::sync::CancellationToken;

use crate::commands::policy::grant::contents;
use crate::commands::policy::suggest::of_a_server;
use crate::commands::tool::list::print_warnings;
use crate::commands::tool::named::named_tool;
use crate::error::CliError;
use crate::remedy::layer;

/// The recorded tool, as it was found.
pub(super) struct RecordedTool {
    pub(super) tool: Tool,
    at: ToolLocation,
}

enum ToolLocation {
    /// Among the callable tools, in this snapshot of them.
    Name(Arc<Snapshot>),
    /// In a file that is not installed and cannot be granted anything.
    Path(PathBuf),
}

impl RecordedTool {
    /// Finds a tool by its name, or by a path if it has a slash. If the file at the path equals the
    /// installed tool with its name, the path means the installed tool.
    pub(super) async fn find(host: &Host, reference: &str) -> Result<Self, CliError> {
        if !reference.contains('/') {
            return Self::by_name(host, reference).await;
        }
        let path = Path::new(reference);
        let tool = host.registry().tool_at(path, ScanDepth::Everything).await;
        let tool = tool.map_err(|reason| {
            let error = CliError::usage(anyhow::Error::msg(format!("`{reference}`: {reason}")));
            error.hint(format!("try `ikigai tool check {reference}`"))
        })?;
        match Self::by_name(host, tool.name()).await {
            Ok(installed) if contents(&installed.tool).contains(&tool.build.digest) => {
                Ok(installed)
            }
            _ => Ok(Self { tool, at: ToolLocation::Path(path.to_owned()) }),
        }
    }

    async fn by_name(host: &Host, name: &str) -> Result<Self, CliError> {
        let snapshot = host.look_up(name).await;
        print_warnings(&snapshot);
        let tool = named_tool(&snapshot, name).map_err(CliError::into_usage)?.clone();
        if tool.build.backend() == Backend::Mcp {
            return Err(of_a_server(name));
        }
        Ok(Self { tool, at: ToolLocation::Name(snapshot) })
    }

    /// Returns the path of a tool that is not installed.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.at {
            ToolLocation::Name(_) => None,
            ToolLocation::Path(path) => Some(path),
        }
    }

    /// Returns the tool for a decision.
    pub(super) fn subject(&self) -> CallTarget<'_> {
        match &self.at {
            ToolLocation::Name(_) => (&self.tool).into(),
            ToolLocation::Path(_) => CallTarget::at_path(&self.tool.build),
        }
    }

    /// Fails if nothing could be observed, because the tool may run without the sandbox or this
    /// machine lacks it. Also fails if the tool would see too much.
    pub(super) async fn check(&self, host: &Host, is_permissive: bool) -> Result<(), CliError> {
        let wrong = |text: String| CliError::usage(anyhow::Error::msg(text));
        if is_permissive && host.registry().paths().home.is_none() {
            let text =
                "your home is not known, so ikigai could not hide the secrets in it from the tool";
            return Err(wrong(text.to_owned()).hint("set HOME"));
        }
        let backend = self.tool.build.backend();
        if backend != Backend::Native {
            return Ok(());
        }
        let name = self.tool.name();
        let has_rights = host
            .decide(self.subject())
            .is_ok_and(|decision| decision.grant.sandbox != Sandbox::Require);
        if has_rights {
            let text = format!(
                "`{name}` may run without the sandbox, which would refuse and record nothing"
            );
            return Err(wrong(text)
                .hint(format!("`ikigai policy grant {name} --sandbox require` sandboxes it")));
        }
        let machine = host.machine().await;
        let unmet: Vec<String> = machine
            .isolation
            .unmet()
            .map(|(boundary, guarantee)| format!("{boundary}: {guarantee}"))
            .collect();
        if unmet.is_empty() {
            return Ok(());
        }
        let error = wrong(format!(
            "this machine does not support the sandbox that records a native tool: {}",
            unmet.join("; ")
        ));
        let remedies = machine.layers.iter().filter_map(|layer| layer.remedy.as_ref());
        Err(error.hints(remedies.map(layer::sentence)).hint("`ikigai doctor` shows all of it"))
    }

    /// Fails if the files of the tool have changed since it was found.
    pub(super) async fn check_unchanged(&self, host: &Host) -> Result<(), CliError> {
        let name = self.tool.name();
        let now: Option<Vec<Digest>> = match &self.at {
            ToolLocation::Name(_) => host.look_up(name).await.get(name).map(contents),
            ToolLocation::Path(path) => {
                let build = host.registry().build_at(path).await;
                build.ok().map(|build| vec![build.digest])
            }
        };
        if now.as_deref() == Some(&contents(&self.tool)) {
            return Ok(());
        }
        let text =
            format!("the file of `{name}` changed while it was recorded; nothing is proposed");
        Err(CliError::failed(anyhow::Error::msg(text))
            .hint("record it again: the recording of the old file does not apply to the new one"))
    }

    /// Returns whether a permissive recording starts without any grant, so that every access is
    /// observed. That is true for the user's native tools without a policy entry.
    pub(super) fn begins_with_nothing(&self, host: &Host) -> bool {
        self.tool.origin == ToolOrigin::User
            && self.tool.build.backend() == Backend::Native
            && host.authority().written(self.tool.name()).is_none()
    }

    /// Calls the tool.
    pub(super) async fn call(
        &self,
        host: &Arc<Host>,
        arguments: Bytes,
        cancel: CancellationToken,
        front_end: Arc<dyn FrontEnd>,
    ) -> Envelope {
        let front_end = Some(front_end);
        match &self.at {
            ToolLocation::Name(snapshot) => {
                let (requester, name) = (Requester::default(), self.tool.name());
                host.call_for(&requester, snapshot, name, arguments, cancel, front_end).await
            }
            ToolLocation::Path(_) => host.call_at(&self.tool, arguments, cancel, front_end).await,
        }
    }
}
