//! What the host and the supervisor of a native call say to each other.

use ikigai_supervisor::plan::fuzzing;

/// What is taken of a message is what was sent: it survives being sent again. All
/// else is refused with a reason.
pub(crate) fn run(data: &[u8]) {
    for again in [fuzzing::plan, fuzzing::report] {
        match again(data) {
            Ok(sent) => assert_eq!(again(&sent).as_ref(), Ok(&sent)),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
