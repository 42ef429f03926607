//! Removes the values of variables that were granted by name from a text before it leaves the
//! host.
//!
//! This prevents accidents: a tool that fails and prints its environment, or the address that
//! it could not reach. It does not stop a tool that gives a secret away on purpose, in another
//! spelling.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use url::Host;

/// The length in bytes below which a value is left in: shorter values occur by chance, and are
/// easily guessed.
const SHORTEST: usize = 8;

/// The values that are removed.
#[derive(Clone, Default)]
pub struct SecretValues {
    /// The names and values.
    variables: Vec<(OsString, OsString)>,
    /// Made for the first text only: most calls succeed and print nothing.
    words: OnceLock<Words>,
    /// Also has the forms that values take in the names of hosts, which ikigai normalises.
    host_words: OnceLock<Words>,
}

/// The ends of a text that were cut, so that it may begin or end inside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutEnds {
    /// True if the text before was dropped.
    pub before: bool,
    /// True if the text after was dropped.
    pub after: bool,
}

/// Every form of every value, with a matcher for all of them.
#[derive(Clone, Default)]
struct Words {
    /// Each form, with the name of its variable.
    forms: Vec<(Vec<u8>, String)>,
    matcher: Option<AhoCorasick>,
}

impl SecretValues {
    /// Returns the secrets in these variables, each a name and a value.
    #[must_use]
    pub fn from_variables(variables: Vec<(OsString, OsString)>) -> Self {
        Self { variables, ..Self::default() }
    }

    /// Returns the text with each value replaced by a mark with the name of its variable.
    #[must_use]
    pub fn scrub<'a>(&self, bytes: &'a [u8], cut: CutEnds) -> Cow<'a, [u8]> {
        self.words().scrub(bytes, cut)
    }

    /// Returns a text that was not cut, with each value replaced by its mark.
    #[must_use]
    pub fn scrub_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.words().scrub_text(text)
    }

    /// Returns a text with the names of hosts, with each value replaced by its mark. Also finds the
    /// form that a value takes in such a name: ikigai writes names in lower case, without percent
    /// encoding, and in ASCII.
    #[must_use]
    pub(crate) fn scrub_hosts<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let forms = |value: &[u8]| [forms_of(value), host_forms_of(value)].concat();
        let words = self.host_words.get_or_init(|| Words::from_variables(&self.variables, forms));
        words.scrub_text(text)
    }

    /// Returns the first `most` bytes of a text of `total` bytes whose beginning is `kept`,
    /// without the values.
    #[must_use]
    pub fn head<'a>(&self, kept: &'a [u8], total: u64, most: usize) -> Cow<'a, [u8]> {
        let window = kept.len().min(self.looked_at(most));
        let cut = CutEnds { before: false, after: total > window as u64 };
        match self.scrub(&kept[..window], cut) {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..bytes.len().min(most)]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(most);
                Cow::Owned(bytes)
            }
        }
    }

    /// Returns the last `most` bytes of a text of `total` bytes whose end is `kept`, without the
    /// values.
    #[must_use]
    pub fn tail<'a>(&self, kept: &'a [u8], total: u64, most: usize) -> Cow<'a, [u8]> {
        let start = kept.len().saturating_sub(most + self.longest());
        let cut = CutEnds { before: total > (kept.len() - start) as u64, after: false };
        match self.scrub(&kept[start..], cut) {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[bytes.len().saturating_sub(most)..]),
            Cow::Owned(mut bytes) => Cow::Owned(bytes.split_off(bytes.len().saturating_sub(most))),
        }
    }

    /// Returns how much of the beginning of a text [`head`](Self::head) looks at to show `most`
    /// bytes of it.
    #[must_use]
    pub(super) fn looked_at(&self, most: usize) -> usize {
        most + self.longest()
    }

    /// Returns the length of the longest form, in bytes. That much text is read beyond the part
    /// that is shown, so that no value is cut in two.
    fn longest(&self) -> usize {
        self.words().forms.iter().map(|(form, _)| form.len()).max().unwrap_or_default()
    }

    fn words(&self) -> &Words {
        self.words.get_or_init(|| Words::from_variables(&self.variables, forms_of))
    }
}

impl Words {
    /// Returns the words of the variables, with the forms of each value that `forms_of` returns.
    fn from_variables(
        variables: &[(OsString, OsString)],
        forms_of: impl Fn(&[u8]) -> Vec<Vec<u8>>,
    ) -> Self {
        let mut forms = BTreeMap::new();
        for (name, value) in variables {
            for form in forms_of(value.as_encoded_bytes()) {
                forms.entry(form).or_insert_with(|| name.to_string_lossy().into_owned());
            }
        }
        let forms: Vec<(Vec<u8>, String)> = forms.into_iter().collect();
        if forms.is_empty() {
            return Self::default();
        }
        match AhoCorasick::new(forms.iter().map(|(form, _)| form)) {
            Ok(matcher) => Self { forms, matcher: Some(matcher) },
            Err(error) => {
                // More than 2 GiB of values, which no environment holds.
                tracing::error!("values of granted variables cannot be looked for: {error}");
                Self::default()
            }
        }
    }

