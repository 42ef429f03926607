//! The wording of comments and pages: habits that make readers stop, counted in 1,000 words.
//!
//! A few of them are normal English. A folder or page with more than its bound has sentences that a reader has to
//! read twice. Code is left out.

use std::sync::LazyLock;

use regex::Regex;

/// The habits, each with a pattern for a sentence and what to write instead. Code in the sentence is a `C`.
const HABITS: &[(&str, &str)] = &[
    (
        r"^(?:\*\*)?(?:What|Where|Who|Whoever|Whatever|Whether|Of|Refused|Found|Withheld|Told|Named)\b.*[^?]$",
        "open with the subject",
    ),
    (
        r"(?i)\b(?:somebody|nobody|whoever|whatever|everybody|a person)\b",
        "name who: ikigai, the tool, the model, you",
    ),
    (
        r"(?i)\bwhere (?:it|there|that|nobody|an?|the|no|one|none|nothing|policy|somebody|they|this|some|any|all|each|something)\b",
        "write `if` for a condition",
    ),
    (r"(?i)\b(?:is|are|was|were) (?:told|said|spoken)\b", "say who reports it"),
    (
        r"(?i)\b(?:is|are|was|were) (?:no|none|nothing)\b|\b(?:have|has|had) none\b",
        "negate the verb, and not the noun",
    ),
    (
        r"(?i)\b(?:clients?|servers?|tools?|registr\w+|calls?|keys?|files?|lines?) of (?:MCP|OCI|models?|yours|one's|theirs|HTTP|TCP|SQLite)\b|\bof (?:its|their) own\b|\bof yours\b",
        "write a compound, or `its own`",
    ),
    (r"(?i)\b(?:that|those|one) of (?:the|an?|its|each|another|which|one)\b", "repeat the noun"),
    (
        r"(?i)\balso (?:not|where|of|in|by|from|when|one|over|an?|the|if|after)\b|\bbesides?\b|\bas ever\b|\bmeanwhile\b",
        "put the word before what it limits",
    ),
    (
        r"(?i)\bwhat (?:held|holds)\b|\bgoes? on with\b|\btakes? the place of\b|\bspeaks? of\b|\breach(?:es|ed)? for\b",
        "write applies, enforces, continues, replaces, uses",
    ),
];

/// The number of words after which a sentence is two.
const LONGEST_SENTENCE: usize = 30;

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let pattern = |(pattern, instead): &(&str, &'static str)| {
        (Regex::new(pattern).expect("a pattern"), *instead)
    };
    HABITS.iter().map(pattern).collect()
});

/// The habits in a text, with its words.
#[derive(Default)]
pub(crate) struct Count {
    words: usize,
    /// Each as `LINE: INSTEAD: SENTENCE`.
    pub(crate) found: Vec<String>,
}

impl Count {
    /// Counts the comments of a source in Rust.
    pub(crate) fn of_comments(source: &str) -> Self {
        let is_break = |text: &str| text.is_empty() || text.starts_with('#');
        let comment = |line: &str| {
            let text = line.trim().strip_prefix("//")?;
            Some(text.trim_start_matches(['/', '!']).trim().to_owned())
        };
        Self::of_blocks(source.lines().map(comment), is_break)
    }

    /// Counts the paragraphs, items and cells of a page in Markdown.
    pub(crate) fn of_page(page: &str) -> Self {
        let is_break = |text: &str| text.is_empty() || text.starts_with('#');
        let cells = page.lines().flat_map(|line| match line.strip_prefix('|') {
            // Cells are blocks of their own.
            Some(row) => row.split(" | ").flat_map(|cell| [cell.trim(), ""]).collect(),
            None => vec![line.trim()],
        });
        Self::of_blocks(cells.map(|text| Some(text.to_owned())), is_break)
    }

    /// Counts blocks of lines. Nothing stands for a line without text, which ends a block.
    fn of_blocks(
        lines: impl Iterator<Item = Option<String>>,
        is_break: impl Fn(&str) -> bool,
    ) -> Self {
        let mut count = Self::default();
        let (mut block, mut begun, mut is_code) = (String::new(), 0, false);
        for (index, line) in lines.chain([None]).enumerate() {
            let text = line.as_deref().unwrap_or_default();
            if text.starts_with("```") {
                is_code = !is_code;
            }
            let is_item = text.starts_with("- ") || text.starts_with("* ");
            let ends = line.is_none() || is_break(text) || text.starts_with("```") || is_item;
            if ends {
                count.add(begun, &block);
                block.clear();
            }
            if line.is_none() {
                is_code = false;
            }
            if is_code || is_break(text) || text.starts_with("```") {
                continue;
            }
            if block.is_empty() {
                begun = index + 1;
            }
            block.push_str(text.trim_start_matches(['-', '*']).trim());
            block.push(' ');
        }
        count
    }

    fn add(&mut self, line: usize, block: &str) {
        static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("a pattern"));
        static END: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r#"[.!?:;]\s+[A-Z*\["(]"#).expect("a pattern"));
        let text = CODE.replace_all(block, "C");
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = END.find(rest).map_or(rest.len(), |end| end.start() + 1);
            let (sentence, after) = rest.split_at(end);
            self.add_sentence(line, sentence);
            rest = after.trim_start();
        }
    }

    fn add_sentence(&mut self, line: usize, sentence: &str) {
        let words = sentence
            .split(|c: char| !c.is_alphabetic() && c != '\'' && c != '-')
            .filter(|word| word.starts_with(char::is_alphabetic))
            .count();
        if words < 4 {
            return;
        }
        self.words += words;
        let mut note = |instead: &str| self.found.push(format!("{line}: {instead}: {sentence}"));
        for (pattern, instead) in PATTERNS.iter() {
            pattern.find_iter(sentence).for_each(|_| note(instead));
        }
        if words > LONGEST_SENTENCE {
            note("write two sentences");
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.words += other.words;
        self.found.extend(other.found);
    }

    /// Returns whether there are more than `most` in 1,000 words.
    pub(crate) fn exceeds(&self, most: usize) -> bool {
        self.found.len() * 1_000 > self.words * most
    }
}
