//! The client's login at a server's issuer, through the library's own steps.
//!
//! This module plays the user and the browser. It opens the address and follows redirects to the
//! callback. If a call lacks a scope, it logs in again with more scopes.

use std::env;
use std::ops::AsyncFn;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use ikigai_mcp::{
    Authorization, BoxFuture, Callback, ConnectError, Issuer, OAuthClient, OAuthError, OAuthHttp,
    OAuthSession, RemoteCallError, TokenSource, insufficient_scope,
};
use serde_json::Value;
use tokio::sync::Mutex;

use super::CONTEXT;

/// The login at the issuer of one server.
#[derive(Clone)]
pub(super) struct Login(Arc<LoginInner>);

struct LoginInner {
    /// The address of the server.
    server: String,
    http: OAuthHttp,
    /// The current session. A login holds the lock, so that other requests wait for its tokens.
    session: Mutex<Option<OAuthSession>>,
}

impl Login {
    /// Returns a login at the issuer of a server, without a session.
    pub(super) fn new(server: String, http: OAuthHttp) -> Self {
        Self(Arc::new(LoginInner { server, http, session: Mutex::default() }))
    }

    /// Attempts an action. If the token lacks scopes, attempts it once more after a login with
    /// them.
    pub(super) async fn with_scopes<T>(
        &self,
        attempt: impl AsyncFn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let error = match attempt().await {
            Err(error) => error,
            done => return done,
        };
        let Some(missing) = missing_scope(&error) else { return Err(error) };
        self.0.step_up(&missing).await?;
        attempt().await
    }
}

/// Returns the scopes that a token lacks, if that caused the error.
fn missing_scope(error: &anyhow::Error) -> Option<String> {
    let challenge = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(RemoteCallError::Unauthorized(challenge)), _)
        | (_, Some(ConnectError::Unauthorized(challenge))) => challenge,
        _ => return None,
    };
    insufficient_scope(challenge).filter(|scope| !scope.is_empty())
}

impl LoginInner {
    /// Logs in again, for these scopes and the session's own.
    async fn step_up(&self, missing: &str) -> anyhow::Result<()> {
        let mut session = self.session.lock().await;
        let scope = match &*session {
            Some(session) => session.scope_with(missing),
            None => missing.to_owned(),
        };
        *session = Some(self.log_in(Some(scope)).await?);
        Ok(())
    }

    /// Returns a token that differs from the refused one.
    async fn renewed(&self, refused: Option<&str>) -> anyhow::Result<String> {
        let mut session = self.session.lock().await;
        let renewed = match &*session {
            // In the meantime, another request has obtained it.
            Some(session) if Some(session.token()) != refused => {
                return Ok(session.token().to_owned());
            }
            Some(old) if old.is_renewable() => match old.renewed(&self.http).await {
                Err(error) if error.ends_session() => self.log_in(None).await?,
                renewed => renewed?,
            },
            _ => self.log_in(None).await?,
        };
        Ok(session.insert(renewed).token().to_owned())
    }

    /// Logs in as a new client of the server's current issuer.
    async fn log_in(&self, scope: Option<String>) -> anyhow::Result<OAuthSession> {
        let protection = self.http.protection(&self.server).await?;
        let issuer = self.http.issuer(&protection.issuers[0]).await?;
        let callback = Callback::bind(0).await?;
        let redirect = callback.redirect();
        let client = self.client(&issuer, &redirect).await?;
        let login = Authorization::new(issuer, &protection, client, redirect.clone(), scope)?;
        let url = login.url()?;
        let code = async { Ok(callback.code(&login).await?) };
        let (code, ()) = tokio::try_join!(code, self.browse(url.as_str(), &redirect))?;
        Ok(login.exchange(&self.http, &code).await?)
    }

    /// Returns the scenario's client if it belongs to this issuer, or registers a new one.
    async fn client(&self, issuer: &Issuer, redirect: &str) -> Result<OAuthClient, OAuthError> {
        let named = known(issuer.name());
        match named {
            Some((id, secret)) => Ok(OAuthClient::known(issuer, id, secret)),
            None => self.http.register(issuer, redirect).await,
        }
    }

    /// Opens an address like a browser, and follows its redirects to `redirect`.
    async fn browse(&self, url: &str, redirect: &str) -> anyhow::Result<()> {
        let browser = reqwest::Client::builder()
            .tls_backend_preconfigured(self.http.tls.clone())
            .no_proxy()
            .build()?;
        let page = browser.get(url).send().await.context("the browser")?;
        if !page.url().as_str().starts_with(redirect) {
            bail!("the issuer shows a page of its own: HTTP {}", page.status());
        }
        Ok(())
    }
}

/// Returns the identity and the secret that the scenario specifies for an issuer.
fn known(issuer: &str) -> Option<(String, Option<String>)> {
    let context: Value = serde_json::from_str(&env::var(CONTEXT).ok()?).ok()?;
    if context["issuer"] != issuer {
        return None;
    }
    let text = |name| context[name].as_str().map(ToOwned::to_owned);
    Some((text("client_id")?, text("client_secret")))
}

impl TokenSource for Login {
    fn token(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(async {
            let session = self.0.session.lock().await;
            Ok(session.as_ref().map(|session| session.token().to_owned()))
        })
    }

    fn refresh<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        let is_hopeless = insufficient_scope(challenge).is_some();
        Box::pin(async move {
            if is_hopeless {
                return Ok(None);
            }
            let renewed = self.0.renewed(refused).await;
            renewed.map(Some).map_err(|error| format!("{error:#}"))
        })
    }
}
