//! The shell of the machine, which the native build of `bash` runs and which the host describes
//! to a model.

/// The paths at which a shell is looked for, the best first: GNU bash in its usual places, then
/// the shell that POSIX promises.
pub const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];
