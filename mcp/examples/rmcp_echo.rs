//! A server that is nothing but the protocol's library: `cargo xtask bench` calls it alone and through
//! ikigai. Its one tool answers with its arguments.

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, serve_server};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Map, Value};
use tokio::net::unix::pipe::{Receiver, Sender};

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        let echo = Tool::new("echo", "Answers with its arguments", schema);
        Ok(ListToolsResult::with_all_items(vec![echo]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = Value::Object(request.arguments.unwrap_or_default()).to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One thread is the fastest here, as in ikigai's own server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Pipes, because tokio's own standard input and output pass each read to a thread, which
        // takes five times as long.
        let input = Receiver::from_owned_fd(rustix::io::dup(std::io::stdin())?)?;
        let output = Sender::from_owned_fd(rustix::io::dup(std::io::stdout())?)?;
        let server = serve_server(Echo, AsyncRwTransport::new_server(input, output)).await?;
        server.waiting().await?;
        Ok(())
    })
}
