//! The limit on core dumps, with which the kernel makes none.
//!
//! Owns that limit: the supervisor and the compiler's process set it, and the filter keeps it.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit under which a program that crashes leaves no dump: every dump is larger than one byte.
/// If dumps are piped to a program of root, no limit applies, but the kernel takes exactly 1 as a
/// refusal (`do_coredump` in fs/coredump.c).
const NO_DUMP: u64 = 1;

/// Sets the limit for this process and those that it starts. A hard limit of 0 stays: only root can
/// raise it.
///
/// # Errors
///
/// Fails if the kernel refuses the limit.
pub fn forbid() -> io::Result<()> {
    let most = Some(getrlimit(Resource::Core).maximum.map_or(NO_DUMP, |own| own.min(NO_DUMP)));
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_dumps_nothing_and_may_forbid_it_twice() {
        forbid().expect("lowered");
        let limits = getrlimit(Resource::Core);
        assert_eq!(limits.current, limits.maximum);
        assert!(limits.maximum.is_some_and(|most| most <= NO_DUMP), "{limits:?}");
        forbid().expect("lowered already");
        assert_eq!(getrlimit(Resource::Core), limits);
    }
}
