//! The header `WWW-Authenticate` of HTTP, by which a server asks for a token or a password: RFC
//! 9110, section 11.6.1.

/// A way to authenticate that a server accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The scheme in lower case, such as `bearer`.
    pub scheme: String,
    /// The parameters in their order, each with its name in lower case.
    parameters: Vec<(String, String)>,
}

impl AuthChallenge {
    /// Returns the challenges in a value of the header. If a part is malformed, leaves out that
    /// part and the rest.
    #[must_use]
    pub fn parse_all(text: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
            if end == 0 {
                return found;
            }
            let (word, after) = rest.split_at(end);
            let word = word.to_ascii_lowercase();
            let Some(after) = after.trim_start().strip_prefix('=') else {
                // A word without a value begins another challenge.
                found.push(Self { scheme: word, parameters: Vec::new() });
                rest = after;
                continue;
            };
            let Some((value, after)) = value(after.trim_start()) else { return found };
            if let Some(challenge) = found.last_mut() {
                challenge.parameters.push((word, value));
            }
            rest = after;
        }
    }

    /// Returns a parameter by its name in lower case.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Splits off a value: a word, or a text in quotes.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return Some((word.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}
