//! Native tools in the sandbox.

mod native_executor;
