//! The shell of this machine, which the native build of `bash` runs and the host tells a model
//! of.

/// Where a shell is looked for, the best first: GNU bash where it usually is, and the shell
/// that POSIX promises.
pub const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];
