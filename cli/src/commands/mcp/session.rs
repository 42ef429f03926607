//! The state of the login at a server, in words and as JSON. No token is in either.

use ikigai_host::exec::mcp::{Auth, ServerTarget};
use ikigai_host::host::Host;
use ikigai_host::registry::KnownServer;
use ikigai_protocol::written_out;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::servers::logins::{LoginState, Logins};

/// Returns the state of the login at a server; `None` if the server needs no login.
pub(in crate::commands) fn login_state(host: &Host, server: &KnownServer) -> Option<LoginState> {
    let definition = server.definition.as_ref()?;
    let ServerTarget::Remote { url, auth: Auth::OAuth } = &definition.server.target else {
        return None;
    };
    Some(Logins::from_paths(host.registry().paths()).state(&server.name, url))
}

/// Returns the state in a few words.
pub(in crate::commands) fn text(state: &LoginState) -> String {
    match state {
        LoginState::None => "not logged in".to_owned(),
        LoginState::Unusable(reason) => format!("not logged in: {reason}"),
        LoginState::Ended(_) => "the login has expired".to_owned(),
        LoginState::Active(login) => {
            let session = &login.session;
            let issuer = written_out(&session.issuer);
            let until = session.expires.and_then(shown);
            match (session.is_renewable(), until) {
                (true, _) => format!("logged in at {issuer}, renewed automatically"),
                (false, Some(until)) => format!("logged in at {issuer} until {until}"),
                (false, None) => format!("logged in at {issuer}"),
            }
        }
    }
}

/// Returns the state as JSON.
pub(in crate::commands) fn as_json(state: &LoginState) -> Value {
    let login = match state {
        LoginState::None => return json!({ "state": "not_logged_in" }),
        LoginState::Unusable(reason) => return json!({ "state": "unusable", "reason": reason }),
        LoginState::Ended(login) | LoginState::Active(login) => login,
    };
    let session = &login.session;
    let is_active = matches!(state, LoginState::Active(_));
    json!({
        "state": if is_active { "logged_in" } else { "ended" },
        "issuer": session.issuer,
        "scope": session.scope,
        "expires": session.expires.and_then(timestamp).map(|at| at.to_string()),
        "renewed": session.is_renewable(),
    })
}

fn timestamp(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

/// Returns a time in the local time zone.
fn shown(seconds: u64) -> Option<String> {
    let at = timestamp(seconds)?.to_zoned(TimeZone::system());
    Some(at.strftime("%Y-%m-%d %H:%M").to_string())
}
