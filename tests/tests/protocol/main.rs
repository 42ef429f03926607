//! MCP in both directions.

mod mcp;
mod servers;
