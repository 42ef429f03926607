//! One component of a glob: `*`, `?`, bracket expressions and escapes against one name, as
//! `fnmatch` with FNM_PERIOD matches it.
//!
//! `?` and brackets take one UTF-8 character, or one byte if the bytes there do not begin a
//! character. Classes are the C locale's. For any pattern, a match takes at most the product of the
//! two lengths.

/// A compiled component that contains a wildcard.
#[derive(Clone, Debug)]
pub(crate) struct Wildcard {
    tokens: Vec<GlobToken>,
}

#[derive(Clone, Debug)]
enum GlobToken {
    Char(u32),
    AnyChar,
    AnyString,
    Set { negated: bool, items: Vec<BracketItem> },
}

#[derive(Clone, Debug)]
enum BracketItem {
    Range(u32, u32),
    Class(fn(&u8) -> bool),
    /// A class that does not exist: the whole bracket matches nothing.
    Unknown,
}

/// Returns the next character and its number of bytes. A byte that begins no character stands for
/// itself, above all characters.
pub(crate) fn next_char(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u32::from(first), 1));
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    let text = bytes.get(..width).and_then(|text| std::str::from_utf8(text).ok());
    match text.and_then(|text| text.chars().next()) {
        Some(character) => Some((u32::from(character), width)),
        None => Some((0x11_0000 + u32::from(first), 1)),
    }
}

impl Wildcard {
    /// Compiles `pattern`, or returns the literal name it stands for.
    pub(crate) fn parse(pattern: &[u8]) -> Result<Self, Vec<u8>> {
        let mut tokens = Vec::new();
        let mut literal = Vec::new();
        let mut wild = false;
        let mut at = 0;
        while at < pattern.len() {
            let rest = &pattern[at..];
            let (token, used) = match rest {
                [b'*', ..] => (GlobToken::AnyString, 1),
                [b'?', ..] => (GlobToken::AnyChar, 1),
                [b'[', ..] => parse_set(rest).unwrap_or((GlobToken::Char(u32::from(b'[')), 1)),
                // A backslash at the end stands for itself.
                [b'\\', escaped @ ..] if !escaped.is_empty() => {
                    let (character, used) = next_char(escaped).unwrap_or((0, 1));
                    literal.extend_from_slice(&escaped[..used]);
                    tokens.push(GlobToken::Char(character));
                    at += 1 + used;
                    continue;
                }
                _ => {
                    let (character, used) = next_char(rest).unwrap_or((0, 1));
                    (GlobToken::Char(character), used)
                }
            };
            wild |= !matches!(token, GlobToken::Char(_));
            literal.extend_from_slice(&rest[..used]);
            // A row of stars is one star.
            let again = matches!(
                (&token, tokens.last()),
                (GlobToken::AnyString, Some(GlobToken::AnyString))
            );
            if !again {
                tokens.push(token);
            }
            at += used;
        }
        if wild { Ok(Self { tokens }) } else { Err(literal) }
    }

    /// Returns `true` if a name that begins with a dot may match.
    pub(crate) fn takes_hidden(&self) -> bool {
        matches!(self.tokens.first(), Some(GlobToken::Char(first)) if *first == u32::from(b'.'))
    }

    /// Returns `true` if `name` matches. Only a dot matches a dot at its start.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        if name.first() == Some(&b'.') && !self.takes_hidden() {
            return false;
        }
        // Only the last star is tried again, so the search is not exponential.
        let (mut token, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            let next = next_char(&name[at..]);
            match (self.tokens.get(token), next) {
                (Some(GlobToken::AnyString), _) => {
                    star = Some((token + 1, at));
                    token += 1;
                }
                (Some(wanted), Some((character, used))) if wanted.takes(character) => {
                    token += 1;
                    at += used;
                }
                (None, None) => return true,
                _ => {
                    let Some((after, from)) = star else { return false };
                    let Some((_, used)) = next_char(&name[from..]) else { return false };
                    star = Some((after, from + used));
                    token = after;
                    at = from + used;
                }
            }
        }
    }
}

