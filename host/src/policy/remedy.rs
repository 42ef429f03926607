//! The steps that a user can take after a denial, after a limit ended a call, or after a fault of
//! the machine that stops a call or its record. The steps are data.
//!
//! Has no sentences: the embedding program words its own commands and flags, and passes the
//! sentences to [`HostBuilder::hints`](crate::HostBuilder::hints).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ikigai_protocol::Access;

use super::{AssetAccess, Net};

/// A step that a user can take so that more is allowed, runs or is recorded.
///
/// It has no text. [`HostBuilder::hints`](crate::HostBuilder::hints) takes the function that turns
/// it into a sentence, and shows an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Grant the tool its entry's permissions again, for its present file.
    GrantAgain {
        /// The name of the tool.
        tool: String,
    },
    /// Bind the tool's entry to the contents of its file. Without that, the entry does not grant
    /// anything to a user tool.
    BindEntry {
        /// The name of the tool.
        tool: String,
    },
    /// Create an entry that binds the tool to the contents of its file and sandboxes it.
    BindAndConfine {
        /// The name of the tool.
        tool: String,
    },
    /// Require the sandbox in the entry of the tool.
    RequireSandbox {
        /// The name of the tool.
        tool: String,
    },
    /// Create an entry that lets the tool run in the sandbox with the granted permissions.
    GrantToRun {
        /// The name of the tool.
        tool: String,
    },
    /// Create an entry for a built-in tool, which has none and therefore does not run. The entry may
    /// be empty: the tool then has what its profile grants.
    AddEntry {
        /// The name of the tool.
        tool: String,
    },
    /// Let the tool run unconfined, with all rights of its user.
    RunUnconfined {
        /// The name of the tool.
        tool: String,
    },
    /// Install the program as a user tool, because a program that is named by its path has no
    /// entry.
    InstallAsTool,
    /// Allow the native build of the tool, sandboxed.
    AllowNative {
        /// The name of the tool.
        tool: String,
    },
    /// Let the tool read the directory instead of writing there.
    GrantReading {
        /// The name of the tool.
        tool: String,
        /// The directory.
        dir: PathBuf,
    },
    /// Grant the tool these additional directories.
    GrantDirs {
        /// The name of the tool.
        tool: String,
        /// The directories, each as written in the file.
        dirs: Vec<(Access, String)>,
    },
    /// Grant the tool these toolchains of this machine.
    GrantToolchains {
        /// The name of the tool.
        tool: String,
        /// The names of the toolchains.
        toolchains: Vec<String>,
    },
    /// Grant the tool the peers that it needs.
    GrantPeers {
        /// The name of the tool.
        tool: String,
    },
    /// Grant the server what it needs to start, for its present definition and program.
    GrantServer {
        /// The name of the server.
        server: String,
    },
    /// Examine a server's tool, and approve it.
    ApproveTool {
        /// The name of the server.
        server: String,
        /// The server's own name for the tool.
        tool: String,
    },
    /// Log in to a server, to get tokens that it accepts.
    LogIn {
        /// The name of the server.
        server: String,
        /// The scopes that the token lacks, if the server named them.
        scope: Option<String>,
    },
    /// Grant the tool more permissions.
    GrantMore {
        /// The name of the tool.
        tool: String,
    },
    /// Grant the tool these additional permissions. The sentence must be only the command, because
    /// it is shown as a command and a script may run it.
    Widen {
        /// The name of the tool.
        tool: String,
        /// The permissions that it requested and does not have.
        permissions: Permissions,
    },
    /// Grant the tool the toolchains that it lacked. As for `Widen`, the sentence must be only the
    /// command.
    WidenByToolchains {
        /// The name of the tool.
        tool: String,
        /// The names of the toolchains.
        toolchains: Vec<String>,
    },
    /// Allow a call of the tool more time.
    AllowTime {
        /// The name of the tool.
        tool: String,
        /// The wall clock to set.
        time: Duration,
    },
    /// Allow a call of the tool more memory.
    AllowMemory {
        /// The name of the tool.
        tool: String,
        /// The limit to set, in bytes.
        bytes: u64,
    },
    /// Call the tool from a front end that can ask the user, or remove the need to ask.
    AskPerson,
    /// Call the tool where somebody can be asked: the files that it is refused are seen there.
    WatchAtTerminal {
        /// The name of the tool.
        tool: String,
    },
    /// Work in another directory, one that holds none of the host's own files.
    ChooseWorkspace,
    /// Name a policy file for a user without a home.
    NamePolicyFile,
    /// Find out which layers of the sandbox this machine lacks.
    InspectSandbox,
    /// Find out what is wrong with the audit log.
    InspectAuditLog,
}

/// The permissions that an entry of a policy file grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The directories, each as written in the file.
    pub dirs: Vec<(Access, String)>,
    /// The peers.
    pub net: Net,
    /// The names of variables.
    pub env: Vec<String>,
    /// The access to assets.
    pub assets: AssetAccess,
}

impl Permissions {
    /// Returns the permissions that are not among `others`.
    pub(super) fn beyond(mut self, others: &Self) -> Self {
        self.dirs.retain(|dir| !others.dirs.contains(dir));
        self.net.any &= !others.net.any;
        self.net.peers.retain(|peer| !others.net.peers.contains(peer));
        self.env.retain(|name| !others.env.contains(name));
        if self.assets <= others.assets {
            self.assets = AssetAccess::None;
        }
        self
    }
}

/// The embedding program's sentences for remedies.
#[derive(Clone, Default)]
pub(crate) struct RemedyHints(Option<Arc<Sentence>>);

/// Writes the sentence for one remedy.
type Sentence = dyn Fn(&Remedy) -> String + Send + Sync;

impl RemedyHints {
    pub(crate) fn new(sentence: impl Fn(&Remedy) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sentence)))
    }

    /// Returns the sentence for a remedy, or `None` if the program has none.
    pub(crate) fn for_remedy(&self, remedy: &Remedy) -> Option<String> {
        self.0.as_ref().map(|sentence| sentence(remedy))
    }

    /// Returns the text, followed by the sentence for the remedy, if there is one.
    pub(crate) fn append(&self, text: String, remedy: &Remedy) -> String {
        match self.for_remedy(remedy) {
            Some(hint) => format!("{text}; {hint}"),
            None => text,
        }
    }
}

impl fmt::Debug for RemedyHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hints").field(&self.0.is_some()).finish()
    }
}
