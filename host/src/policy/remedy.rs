//! The steps that a person can take against a denial, against a limit that ended a call, and against a fault of
//! the machine that keeps a call from running or from being recorded, as data.
//!
//! Owns no sentence: the program that embeds the host has the words for its own commands and
//! flags, and gives them to [`HostBuilder::hints`](crate::HostBuilder::hints).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ikigai_protocol::Access;

use super::{AssetAccess, Net};

/// A step that a person can take so that more is allowed, runs or is recorded.
///
/// It has no words: [`HostBuilder::hints`](crate::HostBuilder::hints) takes the function that
/// makes a sentence of it, with an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Grant the tool again what its entry grants, for its file as it is now.
    GrantAgain {
        /// The name of the tool.
        tool: String,
    },
    /// Bind the entry of the tool to the contents of its file, without which it is no grant for
    /// a tool of a user.
    BindEntry {
        /// The name of the tool.
        tool: String,
    },
    /// Make an entry for the tool, which binds it to the contents of its file and sandboxes it.
    BindAndConfine {
        /// The name of the tool.
        tool: String,
    },
    /// Require the sandbox in the entry of the tool.
    RequireSandbox {
        /// The name of the tool.
        tool: String,
    },
    /// Make an entry for the tool, which lets it run in the sandbox and touch what is granted.
    GrantToRun {
        /// The name of the tool.
        tool: String,
    },
    /// Let the tool run unconfined, with all rights of its user.
    RunUnconfined {
        /// The name of the tool.
        tool: String,
    },
    /// Put the program among the user's tools: one that is named by its path has no entry.
    InstallAsTool,
    /// Allow the native build of the tool, sandboxed.
    AllowNative {
        /// The name of the tool.
        tool: String,
    },
    /// Grant the tool to read the directory instead of writing there.
    GrantReading {
        /// The name of the tool.
        tool: String,
        /// The directory.
        dir: PathBuf,
    },
    /// Grant the tool these directories besides those that it has.
    GrantDirs {
        /// The name of the tool.
        tool: String,
        /// The directories, each as it is written in the file.
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
    /// Grant the server what it needs to be started, for its definition and its program as they
    /// are now.
    GrantServer {
        /// The name of the server.
        server: String,
    },
    /// Look at a tool of a server, and approve it.
    ApproveTool {
        /// The name of the server.
        server: String,
        /// The name of the tool, as the server has it.
        tool: String,
    },
    /// Log in to a server, for tokens that it takes.
    LogIn {
        /// The name of the server.
        server: String,
        /// The scopes that the server misses, if it said so.
        scope: Option<String>,
    },
    /// Grant the tool more than it has.
    GrantMore {
        /// The name of the tool.
        tool: String,
    },
    /// Grant the tool these permissions besides those that it has.
    /// The sentence is the command alone, since it is shown as such and a script may run it.
    Widen {
        /// The name of the tool.
        tool: String,
        /// The permissions that it reached for and does not have.
        permissions: Permissions,
    },
    /// Grant the tool the toolchains that it lacked. The sentence is the command alone, as of `Widen`.
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
    /// Call the tool from where somebody can be asked, or have nobody asked.
    AskPerson,
    /// Work in another directory, one that holds none of the host's own files.
    ChooseWorkspace,
    /// Name a file for the policy of the user, who has no home.
    NamePolicyFile,
    /// Find out which layers of the sandbox this machine lacks.
    InspectSandbox,
    /// Find out what is wrong with the audit log.
    InspectAuditLog,
}

/// The permissions that an entry of a policy file grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The directories, each as it is written in the file.
    pub dirs: Vec<(Access, String)>,
    /// The peers.
    pub net: Net,
    /// The names of variables.
    pub env: Vec<String>,
    /// The access to assets.
    pub assets: AssetAccess,
}

impl Permissions {
    /// Returns those that are not among `others`.
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

/// The sentences of the embedding program for remedies.
#[derive(Clone, Default)]
pub(crate) struct Hints(Option<Arc<Sentence>>);

/// Writes the sentence for one remedy.
type Sentence = dyn Fn(&Remedy) -> String + Send + Sync;

impl Hints {
    pub(crate) fn new(sentence: impl Fn(&Remedy) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sentence)))
    }

    /// Returns the sentence for a remedy; nothing where the program has none.
    pub(crate) fn for_remedy(&self, remedy: &Remedy) -> Option<String> {
        self.0.as_ref().map(|sentence| sentence(remedy))
    }

    /// Returns the text, followed by the sentence for the remedy where there is one.
    pub(crate) fn append(&self, text: String, remedy: &Remedy) -> String {
        match self.for_remedy(remedy) {
            Some(hint) => format!("{text}; {hint}"),
            None => text,
        }
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hints").field(&self.0.is_some()).finish()
    }
}