    fn scrub<'a>(&self, bytes: &'a [u8], cut: CutEnds) -> Cow<'a, [u8]> {
        let found = self.find(bytes, cut);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut scrubbed = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for (range, form) in found {
            scrubbed.extend_from_slice(&bytes[at..range.start]);
            scrubbed.extend_from_slice(format!("[redacted: {}]", self.forms[form].1).as_bytes());
            at = range.end;
        }
        scrubbed.extend_from_slice(&bytes[at..]);
        Cow::Owned(scrubbed)
    }

    fn scrub_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scrub(text.as_bytes(), CutEnds::default()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Returns the ranges of the values, in order and without overlap, each with the index of its
    /// form.
    fn find(&self, bytes: &[u8], cut: CutEnds) -> Vec<(Range<usize>, usize)> {
        let Some(matcher) = &self.matcher else { return Vec::new() };
        // Overlapping matches count, or the rest of the second value would be left in.
        let mut found: Vec<(Range<usize>, usize)> = matcher
            .find_overlapping_iter(bytes)
            .map(|found| (found.range(), found.pattern().as_usize()))
            .collect();
        for (index, (form, _)) in self.forms.iter().enumerate() {
            let parts = 1..form.len().min(bytes.len() + 1);
            if cut.before {
                let begins = |length: &usize| bytes.starts_with(&form[form.len() - length..]);
                found.extend(parts.clone().rev().find(begins).map(|length| (0..length, index)));
            }
            if cut.after {
                let ends = |length: &usize| bytes.ends_with(&form[..*length]);
                let start = parts.rev().find(ends).map(|length| bytes.len() - length);
                found.extend(start.map(|start| (start..bytes.len(), index)));
            }
        }
        found.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let mut merged: Vec<(Range<usize>, usize)> = Vec::new();
        for (range, form) in found {
            match merged.last_mut() {
                Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push((range, form)),
            }
        }
        merged
    }
}

/// Returns a value unchanged, each long line of it, and the forms of all these inside a JSON
/// string.
fn forms_of(value: &[u8]) -> Vec<Vec<u8>> {
    let lines = value.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for plain in lines.map(<[u8]>::trim_ascii).chain([value, value.trim_ascii()]) {
        if plain.len() < SHORTEST {
            continue;
        }
        forms.push(plain.to_owned());
        // The form in a text that had to be converted to UTF-8, such as an error.
        let text = String::from_utf8_lossy(plain);
        for form in [text.as_bytes().to_vec(), in_json(&text, false), in_json(&text, true)] {
            if form.len() >= SHORTEST {
                forms.push(form);
            }
        }
    }
    forms
}

/// Returns the forms of a value, and of each long line of it, in the normal name of a host.
fn host_forms_of(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for line in value.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let line = line.trim_ascii();
        if line.len() < SHORTEST {
            continue;
        }
        let text = String::from_utf8_lossy(line);
        // The value may be a part of a name, or the whole of it or of some labels.
        forms.push(text.to_ascii_lowercase());
        forms.push(String::from_utf8_lossy(&percent_decoded(line)).to_ascii_lowercase());
        forms.extend(Host::parse(&text).map(|host| host.to_string()));
    }
    let normal = forms.iter().map(|form| form.trim_end_matches('.').as_bytes().to_vec());
    normal.filter(|form| form.len() >= SHORTEST).collect()
}

