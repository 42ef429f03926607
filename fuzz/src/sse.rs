//! Server-sent events, as any server may send them.

use ikigai_provider::fuzzing;

use crate::pieces;

/// Checks that the same bytes give the same events and leave the same rest, wherever they are cut.
pub(crate) fn run(data: &[u8]) {
    let whole = fuzzing::events([data]);
    for cut in pieces::cuts(data) {
        assert_eq!(fuzzing::events(cut), whole);
    }
}
