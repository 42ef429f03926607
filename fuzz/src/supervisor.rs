//! The messages between the host and the supervisor of a native call.

use ikigai_supervisor::plan::fuzzing;

/// A message that is accepted survives being sent again. Any other is refused with a reason.
pub(crate) fn run(data: &[u8]) {
    for again in [fuzzing::plan, fuzzing::report] {
        match again(data) {
            Ok(sent) => assert_eq!(again(&sent).as_ref(), Ok(&sent)),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}
