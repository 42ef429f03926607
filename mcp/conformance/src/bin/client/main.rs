//! `mcp-conformance-client URL`: a client that performs the client's part of a scenario of the
//! conformance suite.
//!
//! The suite names the scenario and the revision in the environment.

mod login;

use std::env;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::HeaderMap;
use ikigai_mcp::{
    BoxFuture, CallProgress, ClientIdentity, Era, FormReply, FormRequest, HostResolver, HttpServer,
    Interaction, OAuthHttp, RemoteConnection, Unattended, connect_http,
};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use login::Login;

/// The variable with the name of the scenario.
const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";

/// The variable with the revision of the protocol.
const REVISION: &str = "MCP_CONFORMANCE_PROTOCOL_VERSION";

/// The variable with data of the scenario, if it has some.
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = env::args().nth(1).context("usage: mcp-conformance-client URL")?;
    let scenario = env::var(SCENARIO).context(SCENARIO)?;
    let era = match &*env::var(REVISION).context(REVISION)? {
        "2026-07-28" => Era::Modern,
        _ => Era::Legacy,
    };
    let http = OAuthHttp { resolver: Arc::new(Loopback), tls: tls()?, allow_loopback: true };
    let login = Login::new(url.clone(), http.clone());
    let connection = login.with_scopes(async || connect(&url, era, &http, &login).await).await?;
    run(&scenario, &connection, &login).await?;
    connection.close().await;
    Ok(())
}

fn tls() -> anyhow::Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

async fn connect(
    url: &str,
    era: Era,
    http: &OAuthHttp,
    login: &Login,
) -> anyhow::Result<RemoteConnection> {
    let OAuthHttp { resolver, tls, allow_loopback } = http.clone();
    let server = HttpServer {
        url: url.to_owned(),
        allow_loopback,
        headers: HeaderMap::new(),
        tokens: Some(Arc::new(login.clone())),
        resolver,
        tls,
    };
    let client = ClientIdentity {
        name: "mcp-conformance-client".to_owned(),
        title: "Client".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(connect_http(client, server, Some(era)).await?)
}

/// Allows addresses of this machine.
struct Loopback;

impl HostResolver for Loopback {
    fn resolve(&self, _: &str, _: u16) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        Box::pin(std::future::ready(Ok(vec![[127, 0, 0, 1].into()])))
    }
}

/// Performs a scenario.
async fn run(scenario: &str, connection: &RemoteConnection, login: &Login) -> anyhow::Result<()> {
    let listed = login.with_scopes(async || Ok(connection.tools().await?)).await?.tools;
    let names = || listed.iter().map(|tool| &*tool.name);
    match scenario {
        "initialize" | "json-schema-ref-no-deref" | "request-metadata" => Ok(()),
        "sep-2322-client-request-state" => {
            for name in ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_no_result_type"] {
                call(connection, name, json!({}), &Interrupted(connection)).await?;
            }
            Ok(())
        }
        "json-schema-2020-12-preservation" => {
            let tool = listed.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = &tool.context("the tool is not listed")?.input;
            call(connection, "json_schema_echo", json!({ "schema": schema }), &Unattended).await
        }
        "http-custom-headers" => {
            let context = env::var(CONTEXT).context(CONTEXT)?;
            let context: Value = serde_json::from_str(&context)?;
            for asked in context["toolCalls"].as_array().context("no calls")? {
                let name = asked["name"].as_str().context("no name")?;
                if !names().any(|it| it == name) {
                    bail!("`{name}` is not offered");
                }
                call(connection, name, asked["arguments"].clone(), &Unattended).await?;
            }
            Ok(())
        }
        "http-invalid-tool-headers" => {
            for name in names() {
                call(connection, name, json!({ "region": "here" }), &Unattended).await?;
            }
            Ok(())
        }
        _ => {
            for name in names() {
                let called =
                    async || call(connection, name, json!({ "a": 2, "b": 3 }), &Defaults).await;
                login.with_scopes(called).await?;
            }
            Ok(())
        }
    }
}

async fn call(
    connection: &RemoteConnection,
    name: &str,
    arguments: Value,
    interaction: &dyn Interaction,
) -> anyhow::Result<()> {
    let arguments = Bytes::from(arguments.to_string());
    let cancel = CancellationToken::new();
    let result = connection.call(name, arguments, &cancel, interaction).await;
    result.map(|_| ()).with_context(|| format!("the call of `{name}`"))
}

type Filling<'a> = Pin<Box<dyn Future<Output = FormReply> + Send + 'a>>;

/// A user who sends each form with its default values.
struct Defaults;

impl Interaction for Defaults {
    fn fill(&self, form: FormRequest) -> Filling<'_> {
        let fields = form.schema.get("properties").and_then(Value::as_object);
        let value = |(name, field): (&String, &Value)| {
            field.get("default").map(|value| (name.clone(), value.clone()))
        };
        let values: Map<_, _> = fields.into_iter().flatten().filter_map(value).collect();
        Box::pin(std::future::ready(FormReply::Accepted(values)))
    }

    fn progress(&self, _: CallProgress) {}
}

/// A user during whose answer another tool is called.
struct Interrupted<'a>(&'a RemoteConnection);

impl Interaction for Interrupted<'_> {
    fn fill(&self, _: FormRequest) -> Filling<'_> {
        Box::pin(async {
            match call(self.0, "test_mrtr_unrelated", json!({}), &Unattended).await {
                Ok(()) => {
                    let values = [("confirmed".to_owned(), Value::Bool(true))];
                    FormReply::Accepted(values.into_iter().collect())
                }
                Err(_) => FormReply::Cancelled,
            }
        })
    }

    fn progress(&self, _: CallProgress) {}
}
