//! The messages between the host and the supervisor of a native call.

use ikigai_supervisor::plan::fuzzing;

/// Checks that an accepted message survives being sent again, and that any other is refused with a
/// reason.
pub(crate) fn run(data: &[u8]) {
    for again in [fuzzing::plan, fuzzing::report] {
        match again(data) {
            Ok(sent) => assert_eq!(again(&sent).as_ref(), Ok(&sent)),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
