//! Headers that the user adds to the requests of a provider, because some gateways require them.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, COOKIE, EXPECT, HOST, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderName, HeaderValue};
use thiserror::Error;

/// A header that is added to every request. Its value is treated as a secret: no message contains
/// it, and `Debug` shows only the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    name: HeaderName,
    value: HeaderValue,
}

/// The reason why a header cannot be added.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// The name is empty, or has characters that no header name can have.
    #[error("`{name}` is not a header name")]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The header has the key.
    #[error("`{name}` is the header of the key; set the key instead")]
    Key {
        /// The name of the header.
        name: HeaderName,
    },
    /// The client sets the header itself.
    #[error("`{name}` is set by ikigai in every request")]
    Reserved {
        /// The name of the header.
        name: HeaderName,
    },
    /// The value has characters that no value may have, such as a line feed.
    #[error("the value of `{name}` has characters that no header may have")]
    Value {
        /// The name of the header.
        name: HeaderName,
    },
}

/// The headers that carry keys: the providers' headers, and general ones.
const OF_KEYS: &[&str] = &["x-api-key", "x-goog-api-key", "api-key"];

/// The headers on which the transfer of a request and its answer depends.
const RESERVED: &[HeaderName] = &[
    ACCEPT,
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

impl RequestHeader {
    /// Creates a header.
    ///
    /// # Errors
    ///
    /// Fails with a [`HeaderError`], whose message never contains the value.
    pub fn new(name: &str, value: &str) -> Result<Self, HeaderError> {
        let Ok(name) = HeaderName::try_from(name) else {
            return Err(HeaderError::Name { name: name.to_owned() });
        };
        let is_of_key = [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(&name)
            || OF_KEYS.contains(&name.as_str());
        if is_of_key {
            return Err(HeaderError::Key { name });
        }
        if RESERVED.contains(&name) {
            return Err(HeaderError::Reserved { name });
        }
        let Ok(mut value) = HeaderValue::try_from(value) else {
            return Err(HeaderError::Value { name });
        };
        value.set_sensitive(true);
        Ok(Self { name, value })
    }

    /// Returns the name, in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(crate) fn pair(&self) -> (HeaderName, HeaderValue) {
        (self.name.clone(), self.value.clone())
    }

    /// Returns the value, so that it can be removed from messages.
    pub(crate) fn reveal(&self) -> Option<&str> {
        self.value.to_str().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_header_of_a_person_is_refused() {
        let told = |name: &str, value: &str| {
            RequestHeader::new(name, value).expect_err("a refusal").to_string()
        };
        for name in ["", "a b", "ü", "a:b"] {
            assert_eq!(told(name, "v"), format!("`{name}` is not a header name"));
        }
        for name in ["Authorization", "X-API-Key", "x-goog-api-key", "Api-Key", "cookie"] {
            assert!(told(name, "v").ends_with("the header of the key; set the key instead"));
        }
        for name in ["Content-Type", "host", "Accept-Encoding", "Transfer-Encoding"] {
            assert!(told(name, "v").ends_with("is set by ikigai in every request"), "{name}");
        }
        for value in ["secret\nX: y", "secret\0"] {
            let told = told("X-Team", value);
            assert_eq!(told, "the value of `x-team` has characters that no header may have");
        }
    }

    #[test]
    fn a_value_is_not_shown() {
        let header = RequestHeader::new("X-Team", "hush-hush").expect("a header");
        assert_eq!(header.name(), "x-team");
        assert!(!format!("{header:?}").contains("hush"), "{header:?}");
    }
}
