//! The inputs of the benchmark: generated from a seed, so that they are the same bytes on every
//! machine, and bounded. The searched patterns are here too, because the files must contain them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// The searched patterns, by the name of the row.
pub(crate) const PATTERNS: [(&str, &str); 2] = [
    ("literal", "retry_budget_exhausted"),
    ("alternation", "lease_renewal|quorum_lost|shard_split_failed"),
];

/// The names in the text: one line in [`RARE`] contains one of them.
const NAMES: [&str; 6] = [
    "retry_budget_exhausted",
    "RETRY_BUDGET_TOTAL",
    "lease_renewal",
    "quorum_lost",
    "shard_split_failed",
    "WORKER_SUSPENDED",
];
const RARE: u64 = 2000;

/// The other words of the text, which looks like a program.
const KEYWORDS: [&str; 12] = [
    "let", "if", "for", "match", "return", "struct", "self", "fn", "while", "use", "const", "else",
];

/// The shape of a tree of files.
#[derive(Clone, Copy)]
pub(crate) struct TreeShape {
    pub(crate) directories: u32,
    pub(crate) files_in_each: u32,
    /// The average size of a file.
    pub(crate) bytes: u64,
}

impl TreeShape {
    /// Returns the description for a person.
    pub(crate) fn text(self) -> String {
        let files = u64::from(self.directories) * u64::from(self.files_in_each);
        format!("{} files, {:.0} MB", files, (files * self.bytes) as f64 / 1e6)
    }
}

/// Creates the tree `shape` in `root`, unless it is there.
pub(crate) fn lay_out(root: &Path, shape: TreeShape) -> anyhow::Result<()> {
    // To be changed with the output of the generator.
    const VERSION: u32 = 1;
    let TreeShape { directories, files_in_each, bytes } = shape;
    let stamp = root.with_extension("stamp");
    let made = format!("{VERSION} {directories} {files_in_each} {bytes}");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made) {
        return Ok(());
    }
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("cannot remove `{}`", root.display()))?;
    }
    let mut text = TextSource::new();
    for directory in 0..directories {
        let directory = root.join(format!("d{directory:03}"));
        fs::create_dir_all(&directory)?;
        for file in 0..files_in_each {
            let extension = ["rs", "c", "py", "md"][text.random.below(4) as usize];
            // The first file is used by its name.
            let extension = if file == 0 { "rs" } else { extension };
            let length = bytes / 4 + text.random.below(bytes * 3 / 2);
            let path = directory.join(format!("f{file:04}.{extension}"));
            fs::write(&path, text.lines(length))
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
    }
    fs::write(&stamp, made)?;
    Ok(())
}

/// A source of text that looks like code: words of a small vocabulary, few of them often.
struct TextSource {
    random: Random,
    words: Vec<String>,
}

impl TextSource {
    fn new() -> Self {
        let mut random = Random(0x1CEB_00DA);
        let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
        for _ in 0..3000 {
            let mut word = String::new();
            for part in 0..=random.below(2) {
                if part > 0 {
                    word.push('_');
                }
                for _ in 0..2 + random.below(3) {
                    let letter = |letters: &str, at: u64| {
                        letters.chars().nth(at as usize % letters.len()).unwrap_or('a')
                    };
                    word.push(letter("bcdfghklmnprstvw", random.below(16)));
                    word.push(letter("aeiou", random.below(5)));
                }
            }
            words.push(word);
        }
        Self { random, words }
    }

    /// Returns whole lines of `length` bytes or a little more.
    fn lines(&mut self, length: u64) -> String {
        let mut text = String::new();
        while (text.len() as u64) < length {
            for _ in 0..self.random.below(4) {
                text.push_str("    ");
            }
            for _ in 0..2 + self.random.below(8) {
                // The square of a fraction picks the first words most often.
                let fraction = self.random.fraction();
                let at = (fraction * fraction * self.words.len() as f64) as usize;
                text.push_str(&self.words[at]);
                text.push_str(
                    [" ", " ", ".", "(", ") ", ", ", " = "][self.random.below(7) as usize],
                );
            }
            if self.random.below(RARE) == 0 {
                let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
                // Writing to a `String` cannot fail.
                let _ = write!(text, "{name}({})", self.random.below(1000));
            }
            text.push_str(";\n");
        }
        text
    }
}

/// The generator SplitMix64: the same numbers everywhere, and good enough for text.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_everywhere_and_holds_the_names() {
        let text = TextSource::new().lines(8 << 20);
        assert_eq!(text, TextSource::new().lines(8 << 20));
        assert!(NAMES.iter().all(|name| text.contains(name)));
    }
}
