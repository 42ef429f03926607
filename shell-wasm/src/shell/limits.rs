//! The interpreter's limits, raised so that they have no effect. The host bounds time, fuel, memory
//! and output, and reports the limit that was reached. If the interpreter has a limit that cannot
//! be raised, reaching it is an error in the output.

use std::time::Duration;

use bashkit::{ExecutionLimits, MemoryLimits};

/// A timeout longer than any call, and still a point in time that a clock can represent.
const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The nesting that a component's stack allows. Deeper nesting would be a trap instead of a
/// message.
const DEPTH: usize = 100;

pub(super) fn execution() -> ExecutionLimits {
    ExecutionLimits {
        max_work_units: u64::MAX,
        max_aggregate_input_bytes: u64::MAX,
        max_live_intermediate_bytes: u64::MAX,
        max_commands: usize::MAX,
        max_loop_iterations: usize::MAX,
        max_total_loop_iterations: usize::MAX,
        max_function_depth: usize::MAX,
        timeout: NO_TIMEOUT,
        parser_timeout: NO_TIMEOUT,
        max_input_bytes: usize::MAX,
        max_ast_depth: DEPTH,
        max_parser_operations: usize::MAX,
        max_stdout_bytes: usize::MAX,
        max_stderr_bytes: usize::MAX,
        max_subst_depth: DEPTH,
        max_subshell_depth: DEPTH,
        max_file_descriptors: usize::MAX,
        max_history_entries: usize::MAX,
        max_history_bytes: usize::MAX,
        max_history_output_bytes: usize::MAX,
        max_word_split_fields: usize::MAX,
        max_word_split_bytes: usize::MAX,
        max_background_jobs: usize::MAX,
        capture_final_env: false,
    }
}

pub(super) fn memory() -> MemoryLimits {
    MemoryLimits {
        max_variable_count: usize::MAX,
        max_total_variable_bytes: usize::MAX,
        max_array_entries: usize::MAX,
        max_function_count: usize::MAX,
        max_function_body_bytes: usize::MAX,
    }
}