impl GlobToken {
    fn takes(&self, character: u32) -> bool {
        match self {
            Self::Char(wanted) => *wanted == character,
            Self::AnyChar => true,
            Self::AnyString => false,
            Self::Set { items, .. }
                if items.iter().any(|item| matches!(item, BracketItem::Unknown)) =>
            {
                false
            }
            Self::Set { negated, items } => {
                items.iter().any(|item| item.takes(character)) != *negated
            }
        }
    }
}

impl BracketItem {
    fn takes(&self, character: u32) -> bool {
        match self {
            Self::Range(low, high) => (*low..=*high).contains(&character),
            Self::Class(class) => {
                u8::try_from(character).is_ok_and(|byte| byte.is_ascii() && class(&byte))
            }
            Self::Unknown => false,
        }
    }
}

/// Returns a POSIX class of the C locale.
pub(crate) fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

/// Parses a bracket expression at the start of `pattern`; `None` if it is not closed.
fn parse_set(pattern: &[u8]) -> Option<(GlobToken, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let mut at = start;
    let mut items = Vec::new();
    loop {
        let rest = &pattern[at..];
        match rest {
            [] => return None,
            [b']', ..] if at > start => return Some((GlobToken::Set { negated, items }, at + 1)),
            [b'[', b':', name @ ..] if name.windows(2).any(|pair| pair == b":]") => {
                let end = name.windows(2).position(|pair| pair == b":]")?;
                items.push(class(&name[..end]).map_or(BracketItem::Unknown, BracketItem::Class));
                at += end + 4;
            }
            _ => {
                let (low, used) = parse_element(rest)?;
                at += used;
                match &pattern[at..] {
                    [b'-', end @ ..] if !matches!(end.first(), None | Some(b']')) => {
                        let (high, used) = parse_element(end)?;
                        items.push(BracketItem::Range(low, high));
                        at += 1 + used;
                    }
                    _ => items.push(BracketItem::Range(low, low)),
                }
            }
        }
    }
}

/// Parses one character of a bracket expression: plain, escaped, `[.x.]` or `[=x=]`.
fn parse_element(rest: &[u8]) -> Option<(u32, usize)> {
    match rest {
        [b'[', mark @ (b'.' | b'='), inner @ ..] => match next_char(inner) {
            Some((character, used)) if inner[used..].starts_with(&[*mark, b']']) => {
                Some((character, used + 4))
            }
            _ => Some((u32::from(b'['), 1)),
        },
        [b'\\', escaped @ ..] => next_char(escaped).map(|(character, used)| (character, used + 1)),
        _ => next_char(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &[u8]) -> bool {
        match Wildcard::parse(pattern.as_bytes()) {
            Ok(wildcard) => wildcard.matches(name),
            Err(literal) => literal == name,
        }
    }

    #[test]
    fn as_fnmatch_does() {
        let cases: [(&str, &str, bool); 40] = [
            ("*", "a", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("?a", ".a", false),
            ("[.]a", ".a", false),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt2", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "é", true),
            ("h?.doc", "hé.doc", true),
            ("[é]", "é", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]", "b", false),
            ("[!a-c]", "d", true),
            ("[^a]", "b", true),
            ("[]a]", "]", true),
            ("[!]]", "]", false),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("a[b", "a[b", true),
            ("[[:alpha:]]*", "z9", true),
            ("[[:digit:]]", "z", false),
            ("[[:foo:]]", "f", false),
            ("[![:foo:]]", "f", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a\\*b*", "a*bc", true),
            ("[\\]]x", "]x", true),
            ("[[.-.]]", "-", true),
            ("[[=a=]b]", "a", true),
            ("[z-a]", "b", false),
            ("**", "abc", true),
            ("a\\", "a\\", true),
            ("[", "[", true),
            ("[]", "[]", true),
            ("[a", "[a", true),
            ("{a,b}", "{a,b}", true),
            ("[*]", "*", true),
            ("", "", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name.as_bytes()), expected, "{pattern} {name}");
        }
        assert!(matches("x?.t", b"x\xff.t") && matches("x*", b"x\xff\xfe"));
    }

    #[test]
    fn hostile_patterns_stay_fast() {
        let pattern = "*a".repeat(2000) + "b";
        assert!(!matches(&pattern, &[b'a'; 255]));
        let wildcard = Wildcard::parse(("*".repeat(100_000) + "b").as_bytes()).expect("wild");
        assert!(!wildcard.matches(&[b'a'; 255]));
    }
}