/// Returns a text with each `%` and two hexadecimal digits replaced by their byte.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let escaped = digit(0).zip(digit(1)).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        decoded.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// Returns a text as it is between the quotes of a JSON string. Some writers escape everything
/// that is not ASCII.
fn in_json(text: &str, only_ascii: bool) -> Vec<u8> {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = &quoted[1..quoted.len() - 1];
    if !only_ascii {
        return inner.as_bytes().to_vec();
    }
    let mut units = [0; 2];
    let escaped = inner.chars().map(|character| {
        if character.is_ascii() {
            return character.to_string();
        }
        let units = character.encode_utf16(&mut units);
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
    });
    escaped.collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn secrets(values: &[(&str, &[u8])]) -> SecretValues {
        let variable =
            |(name, value): &(&str, &[u8])| (name.into(), OsString::from_vec(value.to_vec()));
        SecretValues::from_variables(values.iter().map(variable).collect())
    }

    const BOTH: CutEnds = CutEnds { before: true, after: true };

    fn scrubbed(secrets: &SecretValues, text: impl AsRef<[u8]>, cut: CutEnds) -> String {
        String::from_utf8_lossy(&secrets.scrub(text.as_ref(), cut)).into_owned()
    }

    #[test]
    fn values_of_eight_bytes_are_taken_out_and_shorter_ones_are_not() {
        let secrets = secrets(&[("KEY", b"12345678"), ("PIN", b"1234567")]);
        let text = "a 12345678, 12345678\n1234567";
        let expected = "a [redacted: KEY], [redacted: KEY]\n1234567";
        assert_eq!(scrubbed(&secrets, text, CutEnds::default()), expected);
        assert_eq!(secrets.scrub_text(text), expected);
        assert!(matches!(secrets.scrub(b"nothing here", BOTH), Cow::Borrowed(_)));
    }

    #[test]
    fn values_that_overlap_leave_nothing_of_either() {
        let both = secrets(&[("A", b"abcdefgh"), ("B", b"efghijkl")]);
        assert_eq!(scrubbed(&both, "-abcdefghijkl-", CutEnds::default()), "-[redacted: A]-");
        // One value contains the other, and one overlaps itself.
        let inner = secrets(&[("URL", b"sql://password@db"), ("PASSWORD", b"password")]);
        assert_eq!(scrubbed(&inner, "sql://password@db", CutEnds::default()), "[redacted: URL]");
        assert_eq!(scrubbed(&inner, "password@db", CutEnds::default()), "[redacted: PASSWORD]@db");
        let itself = secrets(&[("A", b"abababab")]);
        assert_eq!(scrubbed(&itself, "xabababababy", CutEnds::default()), "x[redacted: A]y");
    }

    #[test]
    fn a_value_of_several_lines_is_found_whole_by_line_and_in_json() {
        let key = "-----BEGIN KEY-----\nMIIBVwIBADANBg\"\n-----END KEY-----\n";
        let secrets = secrets(&[("PEM", key.as_bytes())]);
        let once = |text: &str| {
            let clean = scrubbed(&secrets, text, CutEnds::default());
            assert!(!clean.contains("MIIB") && !clean.contains("BEGIN"), "{clean}");
            clean
        };
        assert_eq!(once(&format!("<{key}>")), "<[redacted: PEM]>");
        assert_eq!(
            once(&serde_json::json!({ "key": key }).to_string()),
            r#"{"key":"[redacted: PEM]"}"#
        );
        once(&key.replace('\n', "\n  | "));
    }

    #[test]
    fn escapes_of_json_and_bytes_that_are_no_text_hide_nothing() {
        let quoted = secrets(&[("A", "p\"ä\\😀\tword".as_bytes())]);
        for text in [r#"p\"ä\\😀\tword"#, r#"p\"\u00e4\\\ud83d\ude00\tword"#, "p\"ä\\😀\tword"]
        {
            assert_eq!(scrubbed(&quoted, text, CutEnds::default()), "[redacted: A]", "{text}");
        }
        let raw = secrets(&[("B", b"\xff\xfe12345678")]);
        assert_eq!(scrubbed(&raw, b"<\xff\xfe12345678>", CutEnds::default()), "<[redacted: B]>");
        assert_eq!(raw.scrub_text("<\u{fffd}\u{fffd}12345678>"), "<[redacted: B]>");
    }

    #[test]
    fn a_value_is_found_in_the_normal_name_of_a_host_and_only_there_in_another_case() {
        let secret = secrets(&[("KEY", b"SecretKey12345")]);
        let host = "secretkey12345.api.example";
        assert_eq!(secret.scrub_hosts(host), "[redacted: KEY].api.example");
        assert_eq!(secret.scrub_hosts("x-SecretKey12345-y"), "x-[redacted: KEY]-y");
        assert_eq!(secret.scrub_text(host), host, "a word of a text is not a value");
        for (value, name) in [
            ("Secret%4bey-1", "secretkey-1.example"),
            ("Schlüssel", "xn--schlssel-95a.example"),
            ("B\u{fc}cher.Example.", "xn--bcher-kva.example"),
            ("0x7F.0.0x1", "127.0.0.1"),
            ("a line\nSecretKey\n", "a.secretkey.example"),
        ] {
            let secret = secrets(&[("KEY", value.as_bytes())]);
            assert!(secret.scrub_hosts(name).contains("[redacted: KEY]"), "{value}: {name}");
        }
        let short = secrets(&[("PIN", b"Short12")]);
        assert_eq!(short.scrub_hosts("short12.example"), "short12.example");
    }

    #[test]
    fn what_a_cut_left_of_a_value_is_taken_out_too() {
        let secrets = secrets(&[("A", b"abcdefgh")]);
        let before = CutEnds { before: true, after: false };
        let after = CutEnds { before: false, after: true };
        for length in 1..8 {
            let tail = format!("{} and", &"abcdefgh"[8 - length..]);
            assert_eq!(scrubbed(&secrets, &tail, before), "[redacted: A] and");
            assert_eq!(scrubbed(&secrets, &tail, CutEnds::default()), tail);
            let head = format!("and {}", &"abcdefgh"[..length]);
            assert_eq!(scrubbed(&secrets, &head, after), "and [redacted: A]");
        }
        assert_eq!(scrubbed(&secrets, "fgh", BOTH), "[redacted: A]");
        assert_eq!(scrubbed(&secrets, "", BOTH), "");
        assert_eq!(secrets.longest(), 8);
    }
}
